//! Counters of lost packets that rise while an agent watches.

use rdma_health_node::{history::History, infiniband::Counter};

use super::*;

const START: u64 = 1_790_000_000;

/// The node after ten minutes in which a counter of these ports rose by so much, and that of all others by `usual`.
fn risen(node: &Node, counter: &str, devices: &[&str], rise: u64, usual: u64) -> Node {
    let seconds = 600;
    let mut node = node.clone();
    // Without the ports of the storage.
    let rails = node.hcas().filter(|hca| !hca.name.contains("bond"));
    let names: Vec<String> = rails.map(|hca| hca.name.clone()).collect();
    let mut history = History::default();
    let set = |node: &mut Node, part: u64| {
        for name in &names {
            with_port(node, name, |port| {
                let rise = if devices.contains(&name.as_str()) {
                    rise
                } else {
                    usual
                };
                let value = Fact::Known(rise * part / 2);
                port.hw_counters.retain(|other| &*other.name != counter);
                port.hw_counters.push(Counter {
                    name: counter.into(),
                    value,
                });
            });
        }
    };
    for part in 0..=2 {
        set(&mut node, part);
        node.time = START + seconds * part / 2;
        node.history = Some(Arc::new(history.clone()));
        history.record(&node, node.time);
    }
    node
}

#[test]
fn lost_packets_of_every_driver_are_found_with_earlier_readings_as_without() {
    let healthy = node("h100-connectx7", |_| {});
    for counter in [
        "out_of_sequence",
        "packet_seq_err",
        "to_retransmits",
        "seq_err_naks_rcvd",
        "oos_drop_count",
        "missing_resp",
        "rx_roce_discards",
        "tcpRetransSegs",
        "tx_rdma_ack_timeout",
        "resp_rx_outouf_seq",
        "req_rx_pkt_seq_err",
        "requester_timeout",
    ] {
        let found = |devices: &[&str], rise, usual| {
            let watched = risen(&healthy, counter, devices, rise, usual);
            let with = of(&watched, &auto(), "counter-errors");
            let mut once = watched.clone();
            once.history = None;
            assert!(with.is_empty() || of(&once, &auto(), "counter-errors") == with || usual > 0);
            with
        };
        assert_eq!(
            found(&["mlx5_0"], 10_000_000, 0),
            ["mlx5_0:1 warning"],
            "{counter}"
        );
        assert_eq!(
            found(&["mlx5_0", "mlx5_1"], 10_000_000, 0),
            ["mlx5_0:1 warning", "mlx5_1:1 warning"],
            "{counter}"
        );
        assert_eq!(
            found(&["mlx5_0"], 90_000, 0),
            [""; 0],
            "{counter}: one failed job"
        );
        assert_eq!(
            found(&["mlx5_0"], 10_000_000, 200_000),
            [""; 0],
            "{counter}: equal ports lose packets, too"
        );
        assert_eq!(found(&[], 0, 10_000_000), [""; 0], "{counter}: all of them");
    }
}

#[test]
fn broken_connections_and_errors_of_the_hardware_have_a_limit_of_their_own() {
    let healthy = node("h100-connectx7", |_| {});
    for counter in [
        "req_transport_retries_exceeded",
        "max_retry_exceeded",
        "unrecoverable_err",
        "res_mem_error",
        "req_tx_retry_excd_err",
        "requester_retries_exceeded",
        "general_hw_error",
        "total_fatal_error",
    ] {
        let found = |rise, usual| {
            let watched = risen(&healthy, counter, &["mlx5_0"], rise, usual);
            findings(&watched, &auto(), "counter-errors")
        };
        assert_eq!(found(50, 0).len(), 0, "{counter}: a few");
        assert_eq!(found(5000, 4000).len(), 0, "{counter}: a job that ended");
        let one = found(500, 0).remove(0);
        assert_eq!(one.severity, rdma_health_rules::Severity::Warning, "{counter}");
        let words = format!("{counter} by 500 in 10 min (limit 100; ");
        assert!(one.message.contains(&words), "{}", one.message);
        assert!(
            one.remedy.contains("Connections of this port broke"),
            "{}",
            one.remedy
        );
        // Without an earlier reading.
        let mut unwatched = risen(&healthy, counter, &["mlx5_0"], 5000, 0);
        unwatched.history = None;
        assert_eq!(of(&unwatched, &auto(), "counter-errors"), ["mlx5_0:1 warning"]);
    }
}

#[test]
fn lost_packets_name_the_median_and_leave_the_cable_alone() {
    let node = risen(
        &node("h100-connectx7", |_| {}),
        "to_retransmits",
        &["mlx5_0"],
        1_000_000,
        600,
    );
    let found = findings(&node, &auto(), "counter-errors").remove(0);
    let words = "to_retransmits by 1000000 in 10 min (limit 100000; median of equal ports 1.0 per second)";
    assert!(found.message.contains(words), "{}", found.message);
    assert!(
        found.remedy.contains("leave the cable as it is"),
        "{}",
        found.remedy
    );
}

#[test]
fn lost_packets_of_a_port_without_equals_are_information() {
    let node = risen(
        &node("connectx7-restricted", |_| {}),
        "out_of_sequence",
        &["rocep97s0f0"],
        1_000_000,
        0,
    );
    assert_eq!(of(&node, &auto(), "counter-errors"), ["rocep97s0f0:1 info"]);
    assert!(message(&node, &auto(), "counter-errors").contains("too few equal ports to compare with"));
}

/// The samples of a saved state are bounded, whatever a port counts.
#[test]
fn the_samples_of_an_agent_hold_the_lost_packets_of_physical_ports_and_stay_within_their_limits() {
    let node = risen(
        &node("h100-connectx7", |_| {}),
        "to_retransmits",
        &["mlx5_0"],
        10,
        0,
    );
    let history = node.history.as_ref().unwrap();
    assert_eq!(history.check(), Ok(()));
    let past = history.port(node.hcas().next().unwrap(), 1).unwrap();
    let sample = past.counters.samples.last().unwrap();
    assert!(sample.values.contains_key("to_retransmits"));
}

#[test]
fn ports_whose_driver_names_no_board_are_compared_by_their_pci_ids() {
    let mut slow = node("h100-connectx7", |_| {});
    let names: Vec<String> = slow.hcas().map(|hca| hca.name.clone()).collect();
    let mut hca_type = Fact::Absent;
    for described in [false, true] {
        for name in &names {
            with_hca(&mut slow, name, |hca| {
                hca.board_id = Fact::Absent;
                if described {
                    hca_type = Fact::Known(format!("gpu-node-7 {name}"));
                }
                hca.hca_type = hca_type.clone();
            });
        }
        with_port(&mut slow, "mlx5_1", |port| {
            if let Fact::Known(rate) = &mut port.rate {
                rate.bits_per_second = 100_000_000_000;
            }
        });
        assert_eq!(
            of(&slow, &auto(), "rate-low"),
            ["mlx5_1:1 warning"],
            "{described}"
        );
        assert!(!slow.peers().is_empty());
    }
}

#[test]
fn a_count_that_the_driver_could_not_decode_is_unread() {
    let node = node("bnxt-re", |tree| {
        let name = "/bnxt_re0/ports/1/hw_counters/to_retransmits";
        set(tree, name, &u64::MAX.to_string());
    });
    let port = &node.hcas.known().unwrap()["bnxt_re0"].ports[&1];
    let counter = port.hw_counters.iter().find(|one| &*one.name == "to_retransmits");
    assert!(counter.unwrap().value.unread().is_some());
    assert_eq!(of(&node, &auto(), "counter-errors"), [""; 0]);
}
