//! Containers: those that do not run, those that may not open devices or lock memory, and values outside of a limit range.

use super::*;

/// A pod of the job that has a node.
fn assigned(status: &Value) -> Value {
    let mut pod = pending("");
    pod["spec"]["nodeName"] = "gpu-01".into();
    pod["status"] = status.clone();
    pod
}

#[test]
fn a_container_that_does_not_run_is_not_a_pass() {
    for (field, reason, message, severity, words) in [
        (
            "containerStatuses",
            "ImagePullBackOff",
            "Back-off pulling image",
            Severity::Critical,
            "name of the image",
        ),
        (
            "containerStatuses",
            "CreateContainerError",
            "x",
            Severity::Critical,
            "the message names",
        ),
        (
            "initContainerStatuses",
            "CreateContainerConfigError",
            "secret \"s\" not found",
            Severity::Critical,
            "ConfigMap or Secret",
        ),
        (
            "containerStatuses",
            "SomethingNew",
            "",
            Severity::Critical,
            "kubectl -n team-a describe pod h-kim-0",
        ),
        (
            "containerStatuses",
            "CrashLoopBackOff",
            "",
            Severity::Warning,
            "kubectl -n team-a logs h-kim-0 --previous",
        ),
    ] {
        let mut cluster = cluster();
        let waiting = json!([{"name": "job", "state": {"waiting": {"reason": reason, "message": message}}}]);
        let phase = if reason == "CrashLoopBackOff" {
            "Running"
        } else {
            "Pending"
        };
        let mut status = json!({"phase": phase});
        status[field] = waiting;
        let mut second = assigned(&status);
        second["metadata"]["name"] = "h-kim-1".into();
        read(&mut cluster.pods).extend([assigned(&status), second]);
        let report = run(&cluster);
        let found = one(&report, "container-waiting");
        assert_eq!(
            (found.severity, found.subject.as_str()),
            (severity, "Pod team-a/h-kim-0")
        );
        assert!(
            found.evidence[0].contains(reason) && found.evidence[0].contains(message),
            "{found:?}"
        );
        assert!(found.evidence[1].contains("h-kim-0, h-kim-1"), "{found:?}");
        assert!(found.remedy.contains(words), "{found:?}");
    }
    for normal in ["ContainerCreating", "PodInitializing"] {
        let mut cluster = cluster();
        let waiting = json!([{"name": "job", "state": {"waiting": {"reason": normal}}}]);
        read(&mut cluster.pods).push(assigned(
            &json!({"phase": "Pending", "containerStatuses": waiting}),
        ));
        assert_eq!(run(&cluster).exit_status(), 0, "{normal}");
    }
}

/// What the device plugins know of a message is known of a container's message, too.
#[test]
fn a_known_message_of_a_container_is_explained() {
    let mut cluster = cluster();
    let waiting =
        json!({"reason": "CreateContainerError", "message": "x: cannot allocate unhealthy devices y"});
    let status =
        json!({"phase": "Pending", "containerStatuses": [{"name": "job", "state": {"waiting": waiting}}]});
    read(&mut cluster.pods).push(assigned(&status));
    assert!(one(&run(&cluster), "device-plugin-failed").evidence[0].contains("CreateContainerError"));
}

#[test]
fn a_gate_is_not_a_lack_of_nodes() {
    for (gate, words) in [
        ("kueue.x-k8s.io/admission", "workloads.kueue.x-k8s.io"),
        ("example.com/wait", "the gate names"),
    ] {
        let mut cluster = cluster();
        let mut pod = pending("Scheduling is blocked due to non-empty scheduling gates");
        pod["spec"]["schedulingGates"] = json!([{"name": gate}]);
        pod["status"]["conditions"][0]["reason"] = "SchedulingGated".into();
        read(&mut cluster.pods).push(pod);
        let report = run(&cluster);
        let found = one(&report, "pod-gated");
        assert_eq!(found.severity, Severity::Warning);
        assert!(
            found.evidence[0].contains(gate) && found.remedy.contains(words),
            "{found:?}"
        );
        assert!(
            report.findings.iter().all(|one| one.rule != "pod-pending"),
            "{report:#?}"
        );
    }
}

