//! Whether all pods find their devices, and whose devices are in use.

use super::*;

/// A running pod of the job.
fn running(name: &str, node: &str, owner: (&str, &str)) -> Value {
    let mut pod = job()["spec"]["template"].clone();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["namespace"] = "team-a".into();
    pod["metadata"]["ownerReferences"] = json!([{"kind": owner.0, "name": owner.1, "controller": true}]);
    pod["spec"]["nodeName"] = node.into();
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn run_pods(cluster: &mut Cluster, pods: &[Value]) {
    read(&mut cluster.pods).extend(pods.to_vec());
    let mut usage = Usage::default();
    for pod in pods {
        usage.add(pod);
    }
    cluster.usage = Some(Ok(usage));
}

#[test]
fn a_job_that_runs_is_not_in_its_own_way() {
    for (kind, owner) in [
        ("StatefulSet", ("StatefulSet", "h-kim")),
        ("Deployment", ("ReplicaSet", "h-kim-7c9f")),
        ("JobSet", ("Job", "h-kim-workers-0")),
    ] {
        let mut cluster = cluster();
        set_job(&mut cluster, |job| job["kind"] = kind.into());
        let of_jobset = json!({
            "kind": "Job",
            "metadata": {
                "name": "h-kim-workers-0",
                "ownerReferences": [{"kind": "JobSet", "name": "h-kim", "controller": true}],
            },
            "spec": {"parallelism": 2, "template": job()["spec"]["template"]},
        });
        cluster
            .controllers
            .insert("jobs".into(), Listed::Read(vec![of_jobset]));
        let pods = [
            running("h-kim-0", "gpu-01", owner),
            running("h-kim-1", "gpu-02", owner),
        ];
        run_pods(&mut cluster, &pods);
        let report = run(&cluster);
        let about: Vec<_> = report
            .findings
            .iter()
            .filter(|one| one.subject.contains("team-a/h-kim"))
            .collect();
        assert!(
            about.iter().all(|one| !one.subject.ends_with("/h-kim")),
            "{kind}: {about:#?}"
        );
    }
    // Checked from a manifest, it runs as well.
    let mut cluster = cluster();
    let owner = ("StatefulSet", "h-kim");
    run_pods(
        &mut cluster,
        &[
            running("h-kim-0", "gpu-01", owner),
            running("h-kim-1", "gpu-02", owner),
        ],
    );
    let manifest = Workload::in_object(&job(), "team-a", false);
    assert_eq!(preflight(&cluster, Some(&manifest)).findings, []);
}

#[test]
fn devices_of_others_are_in_use_and_own_pods_are_not_named() {
    let mut cluster = cluster();
    let own = running("h-kim-0", "gpu-01", ("StatefulSet", "h-kim"));
    let other = running("other-0", "gpu-02", ("StatefulSet", "other"));
    run_pods(&mut cluster, &[own, other]);
    let report = run(&cluster);
    let found = report
        .findings
        .iter()
        .find(|one| one.subject == "StatefulSet team-a/h-kim")
        .unwrap();
    assert_eq!(
        (found.rule, found.severity),
        ("resources-in-use", Severity::Warning)
    );
    assert!(
        found
            .evidence
            .contains(&"nvidia.com/gpu is held by: team-a/other-0".to_owned()),
        "{found:?}"
    );
}

#[test]
fn all_pods_of_a_workload_must_find_room() {
    let many = |pods: u64| {
        let mut cluster = cluster();
        set_job(&mut cluster, |job| {
            job["spec"]["replicas"] = pods.into();
            pod_spec(job).as_object_mut().unwrap().remove("affinity");
            for kind in ["requests", "limits"] {
                pod_spec(job)["containers"][0]["resources"][kind]["nvidia.com/gpu"] = "4".into();
            }
        });
        cluster
    };
    // Two nodes with 8 GPUs and 4 virtual functions of each rail.
    assert_eq!(run(&many(4)).findings, []);
    let report = run(&many(50));
    let found = one(&report, "nodes-too-small");
    assert!(
        found
            .summary
            .starts_with("all nodes together have room for 4 of 50 pods"),
        "{found:?}"
    );
    assert_eq!(found.evidence[0], "gpu-01 has room for 2 pods");
    // Some of it is in use.
    let mut cluster = many(4);
    let mut other = running("other-0", "gpu-02", ("StatefulSet", "other"));
    other["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "3"}});
    run_pods(&mut cluster, &[other]);
    let report = run(&cluster);
    let found = report
        .findings
        .iter()
        .find(|one| one.rule == "resources-in-use")
        .unwrap();
    assert!(
        found
            .summary
            .ends_with("free for 3 pods now, but 4 have to start"),
        "{found:?}"
    );
    // The replica specs of a job count together.
    let mut cluster = self::cluster();
    let template = job()["spec"]["template"].clone();
    let specs = json!({"Master": {"template": template}, "Worker": {"replicas": 2, "template": template}});
    let object = json!({
        "kind": "PyTorchJob", "metadata": {"name": "t"}, "spec": {"pytorchReplicaSpecs": specs},
    });
    cluster.controllers = [("pytorchjobs".into(), Listed::Read(vec![object]))].into();
    let report = run(&cluster);
    assert!(
        one(&report, "nodes-too-few").summary.starts_with("3 pods"),
        "{report:#?}"
    );
    assert_eq!(report.workloads, ["PyTorchJob team-a/t"]);
}

#[test]
fn devices_of_an_init_container_are_not_those_of_the_job() {
    let to_init = |more: Value| {
        let mut cluster = cluster();
        set_job(&mut cluster, |job| {
            let spec = pod_spec(job);
            let resources = spec["containers"][0]["resources"].take();
            spec["initContainers"] = json!([{"name": "wait", "resources": resources}]);
            for (key, value) in more.as_object().unwrap() {
                spec["initContainers"][0][key] = value.clone();
            }
        });
        cluster
    };
    let report = run(&to_init(json!({})));
    let found = one(&report, "resource-not-requested");
    assert!(found.summary.contains("the containers request 0"), "{found:?}");
    assert!(
        found.evidence[1].starts_with("an init container requests more"),
        "{found:?}"
    );
    // A sidecar runs with the job.
    assert_eq!(run(&to_init(json!({"restartPolicy": "Always"}))).findings, []);
    // Without networks, only the name shows what the device is for.
    let mut cluster = to_init(json!({}));
    cluster
        .attachments
        .insert("team-a".into(), Listed::Read(Vec::new()));
    let Listed::Read(jobs) = cluster.controllers.get_mut("statefulsets").unwrap() else {
        panic!("no jobs");
    };
    jobs[0]["spec"]["template"]["metadata"].take();
    let report = run(&cluster);
    assert_eq!(
        one(&report, "resource-only-in-init-container").severity,
        Severity::Critical
    );
}

#[test]
fn values_that_the_api_server_refuses_are_found_before() {
    for (requests, limits, words) in [
        (
            json!({"openshift.io/eno5np0rdma": "1"}),
            json!({}),
            "in requests but not in limits",
        ),
        (
            json!({"openshift.io/eno5np0rdma": "1"}),
            json!({"openshift.io/eno5np0rdma": "2"}),
            "with different values in requests and limits",
        ),
        (
            json!({}),
            json!({"openshift.io/eno5np0rdma": "500m"}),
            "with a value that is not a whole number",
        ),
        (
            json!({}),
            json!({"openshift.io/eno5np0rdma": "many"}),
            "with a value that is not a whole number",
        ),
    ] {
        let mut cluster = cluster();
        set_job(&mut cluster, |job| {
            pod_spec(job)["containers"][0]["resources"] = json!({"requests": requests, "limits": limits});
        });
        let report = run(&cluster);
        let found = one(&report, "resource-invalid");
        assert!(found.summary.contains(words), "{found:?}");
    }
    for fine in [
        json!({"limits": {"openshift.io/eno5np0rdma": "1"}}),
        json!({"limits": {"openshift.io/eno5np0rdma": 1}, "requests": {"openshift.io/eno5np0rdma": "1"}}),
        json!({"limits": {"openshift.io/eno5np0rdma": "1000m", "cpu": "2"}, "requests": {"cpu": "500m"}}),
    ] {
        let mut cluster = cluster();
        set_job(&mut cluster, |job| {
            pod_spec(job)["containers"][0]["resources"] = fine.clone();
        });
        let report = run(&cluster);
        assert!(
            report.findings.iter().all(|one| one.rule != "resource-invalid"),
            "{report:#?}"
        );
    }
}

#[test]
fn node_affinity_excludes_nodes() {
    let affinity = |terms: Value| {
        let mut cluster = cluster();
        set_job(&mut cluster, |job| {
            pod_spec(job)["affinity"]["nodeAffinity"] =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        });
        run(&cluster)
    };
    let expression = |operator: &str, values: &[&str]| json!({"key": "kubernetes.io/hostname", "operator": operator, "values": values});
    let term = |one: Value| json!([{"matchExpressions": [one]}]);
    assert_eq!(
        affinity(term(expression("In", &["gpu-01", "gpu-02"]))).findings,
        []
    );
    assert_eq!(affinity(term(expression("Exists", &[]))).findings, []);
    let either = json!([
        {"matchExpressions": [expression("In", &["x"])]},
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}]},
    ]);
    assert_eq!(affinity(either).findings, []);
    let report = affinity(term(expression("NotIn", &["gpu-01"])));
    let found = one(&report, "nodes-too-few");
    assert_eq!(found.evidence, ["gpu-01: nodeAffinity kubernetes.io/hostname"]);
    one(&affinity(term(expression("Gt", &["1"]))), "nodes-excluded");
    one(&affinity(json!([{}])), "nodes-excluded");
}

