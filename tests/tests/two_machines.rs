//! `rdma-health probe --listen` and `--connect` between two virtual nodes, each with its own kernel: two rails, each a cable from machine to
//! machine, and a third cable for the control connection.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::time::Duration;

use rdma_health_tests::rails::{self, Both, Side, TOKEN};
use rdma_health_tests::run_acts;
use rdma_health_tests::virtual_node::{CableEnd, Options, Turn, VirtualNode, built};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(120);
/// Node b on the cable of the control connection.
const CONTROL: &str = "10.0.100.2";
/// The devices on the rails have the same names on both nodes, as in a fleet.
const RAILS: &str = "rxe1 rxe2";

struct Nodes {
    a: VirtualNode,
    /// None once it has crashed.
    b: Option<VirtualNode>,
}

impl Nodes {
    fn boot() -> Self {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (one, other) = CableEnd::pair().unwrap();
            here.push(one);
            there.push(other);
        }
        let turn = Turn::take().unwrap();
        let boot = |hostname: &str, host_number, cables| {
            let options = Options {
                hostname: hostname.to_owned(),
                host_number,
                nics: 0,
                cables,
                memory_mib: 1024,
                modules_added: vec!["sch_netem".to_owned()],
                ..Options::default()
            };
            turn.boot(&options).unwrap()
        };
        let (a, b) = std::thread::scope(|scope| {
            let b = scope.spawn(|| boot("node-b", 2, there));
            (boot("node-a", 1, here), b.join().unwrap())
        });
        for node in [&a, &b] {
            rails::share_token(node).unwrap();
        }
        Self { a, b: Some(b) }
    }

    fn b(&self) -> &VirtualNode {
        self.b.as_ref().unwrap()
    }

    fn measure(&self, more: &str) -> Both {
        let side = |node| Side { node, devices: RAILS };
        let both = rails::measure(side(&self.a), side(self.b()), CONTROL, more).unwrap();
        eprintln!("{}{}", both.text(), both.listens.2);
        both
    }
}

#[test]
fn two_machines_measure_their_rails() {
    run_acts!(
        &mut Nodes::boot(),
        |nodes: &mut Nodes| {
            for node in std::iter::once(&nodes.a).chain(&nodes.b) {
                let restore = "for i in eth1 eth2; do tc qdisc del dev $i root 2>/dev/null; ip link set $i up; done; \
                               pkill -x rdma-health; true";
                node.check(restore).unwrap();
            }
        },
        [
            both_rails_are_measured_in_both_directions,
            a_slow_rail_is_named_on_both_nodes,
            a_rail_that_drops_everything_is_named_with_its_direction,
            a_port_that_is_down_is_not_measured_and_the_others_are,
            a_machine_that_crashes_ends_the_measurement,
        ]
    );
}

fn both_rails_are_measured_in_both_directions(nodes: &mut Nodes) {
    let both = nodes.measure("--duration 20s --output json");
    let all: Value = serde_json::from_slice(&both.connects.stdout).unwrap();
    let all = &all[0];
    assert_eq!(all["rails"].as_array().unwrap().len(), 2, "{all:#}");
    for (rail, n) in all["rails"].as_array().unwrap().iter().zip(1..) {
        assert_eq!(rail["matched_by"]["value"], format!("10.0.10{n}.0/24"));
        for (direction, from, to) in [("out", "node-a", "node-b"), ("back", "node-b", "node-a")] {
            let ends = &rail[direction];
            for (end, other) in [("writer", to), ("responder", from)] {
                let end = &ends[end]["value"];
                assert_eq!(end["device"], format!("rxe{n}"), "{rail:#}");
                assert_eq!(end["to"]["node"], other, "{rail:#}");
            }
            let writer = &ends["writer"]["value"];
            assert_eq!(writer["stage"], "done", "{rail:#}");
            assert!(writer["bandwidth"]["bytes_per_second"].as_f64().unwrap() > 0.0);
            assert!(writer["latency"]["samples"].as_u64().unwrap() > 0);
        }
    }
    // Two devices on a busy machine can differ, but nothing has failed. Both nodes agree.
    assert!(both.connects.status < 2, "{all:#}");
    let (status, text, _) = &both.listens;
    assert_eq!(*status, both.connects.status);
    assert!(text.contains("node-b") && text.contains("node-a"), "{text}");
}

