//! The agent as a hostile neighbour meets it: other processes of the node, its helper, its files and signals.

use std::{
    collections::BTreeSet,
    io::Write,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::Child,
};

use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket},
    process::{Pid, Signal, kill_process},
};
use tempfile::TempDir;

use super::*;

/// A running agent with the files of one directory.
struct Agent {
    folder: TempDir,
    address: SocketAddr,
    process: Child,
}

impl Agent {
    /// Starts one with a shell script as its helper, by way of `wrapper`, and waits until it has read the node.
    fn start(wrapper: &[&str], helper: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.yaml"), "interval: 1h\n").unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        let script = folder.path().join("helper");
        // By another process, see `with_helper`.
        let written = Command::new("sh")
            .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod 755 "$0""#])
            .args([script.as_os_str(), helper.as_ref()])
            .status();
        assert!(written.unwrap().success());
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let file = |name: &str| folder.path().join(name);
        let mut line: Vec<std::ffi::OsString> = wrapper.iter().map(Into::into).collect();
        line.push(PRODUCT.into());
        let process = Command::new(&line[0])
            .args(&line[1..])
            .args(["agent", "--no-probe", "--log-format", "json", "--listen"])
            .arg(address.to_string())
            .arg("--root")
            // An empty node: what is read does not matter here.
            .arg(file("root"))
            .arg("--config")
            .arg(file("config.yaml"))
            .arg("--state")
            .arg(file("state.json"))
            .arg("--helper")
            .arg(&script)
            .arg("--liveness-socket")
            .arg(file("liveness.sock"))
            .stderr(log)
            .spawn()
            .unwrap();
        let agent = Self {
            folder,
            address,
            process,
        };
        agent.wait_for("the agent is ready", || agent.alive(&["--ready"]) == Some(0));
        agent
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap()
    }

