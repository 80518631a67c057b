//! The pod as deployed: the `DaemonSet` under a real kubelet, containerd and runc, in a virtual node with RDMA devices.
//!
//! Ignored unless asked for, because Kubernetes must be built first: `make test-pod`.

#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

mod job;
mod plugin;
mod sources;
mod stage;

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rdma_health_tests::{
    api_server::{NAMESPACE, NODE},
    cluster::Cluster,
    run_acts,
    virtual_node::{Iommu, built},
};
use serde_json::{Value, json};

use job::a_job_waits_for_its_device_and_gets_its_settings;
use plugin::the_plugin_reaches_the_agent_through_the_api_server;
use sources::{
    a_missing_device_node_is_named_in_either_container, memory_stays_far_below_the_limits,
    modules_that_the_host_keeps_out_are_known, placing_memory_works_and_a_refusal_is_explained,
    remedies_are_those_of_the_hosts_distribution, switch_ports_of_the_host_are_shown,
};
use stage::{Stage, repository};

const IMAGE: &str = "registry.example.com/rdma-health";
/// The tag of the chart, and one to upgrade to.
const TAGS: [&str; 2] = ["0.1.0", "0.1.1"];
const DAEMONSET: &str = "/apis/apps/v1/namespaces/rdma-health/daemonsets/rdma-health";

#[test]
#[ignore = "needs Kubernetes and an image: make test-pod"]
fn the_pod_works_as_it_is_deployed() {
    let images = std::env::var("POD_IMAGES").expect("POD_IMAGES: the directory of tests/pod/images");
    let cluster = Cluster::start(Path::new(&images)).unwrap();
    println!("Kubernetes {}", cluster.api.version().unwrap());
    let tools = Command::new(repository("tests/deploy/tools")).output().unwrap();
    assert!(
        tools.status.success(),
        "{}",
        String::from_utf8_lossy(&tools.stderr)
    );
    let known = cluster
        .api
        .ask("GET", "/apis/admissionregistration.k8s.io/v1", None)
        .unwrap();
    let began = Instant::now();
    let node = cluster.boot(Iommu::Intel, "iommu=pt").unwrap();
    println!("node ready after {:.0?}", began.elapsed());
    let mut stage = Stage {
        policies: known.body.to_string().contains("ValidatingAdmissionPolicy"),
        python: String::from_utf8(tools.stdout).unwrap().trim().into(),
        node: Some(node),
        cluster,
    };
    run_acts!(
        &mut stage,
        |_| (),
        [
            the_overlay_runs_and_is_deleted_without_remains,
            the_chart_runs_with_every_condition,
            security_contexts_are_in_force,
            check_in_either_container_gives_the_same_verdict,
            logs_are_readable,
            switch_ports_of_the_host_are_shown,
            modules_that_the_host_keeps_out_are_known,
            the_plugin_reaches_the_agent_through_the_api_server,
            placing_memory_works_and_a_refusal_is_explained,
            a_job_waits_for_its_device_and_gets_its_settings,
            memory_stays_far_below_the_limits,
            a_link_that_goes_down_becomes_a_condition,
            a_killed_helper_changes_nothing,
            a_killed_agent_changes_nothing,
            a_deleted_pod_keeps_the_history,
            a_rolling_upgrade_changes_nothing,
            a_reboot_with_another_iommu_mode_is_a_regression,
            remedies_are_those_of_the_hosts_distribution,
            // The agent remembers the device that this adds and removes.
            a_missing_device_node_is_named_in_either_container,
            uninstalling_leaves_nothing,
        ]
    );
}

