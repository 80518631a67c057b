//! `kubectl rdma-health probe` against a simulated API server, with a script in place of kubectl. The measurement itself is tested in
//! `two_nodes` of the package rdma-health-tests.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::PathBuf,
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// Nodes of a cluster: what their agent's pod is like.
const NODES: [(&str, &str); 4] = [
    ("gpu-1", "Running"),
    ("gpu-2", "Running"),
    ("gpu-3", "Pending"),
    ("gpu-4", ""),
];

struct Cluster {
    folder: TempDir,
}

impl Cluster {
    /// Starts the API server, with this script as kubectl.
    fn start(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", server.local_addr().unwrap())}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        fs::write(folder.path().join("kubeconfig"), config.to_string()).unwrap();
        let preamble = "#!/bin/sh\nread -r token\necho \"$@\" >>\"$0.calls\"\n";
        let kubectl = folder.path().join("kubectl");
        // By another process, so that no thread of this one holds it open for writing when it is started.
        let written = Command::new("sh")
            .args(["-c", r#"printf '%s' "$1" >"$0" && chmod 755 "$0""#])
            .args([kubectl.as_os_str(), format!("{preamble}{script}\n").as_ref()])
            .status();
        assert!(written.unwrap().success());
        thread::spawn(move || {
            for stream in server.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(request)) = lines.next() else { continue };
                // The rest of the request.
                while lines
                    .next()
                    .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
                {}
                let path = request.split_whitespace().nth(1).unwrap_or_default();
                let (code, body) = answer(path);
                let body = body.to_string();
                let head = "Content-Type: application/json\r\nConnection: close";
                let answer = format!(
                    "HTTP/1.1 {code} x\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn probe(&self, words: &[&str]) -> Output {
        let mut arguments = vec!["kubectl", "probe"];
        arguments.extend(words);
        let (config, kubectl) = (self.file("kubeconfig"), self.file("kubectl"));
        arguments.extend(["--kubeconfig", text(&config), "--kubectl", text(&kubectl)]);
        run(&arguments)
    }
}

fn answer(path: &str) -> (u16, Value) {
    let known = |name: &&(&str, &str)| path.contains(name.0);
    let Some((node, phase)) = NODES.iter().find(known) else {
        return (
            404,
            json!({"kind": "Status", "message": "nodes \"gpu-9\" not found", "code": 404}),
        );
    };
    if path.starts_with("/api/v1/nodes/") {
        return (200, json!({"metadata": {"name": node}}));
    }
    let pod = json!({
        "metadata": {"name": format!("agent-{node}"), "namespace": "monitoring"},
        "spec": {"nodeName": node, "containers": [{"name": "agent", "ports": [{"name": "metrics", "containerPort": 14791}]}]},
        "status": {"phase": phase, "podIP": "10.1.2.3"},
    });
    let items = if phase.is_empty() { vec![] } else { vec![pod] };
    (200, json!({"metadata": {}, "items": items}))
}

/// A node that listens, and one that connects and finds a slow rail.
const WORKS: &str = r"
case $* in
  *--listen=10.1.2.3:14792*) echo 'rdma-health: gpu-2 listens on 10.1.2.3:14792, offers mlx5_0:1' >&2 ;;
  *) printf 'WARNING  gpu-1 and gpu-2\nmlx5_0:1 \033[31m slow\n'; echo 'command terminated with exit code 1' >&2; exit 1 ;;
esac";

#[test]
fn the_result_of_the_connecting_node_is_shown_with_its_exit_status() {
    let cluster = Cluster::start(WORKS);
    let output = cluster.probe(&["gpu-1", "gpu-2", "mlx5_0", "--duration", "2s", "--force"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert_eq!(
        out(&output),
        "WARNING  gpu-1 and gpu-2\nmlx5_0:1 \\u{1b}[31m slow\n"
    );
    assert_eq!(err(&output), "");
    let calls = fs::read_to_string(cluster.file("kubectl.calls")).unwrap();
    let calls: Vec<_> = calls.lines().collect();
    let inside = |n: usize| calls[n].split_once(" exec ").unwrap().1;
    assert_eq!(
        inside(0),
        "--stdin --namespace monitoring agent-gpu-2 --container agent -- /usr/bin/rdma-health probe --token-file - --once \
         --wait 30s --listen=10.1.2.3:14792 --force"
    );
    assert_eq!(
        inside(1),
        "--stdin --namespace monitoring agent-gpu-1 --container agent -- /usr/bin/rdma-health probe --token-file - \
         --connect 10.1.2.3:14792 --force --duration 2000ms mlx5_0"
    );
}

#[test]
fn what_hinders_a_measurement_is_named_and_is_no_verdict() {
    let forbidden = r#"echo 'Error from server (Forbidden): pods "agent-gpu-2" is forbidden: User "ann" cannot create resource "pods/exec"' >&2; exit 1"#;
    let no_rdma = "echo 'rdma-health: no RDMA port is active: run rdma-health check' >&2; echo 'command terminated with exit code 3' >&2; exit 3";
    let blocked = r"
case $* in
  *--listen*) echo 'gpu-2 listens on 10.1.2.3:14792' >&2; sleep 1 ;;
  *) echo 'rdma-health: 10.1.2.3: cannot connect to 10.1.2.3:14792: timed out' >&2; echo 'command terminated with exit code 3' >&2; exit 3 ;;
esac";
    let both = ["gpu-1", "gpu-2"];
    for (script, nodes, words) in [
        (
            forbidden,
            both,
            "gpu-2: you may not run commands in the agent's pod",
        ),
        (no_rdma, both, "gpu-2: rdma-health: no RDMA port is active"),
        (blocked, both, "gpu-1 did not reach it: is TCP port 14792 blocked"),
        (WORKS, ["gpu-1", "gpu-3"], "gpu-3: the agent's pod is Pending"),
        (WORKS, ["gpu-4", "gpu-2"], "gpu-4: no agent runs on the node"),
        (WORKS, ["gpu-1", "gpu-9"], "nodes \"gpu-9\" not found"),
        (WORKS, ["gpu-1", "gpu-1"], "name two nodes"),
        (WORKS, ["gpu-1", "gpu-2/../x"], "gpu-2/../x"),
    ] {
        let output = Cluster::start(script).probe(&nodes);
        assert_eq!(output.status.code(), Some(3), "{words}: {}", out(&output));
        assert_eq!(out(&output), "");
        assert!(err(&output).contains(words), "{words}: {}", err(&output));
    }
    let cluster = Cluster::start(WORKS);
    let none = cluster.probe(&["gpu-1", "gpu-2", "--kubectl", "/nowhere/kubectl"]);
    assert!(!none.status.success());
    let hangs = Cluster::start("exec sleep 600").probe(&["gpu-1", "gpu-2", "--within", "1s"]);
    assert_eq!(hangs.status.code(), Some(3));
    assert!(err(&hangs).contains("not complete after 1s"), "{}", err(&hangs));
    let flag = cluster.probe(&["gpu-1", "gpu-2", "--", "--token-file=/etc/passwd"]);
    assert!(err(&flag).contains("expected a device or port"), "{}", err(&flag));
}