/// The path, a change of the job, and whether the devices cannot be opened.
type Case = (&'static str, fn(&mut Value), bool);

/// The device cgroup decides, not the file.
#[test]
fn the_device_files_of_the_node_need_a_right() {
    let cases: [Case; 6] = [
        ("/dev/infiniband", |_| {}, true),
        ("/dev/", |_| {}, true),
        ("/dev/infiniband/uverbs0", |_| {}, true),
        ("/data", |_| {}, false),
        (
            "/dev/infiniband",
            |job| pod_spec(job)["containers"][0]["securityContext"]["privileged"] = true.into(),
            false,
        ),
        (
            "/dev/infiniband",
            |job| {
                pod_spec(job)["containers"][0]["resources"]["limits"] = json!({"rdma/hca": "1"});
            },
            false,
        ),
    ];
    for (path, change, is_refused) in cases {
        let mut cluster = cluster();
        set_job(&mut cluster, |job| {
            job["spec"]["template"]["metadata"].take();
            let spec = pod_spec(job);
            spec["volumes"] = json!([{"name": "ib", "hostPath": {"path": path}}]);
            spec["containers"][0]["volumeMounts"] = json!([{"name": "ib", "mountPath": "/dev/infiniband"}]);
            spec["containers"][0]["resources"] = json!({});
            change(job);
        });
        let report = run(&cluster);
        let refused = report
            .findings
            .iter()
            .any(|one| one.rule == "device-files-without-right");
        assert_eq!(refused, is_refused, "{path}: {report:#?}");
    }
    // It is a pod for RDMA, also for the limit of locked memory.
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        job["spec"]["template"]["metadata"].take();
        let spec = pod_spec(job);
        spec["volumes"] = json!([{"name": "ib", "hostPath": {"path": "/dev/infiniband"}}]);
        spec["containers"] =
            json!([{"name": "job", "volumeMounts": [{"name": "ib", "mountPath": "/dev/infiniband"}]}]);
    });
    read(&mut cluster.nodes)[1]["status"]["conditions"] =
        json!([{"type": "RDMALimitsProblem", "status": "True", "message": "8 MiB"}]);
    one(&run(&cluster), "memlock-low");
}

#[test]
fn a_capability_belongs_to_one_container() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        let containers = &mut pod_spec(job)["containers"];
        containers[0]["securityContext"]["capabilities"].take();
        let sidecar = json!({"name": "sidecar", "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}, "runAsUser": 0}});
        containers.as_array_mut().unwrap().push(sidecar);
    });
    read(&mut cluster.nodes)[1]["status"]["conditions"] =
        json!([{"type": "RDMALimitsProblem", "status": "True", "message": "8 MiB"}]);
    let report = run(&cluster);
    let found = one(&report, "memlock-low");
    assert!(
        found
            .summary
            .contains("container job uses RDMA and does not add IPC_LOCK"),
        "{found:?}"
    );
    let mut cluster = self::cluster();
    set_job(&mut cluster, |job| {
        pod_spec(job)["containers"][0]["securityContext"]["capabilities"]["add"] = json!(["CAP_IPC_LOCK"]);
    });
    let report = run(&cluster);
    assert!(
        one(&report, "capability-prefix").remedy.contains("IPC_LOCK"),
        "{report:#?}"
    );
}

