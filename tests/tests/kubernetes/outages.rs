//! A server that is away, or that hangs.

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use rdma_health_tests::{api_server::ApiServer, scrape::wait_until};

use crate::node::{LINK, Node, SOON, within};

pub fn a_server_that_was_away_is_told_within_seconds(server: &mut ApiServer) {
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

pub fn a_server_that_hangs_holds_nothing_up(server: &ApiServer) {
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
