//! Labels of the Node that say what is expected, and labels and a taint that the agent sets.

use std::{fs, time::Duration};

use rdma_health_tests::api_server::ApiServer;
use serde_json::{Value, json};

use crate::node::{Node, SOON, within};

pub fn labels_of_the_node_say_what_is_expected(server: &ApiServer) {
    let mut node = Node::new(server, "labelled");
    let labels = json!({"metadata": {"labels": {"rdma-health.io/ports-up": "mlx5_9"}}});
    server
        .must("PATCH", "/api/v1/nodes/labelled", Some(&labels))
        .unwrap();
    node.start();
    let condition = node.until("True");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("mlx5_9"), "{message}");
}

pub fn labels_and_taint_are_set_where_asked_for(server: &ApiServer) {
    let mut node = Node::new(server, "extras");
    let theirs = json!({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}});
    server
        .must("PATCH", "/api/v1/nodes/extras", Some(&theirs))
        .unwrap();
    node.start();
    node.until("False");
    let plain = server.node("extras").unwrap();
    assert!(
        !plain.to_string().contains("state.rdma-health.io"),
        "both are off by default"
    );
    node.stop();

    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    server.allow("agent", &rules).unwrap();
    let config = server.directory().join("extras.yaml");
    fs::write(&config, "kubernetes: {labels: true, taint: NoSchedule}\n").unwrap();
    node.fault();
    node.start_with(&["--config", config.to_str().unwrap()]);
    let taints = |node: &Value| node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let tainted = within(SOON, || {
        let node = server.node("extras").unwrap();
        let labelled = node["metadata"]["labels"]["state.rdma-health.io/verdict"] == "critical";
        (labelled && taints(&node).len() == 2).then_some(node)
    });
    let tainted = tainted.unwrap_or_else(|| panic!("{}\n{}", server.node("extras").unwrap(), node.log()));
    let ours = taints(&tainted);
    let ours = ours
        .iter()
        .find(|taint| taint["key"] == "state.rdma-health.io/critical")
        .unwrap();
    assert_eq!(ours["value"], "port-down");
    node.repair();
    let mended = within(Duration::from_secs(90), || {
        let node = server.node("extras").unwrap();
        (taints(&node).len() == 1).then_some(node)
    });
    assert_eq!(taints(&mended.expect("the taint goes"))[0]["key"], "other");
}
