//! The condition that controllers wait for, and its other names.

use std::{fs, process::Command};

use rdma_health_tests::{api_server::ApiServer, virtual_node::built};
use serde_json::{Value, json};

use crate::node::{Node, SOON, kinds, within};

const READY: &str = "rdma-health.io/RDMAReady";
const ALIAS: &str = "AcceleratedHardwareReady";
const PROBLEM: &str = "example.com/RDMABroken";

fn until(node: &Node<'_>, kind: &str, status: &str) -> Value {
    let mut last = None;
    let found = within(SOON, || {
        last = node.server.condition(&node.name, kind).ok().flatten();
        last.clone().filter(|condition| condition["status"] == status)
    });
    found.unwrap_or_else(|| panic!("{kind} is not {status} but {last:?}:\n{}", node.log()))
}

/// A configuration with two aliases.
fn config(server: &ApiServer, name: &str) -> String {
    let file = server.directory().join(format!("{name}.yaml"));
    let aliases = format!("[{{type: {ALIAS}}}, {{type: {PROBLEM}, meaning: problem}}]");
    fs::write(&file, format!("kubernetes: {{aliases: {aliases}}}\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

pub fn one_condition_says_whether_rdma_can_be_used_under_every_configured_name(server: &ApiServer) {
    let mut node = Node::new(server, "ready");
    node.start_with(&["--config", &config(server, "ready")]);
    let ready = until(&node, READY, "True");
    assert_eq!(ready["reason"], "PortsReady", "{ready}");
    until(&node, ALIAS, "True");
    until(&node, PROBLEM, "False");
    node.fault();
    for (kind, status) in [(READY, "False"), (ALIAS, "False"), (PROBLEM, "True")] {
        let condition = until(&node, kind, status);
        assert_eq!(condition["reason"], "PortDown", "{condition}");
        assert!(
            condition["message"].as_str().unwrap().contains("rxe0:1"),
            "{condition}"
        );
    }
    node.stop();
    // Without the configuration, its conditions go with the next write.
    node.repair();
    node.start();
    until(&node, READY, "True");
    let gone = within(SOON, || {
        let kinds = kinds(&server.node("ready").unwrap());
        (!kinds.contains(&ALIAS.to_owned()) && !kinds.contains(&PROBLEM.to_owned())).then_some(())
    });
    assert!(gone.is_some(), "{}", server.node("ready").unwrap());
}

pub fn a_condition_of_another_controller_is_never_taken_over(server: &ApiServer) {
    let mut node = Node::new(server, "owned");
    // As a controller writes it that knows no server-side apply.
    let theirs = json!({"status": {"conditions": [
        {"type": ALIAS, "status": "True", "reason": "Theirs", "message": "of the EKS node monitoring agent"},
    ]}});
    let path = "/api/v1/nodes/owned/status?fieldManager=eks-node-monitoring-agent";
    let kind = "application/strategic-merge-patch+json";
    let answer = server
        .ask_as("admin-of-a-test", "PATCH", path, kind, Some(&theirs))
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    node.fault();
    node.start_with(&["--config", &config(server, "owned")]);
    let log = node.log_says("not writing conditions that another controller manages");
    // Kubernetes 1.20 does not know the manager of what was written before the first apply.
    let owners = ["eks-node-monitoring-agent", "before-first-apply"];
    assert!(
        log.contains(ALIAS) && owners.iter().any(|owner| log.contains(owner)),
        "{log}"
    );
    // The others are written.
    until(&node, READY, "False");
    until(&node, PROBLEM, "True");
    assert_eq!(node.condition(ALIAS).unwrap()["reason"], "Theirs");
    let contested = |scrape: &rdma_health_tests::scrape::Scrape, condition: &str| {
        let label = format!("condition=\"{condition}\"");
        scrape.value("rdma_health_kubernetes_condition_contested", &[&label])
    };
    node.serves("who owns which condition", |scrape| {
        contested(scrape, ALIAS) == Some(1.0) && contested(scrape, READY) == Some(0.0)
    });
    // Neither does the configuration allow to force it.
    let forced = server.directory().join("forced.yaml");
    fs::write(
        &forced,
        format!("kubernetes: {{force: true, aliases: [{{type: {ALIAS}}}]}}\n"),
    )
    .unwrap();
    let refused = Command::new(built("rdma-health").unwrap())
        .args([
            "agent",
            "--listen",
            "127.0.0.1:0",
            "--config",
            forced.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("cannot be used with `kubernetes.force`"),
        "{said}"
    );

    // What is removed is what the agent wrote, under whatever name, and no more.
    node.stop();
    let token = server.token("remover").unwrap();
    let (kubeconfig, _) = server.kubeconfig("owned-remover", &token).unwrap();
    let removed = Command::new(built("rdma-health").unwrap())
        .arg("remove-conditions")
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .output()
        .unwrap();
    assert!(
        removed.status.success(),
        "{}",
        String::from_utf8_lossy(&removed.stderr)
    );
    assert_eq!(kinds(&server.node("owned").unwrap()), [ALIAS]);
}
