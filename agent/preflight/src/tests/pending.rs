//! Pods that the scheduler cannot place.

use super::*;

#[test]
fn a_pending_pod_is_explained_by_who_holds_the_devices() {
    let mut cluster = cluster();
    read(&mut cluster.pods).push(pending(INSUFFICIENT));
    let mut usage = Usage::default();
    let holder = json!({
        "metadata": {"namespace": "team-b", "name": "train-0"},
        "spec": {"nodeName": "gpu-01", "containers": [{"resources": {"limits": {"openshift.io/eno5np0rdma": "4"}}}]},
        "status": {"phase": "Running"},
    });
    let mut ended = holder.clone();
    ended["metadata"]["name"] = "ended".into();
    ended["status"]["phase"] = "Succeeded".into();
    usage.add(&holder);
    usage.add(&ended);
    cluster.usage = Some(Ok(usage));
    let report = run(&cluster);
    let found = one(&report, "pod-pending");
    assert_eq!(found.subject, "Pod team-a/h-kim-0");
    assert!(
        found
            .summary
            .contains("every openshift.io/eno5np0rdma that it could use is taken"),
        "{found:?}"
    );
    assert!(
        found.evidence.contains(&format!("scheduler: {INSUFFICIENT}")),
        "{found:?}"
    );
    assert!(
        found.evidence.contains(&"held by: team-b/train-0".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_pending_pod_is_explained_by_a_resource_that_no_node_has() {
    let mut cluster = cluster();
    let mut wrong = pending("0/1 nodes are available: 1 Insufficient openshift.io/eno5np0.");
    for kind in ["requests", "limits"] {
        let devices = &mut wrong["spec"]["containers"][0]["resources"][kind];
        devices
            .as_object_mut()
            .unwrap()
            .remove("openshift.io/eno5np0rdma");
        devices["openshift.io/eno5np0"] = "1".into();
    }
    read(&mut cluster.pods).push(wrong);
    let report = run(&cluster);
    let found = one(&report, "pod-pending");
    assert!(
        found
            .summary
            .ends_with("no node has the resource openshift.io/eno5np0"),
        "{found:?}"
    );
    assert!(found.remedy.contains("openshift.io/eno5np0rdma"), "{found:?}");
    // A plugin that found no healthy device.
    let mut cluster = self::cluster();
    for node in read(&mut cluster.nodes) {
        node["status"]["allocatable"]["openshift.io/eno5np0rdma"] = "0".into();
    }
    read(&mut cluster.pods).push(pending(INSUFFICIENT));
    let report = run(&cluster);
    assert!(
        one(&report, "pod-pending").summary.contains("have 0 of it"),
        "{report:#?}"
    );
    one(&report, "resource-empty");
}
