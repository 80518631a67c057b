//! `rdma-health probe --listen` and `--connect`: two rails, each with a device of either node at its ends, and faults on the way.
//!
//! Both nodes are processes on one virtual node, where either end of a rail can be broken; `two_machines` has a kernel for each. Its kernel has `SoftRoCE` in the first network namespace only, so the rails are veth pairs
//! whose ends are in that namespace, and rules for routing send packets between their addresses over the pair and not over `lo`. The
//! control connection is on `lo`, where no fault is.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::time::Duration;

use rdma_health_tests::rails::{self, Both, Side, TOKEN};
use rdma_health_tests::run_acts;
use rdma_health_tests::virtual_node::{Job, Options, VirtualNode, built};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(120);

/// Two rails: `a0` is connected to `b0`, `a1` to `b1`. Each has its own subnet.
const RAILS: &str = r#"
set -e
modprobe -d "$kernel" veth
modprobe -d "$kernel" sch_netem
sysctl -q net.ipv4.conf.all.accept_local=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
# Packets between local addresses take the veth pair; packets that arrive find the local table.
ip rule add pref 10 iif lo lookup 100
ip rule add pref 20 lookup local
ip rule del pref 0
for rail in 0 1; do
  ip link add a$rail type veth peer name b$rail
  for side in a b; do
    sysctl -q net.ipv4.conf.$side$rail.rp_filter=0
    case $side in a) own=1 other=2 ;; b) own=2 other=1 ;; esac
    ip link set $side$rail up
    ip addr add 10.77.$rail.$own/24 dev $side$rail
    ip route add 10.77.$rail.$other dev $side$rail src 10.77.$rail.$own table 100
  done
  for side in a b; do rdma link add rxe_$side$rail type rxe netdev $side$rail; done
done
for device in rxe_a0 rxe_a1 rxe_b0 rxe_b1; do
  for try in {1..100}; do grep -q ACTIVE /sys/class/infiniband/$device/ports/1/state && break; sleep 0.1; done
done
"#;

#[test]
fn rails_between_two_nodes() {
    let mut node = VirtualNode::boot(&Options {
        nics: 1,
        ..Options::default()
    })
    .unwrap();
    let kernel = ". /run/virtual-node/config\n";
    let ready = node.run_within(SOON, &format!("{kernel}{RAILS}")).unwrap();
    assert_eq!(ready.status, 0, "{}", ready.stderr_text());
    rails::share_token(&node).unwrap();
    run_acts!(
        &mut node,
        |node: &mut VirtualNode| {
            let restore = "for i in a0 a1 b0 b1; do tc qdisc del dev $i root 2>/dev/null; done; \
                           pkill -CONT -x rdma-health; pkill -x rdma-health; true";
            node.check(restore).unwrap();
        },
        [
            both_rails_are_measured_in_both_directions,
            a_slow_rail_is_named,
            a_lossy_rail_is_named,
            a_blackhole_names_its_direction,
            a_port_without_counterpart_is_not_measured,
            a_wrong_token_is_refused_and_the_listener_goes_on,
            the_plugin_of_kubectl_measures_two_nodes,
            a_listener_that_vanishes_ends_the_measurement,
            a_node_that_connects_and_vanishes_ends_the_measurement,
            a_node_that_no_longer_answers_ends_the_measurement_at_its_deadline,
        ]
    );
}

fn product() -> String {
    built("rdma-health").unwrap().display().to_string()
}

/// Measures between the devices of node a and those of node b.
fn measure(node: &VirtualNode, a: &str, b: &str, more: &str) -> Both {
    let side = |devices| Side { node, devices };
    rails::measure(side(a), side(b), "127.0.0.1", more).unwrap()
}

fn netem(node: &VirtualNode, netdev: &str, fault: &str) {
    node.check(&format!("tc qdisc add dev {netdev} root netem {fault}"))
        .unwrap();
}

fn no_netem(node: &VirtualNode, netdev: &str) {
    node.check(&format!("tc qdisc del dev {netdev} root")).unwrap();
}

