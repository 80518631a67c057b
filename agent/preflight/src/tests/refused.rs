//! Pods that were refused, by the SCC or by the network.

use super::*;

#[test]
fn an_account_without_scc_gets_the_command_that_grants_one() {
    let mut cluster = cluster();
    cluster
        .scc_use
        .values_mut()
        .for_each(|allowed| *allowed = Ok(false));
    let report = run(&cluster);
    let found = one(&report, "scc-missing");
    assert!(
        found
            .summary
            .contains("h-kim-sa may not use any SCC that allows capability IPC_LOCK"),
        "{found:?}"
    );
    assert_eq!(found.evidence, ["SCCs that allow it: nccl-scc, privileged"]);
    assert!(
        found
            .remedy
            .ends_with("oc adm policy add-scc-to-user nccl-scc -z h-kim-sa -n team-a"),
        "{found:?}"
    );
    // The SCC itself can name the account or a group.
    for (field, name) in [
        ("users", "system:serviceaccount:team-a:h-kim-sa"),
        ("groups", "system:serviceaccounts:team-a"),
    ] {
        let mut cluster = cluster.clone();
        read(&mut cluster.sccs)[2][field] = json!([name]);
        assert_eq!(run(&cluster).exit_status(), 0, "{field}");
    }
    // No SCC is sufficient.
    read(&mut cluster.sccs).truncate(1);
    let report = run(&cluster);
    assert!(
        one(&report, "scc-missing")
            .remedy
            .contains("create the SCC rdma-ipc-lock like restricted-v2 with allowedCapabilities: [IPC_LOCK]"),
        "{report:#?}"
    );
    // Not on OpenShift.
    cluster.sccs = Listed::NotInstalled;
    assert_eq!(run(&cluster).exit_status(), 0);
}

#[test]
fn events_of_refused_pods_are_explained() {
    for (message, rule, words) in [
        (
            REFUSED,
            // The event is evidence of what the specification shows.
            "scc-missing",
            "h-kim-sa may not use any SCC that allows capability IPC_LOCK",
        ),
        (
            "pods \"h-kim-0\" is forbidden: violates PodSecurity \"restricted:latest\": unrestricted capabilities (container \
             \"job\" must not include \"IPC_LOCK\" in securityContext.capabilities.add)",
            "refused-by-pod-security",
            "PodSecurity",
        ),
        (
            "create Pod h-kim-1 in StatefulSet h-kim failed error: pods \"h-kim-1\" is forbidden: exceeded quota: gpus, \
             requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
            "refused-by-quota",
            "quota",
        ),
        (
            "create Pod h-kim-0 in StatefulSet h-kim failed error: pods \"h-kim-0\" is forbidden: error looking up service \
             account team-a/h-kim-sa: serviceaccount \"h-kim-sa\" not found",
            "service-account-missing",
            "does not exist",
        ),
    ] {
        let mut cluster = cluster();
        match rule {
            "scc-missing" => cluster
                .scc_use
                .values_mut()
                .for_each(|allowed| *allowed = Ok(false)),
            "service-account-missing" => cluster.service_accounts = Listed::Read(Vec::new()),
            _ => {}
        }
        read(&mut cluster.events).extend([
            event("StatefulSet", "h-kim", message),
            event("StatefulSet", "h-kim", message),
        ]);
        let report = run(&cluster);
        let found = one(&report, rule);
        assert!(found.summary.contains(words), "{found:?}");
        assert_eq!(found.severity, Severity::Critical, "{found:?}");
        // Of a Deployment, through its ReplicaSet.
        let mut replaced = cluster.clone();
        set_job(&mut replaced, |job| job["kind"] = "Deployment".into());
        replaced.events = Listed::Read(vec![event("ReplicaSet", "h-kim-7c9f", message)]);
        one(&run(&replaced), rule);
        // The pods exist now: the event is old.
        let mut cluster = Cluster {
            events: cluster.events,
            ..self::cluster()
        };
        set_job(&mut cluster, |job| job["status"]["replicas"] = 2.into());
        assert_eq!(run(&cluster).exit_status(), 0, "{rule}");
    }
}

#[test]
fn events_about_the_network_of_a_pod_are_explained_while_it_waits() {
    let message = "Failed to create pod sandbox: … SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required";
    let mut cluster = cluster();
    read(&mut cluster.events).push(event("Pod", "h-kim-0", message));
    assert_eq!(run(&cluster).exit_status(), 0, "the pod is gone");
    let mut pod = pending("");
    pod["status"] = json!({"phase": "Pending"});
    read(&mut cluster.pods).push(pod);
    let report = run(&cluster);
    assert!(
        one(&report, "attachment-without-resource")
            .summary
            .contains("got no device"),
        "{report:#?}"
    );
}
