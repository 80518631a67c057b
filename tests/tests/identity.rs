//! What the agent's identity opens, on a real kernel: with its own user and without the host's `/proc`, no other pod.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::time::Duration;

use rdma_health_tests::{
    run_acts,
    virtual_node::{Job, Options, VirtualNode, built},
};
use serde_json::Value;

/// What a container runtime makes: own mounts and processes, no capabilities, no new privileges.
const CONTAINER: &str = "unshare --mount --pid --fork --mount-proc sh -c";
const UNPRIVILEGED: &str = "setpriv --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all";
/// The user of the agent's container, and the one of many images.
const AGENT: u32 = 65_521;
const NONROOT: u32 = 65_532;
/// Prints the secrets that a process finds below a `/proc`.
const SEARCH: &str = "cat $PROC/[0-9]*/environ $PROC/[0-9]*/root/run/pod/token 2>/dev/null | tr '\\0' '\\n' | grep -a canary | sort -u";

#[test]
fn the_agents_identity_opens_nothing() {
    let mut node = VirtualNode::boot(&Options::default()).unwrap();
    run_acts!(
        &mut node,
        |_| (),
        [
            the_agent_finds_no_secret_of_a_pod,
            the_helper_answers_the_agent_and_no_other_user,
            the_agent_knows_with_the_helper_what_root_knows,
        ]
    );
}

/// A pod as the user of many images, with a secret in its environment and one in its own file.
fn pod(node: &VirtualNode) -> Job<'_> {
    let pod = format!(
        "{CONTAINER} 'mkdir -p /run/pod; mount -t tmpfs none /run/pod; echo file-canary >/run/pod/token; \
         chown {NONROOT} /run/pod/token; chmod 400 /run/pod/token; \
         exec env SECRET=environment-canary {UNPRIVILEGED} --reuid {NONROOT} --regid {NONROOT} sleep 601'"
    );
    let job = node.spawn(&pod).unwrap();
    node.wait_until(Duration::from_secs(60), "pgrep -fx 'sleep 601'")
        .unwrap();
    job
}

fn the_agent_finds_no_secret_of_a_pod(node: &VirtualNode) {
    let pod = pod(node);
    node.write_file("/tmp/search", SEARCH).unwrap();
    let found = |user: u32, proc: &str| {
        let search = format!(
            "mkdir -p /tmp/host-proc; mount --bind /proc /tmp/host-proc; {CONTAINER} 'exec env PROC={proc} {UNPRIVILEGED} \
             --reuid {user} --regid {user} sh /tmp/search'; umount /tmp/host-proc"
        );
        node.run(&search).unwrap().stdout_text().into_owned()
    };
    // The control: the user of the pod with the host's `/proc` finds both, so the search works.
    let control = found(NONROOT, "/tmp/host-proc");
    assert!(
        control.contains("environment-canary") && control.contains("file-canary"),
        "{control}"
    );
    for (user, proc) in [(AGENT, "/proc"), (AGENT, "/tmp/host-proc"), (NONROOT, "/proc")] {
        assert_eq!(found(user, proc), "", "user {user}, {proc}");
    }
    let _ = pod.signal("KILL");
    node.run("pkill -KILL -fx 'sleep 601'").unwrap();
}

fn the_helper_answers_the_agent_and_no_other_user(node: &VirtualNode) {
    let pod = pod(node);
    let (program, helper) = (built("rdma-health").unwrap(), built("rdma-health-verbs").unwrap());
    let (program, helper) = (program.display(), helper.display());
    let runtime = node
        .spawn("mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup; cp /bin/sleep /run/containerd; ulimit -l 64; exec /run/containerd 602")
        .unwrap();
    let serve = node
        .spawn(&format!(
            "{helper} serve --socket /run/verbs.sock --allow-uid {AGENT} --host /"
        ))
        .unwrap();
    node.wait_until(
        Duration::from_secs(60),
        "test -S /run/verbs.sock && pgrep -x containerd",
    )
    .unwrap();
    // The mode lets everyone in, so that only the user decides.
    node.check("chmod 666 /run/verbs.sock").unwrap();
    let check = |user: u32| {
        let check = format!(
            "{CONTAINER} 'exec {UNPRIVILEGED} --reuid {user} --regid {user} {program} check --output json \
             --helper-socket /run/verbs.sock'"
        );
        node.run(&check).unwrap().stdout_text().into_owned()
    };
    let admitted = check(AGENT);
    assert!(admitted.contains("pods of containerd"), "{admitted}");
    assert!(
        !admitted.contains("canary") && !admitted.contains("helper-unhealthy"),
        "{admitted}"
    );
    let refused = check(NONROOT);
    assert!(
        refused.contains("helper-unhealthy") && !refused.contains("pods of containerd"),
        "{refused}"
    );
    for job in [pod, runtime, serve] {
        let _ = job.signal("KILL");
    }
}

/// What only root may read is PCIe ACS and the kernel log. A container has no `/dev/kmsg` either.
fn the_agent_knows_with_the_helper_what_root_knows(node: &VirtualNode) {
    let (program, helper) = (built("rdma-health").unwrap(), built("rdma-health-verbs").unwrap());
    let (program, helper) = (program.display(), helper.display());
    let serve = node
        .spawn(&format!(
            "{helper} serve --socket /run/root.sock --allow-uid {AGENT} --host /"
        ))
        .unwrap();
    node.wait_until(Duration::from_secs(60), "test -S /run/root.sock")
        .unwrap();
    node.check("chmod 666 /run/root.sock").unwrap();
    let agent = |options: &str| -> Value {
        let check = format!(
            "{CONTAINER} 'mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; exec {UNPRIVILEGED} --reuid {AGENT} \
             --regid {AGENT} {program} check --output json {options}'"
        );
        serde_json::from_slice(&node.run(&check).unwrap().stdout).unwrap()
    };
    let root = node.run(&format!("{program} check --output json")).unwrap();
    let root: Value = serde_json::from_slice(&root.stdout).unwrap();
    // The control: without the helper, the agent reports that it did not read them.
    let alone = agent("--helper /bin/false");
    let unread = alone["node"]["sources"].to_string();
    assert!(
        unread.contains("/dev/kmsg") && unread.contains("/config"),
        "{unread}"
    );
    let with_helper = agent("--helper-socket /run/root.sock");
    let of = |report: &Value, part: &str| report["node"][part].clone();
    assert_eq!(of(&with_helper, "kernel_log"), of(&root, "kernel_log"));
    assert!(!of(&root, "kernel_log")["lines"].as_array().unwrap().is_empty());
    assert_eq!(of(&with_helper, "pci"), of(&root, "pci"));
    assert!(of(&root, "pci").to_string().contains("\"complete\":true"));
    // Netlink needs no privilege.
    let links = of(&with_helper, "links");
    assert_eq!(links, of(&root, "links"));
    assert!(
        links["netdevs"]
            .as_object()
            .is_some_and(|links| !links.is_empty()),
        "{links}"
    );
    let unread = of(&with_helper, "sources").to_string();
    assert!(
        !unread.contains("kmsg") && !unread.contains("/config"),
        "{unread}"
    );
    let rules = |report: &Value| {
        let findings = report["findings"].as_array().unwrap().iter();
        let found = findings.map(|finding| format!("{} {}", finding["severity"], finding["message"]));
        found.collect::<Vec<_>>()
    };
    assert_eq!(rules(&with_helper), rules(&root));
    let _ = serve.signal("KILL");
}