fn the_overlay_runs_and_is_deleted_without_remains(stage: &mut Stage) {
    let mut render = Command::new(&stage.python);
    render.arg(repository("tests/deploy/overlay.py"));
    if !stage.policies {
        println!("this server knows no ValidatingAdmissionPolicy: the overlay is applied without it");
        render.arg("--without-policy");
    }
    let rendered = render.output().unwrap();
    assert!(
        rendered.status.success(),
        "{}",
        String::from_utf8_lossy(&rendered.stderr)
    );
    let file = stage.cluster.api.directory().join("overlay.json");
    std::fs::write(&file, rendered.stdout).unwrap();
    let file = file.to_str().unwrap();
    let (status, text) = stage.kubectl(&["apply", "-f", file]);
    assert_eq!(status, 0, "{text}");
    let began = Instant::now();
    stage.running("");
    println!("2/2 Running {:.1?} after kubectl apply", began.elapsed());
    stage.all_known();
    println!(
        "every condition is known {:.1?} after kubectl apply",
        began.elapsed()
    );
    let (status, text) = stage.kubectl(&["delete", "--wait=true", "--timeout=600s", "-f", file]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(stage.run("pgrep -f '^/usr/bin/rdma-health' || true"), "");
    // kubectl runs no hook.
    let removed = Command::new(built("rdma-health").unwrap())
        .args(["remove-conditions", "--kubeconfig"])
        .arg(stage.cluster.kubeconfig())
        .output()
        .unwrap();
    assert!(
        removed.status.success(),
        "{}",
        String::from_utf8_lossy(&removed.stderr)
    );
    assert_eq!(stage.conditions(), BTreeMap::new());
}

fn the_chart_runs_with_every_condition(stage: &mut Stage) {
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    stage
        .cluster
        .api
        .must("POST", "/api/v1/namespaces", Some(&namespace))
        .unwrap();
    stage.helm("install", json!({}));
    let pod = stage.running("");
    assert_eq!(pod["status"]["phase"], "Running");
    stage.all_known();
    stage.probed();
    let conditions = stage.conditions();
    println!("{conditions:#?}");
    for kind in [
        "RDMAIommuProblem",
        "RDMALinkProblem",
        "RDMAProbeProblem",
        "RDMAReadingProblem",
        "RDMADeviceProblem",
    ] {
        assert_eq!(conditions[kind][0], "False", "{conditions:#?}");
    }
    assert_eq!(
        conditions["RDMAProbeProblem"][1], "NoProbeProblem",
        "both ports were probed"
    );
}

fn security_contexts_are_in_force(stage: &mut Stage) {
    let of = |program: &str| {
        let script = format!(
            "pid=$(pgrep -o -f '^{program}') && awk '/^(Uid|CapEff|NoNewPrivs|Seccomp):/ {{print $1 $2}}' /proc/$pid/status &&
             awk '$5 == \"/\" {{split($6, o, \",\"); print \"root:\" o[1]}}' /proc/$pid/mountinfo && ls /proc/$pid/root/dev"
        );
        stage.run(&script)
    };
    let agent = of("/usr/bin/rdma-health agent");
    for expected in [
        "Uid:65521",
        "CapEff:0000000000000000",
        "NoNewPrivs:1",
        "Seccomp:2",
        "root:ro",
    ] {
        assert!(agent.lines().any(|line| line == expected), "{expected}: {agent}");
    }
    assert!(
        !agent.contains("infiniband") && !agent.contains("kmsg"),
        "{agent}"
    );
    let helper = of("/usr/bin/rdma-health-verbs serve");
    for expected in ["Uid:0", "root:ro", "infiniband", "kmsg"] {
        assert!(
            helper.lines().any(|line| line == expected),
            "{expected}: {helper}"
        );
    }
    // The kubelet created it as root's; the init container gave it to the agent.
    assert_eq!(
        stage.run("stat -c '%u %g %a' /var/lib/rdma-health"),
        "65521 65521 755"
    );
}

/// What `check` says in a container: the status, and rule, severity and subject of each finding.
fn verdict(stage: &Stage, container: &str) -> (Value, Vec<String>) {
    let report = stage.check(container);
    let findings = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            format!(
                "{} {} {}",
                finding["rule"], finding["severity"], finding["subject"]
            )
        })
        .collect();
    (report["status"].clone(), findings)
}

fn check_in_either_container_gives_the_same_verdict(stage: &mut Stage) {
    let agent = verdict(stage, "agent");
    println!("check: {agent:?}");
    assert_eq!(agent, verdict(stage, "verbs"));
}

fn logs_are_readable(stage: &mut Stage) {
    let name = stage.name();
    let (status, log) = stage.kubectl(&["-n", NAMESPACE, "logs", &name, "-c", "agent"]);
    assert!(status == 0 && log.contains("serving /metrics"), "{log}");
    assert!(
        !log.contains("verbs helper down"),
        "the helper was waited for: {log}"
    );
}

fn a_link_that_goes_down_becomes_a_condition(stage: &mut Stage) {
    let began = Instant::now();
    stage.run("ip link set eth1 down");
    let [_, reason] = stage.until("RDMALinkProblem", "True");
    println!("link down: condition {reason} after {:.1?}", began.elapsed());
    assert_eq!(reason, "PortDown");
    stage.within("the Event PortDown", || {
        stage
            .events()
            .iter()
            .any(|event| event.starts_with("\"PortDown\""))
            .then_some(())
    });
    // The history is saved every few minutes, and soon after a start; here, on request.
    stage.run("pkill -HUP -f '^/usr/bin/rdma-health agent'");
    stage.within("the fault is in the history", || {
        stage
            .since()
            .keys()
            .any(|key| key.contains("port-down"))
            .then_some(())
    });
}

/// How long the agent waits for a helper that ended before it reports it.
const GRACE: Duration = Duration::from_secs(10);

