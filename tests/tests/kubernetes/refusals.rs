//! What the server refuses: permissions, credentials, a Node that it does not know; and a server that the agent refuses.

use std::{fs, process::Command, time::Duration};

use rdma_health_tests::api_server::ApiServer;
use serde_json::json;

use crate::node::{Node, SOON, within};

pub fn a_missing_permission_is_named_once_and_its_return_noticed(server: &ApiServer) {
    let events = json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]});
    let full = json!({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]});
    let read_only = json!({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get"]});
    let mut node = Node::new(server, "forbidden");
    node.start();
    node.until("False");
    server.allow("agent", &json!([read_only, events])).unwrap();
    let refused = || !server.allows_on_node_status("agent", "patch").unwrap();
    assert!(within(SOON, || refused().then_some(())).is_some());
    node.fault();
    let log = node.log_says("grant verb \"patch\" on resource \"nodes/status\"");
    for words in ["(403)", "grant verb"] {
        let lines = log.lines().filter(|line| line.contains(words));
        assert_eq!(lines.count(), 1, "{words} in {log}");
    }
    node.serves("the refusal, and the fault", |scrape| {
        let refused = ["verb=\"patch\"", "resource=\"nodes/status\"", "code=\"403\""];
        scrape
            .value("rdma_health_kubernetes_requests_total", &refused)
            .is_some_and(|count| count >= 1.0)
            && scrape.value("rdma_finding", &["port-down"]) == Some(1.0)
    });
    server.allow("agent", &json!([full, events])).unwrap();
    node.until_within("True", Duration::from_secs(90));
}

pub fn a_node_that_does_not_exist_is_told_and_found_once_it_does(server: &ApiServer) {
    let mut node = Node::unregistered(server, "missing");
    node.start();
    node.log_says("Node \"missing\" not found (404)");
    node.serves("metrics", |scrape| scrape.count("rdma_verdict", &[]) == 4);
    server.create_node("missing").unwrap();
    node.until_within("False", Duration::from_secs(90));
    // Deleted and registered again, it is another Node with another UID and none of our conditions.
    server.must("DELETE", "/api/v1/nodes/missing", None).unwrap();
    node.fault();
    node.serves("the second 404", |scrape| {
        let gone = ["verb=\"patch\"", "resource=\"nodes/status\"", "code=\"404\""];
        scrape
            .value("rdma_health_kubernetes_requests_total", &gone)
            .is_some()
    });
    let uid = server.create_node("missing").unwrap()["metadata"]["uid"].clone();
    node.until_within("True", Duration::from_secs(90));
    let event = within(SOON, || {
        let events = server.events("missing").unwrap();
        events
            .into_iter()
            .find(|event| event["involvedObject"]["uid"] == uid)
    });
    assert!(event.is_some(), "an Event about the new Node");
}

pub fn a_wrong_token_is_told_and_a_new_one_read(server: &ApiServer) {
    let mut node = Node::new(server, "token");
    let good = fs::read_to_string(&node.token).unwrap();
    fs::write(&node.token, "not-a-token").unwrap();
    node.start();
    let log = node.log_says("rejected the credentials (401)");
    assert!(!log.contains("not-a-token"), "no secret belongs into a log");
    fs::write(&node.token, good).unwrap();
    node.until_within("False", Duration::from_secs(90));
}

pub fn a_token_that_expires_is_told_and_a_new_one_read(server: &ApiServer) {
    let mut node = Node::new(server, "expired");
    let good = fs::read_to_string(&node.token).unwrap();
    // Signed again and not expired it would be taken: the time alone is what is wrong with it.
    fs::write(&node.token, server.expired(&good).unwrap()).unwrap();
    node.start();
    node.log_says("rejected the credentials (401)");
    node.log_says("the token or certificate is expired or belongs to another cluster");
    node.serves("the refusal, and metrics", |scrape| {
        scrape.count("rdma_verdict", &[]) == 4
            && scrape.count("rdma_health_kubernetes_requests_total", &["code=\"401\""]) > 0
    });
    fs::write(&node.token, good).unwrap();
    node.until_within("False", Duration::from_secs(90));
}

pub fn a_server_without_a_trusted_certificate_gets_no_token(server: &ApiServer) {
    let mut node = Node::new(server, "stranger");
    let good = fs::read_to_string(&node.kubeconfig).unwrap();
    let other = server.directory().join("other.crt");
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=other",
            "-keyout",
        ])
        .arg(server.directory().join("other.key"))
        .arg("-out")
        .arg(&other)
        .output()
        .unwrap();
    assert!(made.status.success());
    let ours = server.certificate_authority().display().to_string();
    let bad = good.replace(&ours, &other.display().to_string());
    fs::write(&node.kubeconfig, bad).unwrap();
    node.start();
    let log = node.log_says("cannot reach the API server");
    assert!(log.contains("certificate"), "{log}");
    // A file that is not there is another mistake.
    node.stop();
    fs::write(&node.kubeconfig, good.replace(&ours, "/nonexistent/ca.crt")).unwrap();
    node.start();
    let log = node.log_says("no usable credentials for the API server");
    assert!(log.contains("/nonexistent/ca.crt"), "{log}");
    node.serves("metrics", |scrape| scrape.count("rdma_verdict", &[]) == 4);
    fs::write(&node.kubeconfig, good).unwrap();
    node.until_within("False", Duration::from_secs(90));
}

pub fn a_wrong_kubeconfig_is_told_and_a_right_one_read(server: &ApiServer) {
    let mut node = Node::new(server, "kubeconfig");
    let good = fs::read_to_string(&node.kubeconfig).unwrap();
    fs::write(&node.kubeconfig, "clusters: [").unwrap();
    node.start();
    node.log_says("no usable credentials for the API server");
    node.serves("metrics", |scrape| scrape.count("rdma_verdict", &[]) == 4);
    fs::write(&node.kubeconfig, good).unwrap();
    node.until_within("False", Duration::from_secs(90));
}
