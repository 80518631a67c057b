//! The Node's conditions: what they say, who owns them, and what is left of them.

use std::{fs, process::Command, thread::sleep, time::Duration};

use rdma_health_tests::{api_server::ApiServer, virtual_node::built};
use serde_json::json;

use crate::node::{LINK, Node, SOON, kinds, within};

pub fn conditions_say_what_is_wrong_and_what_to_do(server: &ApiServer) {
    let mut node = Node::new(server, "conditions");
    node.start();
    let condition = node.until("False");
    assert_eq!(condition["reason"], "NoLinkProblem");
    let object = server.node("conditions").unwrap();
    for kind in [
        "RDMAIommuProblem",
        "GPUDirectProblem",
        LINK,
        "RDMALimitsProblem",
        "RDMAProbeProblem",
    ] {
        assert!(kinds(&object).contains(&kind.to_owned()), "{object}");
    }
    assert_eq!(
        node.condition("RDMAProbeProblem").unwrap()["reason"],
        "ProbesDisabled"
    );
    let fields = object["metadata"]["managedFields"].as_array().unwrap();
    let ours = fields
        .iter()
        .find(|field| field["manager"] == "rdma-health")
        .unwrap();
    assert_eq!(ours["operation"], "Apply");
    let before = node.requests(&["verb=\"patch\"", "resource=\"nodes/status\"", "code=\"ok\""]);

    node.fault();
    let condition = node.until("True");
    assert_eq!(condition["reason"], "PortDown");
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("rxe0:1") && message.contains("cable"),
        "{message}"
    );
    assert!(message.chars().count() < 256);
    // One write for all that changed, and for nothing else.
    let after = node.requests(&["verb=\"patch\"", "resource=\"nodes/status\"", "code=\"ok\""]);
    assert!(after - before <= 2.0, "{before} {after}");

    let uid = object["metadata"]["uid"].clone();
    let event = within(SOON, || {
        let events = server.events("conditions").unwrap();
        events.into_iter().find(|event| event["reason"] == "PortDown")
    });
    let event = event.expect("an Event about the port");
    assert_eq!(event["involvedObject"]["uid"], uid);
    assert_eq!(event["type"], "Warning");
    node.repair();
    node.until("False");
    let shown = within(SOON, || {
        let events = server.events("conditions").unwrap();
        events.into_iter().find(|event| event["type"] == "Normal")
    });
    assert_eq!(
        shown.expect("an Event about the recovery")["reason"],
        "NoLinkProblem"
    );
    let all = server.events("conditions").unwrap();
    assert!(all.len() <= 3, "only changes are reported: {all:?}");
}

pub fn a_transition_time_survives_a_restart(server: &ApiServer) {
    let mut node = Node::new(server, "restart");
    node.fault();
    node.start();
    let before = node.until("True");
    node.stop();
    // Times are in whole seconds.
    sleep(Duration::from_millis(1100));
    node.start();
    node.serves("contact with the API server", |scrape| {
        scrape
            .value("rdma_health_kubernetes_last_success_timestamp_seconds", &[])
            .is_some_and(|time| time > 0.0)
    });
    // Another condition changes, so that all are written again.
    fs::remove_file(node.tree.path().join("proc/modules")).unwrap();
    within(SOON, || {
        node.condition("RDMAReadingProblem").filter(|condition| {
            condition["message"]
                .as_str()
                .is_some_and(|text| text.contains("proc/modules"))
        })
    })
    .expect("the condition names the file");
    let after = node.until("True");
    assert_eq!(before["lastTransitionTime"], after["lastTransitionTime"]);
}

pub fn a_restart_writes_nothing_that_is_there_already(server: &ApiServer) {
    let mut node = Node::new(server, "quiet");
    node.start();
    node.until("False");
    let settled = |node: &Node| {
        sleep(Duration::from_secs(3));
        server.node(&node.name).unwrap()["metadata"]["resourceVersion"].clone()
    };
    let before = settled(&node);
    node.stop();
    node.start();
    node.serves("contact with the API server", |scrape| {
        scrape.value(
            "rdma_health_kubernetes_requests_total",
            &["verb=\"get\"", "code=\"ok\""],
        ) == Some(1.0)
    });
    assert_eq!(before, settled(&node), "a restart costs one read and no write");
}

pub fn a_condition_of_another_owner_is_left_alone_unless_forced(server: &ApiServer) {
    let mut node = Node::new(server, "contested");
    let theirs = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "contested"}, "status": {"conditions": [
        {"type": LINK, "status": "Unknown", "reason": "Theirs", "message": "of another product"},
    ]}});
    let path = "/api/v1/nodes/contested/status?fieldManager=another-product";
    let apply = "application/apply-patch+yaml";
    let answer = server
        .ask_as("admin-of-a-test", "PATCH", path, apply, Some(&theirs))
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    node.start();
    node.log_says("another controller manages the agent's conditions");
    assert!(node.log().contains(LINK));
    // Ours are written, theirs stays.
    let limits = within(SOON, || node.condition("RDMALimitsProblem"));
    assert!(limits.is_some());
    assert_eq!(node.condition(LINK).unwrap()["reason"], "Theirs");
    node.stop();
    let config = server.directory().join("force.yaml");
    fs::write(&config, "kubernetes: {force: true}\n").unwrap();
    node.start_with(&["--config", config.to_str().unwrap()]);
    assert_eq!(node.until("False")["reason"], "NoLinkProblem");
}

pub fn clocks_that_disagree_do_no_harm(server: &ApiServer) {
    let mut node = Node::new(server, "clock");
    node.start();
    node.until("False");
    node.stop();
    // What a node wrote whose clock was a year ahead.
    let mut object = server.node("clock").unwrap();
    for condition in object["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastHeartbeatTime"] = json!("2099-01-01T00:00:00Z");
        condition["lastTransitionTime"] = json!("2099-01-01T00:00:00Z");
    }
    server
        .must("PUT", "/api/v1/nodes/clock/status", Some(&object))
        .unwrap();
    node.fault();
    node.start_with(&["--config", {
        let config = server.directory().join("clock.yaml");
        fs::write(&config, "kubernetes: {force: true}\n").unwrap();
        Box::leak(config.to_str().unwrap().to_owned().into_boxed_str())
    }]);
    let condition = node.until("True");
    assert!(
        !condition["lastTransitionTime"]
            .as_str()
            .unwrap()
            .starts_with("2099"),
        "{condition}"
    );
}

pub fn uninstalling_leaves_nothing_behind(server: &ApiServer) {
    let mut node = Node::new(server, "uninstalled");
    node.start();
    node.until("False");
    node.stop();
    let token = server.token("remover").unwrap();
    let (kubeconfig, _) = server.kubeconfig("remover", &token).unwrap();
    let remove = |arguments: &[&str]| {
        let output = Command::new(built("rdma-health").unwrap())
            .arg("remove-conditions")
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    // Whatever is on the Node of others stays.
    let said = remove(&[]);
    assert!(said.contains("removed from"), "{said}");
    let object = server.node("uninstalled").unwrap();
    assert_eq!(kinds(&object), Vec::<String>::new(), "{object}");
    assert_eq!(remove(&[]).trim(), "removed from 0 Nodes");
}
