//! The agent and a real API server: what a cluster's administrator sees, and every way in which the server can fail.
//!
//! The agent runs on this machine and reads a captured node; a fault is a changed file of its tree. Ignored unless asked
//! for, since the server must be built first: `make test-kubernetes`.

#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

mod chart;
mod fleet;
mod node;
mod preflight;
mod ready;

use std::{
    fs,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use fleet::the_plugin_shows_every_node_and_names_those_that_do_not_answer;
use node::{LINK, Node, SOON, kinds, within};
use rdma_health_tests::{api_server::ApiServer, run_acts, scrape::wait_until, virtual_node::built};
use ready::{
    a_condition_of_another_controller_is_never_taken_over,
    one_condition_says_whether_rdma_can_be_used_under_every_configured_name,
};
use serde_json::{Value, json};

/// One server serves all, since it takes seconds to start; each part has its own Node.
#[test]
#[ignore = "needs a kube-apiserver: make test-kubernetes"]
fn a_cluster_sees_each_node_as_it_is() {
    let mut server = ApiServer::start().unwrap();
    println!("kube-apiserver {}", server.version().unwrap());
    run_acts!(
        &mut server,
        repair,
        [
            conditions_say_what_is_wrong_and_what_to_do,
            a_transition_time_survives_a_restart,
            a_restart_writes_nothing_that_is_there_already,
            a_missing_permission_is_named_once_and_its_return_noticed,
            a_node_that_does_not_exist_is_told_and_found_once_it_does,
            a_wrong_token_is_told_and_a_new_one_read,
            a_token_that_expires_is_told_and_a_new_one_read,
            a_server_without_a_trusted_certificate_gets_no_token,
            a_wrong_kubeconfig_is_told_and_a_right_one_read,
            a_condition_of_another_owner_is_left_alone_unless_forced,
            labels_of_the_node_say_what_is_expected,
            labels_and_taint_are_set_where_asked_for,
            clocks_that_disagree_do_no_harm,
            uninstalling_leaves_nothing_behind,
            a_server_that_was_away_is_told_within_seconds,
            a_server_that_hangs_holds_nothing_up,
        ]
    );
}

/// The condition that controllers wait for, and the plugin of kubectl.
#[test]
#[ignore = "needs a kube-apiserver: make test-kubernetes"]
fn controllers_and_users_of_kubectl_see_each_node_as_it_is() {
    let mut server = ApiServer::start().unwrap();
    run_acts!(
        &mut server,
        repair,
        [
            one_condition_says_whether_rdma_can_be_used_under_every_configured_name,
            a_condition_of_another_controller_is_never_taken_over,
            the_plugin_shows_every_node_and_names_those_that_do_not_answer,
        ]
    );
}

/// The server runs and answers again, whatever an act did to it.
fn repair(server: &mut ApiServer) {
    // Where there is no server to thaw, it was stopped.
    let running = server.thaw().or_else(|_| server.start_server());
    if let Err(error) = running.and_then(|()| server.wait_until_ready()) {
        eprintln!("the server could not be mended: {error:#}");
    }
}

fn conditions_say_what_is_wrong_and_what_to_do(server: &ApiServer) {
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

fn a_transition_time_survives_a_restart(server: &ApiServer) {
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
    });
    let after = node.until("True");
    assert_eq!(before["lastTransitionTime"], after["lastTransitionTime"]);
}