fn a_slow_rail_is_named_on_both_nodes(nodes: &mut Nodes) {
    // Less than the 67 ms after which a queue pair sends again: SoftRoCE may take what arrives twice for an invalid request.
    nodes
        .a
        .check("tc qdisc add dev eth2 root netem delay 40ms")
        .unwrap();
    let both = nodes.measure("--duration 20s");
    nodes.a.check("tc qdisc del dev eth2 root").unwrap();
    let text = both.text();
    assert_eq!(both.connects.status, 1, "{text}");
    assert!(text.contains("rxe2:1 → rxe2:1  slow"), "{text}");
    assert!(text.contains("that of the equal rail of rxe1:1 is"), "{text}");
    assert_eq!(both.listens.0, 1, "{}", both.listens.1);
    assert!(both.listens.1.contains("slow"), "{}", both.listens.1);
}

fn a_rail_that_drops_everything_is_named_with_its_direction(nodes: &mut Nodes) {
    // So that no ARP request is lost: the kernel would not even begin to connect.
    for (from, to, address) in [
        (&nodes.a, nodes.b(), "10.0.101.2"),
        (nodes.b(), &nodes.a, "10.0.101.1"),
    ] {
        let mac = to.check("cat /sys/class/net/eth1/address").unwrap();
        let neighbour = format!(
            "ip neigh replace {address} lladdr {} dev eth1 nud permanent",
            mac.trim()
        );
        from.check(&neighbour).unwrap();
    }
    for (node, expected) in [
        (&nodes.a, "no RDMA packet from node-a arrives at node-b"),
        (nodes.b(), "the acknowledgements from node-b do not arrive"),
    ] {
        node.check("tc qdisc add dev eth1 root netem loss 100%").unwrap();
        let both = nodes.measure("--duration 5s");
        node.check("tc qdisc del dev eth1 root").unwrap();
        let text = both.text();
        assert_eq!(both.connects.status, 2, "{text}");
        assert!(
            text.contains("the control connection works") && text.contains(expected),
            "{text}"
        );
        assert!(!text.contains("rxe2:1 → rxe2:1  failed"), "{text}");
        assert_eq!(both.listens.0, 2, "{}", both.listens.1);
        assert!(both.listens.1.contains(expected), "{}", both.listens.1);
    }
}

fn a_port_that_is_down_is_not_measured_and_the_others_are(nodes: &mut Nodes) {
    nodes.b().check("ip link set eth2 down").unwrap();
    let both = nodes.measure("--duration 5s");
    nodes.b().check("ip link set eth2 up").unwrap();
    let text = both.text();
    assert!(text.contains("rxe1:1 → rxe1:1  "), "{text}");
    assert!(text.contains("rxe2:1 of node-a  not measured"), "{text}");
    assert!(both.connects.status > 0, "{text}");
}

/// The kernel of node b is gone, without a word on any connection: only the deadline ends the wait.
fn a_machine_that_crashes_ends_the_measurement(nodes: &mut Nodes) {
    let product = built("rdma-health").unwrap().display().to_string();
    let connector = {
        let listen = format!(
            "exec {product} probe rxe1 --listen={CONTROL}:14792 --token-file {TOKEN} --once --wait 60s"
        );
        nodes.b().spawn(&listen).unwrap();
        let connect = format!(
            "exec {product} probe rxe1 --connect {CONTROL} --token-file {TOKEN} --wait 60s --bytes 1GiB --duration 4s"
        );
        nodes.a.spawn(&connect).unwrap()
    };
    let connected = "rdma resource show qp link rxe1 | grep -q 'type RC state RTS'";
    nodes.b.as_ref().unwrap().wait_until(SOON, connected).unwrap();
    drop(nodes.b.take());
    assert_eq!(connector.wait(SOON).unwrap(), 3);
    let said = connector.stderr().unwrap();
    eprintln!("{said}");
    assert!(
        said.contains(&format!("{CONTROL}: it sent nothing for ")),
        "{said}"
    );
    nodes
        .a
        .wait_until(SOON, "! rdma resource show qp | grep -q 'type RC'")
        .unwrap();
}
