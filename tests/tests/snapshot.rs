//! A snapshot of a real node, judged on another machine.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    fs,
    process::{Command, Output},
    time::Duration,
};

use rdma_health_tests::virtual_node::{Iommu, Options, VirtualNode, built, quote};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(120);

fn strip(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(&name.as_str()));
            fields.values_mut().for_each(|field| strip(field, names));
        }
        Value::Array(all) => all.iter_mut().for_each(|one| strip(one, names)),
        _ => {}
    }
}

#[test]
fn a_snapshot_of_a_running_node_gives_the_same_findings_on_another_machine() {
    let node = VirtualNode::boot(&Options {
        iommu: Iommu::Intel,
        nics: 2,
        ..Options::default()
    })
    .unwrap();
    let product = built("rdma-health").unwrap();
    let program = quote(product.to_str().unwrap());
    // One fault to be found, and one file that fails.
    node.check("ip link set eth1 down").unwrap();
    let live = node
        .run_within(LONG, &format!("{program} check --probe --output json"))
        .unwrap();
    let script = format!("{program} snapshot --probe -o /run/node.tar.zst");
    let taken = node.run_within(LONG, &script).unwrap();
    assert_eq!(taken.status, 0, "{}", taken.stderr_text());
    let anonymous = node
        .run_within(
            LONG,
            &format!("{program} snapshot --probe --anonymize -o /run/anonymous"),
        )
        .unwrap();
    assert_eq!(anonymous.status, 0, "{}", anonymous.stderr_text());

    let folder = tempfile::tempdir().unwrap();
    let judge = |name: &str| -> Output {
        let file = folder.path().join("node.tar.zst");
        fs::write(&file, node.read_file(name).unwrap()).unwrap();
        Command::new(&product)
            .args(["check", "--output", "json", "--snapshot"])
            .arg(&file)
            .output()
            .unwrap()
    };
    let mut live_report: Value = serde_json::from_slice(&live.stdout).unwrap();
    let replayed = judge("/run/node.tar.zst");
    let mut report: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(replayed.status.code(), Some(live.status), "{report:#}");
    assert_eq!(report["node"]["live"], true);
    assert_eq!(report["node"]["host"]["hostname"], "virtual-node");
    assert_eq!(report["node"]["probes"].as_array().unwrap().len(), 1);

    // The node went on between the two readings: time, traffic, and what a measurement measures.
    let moving = [
        "time",
        "seconds",
        "uptime",
        "counters",
        "hw_counters",
        "elapsed_us",
        "bandwidth",
        "latency",
    ];
    for report in [&mut live_report, &mut report] {
        strip(report, &moving);
    }
    assert!(!report["findings"].as_array().unwrap().is_empty());
    for part in ["findings", "status"] {
        assert_eq!(report[part], live_report[part], "{part}");
    }
    for part in report["node"].as_object().unwrap().keys() {
        // A process of this test came and went; the kernel logged that we wrote.
        if part != "kernel_log" {
            assert_eq!(report["node"][part], live_report["node"][part], "{part}");
        }
    }

    let replayed = judge("/run/anonymous");
    let anonymous: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(replayed.status.code(), Some(live.status));
    let ids = |report: &Value| -> Vec<Value> {
        let all = report["findings"].as_array().unwrap().iter();
        all.map(|finding| finding["rule"].clone()).collect()
    };
    assert_eq!(ids(&anonymous), ids(&report));
    let text = anonymous.to_string();
    for address in [
        "52:54:00:12:34",
        "5054:00ff:fe12:34",
        "5054:ff:fe12:34",
        "10.0.100.2",
        "virtual-node\"",
    ] {
        assert!(!text.contains(address), "{address}");
    }
}
