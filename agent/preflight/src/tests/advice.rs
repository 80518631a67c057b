//! What a preflight advises must help: an SCC that allows the pod, a name that exists and is not another device.

use super::*;
use crate::check::scc;

/// The SCCs that a remedy grants.
fn granted(remedy: &str) -> Vec<&str> {
    let commands = remedy.split("add-scc-to-user ").skip(1);
    commands.filter_map(|rest| rest.split(' ').next()).collect()
}

fn without_scc(change: impl FnOnce(&mut Value)) -> Cluster {
    let mut cluster = cluster();
    cluster
        .scc_use
        .values_mut()
        .for_each(|allowed| *allowed = Ok(false));
    set_job(&mut cluster, change);
    cluster
}

fn container(job: &mut Value) -> &mut Value {
    &mut pod_spec(job)["containers"][0]
}

/// A change of a job's manifest.
type Change = fn(&mut Value);

/// What pods ask for in addition to `IPC_LOCK`, one by one.
const ASKS: &[(&str, Change)] = &[
    ("privileged", |job| {
        container(job)["securityContext"]["privileged"] = true.into();
    }),
    ("SYS_RESOURCE", |job| {
        container(job)["securityContext"]["capabilities"]["add"] = json!(["IPC_LOCK", "SYS_RESOURCE"]);
    }),
    ("host network", |job| pod_spec(job)["hostNetwork"] = true.into()),
    ("host IPC", |job| pod_spec(job)["hostIPC"] = true.into()),
    ("host port", |job| {
        container(job)["ports"] = json!([{"hostPort": 29500}]);
    }),
    ("hostPath", |job| {
        pod_spec(job)["volumes"] = json!([{"name": "h", "hostPath": {"path": "/data"}}]);
    }),
    ("nfs", |job| {
        pod_spec(job)["volumes"] = json!([{"name": "h", "nfs": {"server": "s", "path": "/"}}]);
    }),
    ("escalation", |job| {
        container(job)["securityContext"]["allowPrivilegeEscalation"] = true.into();
    }),
    ("unconfined", |job| {
        pod_spec(job)["securityContext"]["seccompProfile"] = json!({"type": "Unconfined"});
    }),
    ("user 5", |job| {
        container(job)["securityContext"]["runAsUser"] = 5.into();
    }),
];

#[test]
fn an_scc_is_only_advised_if_it_allows_everything_that_the_pod_asks_for() {
    // No SCC, only the default one, and one of the administrator.
    for known in 0..=3 {
        for (what, ask) in ASKS {
            let mut cluster = without_scc(ask);
            read(&mut cluster.sccs).truncate(known);
            let report = run(&cluster);
            let found = one(&report, "scc-missing");
            let workload =
                &Workload::in_object(&cluster.controllers["statefulsets"].items()[0], "team-a", true)[0];
            let own = scc::own();
            for name in granted(&found.remedy) {
                let all = cluster.sccs.items().iter().chain(&own);
                let mut named = all.filter(|scc| scc["metadata"]["name"] == name);
                let refuses = scc::refuses(&cluster, named.next().unwrap(), workload);
                assert_eq!(refuses, Vec::<String>::new(), "{what}: {found:?}");
            }
            // Privileged containers are not advised where less is enough.
            assert!(
                !found.remedy.contains("privileged -z")
                    || known == 3
                    || found.remedy.contains("otherwise, as administrator"),
                "{what}: {found:?}"
            );
        }
    }
}

#[test]
fn what_the_product_s_scc_refuses_is_named_instead_of_advising_it() {
    let mut cluster = without_scc(ASKS[0].1);
    read(&mut cluster.sccs).truncate(1);
    let report = run(&cluster);
    let found = one(&report, "scc-missing");
    assert!(
        found
            .remedy
            .starts_with("if the pod does not need a privileged container, remove it"),
        "{found:?}"
    );
}

/// `agent/preflight` has a copy of the SCCs that its remedies apply.
#[test]
fn the_sccs_that_it_knows_are_those_of_the_manifest() {
    let manifest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/openshift/scc-rdma-workload.yaml"
    );
    #[allow(clippy::disallowed_methods)] // a test reads the manifest
    let text = std::fs::read_to_string(manifest).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for own in scc::own() {
        let same = objects
            .iter()
            .find(|one| one["metadata"]["name"] == own["metadata"]["name"]);
        let same = same.unwrap_or_else(|| panic!("{own}"));
        for (field, value) in own.as_object().unwrap() {
            assert_eq!(&same[field], value, "{field}");
        }
    }
}

