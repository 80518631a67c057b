//! Runs `rdma-health probe` in the pods of agents, through `kubectl exec`.
//!
//! kubectl itself is run because it speaks the protocol of its cluster's version and has the credentials of its user. What comes out of
//! a pod is not trusted: its size is bounded, and its text is escaped where it is shown.

use std::{ffi::OsStr, path::Path, process::Stdio};

use anyhow::{Context, bail};
use rdma_health_config::NodeName;
use rdma_health_kubernetes::{Access, AgentPod};
use rdma_health_node::words::{excerpt, printable};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, copy, sink},
    process::{Child, ChildStderr, Command},
};

use crate::cli::UNKNOWN;

/// Where the image has the program.
const PROGRAM: &str = "/usr/bin/rdma-health";
const CONTAINER: &str = "agent";
/// The most bytes of a result and of messages that are read.
const MAX_OUTPUT: u64 = 8 << 20;
const MAX_MESSAGES: u64 = 64 << 10;
/// The most messages that are shown, and the length of one.
const MANY: usize = 20;
const LONG: usize = 600;
/// How kubectl reports the exit status of the command in the pod.
const TERMINATED: &str = "command terminated with exit code ";

/// How commands are run.
pub(super) struct Pods<'a> {
    pub(super) kubectl: &'a OsStr,
    pub(super) access: &'a Access,
    /// The first line of their standard input, so that no list of processes shows it.
    pub(super) token: &'a str,
}

/// A command that runs in a pod. kubectl is killed if this is dropped.
pub(super) struct Running {
    node: String,
    namespace: String,
    child: Child,
    messages: Messages,
    stderr: BufReader<tokio::io::Take<ChildStderr>>,
}

/// What a command left.
#[derive(Debug)]
pub(super) struct Ended {
    /// The exit status of `rdma-health probe`.
    pub(super) status: u8,
    /// Its standard output.
    pub(super) output: String,
    messages: Messages,
}

/// Lines of standard error: the command's, and kubectl's own.
#[derive(Debug, Default)]
struct Messages(Vec<String>);

impl Pods<'_> {
    /// Starts `rdma-health probe` with these words in the pod of a node's agent.
    pub(super) async fn start(
        &self,
        node: &NodeName,
        pod: &AgentPod,
        words: &[&str],
    ) -> anyhow::Result<Running> {
        let mut command = Command::new(self.kubectl);
        if let Some(file) = &self.access.kubeconfig {
            command.arg("--kubeconfig").arg(file);
        }
        if let Some(context) = &self.access.context {
            command.arg("--context").arg(context);
        }
        command
            .args(["exec", "--stdin", "--namespace", &pod.namespace, &pod.name])
            .args(["--container", CONTAINER, "--", PROGRAM, "probe"])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().with_context(|| {
            let program = Path::new(self.kubectl).display();
            format!("cannot start {program}, which runs commands in pods; --kubectl names another one")
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl that has ended already says why.
            let _ = stdin.write_all(format!("{}\n", self.token).as_bytes()).await;
        }
        let Some(stderr) = child.stderr.take() else {
            bail!("{node}: kubectl has no standard error");
        };
        Ok(Running {
            node: node.to_string(),
            namespace: pod.namespace.clone(),
            child,
            messages: Messages::default(),
            stderr: BufReader::new(stderr.take(MAX_MESSAGES)),
        })
    }
}

impl Running {
    /// Waits until the command has written a line with these words to standard error.
    ///
    /// # Errors
    /// If it ends before.
    pub(super) async fn wait_for(&mut self, words: &str) -> anyhow::Result<()> {
        let mut line = Vec::new();
        while self.stderr.read_until(b'\n', &mut line).await? > 0 {
            let text = String::from_utf8_lossy(&line).into_owned();
            if text.contains(words) {
                return Ok(());
            }
            self.messages.add(&text);
            line.clear();
        }
        let code = self.child.wait().await?.code();
        bail!("{}", self.refusal(code));
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it was not `rdma-health probe` that ended, but kubectl or the container that failed.
    pub(super) async fn end(mut self) -> anyhow::Result<Ended> {
        let Some(stdout) = self.child.stdout.take() else {
            bail!("{}: kubectl has no standard output", self.node);
        };
        let (output, errors) = tokio::join!(bounded(stdout, MAX_OUTPUT), async {
            let mut text = Vec::new();
            let read = self.stderr.read_to_end(&mut text).await;
            // The rest, so that kubectl does not wait for a reader.
            copy(self.stderr.get_mut().get_mut(), &mut sink()).await?;
            read.map(|_| text)
        });
        let (output, errors) = (output?, errors?);
        for line in String::from_utf8_lossy(&errors).lines() {
            self.messages.add(line);
        }
        let code = self.child.wait().await?.code();
        match self.messages.status(code) {
            // A verdict has a text. A wrong command line has none, and the same exit status as a critical verdict.
            Some(status) if status == UNKNOWN || !output.is_empty() => Ok(Ended {
                status,
                output: String::from_utf8_lossy(&output).into_owned(),
                messages: self.messages,
            }),
            _ => bail!("{}", self.refusal(code)),
        }
    }

    fn refusal(&self, code: Option<i32>) -> String {
        let why = refusal(&self.messages.0, &self.namespace, code);
        format!("{}: {}", self.node, printable(&why))
    }
}

impl Ended {
    /// What the command wrote to standard error, without kubectl's words.
    pub(super) fn messages(&self) -> impl Iterator<Item = &str> {
        self.messages.0.iter().map(String::as_str)
    }

