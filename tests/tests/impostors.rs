//! Processes that call themselves a container runtime, on a real kernel: only a service of the host is one.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use rdma_health_tests::{
    run_acts,
    virtual_node::{Options, VirtualNode, built},
};

/// A `sleep` with another name and a small memlock limit, which the shell that follows starts.
const AS_CONTAINERD: &str = "mkdir -p /tmp/bin; cp /bin/sleep /tmp/bin/containerd; chmod 755 /tmp/bin /tmp/bin/containerd; \
    mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup; ulimit -l 64;";

#[test]
fn only_a_service_of_the_host_is_a_runtime() {
    let mut node = VirtualNode::boot(&Options::default()).unwrap();
    node.write_file("/tmp/config.yaml", "expect: {profile: gpudirect}\n")
        .unwrap();
    run_acts!(
        &mut node,
        |_| (),
        [
            a_service_of_the_host_is_judged,
            a_process_of_another_user_is_not,
            a_container_as_root_of_the_host_is_not,
            root_of_a_user_namespace_is_not,
            a_program_with_the_setuid_bit_is_not,
            a_process_with_its_own_process_ids_is_not,
            a_flood_of_impostors_hides_no_runtime,
        ]
    );
}

/// The findings about memlock limits while the process that `start` replaces the shell with runs.
fn findings(node: &VirtualNode, start: &str) -> String {
    let job = node.spawn(&format!("{AS_CONTAINERD} {start}")).unwrap();
    node.wait_until(std::time::Duration::from_secs(120), "pgrep -x containerd")
        .unwrap();
    let program = built("rdma-health").unwrap();
    let check = format!(
        "{} check --config /tmp/config.yaml --output json",
        program.display()
    );
    let output = node.run(&check).unwrap();
    let _ = job.signal("KILL");
    node.run("pkill -KILL -x containerd; while pgrep -x containerd; do sleep 0.1; done")
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let of_runtimes = findings.filter(|finding| finding["rule"] == "memlock-low");
    let messages = of_runtimes.map(|finding| format!("{} {}\n", finding["severity"], finding["message"]));
    messages.collect()
}

fn a_service_of_the_host_is_judged(node: &VirtualNode) {
    let service = "mkdir -p /sys/fs/cgroup/system.slice/containerd.service; \
        echo $$ >/sys/fs/cgroup/system.slice/containerd.service/cgroup.procs; exec /tmp/bin/containerd 600";
    let found = findings(node, service);
    assert!(
        found.contains("critical") && found.contains("pods of containerd"),
        "{found}"
    );
}

fn is_silent(node: &VirtualNode, start: &str) {
    let found = findings(node, start);
    assert!(
        !found.contains("containerd") && !found.contains("critical"),
        "{found}"
    );
}

fn a_process_of_another_user_is_not(node: &VirtualNode) {
    is_silent(
        node,
        "exec setpriv --reuid 12345 --clear-groups /tmp/bin/containerd 600",
    );
}

fn a_container_as_root_of_the_host_is_not(node: &VirtualNode) {
    let scope = "/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope/system.slice/containerd.service";
    is_silent(
        node,
        &format!("mkdir -p {scope}; echo $$ >{scope}/cgroup.procs; exec /tmp/bin/containerd 600"),
    );
}

fn root_of_a_user_namespace_is_not(node: &VirtualNode) {
    is_silent(
        node,
        "exec setpriv --reuid 12345 --clear-groups unshare --user --map-root-user /tmp/bin/containerd 600",
    );
}

fn a_program_with_the_setuid_bit_is_not(node: &VirtualNode) {
    is_silent(
        node,
        "chmod 4755 /tmp/bin/containerd; exec setpriv --reuid 12345 --clear-groups /tmp/bin/containerd 600",
    );
}

/// Root of the host in the root cgroup, but in its own process namespace, as containers are.
fn a_process_with_its_own_process_ids_is_not(node: &VirtualNode) {
    is_silent(node, "exec unshare --pid --fork /tmp/bin/containerd 600");
}

fn a_flood_of_impostors_hides_no_runtime(node: &VirtualNode) {
    let flood = "for n in $(seq 20); do setpriv --reuid 12345 --clear-groups /tmp/bin/containerd 600 & done; \
        exec /tmp/bin/containerd 600";
    let found = findings(node, flood);
    assert_eq!(found.matches("pods of containerd").count(), 1, "{found}");
}
