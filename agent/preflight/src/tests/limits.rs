//! Locked memory, quotas and the `PodSecurity` level.

use super::*;

#[test]
fn memlock_without_ipc_lock_depends_on_the_nodes() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        pod_spec(job)["containers"][0]["securityContext"].take();
    });
    assert_eq!(
        run(&cluster).exit_status(),
        0,
        "the agents report no problem with limits"
    );
    let conditions = &mut read(&mut cluster.nodes)[1]["status"]["conditions"];
    *conditions = json!([{"type": "RDMALimitsProblem", "status": "True", "message": "CRI-O: containers may lock 8 MiB"}]);
    let report = run(&cluster);
    let found = one(&report, "memlock-low");
    assert_eq!(found.evidence, ["gpu-02: CRI-O: containers may lock 8 MiB"]);
    read(&mut cluster.nodes)[1]["status"]["conditions"].take();
    let report = run(&cluster);
    assert_eq!(one(&report, "memlock-unknown").severity, Severity::Warning);
}

#[test]
fn ipc_lock_has_no_effect_without_root() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        pod_spec(job)["containers"][0]["securityContext"]["runAsUser"] = 1000.into();
    });
    let report = run(&cluster);
    assert!(
        one(&report, "ipc-lock-without-root")
            .summary
            .contains("container job"),
        "{report:#?}"
    );
}

#[test]
fn quotas_count_the_pods_that_do_not_exist_yet() {
    let mut cluster = cluster();
    let hard = json!({"requests.nvidia.com/gpu": "24", "requests.cpu": "4", "pods": "10"});
    let used = json!({"requests.nvidia.com/gpu": "16", "requests.cpu": "0", "pods": "2"});
    let quota = json!({"metadata": {"name": "gpus"}, "spec": {"hard": hard}, "status": {"used": used}});
    cluster.quotas = Listed::Read(vec![quota]);
    let report = run(&cluster);
    let found = one(&report, "quota-exceeded");
    assert!(
        found
            .summary
            .contains("requests.nvidia.com/gpu: 2 more pods need 16"),
        "{found:?}"
    );
    assert_eq!(found.evidence, ["ResourceQuota gpus: 16 of 24 used"]);
    assert!(
        one(&report, "quota-needs-value").summary.contains("requests.cpu"),
        "{report:#?}"
    );
    set_job(&mut cluster, |job| {
        job["status"]["replicas"] = 1.into();
        pod_spec(job)["containers"][0]["resources"]["requests"]["cpu"] = "500m".into();
    });
    assert_eq!(run(&cluster).exit_status(), 0);
}

#[test]
fn pod_security_refuses_ipc_lock_even_if_an_scc_allows_it() {
    for (level, expected) in [("privileged", 0), ("baseline", 2), ("restricted", 2)] {
        let mut cluster = cluster();
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        read(&mut cluster.namespace_object)[0]["metadata"]["labels"] = labels;
        let report = run(&cluster);
        assert_eq!(report.exit_status(), expected, "{level}");
        if expected > 0 {
            let found = one(&report, "pod-security");
            assert!(found.summary.contains("capability IPC_LOCK"), "{found:?}");
            assert_eq!(
                found.summary.contains("capabilities.drop"),
                level == "restricted",
                "{found:?}"
            );
            assert!(
                found.remedy.contains("kubectl label namespace team-a"),
                "{found:?}"
            );
        }
    }
}