    /// Adds a message of this program.
    pub(super) fn add(&mut self, message: &str) {
        self.messages.0.push(format!("rdma-health: {message}"));
    }
}

impl Messages {
    fn add(&mut self, line: &str) {
        if !line.trim().is_empty() && self.0.len() < MANY {
            self.0.push(excerpt(line.trim_end(), LONG));
        }
    }

    /// The exit status of `rdma-health probe`, if it ran. kubectl exits with the same one and reports it; alone, it exits with 1 for
    /// every failure of its own, which must not look like a verdict.
    fn status(&mut self, code: Option<i32>) -> Option<u8> {
        let said = self.0.iter().position(|line| line.starts_with(TERMINATED));
        let said = said.map(|n| self.0.remove(n));
        match (code?, said) {
            (0, None) => Some(0),
            (code @ 1..=3, Some(said)) if said[TERMINATED.len()..].trim() == code.to_string() => {
                u8::try_from(code).ok()
            }
            _ => None,
        }
    }
}

/// Reads everything and keeps the first `most` bytes.
async fn bounded(mut from: impl AsyncRead + Unpin, most: u64) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    (&mut from).take(most).read_to_end(&mut kept).await?;
    copy(&mut from, &mut sink()).await?;
    Ok(kept)
}

/// Why nothing was measured, from what kubectl and the command said. `code` is kubectl's exit status.
fn refusal(messages: &[String], namespace: &str, code: Option<i32>) -> String {
    let all = messages.join("; ");
    let has = |words: &str| all.contains(words);
    if has("pods/exec") && has("orbidden") {
        return format!(
            "you may not run commands in the agent's pod, which a measurement between two nodes needs: grant the verbs \"create\" and \"get\" \
             on the resource \"pods/exec\" in the namespace {namespace} ({all})"
        );
    }
    if has("ddress already in use") {
        return format!(
            "{all}; another measurement is running there, or one that was cut off and ends by itself within a minute"
        );
    }
    if has("unexpected argument") || has("cannot use the token file -") || has("unrecognized subcommand") {
        return format!("the agent is of a version that cannot be measured with from here ({all})");
    }
    if has("no such file or directory") && has("exec") {
        return format!("the container {CONTAINER} has no {PROGRAM} ({all})");
    }
    match code {
        _ if !all.is_empty() => all,
        Some(code) => format!("kubectl exec ended with status {code} and without a message"),
        None => "kubectl exec was killed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str], code: i32) -> (Option<u8>, String) {
        let mut messages = Messages::default();
        for line in lines {
            messages.add(line);
        }
        let status = messages.status(Some(code));
        (status, refusal(&messages.0, "monitoring", Some(code)))
    }

    #[test]
    fn an_error_of_kubectl_is_no_verdict() {
        assert_eq!(of(&[], 0).0, Some(0));
        assert_eq!(of(&["command terminated with exit code 2"], 2).0, Some(2));
        assert_eq!(
            of(&["a hint", "command terminated with exit code 3"], 3).0,
            Some(3)
        );
        for (lines, code) in [
            (&["error: unable to upgrade connection"][..], 1),
            (&["command terminated with exit code 137"], 137),
            (&["command terminated with exit code 1"], 2),
            (&["command terminated with exit code 1"], 0),
            (&[], 1),
        ] {
            assert_eq!(of(lines, code).0, None, "{lines:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_missing() {
        let why = |line: &str, code| of(&[line], code).1;
        let forbidden = "Error from server (Forbidden): pods \"a\" is forbidden: User \"ann\" cannot create resource \"pods/exec\" in API \
                         group \"\" in the namespace \"monitoring\"";
        let text = why(forbidden, 1);
        for words in ["\"create\" and \"get\"", "namespace monitoring", "ann"] {
            assert!(text.contains(words), "{text}");
        }
        let busy = "rdma-health: cannot listen on 10.0.0.2:14792: Address already in use (os error 98)";
        assert!(why(busy, 3).contains("another measurement"), "{}", why(busy, 3));
        for old in [
            "error: unexpected argument '--listen' found",
            "rdma-health: cannot use the token file -: No such file or directory",
        ] {
            assert!(why(old, 3).contains("is of a version"), "{}", why(old, 3));
        }
        let text = refusal(&[], "monitoring", Some(1));
        assert!(text.contains("status 1 and without a message"), "{text}");
    }

    #[test]
    fn a_flood_of_messages_is_bounded() {
        let mut messages = Messages::default();
        for _ in 0..1000 {
            messages.add(&"x".repeat(10_000));
        }
        assert_eq!(messages.0.len(), MANY);
        assert!(messages.0.iter().all(|line| line.len() < 2 * LONG));
    }
}