    fn wait_for(&self, what: &str, condition: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !condition() {
            assert!(Instant::now() < end, "{what}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The exit status of `rdma-health alive`.
    fn alive(&self, more: &[&str]) -> Option<i32> {
        let output = Command::new(PRODUCT)
            .args(["alive", "--liveness-socket"])
            .arg(self.file("liveness.sock"))
            .args(more)
            .output();
        output.unwrap().status.code()
    }

    fn scrape(&self) -> String {
        let answer = scrape::get(self.address, "/metrics", Duration::from_secs(10)).unwrap();
        assert_eq!(answer.status, 200);
        answer.body
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Connects from an address of 127.0.0.0/8.
fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).unwrap();
    connect(&socket, &to).unwrap();
    socket.into()
}

#[test]
fn slow_and_unread_requests_of_other_clients_keep_neither_a_scraper_nor_the_kubelet_out() {
    let mut agent = Agent::start(&[], "exec sleep 1000");
    let mut held = Vec::new();
    for request in [
        // A head that never ends, one that never begins, a page that is never read, and a request for it after another.
        "GET /metrics HTTP/1.1\r\nx:",
        "",
        "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET",
    ] {
        for last in [2, 3, 4] {
            for _ in 0..40 {
                let mut stream = connect_from(last, agent.address);
                // The agent may have closed it already.
                let _ = stream.write_all(request.as_bytes());
                held.push(stream);
            }
        }
        for _ in 0..15 {
            agent.scrape();
        }
        assert_eq!(agent.alive(&[]), Some(0));
    }
    agent.signal(Signal::TERM);
    assert_eq!(agent.process.wait().unwrap().code(), Some(0), "{}", agent.log());
    assert!(!agent.file("liveness.sock").exists());
}

#[test]
fn a_hangup_reloads_and_saves_and_a_fifo_stops_neither() {
    let agent = Agent::start(&[], "exec sleep 1000");
    let (config, state) = (agent.file("config.yaml"), agent.file("state.json"));
    fs::remove_file(&config).unwrap();
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    agent.wait_for("the FIFO is refused", || {
        agent.log().contains("not a regular file")
    });
    assert!(
        agent
            .scrape()
            .contains("rdma_health_config_last_reload_successful 0\n")
    );
    assert!(!state.exists());
    agent.signal(Signal::HUP);
    agent.wait_for("the history is saved", || state.exists());
    fs::remove_file(&config).unwrap();
    fs::write(&config, "interval: 30m\n").unwrap();
    agent.signal(Signal::HUP);
    agent.wait_for("the new file is applied", || {
        agent
            .scrape()
            .contains("rdma_health_config_last_reload_successful 1\n")
    });
    let saves = r#"rdma_health_state_saves_total{result="success"} 2"#;
    agent.wait_for("the second save is counted", || agent.scrape().contains(saves));
}

#[test]
fn the_standard_error_of_a_helper_is_logged_in_part_and_in_structure() {
    let agent = Agent::start(&[], r"printf '\033[2Jfirst\n' >&2; exec yes '{\033]0;x' >&2");
    agent.wait_for("the helper writes", || agent.log().contains("first"));
    std::thread::sleep(Duration::from_secs(2));
    let threads = format!("/proc/{}/task", agent.process.id());
    let threads = fs::read_dir(threads).unwrap().count();
    assert!(threads < 16, "{threads} threads");
    let log = agent.log();
    assert!(log.len() < 64 << 10, "{} bytes", log.len());
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(!line.contains('\u{1b}'), "{line}");
    }
    agent.scrape();
}

#[test]
fn an_agent_that_is_process_1_reaps_orphans() {
    // The helper leaves behind processes, some in sessions of their own, whose parent is then the agent.
    let helper = "for i in 1 2 3 4 5; do (sleep 0.1 &) ; (setsid sleep 0.1 &) ; done; sleep 1; exit 7";
    let namespace = [
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
    ];
    let agent = Agent::start(&namespace, helper);
    let children = |of: u32| {
        let list = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
        let ids = list.split_whitespace().map(|id| id.parse().unwrap());
        ids.collect::<BTreeSet<u32>>()
    };
    let init = children(agent.process.id()).into_iter().next().unwrap();
    agent.wait_for("the helper ends", || agent.log().contains("exit status: 7"));
    agent.wait_for("only the helper is left", || children(init).len() <= 1);
    // Its exit status is known nonetheless, and the next one too.
    agent.wait_for("the helper is started again", || {
        agent.log().matches("exit status: 7").count() >= 2
    });
}

#[test]
fn a_user_signal_changes_nothing_and_quit_saves() {
    let mut agent = Agent::start(&[], "exit 1");
    let _ = fs::remove_file(agent.file("state.json"));
    agent.signal(Signal::USR1);
    agent.signal(Signal::USR2);
    agent.scrape();
    agent.signal(Signal::QUIT);
    let end = agent.process.wait().unwrap();
    assert_eq!(end.code(), Some(0), "{end}: {}", agent.log());
    assert!(agent.file("state.json").exists());
}

#[test]
fn a_file_system_that_hangs_is_reported_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let hung = text(folder.path());
    let file = folder.path().join("file");
    let file = text(&file);
    let tree = tree::fixture("connectx7-gpu").unwrap();
    // A FUSE file system whose server never answers.
    let script = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none $0 || exit 77; exec \"$@\"";
    for arguments in [
        &["check", "--root", hung][..],
        &["agent", "--no-probe", "--listen", "127.0.0.1:0", "--root", hung],
        &["check", "--root", text(tree.path()), "--state", file],
        &["check", "--snapshot", file],
    ] {
        let output = Command::new("timeout")
            .args([
                "60",
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                script,
                hung,
                PRODUCT,
            ])
            .args(arguments)
            .output()
            .unwrap();
        let error = err(&output);
        if output.status.code() == Some(77) || error.contains("unshare") {
            eprintln!("skipped, because this machine has no FUSE or user namespaces: {error}");
            return;
        }
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {error}");
        assert!(error.contains(hung), "{error}");
        assert!(
            error.contains("the file system did not respond within"),
            "{error}"
        );
    }
}

/// An agent that is still reading its command line: its complaint about it does not fit into the pipe.
#[test]
fn a_hangup_right_after_the_start_does_not_end_the_agent() {
    const CAPACITY: usize = 64 << 10;
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&vec![b'.'; CAPACITY]).unwrap();
    let mut process = Command::new(PRODUCT)
        .args(["agent", "--no-such-flag"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let stat = format!("/proc/{}/stat", process.id());
    let waits = || {
        let stat = fs::read_to_string(&stat).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    };
    while !waits() {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&process), Signal::HUP).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(2), "no signal ended it");
    assert!(text.contains("--no-such-flag"));
}
