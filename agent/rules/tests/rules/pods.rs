//! What the kubelet says of pods and their devices.

use rdma_health_kernel::recording::{Answer, Question};
use rdma_health_node::pods::Allocation;
use serde_json::{Value, json};

use super::*;

/// The node with four virtual functions of `mlx5_0`, where the kubelet answers this.
fn answering(list: &Value, allocatable: &Value, change: impl FnOnce(&mut Tree)) -> Node {
    let mut archive = Tree::fixture("connectx6-vfs").unwrap();
    change(&mut archive);
    for (method, answer) in [("List", list), ("GetAllocatableResources", allocatable)] {
        let method = method.to_owned();
        let bytes = answer.to_string().into_bytes().into();
        archive
            .answer(Question::Kubelet { method }, Answer::Bytes(bytes))
            .unwrap();
    }
    let (_folder, root) = archive.open().unwrap();
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

/// A list with one pod for each of these resources with the ids of devices.
fn pods(given: &[(&str, &str, &[&str])]) -> Value {
    let pod = |(name, resource, ids): &(&str, &str, &[&str])| {
        json!({"name": name, "namespace": "ml", "containers": [
            {"name": "main", "devices": [{"resourceName": resource, "deviceIds": ids}]}]})
    };
    json!({"podResources": given.iter().map(pod).collect::<Vec<_>>()})
}

fn vfs(ids: &[&str]) -> Value {
    json!({"devices": [{"resourceName": "openshift.io/rail0", "deviceIds": ids},
        {"resourceName": "nvidia.com/gpu", "deviceIds": ["GPU-1"]}]})
}

fn down(tree: &mut Tree) {
    set(tree, "/mlx5_0/ports/1/state", "1: DOWN");
    set(tree, "/mlx5_0/ports/1/phys_state", "3: Disabled");
}

const VF: &str = "0000:41:00.3";

#[test]
fn functions_that_pods_can_get_while_the_port_is_down_are_counted() {
    let rule = "vf-port-down";
    let offered = vfs(&["0000:41:00.2", VF, "0000:41:00.4"]);
    let idle = answering(&pods(&[]), &offered, down);
    assert_eq!(of(&idle, &auto(), rule), ["mlx5_0:1 warning"]);
    assert_eq!(
        message(&idle, &auto(), rule),
        "mlx5_0:1 is DOWN, expected ACTIVE: pods can get 3 virtual functions of 0000:41:00.0 (openshift.io/rail0)"
    );
    let used = answering(&pods(&[("train-0", "openshift.io/rail0", &[VF])]), &offered, down);
    assert!(message(&used, &auto(), rule).ends_with("(openshift.io/rail0), 1 of them in use by pods"));
    // A kubelet before 1.28 may only list pods.
    let old = answering(
        &pods(&[("train-0", "openshift.io/rail0", &[VF])]),
        &json!({}),
        down,
    );
    assert_eq!(of(&old, &auto(), rule), ["mlx5_0:1 warning"]);
    for sound in [
        answering(&pods(&[]), &offered, |_| {}),
        answering(&pods(&[]), &vfs(&[]), down),
        answering(&pods(&[]), &vfs(&["0000:99:00.1", "7"]), down),
        node("connectx6-vfs", down),
    ] {
        assert_eq!(of(&sound, &auto(), rule), [""; 0]);
    }
}

#[test]
fn a_finding_names_the_pods_that_have_the_device() {
    let given = pods(&[
        ("train-0", "openshift.io/rail0", &[VF]),
        ("train-1", "openshift.io/rail0", &["0000:41:00.4"]),
        ("infer", "nvidia.com/gpu", &["GPU-1"]),
    ]);
    let node = answering(&given, &vfs(&[VF]), |tree| {
        down(tree);
        set(tree, "/mlx5_2/node_guid", "0000:0000:0000:0000");
    });
    let finding = |rule| findings(&node, &auto(), rule).remove(0);
    assert_eq!(finding("vf-port-down").pods, ["ml/train-0", "ml/train-1"]);
    let guid = finding("vf-guid-zero");
    assert_eq!(guid.pods, ["ml/train-0"]);
    assert!(guid.message_with_pods().ends_with("; used by pod ml/train-0"));
}

#[test]
fn devices_are_known_by_the_names_that_plugins_and_drivers_use() {
    let claim = |driver: &str, device: &str| {
        json!({"name": device, "namespace": "ml", "containers": [{"name": "main", "dynamicResources": [
            {"claimName": "c", "claimNamespace": "ml", "claimResources": [
                {"driverName": driver, "poolName": "node-1", "deviceName": device}]}]}]})
    };
    let plugin = |id: &str| pods(&[("pod", "example.com/rdma", &[id])])["podResources"][0].clone();
    let one = |pod: Value| {
        let node = answering(&json!({"podResources": [pod]}), &json!({}), |_| {});
        let found: Vec<_> = node
            .allocations()
            .iter()
            .map(|one: &Allocation<'_>| one.address.to_owned())
            .collect();
        found
    };
    for known in [
        plugin(VF),
        plugin("mlx5_2"),
        plugin("ens1f0v1"),
        plugin("0000:41:00.3::2"),
        claim("sriovnetwork.k8snetworkplumbingwg.io", "0000-41-00-3"),
        claim("dra.net", "pci-0000-41-00-3"),
        claim("dra.net", "ens1f0v1"),
    ] {
        assert_eq!(one(known.clone()), [VF], "{known}");
    }
    for unknown in ["", "7", "pci-", "0000:41:00", "GPU-1", "::"] {
        assert_eq!(one(plugin(unknown)), [""; 0], "{unknown}");
    }
    let shared = answering(
        &pods(&[
            ("a", "rdma/hca_shared", &["3", "7"]),
            ("b", "nvidia.com/gpu", &["1"]),
        ]),
        &json!({}),
        |_| {},
    );
    let shared: Vec<_> = shared
        .shared_uses()
        .iter()
        .map(|one| (one.container.pod, one.resource))
        .collect();
    assert_eq!(shared, [("a", "rdma/hca_shared")]);
}

#[test]
fn a_kubelet_that_hangs_is_information_and_hides_no_problem() {
    let unread = rdma_health_node::Unread {
        source: "kubelet List".into(),
        kind: rdma_health_node::UnreadKind::Hung,
        detail: "the kubelet did not answer within 2s".into(),
    };
    let mut node = node("connectx6-vfs", |_| {});
    let before = judge(&node, &auto()).status;
    let status = Arc::make_mut(node.sources.get_mut("kubelet").unwrap());
    status.unread.push(unread);
    assert_eq!(of(&node, &auto(), "facts-unreadable"), ["node info"]);
    assert_eq!(judge(&node, &auto()).status, before);
}