#[test]
fn a_limit_range_refuses_what_is_outside() {
    for (kind, range, limits, refused) in [
        (
            "Container",
            json!({"max": {"memory": "4Gi"}}),
            json!({"memory": "64Gi"}),
            Some("memory"),
        ),
        (
            "Container",
            json!({"max": {"memory": "64Gi"}}),
            json!({"memory": "64Gi"}),
            None,
        ),
        (
            "Container",
            json!({"min": {"cpu": "2"}}),
            json!({"cpu": "500m"}),
            Some("cpu"),
        ),
        ("Container", json!({"max": {"cpu": "2"}}), json!({}), None),
        (
            "Pod",
            json!({"max": {"cpu": "2"}}),
            json!({"cpu": "3"}),
            Some("cpu"),
        ),
        (
            "PersistentVolumeClaim",
            json!({"max": {"cpu": "2"}}),
            json!({"cpu": "3"}),
            None,
        ),
    ] {
        let mut cluster = cluster();
        let mut limit = range.clone();
        limit["type"] = kind.into();
        cluster.limit_ranges = Listed::Read(vec![
            json!({"metadata": {"name": "team"}, "spec": {"limits": [limit]}}),
        ]);
        set_job(&mut cluster, |job| {
            let own = &mut pod_spec(job)["containers"][0]["resources"]["limits"];
            for (name, number) in limits.as_object().unwrap() {
                own[name] = number.clone();
            }
        });
        let report = run(&cluster);
        match refused {
            Some(resource) => {
                let found = one(&report, "limit-range-exceeded");
                assert!(
                    found.summary.contains(resource) && found.summary.contains("LimitRange team"),
                    "{found:?}"
                );
            }
            None => assert_eq!(report.exit_status(), 0, "{kind} {range}: {report:#?}"),
        }
    }
    let mut cluster = cluster();
    cluster.limit_ranges = Listed::NotRead("forbidden".into());
    assert_eq!(run(&cluster).exit_status(), 3);
}

/// The specification and the event about it have one cause and one remedy.
#[test]
fn an_event_about_a_known_refusal_is_its_evidence() {
    let mut cluster = cluster();
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    read(&mut cluster.namespace_object)[0]["metadata"]["labels"] = labels;
    let message =
        "pods \"h-kim-0\" is forbidden: violates PodSecurity \"baseline:latest\": non-default capabilities";
    read(&mut cluster.events).push(event("StatefulSet", "h-kim", message));
    let report = run(&cluster);
    assert_eq!(report.findings.len(), 1, "{report:#?}");
    let found = one(&report, "pod-security");
    assert!(
        found.evidence.iter().any(|line| line.contains(message)),
        "{found:?}"
    );
}

/// A network that needs a device makes it a pod for RDMA, whatever its containers request.
#[test]
fn a_pod_without_requests_and_capability_gets_both_reports() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        let container = &mut pod_spec(job)["containers"][0];
        container["resources"] = json!({});
        container["securityContext"].take();
    });
    for node in read(&mut cluster.nodes) {
        node["status"]["conditions"].take();
    }
    let report = run(&cluster);
    one(&report, "resource-not-requested");
    let found = one(&report, "memlock-unknown");
    assert!(
        found.evidence[0].contains("the rdma-health agent does not run there"),
        "{found:?}"
    );
}

#[test]
fn a_refused_pod_counts_as_checked() {
    let mut cluster = cluster();
    cluster.controllers.clear();
    let mut pod = pending("");
    pod["metadata"]["ownerReferences"].take();
    pod["status"] = json!({
        "phase": "Failed", "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to requested number of devices unavailable for openshift.io/x",
    });
    read(&mut cluster.pods).push(pod);
    let report = run(&cluster);
    one(&report, "device-plugin-failed");
    assert_eq!(report.checked(false), "checked Pod team-a/h-kim-0");
}

#[test]
fn a_shared_resource_comes_from_its_own_plugin() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        for kind in ["requests", "limits"] {
            pod_spec(job)["containers"][0]["resources"][kind]["rdma/hca_shared_devices_a"] = "1".into();
        }
    });
    let report = run(&cluster);
    let found = one(&report, "resource-unknown");
    assert!(found.remedy.contains("k8s-rdma-shared-dev-plugin"), "{found:?}");
    assert!(!found.remedy.contains("SriovNetworkNodePolicy"), "{found:?}");
}
