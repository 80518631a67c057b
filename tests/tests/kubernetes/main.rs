//! The agent and a real API server: what a cluster's administrator sees, and every way in which the server can fail.
//!
//! The agent runs on this machine and reads a captured node; a fault is a changed file of its tree. Ignored unless asked
//! for, since the server must be built first: `make test-kubernetes`.

#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

mod chart;
mod conditions;
mod fleet;
mod labels;
mod node;
mod outages;
mod preflight;
mod ready;
mod refusals;

use std::process::Command;

use conditions::{
    a_condition_of_another_owner_is_left_alone_unless_forced, a_restart_writes_nothing_that_is_there_already,
    a_transition_time_survives_a_restart, clocks_that_disagree_do_no_harm,
    conditions_say_what_is_wrong_and_what_to_do, uninstalling_leaves_nothing_behind,
};
use fleet::the_plugin_shows_every_node_and_names_those_that_do_not_answer;
use labels::{labels_and_taint_are_set_where_asked_for, labels_of_the_node_say_what_is_expected};
use outages::{a_server_that_hangs_holds_nothing_up, a_server_that_was_away_is_told_within_seconds};
use rdma_health_tests::{api_server::ApiServer, run_acts, virtual_node::built};
use ready::{
    a_condition_of_another_controller_is_never_taken_over,
    one_condition_says_whether_rdma_can_be_used_under_every_configured_name,
};
use refusals::{
    a_missing_permission_is_named_once_and_its_return_noticed,
    a_node_that_does_not_exist_is_told_and_found_once_it_does,
    a_server_without_a_trusted_certificate_gets_no_token, a_token_that_expires_is_told_and_a_new_one_read,
    a_wrong_kubeconfig_is_told_and_a_right_one_read, a_wrong_token_is_told_and_a_new_one_read,
};

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

/// The server runs, answers and allows what the agent needs, whatever an act did to it.
fn repair(server: &mut ApiServer) {
    // Where there is no server to thaw, it was stopped.
    let running = server.thaw().or_else(|_| server.start_server());
    let ready = running.and_then(|()| server.wait_until_ready());
    if let Err(error) = ready.and_then(|()| server.grant()) {
        eprintln!("the server could not be mended: {error:#}");
    }
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
