//! What creates pods, of any kind: understood through its templates, or reported as not checked.

use super::*;

fn object(kind: &str, version: &str, spec: &Value) -> Value {
    json!({"kind": kind, "apiVersion": version, "metadata": {"name": "x"}, "spec": spec})
}

#[test]
fn every_kind_with_pod_templates_is_understood() {
    let template = job()["spec"]["template"].clone();
    let ray = json!({
        "headGroupSpec": {"template": template},
        "workerGroupSpecs": [{"replicas": 4, "template": template}, {"replicas": 2, "numOfHosts": 2, "template": template}],
    });
    for (object, pods) in [
        (
            object(
                "Job",
                "batch/v1",
                &json!({"parallelism": 3, "completions": 2, "template": template}),
            ),
            vec![2],
        ),
        (
            object(
                "LeaderWorkerSet",
                "leaderworkerset.x-k8s.io/v1",
                &json!({"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template}}),
            ),
            vec![8],
        ),
        (
            object(
                "LeaderWorkerSet",
                "leaderworkerset.x-k8s.io/v1",
                &json!({
                    "replicas": 2,
                    "leaderWorkerTemplate": {"size": 4, "leaderTemplate": template, "workerTemplate": template},
                }),
            ),
            vec![2, 6],
        ),
        (
            object(
                "MPIJob",
                "kubeflow.org/v2beta1",
                &json!({"mpiReplicaSpecs": {"Launcher": {"template": template}, "Worker": {"replicas": 3, "template": template}}}),
            ),
            vec![1, 3],
        ),
        (object("RayCluster", "ray.io/v1", &ray), vec![1, 4, 4]),
        (
            object("RayJob", "ray.io/v1", &json!({"rayClusterSpec": ray})),
            vec![1, 4, 4],
        ),
        (
            object(
                "Job",
                "batch.volcano.sh/v1alpha1",
                &json!({"tasks": [{"replicas": 5, "template": template}]}),
            ),
            vec![5],
        ),
        (
            object(
                "AppWrapper",
                "workload.codeflare.dev/v1beta2",
                &json!({"components": [{"template": object("Job", "batch/v1", &json!({"parallelism": 2, "template": template}))}]}),
            ),
            vec![2],
        ),
        (
            object(
                "Rollout",
                "argoproj.io/v1alpha1",
                &json!({"replicas": 2, "template": template}),
            ),
            vec![2],
        ),
    ] {
        let found = Workload::in_object(&object, "team-a", false);
        let mut numbers: Vec<_> = found.iter().map(|one| one.pods).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, pods, "{object:#}");
        assert_eq!(Workload::not_understood(&object, "team-a"), [], "{object:#}");
    }
}

#[test]
fn what_may_create_pods_and_is_not_understood_is_not_a_pass() {
    let objects = [
        object(
            "TrainJob",
            "trainer.kubeflow.org/v1alpha1",
            &json!({"runtimeRef": {"name": "torch"}}),
        ),
        object("Pod", "v1", &json!({})),
        json!({"kind": "List", "items": [object("InferenceService", "serving.kserve.io/v1beta1", &json!({"predictor": {}}))]}),
        object("Service", "v1", &json!({})),
        object("Role", "rbac.authorization.k8s.io/v1", &json!({})),
        object("NetworkAttachmentDefinition", "k8s.cni.cncf.io/v1", &json!({})),
        job(),
    ];
    let mut cluster = cluster();
    cluster.add_manifests(&objects);
    let workloads: Vec<_> = objects
        .iter()
        .flat_map(|one| Workload::in_object(one, "team-a", false))
        .collect();
    let report = preflight(&cluster, Some(&workloads));
    let names: Vec<_> = report.not_checked.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(
        names,
        ["InferenceService x", "Pod x", "TrainJob x"],
        "{report:#?}"
    );
    assert_eq!(
        (report.exit_status(), report.workloads.len()),
        (3, 1),
        "{report:#?}"
    );
    // Nothing else is taken for them.
    let report = preflight(&cluster, Some(&[]));
    assert_eq!(
        (report.exit_status(), report.workloads.len()),
        (3, 0),
        "{report:#?}"
    );
}

#[test]
fn resource_claims_are_not_evaluated() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        pod_spec(job)["resourceClaims"] = json!([{"name": "nic"}]);
    });
    let report = run(&cluster);
    assert_eq!(report.exit_status(), 3);
    assert_eq!(
        report.not_checked[0].what,
        "resource claims (DRA) of StatefulSet team-a/h-kim"
    );
}

#[test]
fn what_a_controller_creates_is_checked_once() {
    let mut cluster = cluster();
    let mut set = job();
    set["metadata"]["ownerReferences"] =
        json!([{"kind": "LeaderWorkerSet", "name": "vllm", "controller": true}]);
    let groups = json!({"leaderWorkerTemplate": {"size": 2, "workerTemplate": job()["spec"]["template"]}});
    let mut leader = object("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", &groups);
    leader["metadata"]["name"] = "vllm".into();
    cluster.controllers = [
        ("statefulsets".into(), Listed::Read(vec![set])),
        ("leaderworkersets".into(), Listed::Read(vec![leader])),
    ]
    .into();
    assert_eq!(run(&cluster).workloads, ["LeaderWorkerSet team-a/vllm"]);
}

#[test]
fn every_controller_has_its_pods() {
    let template = job()["spec"]["template"].clone();
    let object = |kind: &str, spec: Value| json!({"kind": kind, "metadata": {"name": "x"}, "spec": spec});
    for (object, pods) in [
        (
            object("Job", json!({"parallelism": 3, "template": template})),
            vec![3],
        ),
        (
            object(
                "CronJob",
                json!({"jobTemplate": {"spec": {"template": template}}}),
            ),
            vec![1],
        ),
        (
            object(
                "JobSet",
                json!({"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 4, "template": template}}}]}),
            ),
            vec![8],
        ),
        (
            object(
                "PyTorchJob",
                json!({"pytorchReplicaSpecs": {"Master": {"template": template}, "Worker": {"replicas": 3, "template": template}}}),
            ),
            vec![1, 3],
        ),
        (json!({"kind": "List", "items": [job(), job()]}), vec![2, 2]),
        (object("ConfigMap", json!(null)), vec![]),
    ] {
        let found = Workload::in_object(&object, "team-a", false);
        assert_eq!(
            found.iter().map(|one| one.pods).collect::<Vec<_>>(),
            pods,
            "{}",
            object["kind"]
        );
    }
}