#[test]
fn the_cause_is_what_the_usable_scc_refuses() {
    let mut cluster = cluster();
    set_job(&mut cluster, ASKS[5].1);
    let report = run(&cluster);
    let found = one(&report, "scc-missing");
    assert!(
        found
            .summary
            .contains("may not use any SCC that allows a hostPath volume"),
        "{found:?}"
    );
    assert!(
        found
            .evidence
            .contains(&"nccl-scc, which it may use, refuses a hostPath volume".to_owned()),
        "{found:?}"
    );
}

#[test]
fn an_event_of_a_time_before_the_grant_is_no_reason_to_grant_it_again() {
    let mut cluster = cluster();
    let mut event = event("StatefulSet", "h-kim", REFUSED);
    event["lastTimestamp"] = "2026-11-22T09:50:00Z".into();
    event["count"] = 5.into();
    read(&mut cluster.events).push(event);
    let report = run(&cluster);
    let found = one(&report, "refused-by-scc");
    assert_eq!(found.severity, Severity::Warning);
    assert!(
        found.summary.contains("may use the SCC nccl-scc now"),
        "{found:?}"
    );
    assert!(!found.remedy.contains("add-scc-to-user"), "{found:?}");
    assert!(
        found.evidence[0].starts_with("event FailedCreate (5 times, last 2026-11-22T09:50:00Z): create Pod"),
        "{found:?}"
    );
}

#[test]
fn ipc_lock_has_no_effect_if_the_scc_chooses_the_user() {
    let mut cluster = cluster();
    read(&mut cluster.sccs)[2]["runAsUser"]["type"] = "MustRunAsRange".into();
    let unset = |job: &mut Value| {
        container(job)["securityContext"]
            .as_object_mut()
            .unwrap()
            .remove("runAsUser");
    };
    set_job(&mut cluster, unset);
    let report = run(&cluster);
    let found = one(&report, "ipc-lock-without-root");
    assert!(
        found
            .summary
            .contains("the SCC nccl-scc runs the containers as another user"),
        "{found:?}"
    );
    // Another SCC with a higher priority is chosen.
    let mut more = scc("anyone", &["IPC_LOCK"]);
    more["priority"] = 10.into();
    read(&mut cluster.sccs).push(more);
    cluster
        .scc_use
        .insert(("h-kim-sa".into(), "anyone".into()), Ok(true));
    assert_eq!(run(&cluster).findings, []);
}

/// The rails that nodes have in place of their own names.
fn with_rails(names: &[&str]) -> Cluster {
    let mut cluster = cluster();
    for node in read(&mut cluster.nodes) {
        let allocatable = node["status"]["allocatable"].as_object_mut();
        let Some(allocatable) = allocatable else { continue };
        for rail in RAILS {
            allocatable.remove(&resource(rail));
        }
        for name in names {
            allocatable.insert((*name).to_owned(), "4".into());
        }
    }
    cluster
}

#[test]
fn another_rail_is_no_spelling_of_this_one() {
    for names in [
        // The pod's own first rail.
        &["openshift.io/eno5np0rdma"][..],
        &["openshift.io/eno9np0rdma"],
        &["openshift.io/rdma_rail_0"],
        &["nvidia.com/eno5"],
    ] {
        let report = run(&with_rails(names));
        let found = one(&report, "resource-unknown");
        assert!(!found.remedy.contains("did you mean"), "{names:?}: {found:?}");
    }
    let report = run(&with_rails(&[
        "openshift.io/eno5np0_rdma",
        "openshift.io/eno6np0_rdma",
    ]));
    let remedies: Vec<_> = report.findings.iter().map(|one| one.remedy.as_str()).collect();
    assert!(
        remedies
            .iter()
            .any(|one| one.contains("did you mean openshift.io/eno6np0_rdma?")),
        "{remedies:?}"
    );
}

#[test]
fn four_rails_with_one_fault_are_one_finding() {
    let report = run(&with_rails(&[]));
    let found = one(&report, "resource-unknown");
    assert_eq!(
        found.summary,
        "no node has the resources openshift.io/eno5np0rdma, openshift.io/eno6np0rdma, openshift.io/eno7np0rdma, \
         openshift.io/eno8np0rdma"
    );
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        job["spec"]["template"]["metadata"].take();
    });
    assert_eq!(run(&cluster).findings.len(), 1, "{:#?}", run(&cluster));
}

#[test]
fn gpus_are_not_virtual_functions() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        for kind in ["requests", "limits"] {
            container(job)["resources"][kind]["nvidia.com/gpu"] = "16".into();
        }
    });
    let report = run(&cluster);
    let found = one(&report, "resource-too-many");
    assert_eq!(found.remedy, "request at most 8 in each pod, and use more pods");
}