#[test]
fn nodes_that_do_not_fit() {
    let rule = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = cluster();
        change(&mut cluster);
        let report = run(&cluster);
        assert_eq!(report.findings.len(), 1, "{report:#?}");
        report.findings[0].clone()
    };
    let gone = |node: &mut Value, name: &str| {
        let all = node["status"]["allocatable"].as_object_mut().unwrap();
        all.remove(name).unwrap();
    };
    let found = rule(&|cluster| {
        let nodes = read(&mut cluster.nodes);
        gone(&mut nodes[0], "openshift.io/eno5np0rdma");
        gone(&mut nodes[1], "nvidia.com/gpu");
    });
    assert_eq!(found.rule, "resources-on-different-nodes");
    let found = rule(&|cluster| gone(&mut read(&mut cluster.nodes)[0], "openshift.io/eno5np0rdma"));
    assert_eq!(found.rule, "nodes-too-few");
    let found = rule(&|cluster| read(&mut cluster.nodes)[0]["spec"]["unschedulable"] = true.into());
    assert_eq!(
        (found.rule, &found.evidence[..]),
        ("nodes-too-few", &["gpu-01: cordoned".to_owned()][..])
    );
    let found = rule(&|cluster| {
        set_job(cluster, |job| {
            pod_spec(job)["tolerations"].take();
        });
    });
    assert_eq!(found.rule, "nodes-excluded");
    assert_eq!(found.evidence[0], "gpu-01: taint nvidia.com/gpu");
    let found = rule(&|cluster| {
        let mut usage = Usage::default();
        for name in ["gpu-01", "gpu-02"] {
            let limits = json!({"nvidia.com/gpu": "1"});
            usage.add(&json!({
                "metadata": {"namespace": "team-b", "name": name},
                "spec": {"nodeName": name, "containers": [{"resources": {"limits": limits}}]},
            }));
        }
        cluster.usage = Some(Ok(usage));
    });
    assert_eq!(
        (found.rule, found.severity),
        ("resources-in-use", Severity::Warning)
    );
    assert!(
        found.evidence.iter().any(|one| one.contains("team-b/gpu-01")),
        "{found:?}"
    );
}
