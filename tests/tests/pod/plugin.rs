//! `kubectl rdma-health` with a real API server, a real kubelet and the agent that it runs.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::{Command, Output},
    time::Instant,
};

use rdma_health_tests::{
    api_server::{NAMESPACE, NODE},
    virtual_node::built,
};
use serde_json::{Value, json};

use crate::stage::Stage;

/// A Node without a kubelet, whose agent is that of [`NODE`] as far as the API server shows it.
const OTHER: &str = "other";

struct User<'a> {
    stage: &'a Stage,
    plugin: PathBuf,
}

impl User<'_> {
    fn run(&self, arguments: &[&str]) -> Output {
        let began = Instant::now();
        let output = Command::new(&self.plugin)
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.stage.cluster.kubeconfig())
            .current_dir(self.stage.cluster.api.directory())
            .output()
            .unwrap();
        println!(
            "$ kubectl rdma-health {} ({:.1?})\n{}{}",
            arguments.join(" "),
            began.elapsed(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    fn said(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

pub fn the_plugin_reaches_the_agent_through_the_api_server(stage: &mut Stage) {
    let plugin = stage.cluster.api.directory().join("kubectl-rdma_health");
    symlink(built("rdma-health").unwrap(), &plugin).unwrap();
    let user = User { stage, plugin };
    let nodes = user.said(0, &["nodes"]);
    assert!(nodes.starts_with("1 node: 1 ok"), "{nodes}");
    let check = user.said(0, &["check", NODE]);
    assert!(check.starts_with(&format!("OK  {NODE}")), "{check}");
    let drift = user.said(3, &["drift"]);
    assert!(
        drift.contains(&format!("without another of the same pool: {NODE}"))
            && drift.contains("Nothing is compared."),
        "{drift}"
    );
    user.said(0, &["snapshot", NODE]);
    let saved = stage.cluster.api.directory().join(format!("{NODE}.tar.zst"));
    let checked = Command::new(built("rdma-health").unwrap())
        .args(["check", "--snapshot"])
        .arg(saved)
        .output()
        .unwrap();
    assert_eq!(
        checked.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&checked.stdout)
    );

    let alone = user.run(&["probe", NODE, NODE]);
    assert_eq!(alone.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&alone.stderr).contains("name two nodes"));
    rails(&user);
}

/// Measures between two names of the one node: the kubelet runs both commands, and the measurement goes over the node's network.
fn rails(user: &User<'_>) {
    let stage = user.stage;
    let pod = stage.running("");
    let name = pod["metadata"]["name"].as_str().unwrap();
    stage.cluster.api.create_node(OTHER).unwrap();
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let second = format!("{name}-{OTHER}");
    let object = json!({
        "metadata": {"name": second, "labels": {"app.kubernetes.io/name": "rdma-health"}},
        "spec": {
            "nodeName": OTHER,
            "automountServiceAccountToken": false,
            "tolerations": [{"operator": "Exists"}],
            "containers": pod["spec"]["containers"].as_array().unwrap().iter().map(|container| json!({
                "name": container["name"],
                "image": container["image"],
                "ports": container["ports"],
            })).collect::<Value>(),
        },
    });
    stage.cluster.api.must("POST", &pods, Some(&object)).unwrap();
    let status = json!({"status": {"phase": "Running", "podIP": pod["status"]["podIP"], "podIPs": pod["status"]["podIPs"]}});
    let path = format!("{pods}/{second}");
    stage
        .cluster
        .api
        .must("PATCH", &format!("{path}/status"), Some(&status))
        .unwrap();
    // Names the pod that runs instead of the one that only the API server knows.
    let wrapper = stage.cluster.api.directory().join("kubectl-of-two-names");
    let kubectl = stage.cluster.api.assets().join("kubectl");
    let script = format!(
        "#!/bin/bash\nexec {} \"${{@/#{second}/{name}}}\"\n",
        kubectl.display()
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let wrapper = wrapper.display().to_string();
    let measured = user.run(&["probe", NODE, OTHER, "--kubectl", &wrapper]);
    // Before what may fail: other acts expect one pod.
    let now = json!({"gracePeriodSeconds": 0});
    stage.cluster.api.must("DELETE", &path, Some(&now)).unwrap();
    stage
        .cluster
        .api
        .must("DELETE", &format!("/api/v1/nodes/{OTHER}"), None)
        .unwrap();
    stage.running("");
    // 1: the latency of two emulated ports may differ.
    let text = String::from_utf8_lossy(&measured.stdout);
    assert!(matches!(measured.status.code(), Some(0 | 1)), "{text}");
    for rail in ["rxe0:1 → rxe0:1", "rxe1:1 → rxe1:1"] {
        let line = text.lines().find(|line| line.starts_with(rail));
        assert!(
            line.is_some_and(|line| line.contains("Gb/s, in ")),
            "{rail}: {text}"
        );
    }
}