fn both_rails_are_measured_in_both_directions(node: &VirtualNode) {
    let both = measure(
        node,
        "rxe_a0 rxe_a1",
        "rxe_b0 rxe_b1",
        "--duration 20s --output json",
    );
    let all: Value = serde_json::from_slice(&both.connects.stdout).unwrap();
    let all = &all[0];
    assert_eq!(all["rails"].as_array().unwrap().len(), 2, "{all:#}");
    for (n, rail) in all["rails"].as_array().unwrap().iter().enumerate() {
        assert_eq!(rail["here"]["device"], format!("rxe_a{n}"));
        assert_eq!(rail["there"]["device"], format!("rxe_b{n}"));
        assert_eq!(rail["matched_by"]["value"], format!("10.77.{n}.0/24"));
        for direction in ["out", "back"] {
            let writer = &rail[direction]["writer"]["value"];
            assert_eq!(writer["stage"], "done", "{rail:#}");
            assert!(writer["bandwidth"]["bytes_per_second"].as_f64().unwrap() > 0.0);
            assert_eq!(writer["bandwidth"]["queue_pairs"], 2);
            assert!(writer["latency"]["samples"].as_u64().unwrap() > 0);
        }
    }
    // Two devices on a busy machine can differ, but nothing has failed. Both nodes agree.
    assert!(both.connects.status < 2, "{all:#}");
    let (status, text, _) = &both.listens;
    assert_eq!(*status, both.connects.status);
    assert!(text.contains("rxe_b0:1 → rxe_a0:1"), "{text}");
}

fn a_slow_rail_is_named(node: &VirtualNode) {
    netem(node, "a1", "delay 40ms");
    let both = measure(node, "rxe_a0 rxe_a1", "rxe_b0 rxe_b1", "--duration 20s");
    no_netem(node, "a1");
    let text = both.text();
    eprintln!("{text}");
    assert_eq!(both.connects.status, 1, "{text}");
    assert!(text.contains("rxe_a1:1 → rxe_b1:1  slow"), "{text}");
    assert!(text.contains("that of the equal rail of rxe_a0:1 is"), "{text}");
    assert_eq!(both.listens.0, 1);
}

/// Packets are lost in both directions. RoCE sends everything after a lost packet again, and SoftRoCE only after a timeout: the rail is slow,
/// or gives up after seven retries.
fn a_lossy_rail_is_named(node: &VirtualNode) {
    for netdev in ["a1", "b1"] {
        netem(node, netdev, "loss 10%");
    }
    let both = measure(node, "rxe_a0 rxe_a1", "rxe_b0 rxe_b1", "--duration 20s");
    for netdev in ["a1", "b1"] {
        no_netem(node, netdev);
    }
    let text = both.text();
    eprintln!("{text}");
    assert!(matches!(both.connects.status, 1 | 2), "{text}");
    let lines = |rail: &str, words: &[&str]| {
        text.lines()
            .any(|line| line.contains(rail) && words.iter().any(|word| line.contains(word)))
    };
    assert!(lines("rxe_a1:1 → rxe_b1:1", &["slow", "failed"]), "{text}");
    assert!(!lines("rxe_a0:1 → rxe_b0:1", &["failed"]), "{text}");
    assert_eq!(both.listens.0, both.connects.status, "{}", both.listens.1);
}

/// One direction drops everything, first that of the data and then that of the acknowledgements.
fn a_blackhole_names_its_direction(node: &VirtualNode) {
    for (netdev, expected) in [
        ("a0", "no RDMA packet from virtual-node arrives at virtual-node"),
        ("b0", "the acknowledgements from virtual-node do not arrive"),
    ] {
        // So that no ARP request is lost: the kernel would not even begin to connect.
        node.check(
            "for side in a b; do other=$(echo $side | tr ab ba); \
             address=$(ip -4 -o addr show dev ${other}0 | awk '{ sub(\"/.*\", \"\", $4); print $4 }'); \
             ip neigh replace $address lladdr $(cat /sys/class/net/${other}0/address) dev ${side}0 nud permanent; done",
        )
        .unwrap();
        netem(node, netdev, "loss 100%");
        let both = measure(node, "rxe_a0", "rxe_b0", "--duration 5s");
        no_netem(node, netdev);
        let text = both.text();
        eprintln!("{text}");
        assert_eq!(both.connects.status, 2, "{text}");
        assert!(text.contains("failed at poll: "), "{text}");
        assert!(
            text.contains("the control connection works") && text.contains(expected),
            "{text}"
        );
        assert_eq!(both.listens.0, 2, "{}", both.listens.1);
        assert!(both.listens.1.contains(expected), "{}", both.listens.1);
    }
}