fn a_killed_helper_changes_nothing(stage: &mut Stage) {
    let times_up = || {
        let (_, log) = stage.kubectl(&["-n", NAMESPACE, "logs", &stage.name(), "-c", "agent"]);
        log.matches("verbs helper up").count()
    };
    stage.nothing_flips_if_in_time(|| {
        // More than one on a machine so slow that the helper once did not answer in time.
        let before = times_up();
        let killed = Instant::now();
        stage.run("pkill -KILL -o -f '^/usr/bin/rdma-health-verbs serve'");
        stage.within("the helper runs again", || {
            (stage.restarts()["verbs"] == 1).then_some(())
        });
        stage.within("the agent uses the new helper", || {
            (times_up() > before).then_some(())
        });
        println!("helper killed: used again after {:.1?}", killed.elapsed());
        killed.elapsed() < GRACE
    });
    assert_eq!(stage.restarts()["agent"], 0);
}

fn a_killed_agent_changes_nothing(stage: &mut Stage) {
    let since = stage.since();
    stage.nothing_flips(|| {
        stage.run("pkill -KILL -f '^/usr/bin/rdma-health agent'");
        stage.within("the agent runs again", || {
            (stage.restarts()["agent"] == 1).then_some(())
        });
        stage.running("");
    });
    keeps(stage, &since);
}

fn a_deleted_pod_keeps_the_history(stage: &mut Stage) {
    let since = stage.since();
    let name = stage.name();
    stage.nothing_flips(|| {
        let (status, text) = stage.kubectl(&["-n", NAMESPACE, "delete", "pod", &name]);
        assert_eq!(status, 0, "{text}");
        stage.running(&name);
    });
    keeps(stage, &since);
}

fn a_rolling_upgrade_changes_nothing(stage: &mut Stage) {
    let [old, new] = TAGS.map(|tag| format!("{IMAGE}:{tag}"));
    let runtime = stage.run("ls -l /proc/$(pgrep -x containerd)/exe | sed 's/.*-> //; s#/containerd$##'");
    stage.run(&format!(
        "{runtime}/ctr --namespace k8s.io images tag {old} {new}"
    ));
    let since = stage.since();
    let name = stage.name();
    stage.nothing_flips(|| {
        stage.helm("upgrade", json!({"image": {"tag": TAGS[1]}}));
        let pod = stage.running(&name);
        assert_eq!(pod["spec"]["containers"][0]["image"], new);
    });
    keeps(stage, &since);
    let log = stage
        .kubectl(&["-n", NAMESPACE, "logs", &stage.name(), "-c", "agent"])
        .1;
    assert!(!log.contains("helper-unhealthy"), "{log}");
}

/// The history still has every problem, since the same time.
fn keeps(stage: &Stage, since: &BTreeMap<String, Value>) {
    let now = stage.since();
    for (problem, time) in since {
        assert_eq!(now.get(problem), Some(time), "{problem}: {now:#?}");
    }
}

fn a_reboot_with_another_iommu_mode_is_a_regression(stage: &mut Stage) {
    assert_eq!(stage.status("RDMAIommuProblem").unwrap()[0], "False");
    let node = stage.node.take().unwrap();
    stage.cluster.shut_down(node).unwrap();
    stage.node = Some(stage.cluster.boot(Iommu::Intel, "").unwrap());
    let [_, reason] = stage.until("RDMAIommuProblem", "True");
    println!("rebooted without iommu=pt: {reason}");
    assert_eq!(reason, "IommuRegressed");
    stage.within("the Event", || {
        stage
            .events()
            .iter()
            .any(|event| event.starts_with("\"IommuRegressed\""))
            .then_some(())
    });
    stage.running("");
    // Either container knows the history.
    for container in ["agent", "verbs"] {
        stage.within("check names the regression", || {
            let (_, findings) = verdict(stage, container);
            findings
                .iter()
                .any(|finding| finding.contains("iommu-regressed"))
                .then_some(())
        });
    }
}

fn uninstalling_leaves_nothing(stage: &mut Stage) {
    stage.helm("uninstall", json!({}));
    stage.within("no condition is left", || {
        stage.conditions().is_empty().then_some(())
    });
    let node = stage.cluster.api.node(NODE).unwrap();
    for part in ["metadata", "spec"] {
        assert!(!node[part].to_string().contains("rdma-health"), "{node}");
    }
    let empty = stage.cluster.api.ask("GET", DAEMONSET, None).unwrap();
    assert_eq!(empty.status, 404);
    let kinds = "serviceaccounts,configmaps,services,secrets,daemonsets,jobs,pods,clusterroles,clusterrolebindings,roles,rolebindings,priorityclasses";
    stage.within("no object is left", || {
        let (_, left) = stage.kubectl(&["get", kinds, "-A", "-o", "name"]);
        (!left.contains("rdma-health")).then_some(())
    });
    assert_eq!(stage.run("pgrep -f '^/usr/bin/rdma-health' || true"), "");
}