fn a_restart_writes_nothing_that_is_there_already(server: &ApiServer) {
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

fn a_missing_permission_is_named_once_and_its_return_noticed(server: &ApiServer) {
    let events = json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]});
    let full = json!({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]});
    let read_only = json!({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get"]});
    let mut node = Node::new(server, "forbidden");
    node.start();
    node.until("False");
    server.allow("agent", &json!([read_only, events])).unwrap();
    node.fault();
    let log = node.log_says("grant verb \"patch\" on resource \"nodes/status\"");
    assert_eq!(log.matches("403").count(), log.matches("(403)").count(), "{log}");
    assert_eq!(
        log.lines().filter(|line| line.contains("grant verb")).count(),
        1,
        "{log}"
    );
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

fn a_node_that_does_not_exist_is_told_and_found_once_it_does(server: &ApiServer) {
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

fn a_wrong_token_is_told_and_a_new_one_read(server: &ApiServer) {
    let mut node = Node::new(server, "token");
    let good = fs::read_to_string(&node.token).unwrap();
    fs::write(&node.token, "not-a-token").unwrap();
    node.start();
    let log = node.log_says("rejected the credentials (401)");
    assert!(!log.contains("not-a-token"), "no secret belongs into a log");
    fs::write(&node.token, good).unwrap();
    node.until_within("False", Duration::from_secs(90));
}

fn a_token_that_expires_is_told_and_a_new_one_read(server: &ApiServer) {
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

fn a_server_without_a_trusted_certificate_gets_no_token(server: &ApiServer) {
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

fn a_wrong_kubeconfig_is_told_and_a_right_one_read(server: &ApiServer) {
    let mut node = Node::new(server, "kubeconfig");
    let good = fs::read_to_string(&node.kubeconfig).unwrap();
    fs::write(&node.kubeconfig, "clusters: [").unwrap();
    node.start();
    node.log_says("no usable credentials for the API server");
    node.serves("metrics", |scrape| scrape.count("rdma_verdict", &[]) == 4);
    fs::write(&node.kubeconfig, good).unwrap();
    node.until_within("False", Duration::from_secs(90));
}

fn a_condition_of_another_owner_is_left_alone_unless_forced(server: &ApiServer) {
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

fn labels_of_the_node_say_what_is_expected(server: &ApiServer) {
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

fn labels_and_taint_are_set_where_asked_for(server: &ApiServer) {
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

fn clocks_that_disagree_do_no_harm(server: &ApiServer) {
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

fn uninstalling_leaves_nothing_behind(server: &ApiServer) {
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

fn a_server_that_was_away_is_told_within_seconds(server: &mut ApiServer) {
    let name = "away";
    server.create_node(name).unwrap();
    let (tree, agent) = {
        let mut node = Node::unregistered(server, name);
        node.start();
        node.until("False");
        let Node { tree, agent, .. } = node;
        (tree, agent)
    };
    server.stop();
    let agent = agent.unwrap();
    let state = tree.path().join("sys/class/infiniband/rxe0/ports/1/state");
    fs::write(&state, "1: DOWN\n").unwrap();
    // It measures on, and says how it fares.
    let scrape = wait_until(
        agent.address,
        SOON,
        "the fault, and the server's absence",
        |scrape| {
            scrape.value("rdma_finding", &["port-down"]) == Some(1.0)
                && scrape.count("rdma_health_kubernetes_requests_total", &["unreachable"]) > 0
        },
    );
    scrape.unwrap();
    sleep(Duration::from_secs(10));
    let log = fs::read_to_string(&agent.log).unwrap();
    assert_eq!(
        // An Event that was being sent has another message.
        log.matches("cannot write the Node's conditions").count(),
        1,
        "reported once:\n{log}"
    );
    server.start_server().unwrap();
    server.wait_until_ready().unwrap();
    let back = Instant::now();
    let condition = within(SOON, || {
        server
            .condition(name, LINK)
            .ok()
            .flatten()
            .filter(|condition| condition["status"] == "True")
    });
    println!("right {:?} after the server's return", back.elapsed());
    let log = || fs::read_to_string(&agent.log).unwrap();
    assert!(condition.is_some(), "{}", log());
    // The server may show the condition a moment before it answers the agent.
    let shown = within(SOON, || {
        log()
            .contains("the Node's conditions are written again")
            .then_some(())
    });
    assert!(shown.is_some(), "{}", log());
}

fn a_server_that_hangs_holds_nothing_up(server: &ApiServer) {
    let mut node = Node::new(server, "frozen");
    node.start();
    node.until("False");
    server.freeze().unwrap();
    node.fault();
    node.serves("the fault, and that nothing answers", |scrape| {
        scrape.value("rdma_finding", &["port-down"]) == Some(1.0)
            && scrape.count("rdma_health_kubernetes_requests_total", &["timed_out"]) > 0
    });
    server.thaw().unwrap();
    let back = Instant::now();
    // It is left alone for up to a minute, the longer the more attempts ended in the deadline.
    node.until_within("True", Duration::from_secs(75));
    println!("right {:?} after the server went on", back.elapsed());
}

/// Nothing of this needs a server: it is refused before.
#[test]
fn enabling_kubernetes_without_a_node_name_is_refused() {
    for (name, says) in [
        (None, "set the environment variable NODE_NAME"),
        (Some("Not A Name"), "must be a Node's name"),
    ] {
        let mut agent = Command::new(built("rdma-health").unwrap());
        agent
            .args(["agent", "--kubernetes", "--listen", "127.0.0.1:0", "--no-probe"])
            .env_remove("NODE_NAME");
        if let Some(name) = name {
            agent.env("NODE_NAME", name);
        }
        let output = agent.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{said}");
    }
}