fn a_port_without_counterpart_is_not_measured(node: &VirtualNode) {
    let both = measure(node, "rxe_a0 rxe_a1", "rxe_b1", "");
    let text = both.text();
    assert!(matches!(both.connects.status, 1 | 3), "{text}");
    assert!(text.contains("rxe_a1:1 → rxe_b1:1  "), "{text}");
    assert!(text.contains("rxe_a0:1 of virtual-node  not measured"), "{text}");
}

fn a_wrong_token_is_refused_and_the_listener_goes_on(node: &VirtualNode) {
    let product = product();
    let listen = format!(
        "exec {product} probe rxe_b0 --listen=127.0.0.1:14792 --token-file {TOKEN} --once --wait 60s"
    );
    let listener = node.spawn(&listen).unwrap();
    node.write_file("/run/other", "a token that only one node knows")
        .unwrap();
    node.wait_until(SOON, "exec 3<>/dev/tcp/127.0.0.1/14792").unwrap();
    let connect = |token: &str| {
        let connect = format!(
            "{product} probe rxe_a0 --connect 127.0.0.1 --token-file {token} --wait 30s --bytes 1MiB"
        );
        node.run_within(SOON, &connect).unwrap()
    };
    let wrong = connect("/run/other");
    assert_eq!(wrong.status, 3);
    assert!(
        wrong
            .stderr_text()
            .contains("the token files of the two nodes differ"),
        "{}",
        wrong.stderr_text()
    );
    // A stranger that sends something else, and one that sends nothing.
    node.check("printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\nUser-Agent: curl/7.88.1\\r\\n\\r\\n' >/dev/tcp/127.0.0.1/14792").unwrap();
    let silent = node.spawn("exec 3<>/dev/tcp/127.0.0.1/14792; sleep 600").unwrap();
    let right = connect(TOKEN);
    assert!(right.status < 2, "{}", right.stderr_text());
    assert_eq!(listener.wait(SOON).unwrap(), right.status);
    let refused = listener.stderr().unwrap();
    assert!(
        refused.contains("was refused: it does not know the token"),
        "{refused}"
    );
    silent.signal("KILL").unwrap();
    let without = node.run(&format!("{product} probe --listen")).unwrap();
    assert_eq!(without.status, 3);
    assert!(
        without.stderr_text().contains("--token-file"),
        "{}",
        without.stderr_text()
    );
}

/// An API server with two Nodes, each with a pod that runs here.
const API_SERVER: &str = r#"
import http.server, json, re
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = re.search(r"node-[ab]", self.path)[0]
        answer = {"metadata": {"name": name}}
        if self.path.startswith("/api/v1/pods"):
            container = {"name": "agent", "ports": [{"name": "metrics", "containerPort": 14791}]}
            pod = {"metadata": {"name": "agent-" + name, "namespace": "rdma-health"},
                   "spec": {"nodeName": name, "containers": [container]}, "status": {"phase": "Running", "podIP": "127.0.0.1"}}
            answer = {"metadata": {}, "items": [pod]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", 8001), Handler).serve_forever()
"#;
/// In place of kubectl: runs the command of a pod here, with the devices of its node.
const KUBECTL: &str = r#"#!/bin/bash
while [ "$1" != -- ]; do case $1 in agent-*) pod=$1 ;; esac; shift; done
shift 2
case $pod in agent-node-a) devices=rxe_a1 ;; *) devices="rxe_b0 rxe_b1" ;; esac
PRODUCT "$@" $devices
status=$?
[ $status = 0 ] || echo "command terminated with exit code $status" >&2
exit $status
"#;

