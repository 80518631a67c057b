//! The lists of `rdma-health devices` and `rdma-health topology` on fixture trees.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
    recording::{Answer, Question},
};
use rdma_health_node::{Fact, Node, Unread, UnreadKind};
use rdma_health_report::{devices, topology};
use rdma_health_tests::tree::{self, Tree};
use serde_json::json;

fn read(fixture: &str) -> Node {
    let tree = tree::fixture(fixture).unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// The cells of the row that begins with this word.
fn row(text: &str, first: &str) -> Vec<String> {
    let mut rows = text
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    rows.find(|row| row.first().is_some_and(|cell| cell == first))
        .unwrap_or_else(|| panic!("no row {first} in\n{text}"))
}

#[test]
fn each_port_has_a_line_with_what_a_job_needs() {
    let node = read("h100-connectx7");
    let text = written(|out| devices::text(out, &node).unwrap());
    assert_eq!(
        row(&text, "mlx5_2").join(" "),
        "mlx5_2 1 0000:33:00.0 ens3f0np0 ConnectX-7 28.41.1000 ACTIVE 400 Gb/s -/9000 3: 10.0.2.2 0 identity -"
    );
    let vfs = written(|out| devices::text(out, &read("connectx6-vfs")).unwrap());
    assert!(
        row(&vfs, "mlx5_0").ends_with(&["PF,".into(), "4".into(), "VFs".into()]),
        "{vfs}"
    );
    assert!(
        row(&vfs, "mlx5_1").ends_with(&["VF".into(), "of".into(), "0000:41:00.0".into()]),
        "{vfs}"
    );
}

/// The node with four virtual functions, where pods have two of them, a third that is in no list, and a shared device.
fn with_pods() -> Node {
    let mut archive = Tree::fixture("connectx6-vfs").unwrap();
    let pod = |name: &str, resource: &str, id: &str| {
        json!({"name": name, "namespace": "ml", "containers": [
            {"name": "main", "devices": [{"resourceName": resource, "deviceIds": [id]}]}]})
    };
    let list = json!({"podResources": [
        pod("train-0", "openshift.io/rail0", "0000:41:00.3"),
        pod("train-1", "openshift.io/rail0", "0000:41:00.4"),
        pod("shared", "rdma/hca_shared", "17"),
        pod("gpu", "nvidia.com/gpu", "GPU-1")]});
    for (method, answer) in [("List", list), ("GetAllocatableResources", json!({}))] {
        let method = method.to_owned();
        let answer = Answer::Bytes(answer.to_string().into_bytes().into());
        archive.answer(Question::Kubelet { method }, answer).unwrap();
    }
    // It has moved into the pod's network namespace.
    assert!(archive.remove("sys/class/infiniband/mlx5_3"));
    let (_folder, root) = archive.open().unwrap();
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

#[test]
fn a_port_has_its_pod_and_pods_of_other_devices_are_listed() {
    let node = with_pods();
    let text = written(|out| devices::text(out, &node).unwrap());
    let cell = |device: &str| row(&text, device).pop().unwrap();
    assert_eq!(
        (
            cell("DEVICE").as_str(),
            cell("mlx5_2").as_str(),
            cell("mlx5_1").as_str()
        ),
        ("POD", "ml/train-0", "-")
    );
    let below = "\nDevices of pods that this list does not show:\n  0000:41:00.4 (openshift.io/rail0): ml/train-1\n  \
        any device of rdma/hca_shared: ml/shared\n";
    assert!(text.ends_with(below), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&written(|out| devices::json(out, &node).unwrap())).unwrap();
    let rows = json["devices"].as_array().unwrap();
    let with = rows.iter().find(|row| row["device"] == "mlx5_2").unwrap();
    assert_eq!(
        with["containers"],
        json!([{"namespace": "ml", "pod": "train-0", "container": "main"}])
    );
    assert_eq!(json["shared"][0]["pod"], "shared");
    let without = written(|out| devices::text(out, &read("connectx6-vfs")).unwrap());
    assert!(!without.contains("POD") && !without.contains("pods"), "{without}");
}

#[test]
fn devices_are_also_json() {
    let json = written(|out| devices::json(out, &read("h100-connectx7")).unwrap());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let first = &json["devices"][0];
    assert_eq!(first["device"], "mlx5_0");
    assert_eq!(first["rate"], 400_000_000_000_u64);
    assert_eq!(first["gid"]["index"], 3);
    assert_eq!(first["model"], "ConnectX-7");
}

#[test]
fn devices_that_could_not_be_read_are_not_reported_as_none() {
    let mut node = read("h100-connectx7");
    let unread = Unread {
        source: "/sys/class/infiniband".into(),
        kind: UnreadKind::Hung,
        detail: "reading it has not finished for 5 s".into(),
    };
    node.facts.hcas = Fact::Unread {
        unread: Box::new(unread),
    };
    let text = written(|out| devices::text(out, &node).unwrap());
    assert!(
        text.starts_with("RDMA devices could not be read: /sys/class/infiniband: "),
        "{text}"
    );
}

#[test]
fn a_device_without_ports_has_a_line() {
    let mut node = read("h100-connectx7");
    let Fact::Known(hcas) = &mut node.facts.hcas else {
        panic!("no devices");
    };
    Arc::make_mut(hcas.get_mut("mlx5_2").unwrap()).ports.clear();
    let text = written(|out| devices::text(out, &node).unwrap());
    let line = row(&text, "mlx5_2").join(" ");
    assert!(line.starts_with("mlx5_2 - 0000:"), "{line}");
    assert!(line.contains("no ports"), "{line}");
}

#[test]
fn every_gpu_gets_a_nic_below_its_own_switch() {
    let text = written(|out| topology::text(out, &read("h100-connectx7")).unwrap());
    let rows: Vec<Vec<_>> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    for gpu in 0..8 {
        let nic = format!("mlx5_{gpu}");
        let name = format!("GPU{gpu}");
        let row = rows
            .iter()
            .find(|row| row.first() == Some(&name.as_str()))
            .unwrap();
        assert_eq!(row[1 + gpu], "X", "{text}");
        assert_eq!(row[9 + gpu], "PIX", "{text}");
        assert!(row.contains(&nic.as_str()), "best NIC of {name}: {text}");
    }
}

#[test]
fn what_disturbs_the_path_to_the_best_nic_is_named() {
    let broken = written(|out| topology::text(out, &read("connectx7-gpu")).unwrap());
    assert!(
        broken.contains(
            "GPU0 to mlx5_0: ACS redirects peer-to-peer traffic at 0000:17:00.0; the IOMMU translates"
        ),
        "{broken}"
    );
    let sound = written(|out| topology::text(out, &read("connectx7-gpu-mended")).unwrap());
    assert!(!sound.contains("GPU0 to"), "{sound}");
}

#[test]
fn the_drawing_has_a_box_for_each_end_and_only_shared_bridges() {
    let svg = topology::svg(&read("h100-connectx7"));
    assert_eq!(svg.matches("class=\"gpu\"").count(), 8, "{svg}");
    assert_eq!(svg.matches("class=\"active\"").count(), 9, "{svg}");
    // Four switches, each with two GPUs and two NICs.
    assert_eq!(svg.matches(">PCIe bridge ").count(), 4, "{svg}");
    assert_eq!(svg.matches(">NUMA node ").count(), 2, "{svg}");
}

#[test]
fn a_name_that_is_wider_than_its_box_is_cut_in_the_drawing() {
    let mut node = read("h100-connectx7");
    Arc::make_mut(&mut node.host).hostname = Fact::Known("n".repeat(100_000));
    let svg = topology::svg(&node);
    let widest = svg
        .split("<text")
        .skip(1)
        .map(|text| {
            text.rsplit_once("</title>")
                .map_or(text, |(_, shown)| shown)
                .len()
        })
        .max();
    assert!(widest < Some(1000), "{widest:?}");
}

fn json(node: &Node) -> serde_json::Value {
    serde_json::from_str(&written(|out| topology::json(out, node).unwrap())).unwrap()
}

#[test]
fn a_bridge_that_redirects_is_drawn() {
    let [redirecting, sound] =
        ["connectx7-gpu", "connectx7-gpu-mended"].map(|fixture| topology::svg(&read(fixture)));
    assert!(redirecting.contains(">ACS at 0000:17:00.0<"), "{redirecting}");
    assert!(!sound.contains("ACS"), "{sound}");
}

#[test]
fn json_has_what_the_text_has() {
    let node = read("h100-connectx7");
    let json = json(&node);
    let text = written(|out| topology::text(out, &node).unwrap());
    let nic = json["nics"]
        .as_array()
        .unwrap()
        .iter()
        .find(|nic| nic["names"][0] == "mlx5_2")
        .unwrap();
    assert_eq!(nic["numa_node"], 0);
    assert_eq!(nic["model"], "ConnectX-7");
    assert_eq!(nic["netdevs"], json!(["ens3f0np0"]));
    assert_eq!(nic["ports"][0]["state"], "ACTIVE");
    assert_eq!(nic["ports"][0]["rate"], 400_000_000_000_u64);
    assert_eq!(nic["bridges"].as_array().unwrap().len(), 3, "{nic:#}");
    assert!(row(&text, "mlx5_2").contains(&"ens3f0np0".to_owned()), "{text}");
    let gpu = &json["gpus"][3];
    assert_eq!(
        (&gpu["name"], &gpu["function"]["model"]),
        (&json!("GPU3"), &json!("H100"))
    );
    // Each bridge of the text is in the JSON, with its ACS.
    let json = self::json(&read("connectx7-gpu"));
    let text = written(|out| topology::text(out, &read("connectx7-gpu")).unwrap());
    let bridge = json["bridges"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["address"] == "0000:17:00.0")
        .unwrap();
    assert_eq!(bridge["acs_redirects"], true);
    assert!(
        row(&text, "0000:17:00.0").contains(&"redirects".to_owned()),
        "{text}"
    );
}

#[test]
fn virtual_functions_are_shown() {
    let node = read("connectx6-vfs");
    let text = written(|out| topology::text(out, &node).unwrap());
    assert_eq!(row(&text, "mlx5_1")[1], "mlx5_0", "{text}");
    let json = json(&node);
    let all = json["virtual_functions"].as_array().unwrap();
    assert_eq!(all.len(), 3, "{json:#}");
    assert_eq!(all[0]["physical_function"], "0000:41:00.0");
    assert_eq!(all[0]["names"], json!(["mlx5_1"]));
    assert_eq!(json["nics"].as_array().unwrap().len(), 1);
}

#[test]
fn a_virtual_function_is_a_nic_where_its_physical_function_is_none() {
    // A pod with an RDMA namespace of its own sees the devices that it was given, and the PCI functions of the node.
    let mut archive = Tree::fixture("connectx6-vfs").unwrap();
    assert!(archive.remove("sys/class/infiniband/mlx5_0"));
    let (_folder, root) = archive.open().unwrap();
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    let json = json(&Node::new(collector.facts()));
    let nics = json["nics"].as_array().unwrap();
    assert_eq!(
        (nics.len(), &nics[0]["names"]),
        (3, &json!(["mlx5_1"])),
        "{json:#}"
    );
    assert_eq!(json["virtual_functions"], json!([]));
}

#[test]
fn json_has_each_pair_once() {
    let json = written(|out| topology::json(out, &read("h100-connectx7")).unwrap());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["distances"].as_array().unwrap().len(), 17 * 16 / 2);
    assert_eq!(json["gpus"][3]["best_nic"], "0000:34:00.0");
}
