//! What drivers count by names of their own.

use rdma_health_kernel::recording::{Answer, Question};
use rdma_health_node::{
    history::History,
    infiniband::{Counter, PortCode},
    lldp::{Lldp, Neighbour},
};
use serde_json::json;

use super::*;

const BEGIN: u64 = 1_790_000_000;

/// The node whose drivers report this value of a statistic, by number of the rail.
fn node_at(time: u64, statistic: &str, value: &dyn Fn(usize) -> u64) -> Node {
    let mut archive = Tree::fixture("h100-connectx7").unwrap();
    let drivers: Vec<_> = (0..8)
        .map(|n| {
            json!({"netdev": format!("ens{}f0np0", n + 1), "errno": 0,
                "statistics": [{"name": statistic, "value": value(n)}]})
        })
        .collect();
    let answer = Answer::Bytes(json!(drivers).to_string().into_bytes().into());
    archive.answer(Question::DriverStatistics, answer).unwrap();
    let (_folder, root) = archive.open().unwrap();
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    let mut node = Node::new(collector.facts());
    node.facts.time = time;
    node
}

/// The same after ten minutes in which it rose so.
fn risen(statistic: &str, rise: impl Fn(usize) -> u64) -> Node {
    let mut history = History::default();
    history.record(&node_at(BEGIN, statistic, &|_| 1000), BEGIN);
    let mut node = node_at(BEGIN + 600, statistic, &|n| 1000 + rise(n));
    node.history = Some(Arc::new(history));
    node
}

#[test]
fn an_adapter_that_waits_for_pcie_more_than_its_equals_is_reported() {
    let one = |often: u64| move |n: usize| if n == 3 { often } else { 2 };
    let write = "outbound_pci_stalled_wr_events";
    for quiet in [
        risen(write, one(60)),
        risen(write, |_| 300),
        risen("rx_discards_phy", one(600)),
    ] {
        assert_eq!(of(&quiet, &auto(), "pci-stalled"), [""; 0]);
    }
    let node = risen(write, one(120));
    assert_eq!(of(&node, &auto(), "pci-stalled"), ["mlx5_3:1 warning"]);
    let finding = findings(&node, &auto(), "pci-stalled").remove(0);
    assert_eq!(
        finding.message,
        "mlx5_3:1 waits for PCIe to write memory in 20 % of all seconds, median of equal ports 0 %"
    );
    assert_eq!(
        (
            finding.evidence[0].source.as_str(),
            finding.evidence[0].value.as_str()
        ),
        ("ethtool -S ens4f0np0: outbound_pci_stalled_wr_events", "1120")
    );
    // All of them, for the same reason.
    let all = risen("outbound_pci_stalled_rd_events", |_| 400);
    assert_eq!(of(&all, &auto(), "pci-stalled").len(), 8);
    assert!(message(&all, &auto(), "pci-stalled").contains("to read memory in 67 %"));
}

#[test]
fn an_adapter_that_gave_up_to_pause_its_switch_is_reported() {
    let storms = |often: u64| {
        risen(
            "tx_pause_storm_error_events",
            move |n| if n == 3 { often } else { 0 },
        )
    };
    assert_eq!(of(&storms(0), &auto(), "pause-storm"), [""; 0]);
    let node = storms(1);
    assert_eq!(of(&node, &auto(), "pause-storm"), ["mlx5_3:1 warning"]);
    let message = message(&node, &auto(), "pause-storm");
    assert!(
        message.contains("stopped to send them and drops packets: 6 times per hour"),
        "{message}"
    );
}

/// An EFA node after so many seconds in which a counter of its first device rose so.
fn efa(counter: &str, seconds: u64, rise: u64) -> Node {
    let at = |time: u64, value: u64| {
        let mut node = node("efa-p5", |_| {});
        let name = node.hcas().next().unwrap().name.clone();
        with_port(&mut node, &name, |port| {
            port.hw_counters.push(Counter {
                name: counter.into(),
                value: Fact::Known(value),
            });
        });
        node.facts.time = time;
        node
    };
    let mut history = History::default();
    history.record(&at(BEGIN, 1000), BEGIN);
    let mut node = at(BEGIN + seconds, 1000 + rise);
    node.history = Some(Arc::new(history));
    node
}

#[test]
fn an_efa_device_that_loses_its_remote_ends_is_reported() {
    // As the bucket of the EKS node monitoring agent: so many at once, and one per second.
    for (counter, at_once) in [
        ("unresponsive_remote_events", 100),
        ("impaired_remote_conn_events", 100),
        ("retrans_timeout_events", 100),
        ("rdma_write_wr_err", 100),
        ("retrans_pkts", 1000),
        ("retrans_bytes", 1_000_000),
    ] {
        for seconds in [60, 600] {
            let limit = at_once + seconds;
            let quiet = efa(counter, seconds, limit);
            assert_eq!(of(&quiet, &auto(), "efa-remote-impaired"), [""; 0], "{counter}");
            let node = efa(counter, seconds, limit + 1);
            assert_eq!(
                of(&node, &auto(), "efa-remote-impaired"),
                ["rdmap64s27:1 warning"],
                "{counter} {seconds}"
            );
            let finding = findings(&node, &auto(), "efa-remote-impaired").remove(0);
            assert!(
                finding.message.contains(&format!("({counter}, limit {limit})")),
                "{}",
                finding.message
            );
            assert!(
                finding.evidence[0]
                    .source
                    .ends_with(&format!("hw_counters/{counter}"))
            );
        }
    }
}

#[test]
fn a_port_that_is_down_is_reported_with_the_switch_port_that_it_had() {
    let mut down = node("h100-connectx7", |_| {});
    with_port(&mut down, "mlx5_3", |port| {
        port.state = Fact::Known(PortCode {
            code: 1,
            name: "DOWN".into(),
        });
    });
    assert!(!message(&down, &auto(), "port-down").contains("its link"));
    let neighbour = Neighbour {
        switch: "leaf-3".into(),
        port: "Ethernet12/1".into(),
        is_past: true,
        ..Neighbour::default()
    };
    down.facts.lldp = Arc::new(Lldp {
        netdevs: Fact::Known([("ens4f0np0".to_owned(), neighbour)].into()),
    });
    let finding = findings(&down, &auto(), "port-down").remove(0);
    assert!(
        finding
            .message
            .ends_with("; its link was to port Ethernet12/1 of leaf-3"),
        "{}",
        finding.message
    );
    let evidence = finding
        .evidence
        .iter()
        .find(|one| one.source.starts_with("networkctl lldp"));
    assert_eq!(evidence.unwrap().value, "leaf-3, port Ethernet12/1");
}