fn the_plugin_of_kubectl_measures_two_nodes(node: &VirtualNode) {
    node.write_file("/run/api-server.py", API_SERVER).unwrap();
    node.write_file("/run/kubectl", KUBECTL.replace("PRODUCT", &product()))
        .unwrap();
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], \
                      clusters: [{name: c, cluster: {server: 'http://127.0.0.1:8001'}}], users: [{name: u, user: {}}]}";
    node.write_file("/run/kubeconfig", kubeconfig).unwrap();
    node.check("chmod 755 /run/kubectl").unwrap();
    let server = node.spawn("exec python3 /run/api-server.py").unwrap();
    node.wait_until(SOON, "exec 3<>/dev/tcp/127.0.0.1/8001").unwrap();
    let plugin = format!(
        "{} kubectl probe node-a node-b --duration 5s --kubeconfig /run/kubeconfig --kubectl /run/kubectl",
        product()
    );
    let mut attempts = 0..5;
    let measured = loop {
        let measured = node.run_within(SOON, &plugin).unwrap();
        // An emulated node on a busy machine may take longer to prepare the client than the program waits for a file system.
        let is_slow = measured
            .stderr_text()
            .contains("the file system did not respond within");
        if !is_slow || attempts.next().is_none() {
            break measured;
        }
    };
    let text = format!("{}{}", measured.stdout_text(), measured.stderr_text());
    eprintln!("{text}");
    assert!(matches!(measured.status, 0 | 1), "{text}");
    assert!(text.contains("rxe_a1:1 → rxe_b1:1  "), "{text}");
    assert!(text.contains("Gb/s"), "{text}");
    let json = node.run_within(SOON, &format!("{plugin} --output json")).unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["rails"][0]["there"]["device"], "rxe_b1", "{json:#}");
    server.signal("KILL").unwrap();
}

/// Starts both nodes, and returns once their queue pairs are connected.
fn measuring<'a>(node: &'a VirtualNode, duration: &str) -> (Job<'a>, Job<'a>) {
    let product = product();
    let listen = format!(
        "exec {product} probe rxe_b0 --listen=127.0.0.1:14792 --token-file {TOKEN} --once --wait 60s"
    );
    let connect = format!(
        "exec {product} probe rxe_a0 --connect 127.0.0.1 --token-file {TOKEN} --wait 60s --bytes 1GiB --duration {duration}"
    );
    let (listener, connector) = (node.spawn(&listen).unwrap(), node.spawn(&connect).unwrap());
    let connected = "rdma resource show qp link rxe_b0 | grep -q 'type RC state RTS'";
    node.wait_until(SOON, connected).unwrap();
    (listener, connector)
}

fn a_listener_that_vanishes_ends_the_measurement(node: &VirtualNode) {
    let (listener, connector) = measuring(node, "60s");
    listener.signal("KILL").unwrap();
    assert_eq!(connector.wait(SOON).unwrap(), 3);
    let said = connector.stderr().unwrap();
    assert!(
        said.contains(
            "127.0.0.1: it closed the connection, while rxe_a0:1 was measured; 0 of 1 rails were measured"
        ) || said.contains("127.0.0.1: the connection broke off"),
        "{said}"
    );
    nothing_is_left(node);
}

fn a_node_that_connects_and_vanishes_ends_the_measurement(node: &VirtualNode) {
    let (listener, connector) = measuring(node, "10s");
    connector.signal("KILL").unwrap();
    assert_eq!(listener.wait(SOON).unwrap(), 3);
    let said = listener.stderr().unwrap();
    assert!(
        said.contains("was not completed: it closed the connection")
            || said.contains("was not completed: the connection broke off"),
        "{said}"
    );
    nothing_is_left(node);
}

/// A node that hangs keeps its connection: only the deadline ends the wait.
fn a_node_that_no_longer_answers_ends_the_measurement_at_its_deadline(node: &VirtualNode) {
    let (listener, connector) = measuring(node, "4s");
    listener.signal("STOP").unwrap();
    assert_eq!(connector.wait(SOON).unwrap(), 3);
    let said = connector.stderr().unwrap();
    assert!(said.contains("127.0.0.1: it sent nothing for "), "{said}");
    listener.signal("CONT").unwrap();
    assert_eq!(listener.wait(SOON).unwrap(), 3, "{}", listener.stderr().unwrap());
}

/// No queue pair stays behind, so the next measurement finds the ports free.
fn nothing_is_left(node: &VirtualNode) {
    node.wait_until(SOON, "! rdma resource show qp | grep -q 'type RC'")
        .unwrap();
}
