//! `env`, `run` and `wait` on a real kernel: SoftRoCE devices, a network namespace in place of a pod, and the variables that a
//! device plugin would leave. What `env` prints is given to the real UCX.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::time::Duration;

use rdma_health_tests::{
    run_acts,
    virtual_node::{Iommu, Job, Options, VirtualNode, built, quote},
};

/// Generous: the machine is emulated, and others may use this one.
const SOON: Duration = Duration::from_secs(120);

struct Stage<'a> {
    node: &'a VirtualNode,
    product: String,
    /// The PCI address of eth1.
    address: String,
}

impl Stage<'_> {
    /// A command line with the variables of a pod that was given eth1.
    fn given(&self, command: &str) -> String {
        format!(
            "env -i PATH=\"$PATH\" PCIDEVICE_EXAMPLE_COM_RAIL={} {} {command}",
            self.address, self.product
        )
    }

    fn check(&self, command: &str) -> String {
        self.node.check(&self.given(command)).unwrap()
    }

    /// Starts `wait` and returns once it says that it waits for something.
    fn waiting(&self, words: &str) -> Job<'_> {
        let job = self
            .node
            .spawn(&format!("exec {}", self.given("wait --timeout 10m")))
            .unwrap();
        let end = std::time::Instant::now() + SOON;
        loop {
            let log = job.stderr().unwrap();
            if log.contains(words) {
                return job;
            }
            assert!(
                std::time::Instant::now() < end,
                "it does not say \"{words}\": {log}"
            );
            assert_eq!(job.status().unwrap(), None, "it ended without \"{words}\": {log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_job_gets_settings_for_the_devices_of_its_pod() {
    let node = VirtualNode::boot(&Options {
        iommu: Iommu::None,
        nics: 2,
        ..Options::default()
    })
    .unwrap();
    let address = node
        .check("basename \"$(readlink -f /sys/class/net/eth1/device/..)\"")
        .unwrap();
    let mut stage = Stage {
        node: &node,
        product: built("rdma-health").unwrap().display().to_string(),
        address: address.trim().to_owned(),
    };
    run_acts!(
        &mut stage,
        restore,
        [
            only_the_given_device_is_used,
            a_command_replaces_the_program,
            a_link_that_comes_up_ends_the_waiting,
            an_address_that_is_assigned_ends_the_waiting,
            a_device_that_is_created_ends_the_waiting,
            each_device_passes_a_loopback,
            a_low_memlock_limit_is_reported_at_once,
            the_first_process_of_a_container_ends_on_a_signal,
            ucx_accepts_the_settings,
            a_pod_with_its_own_network_uses_its_own_gids,
        ]
    );
}

/// Undoes what any of the acts does to the node.
fn restore(stage: &mut Stage<'_>) {
    let script = "ip netns del pod 2>/dev/null; sleep 1
        ip link set eth1 up; ip addr replace 10.0.101.2/24 dev eth1
        test -e /sys/class/infiniband/rxe1 || rdma link add rxe1 type rxe netdev eth1
        pkill -KILL -f 'rdma-health wait'; true";
    if let Err(error) = stage.node.run(script) {
        eprintln!("the node could not be restored: {error:#}");
    }
}

fn only_the_given_device_is_used(stage: &Stage<'_>) {
    let text = stage.check("env --mode rdma");
    assert!(text.contains("export NCCL_IB_HCA='=rxe1:1';\n"), "{text}");
    assert!(text.contains("export NCCL_IB_ADDR_FAMILY=AF_INET;\n"), "{text}");
    assert!(!text.contains("rxe0"), "{text}");
    assert_eq!(text, stage.check("env --mode rdma"), "the same facts");
    let visible = stage
        .node
        .check(&format!("env -i {} env --mode rdma", stage.product))
        .unwrap();
    assert!(visible.contains("'=rxe0:1,rxe1:1'"), "{visible}");
}

fn a_command_replaces_the_program(stage: &Stage<'_>) {
    // The same process, its signals and its status.
    let script = format!(
        "echo $$; exec {}",
        stage.given("run --mode rdma -- sh -c 'echo $$ $NCCL_IB_HCA; kill -TERM $$'")
    );
    let output = stage.node.run(&format!("bash -c {}", quote(&script))).unwrap();
    let text = output.stdout_text().into_owned();
    let (before, after) = text.split_once('\n').unwrap();
    assert_eq!(after, format!("{before} =rxe1:1\n"), "{}", output.stderr_text());
    assert_eq!(output.status, 128 + 15);
    // Root may raise the limit.
    let limit = stage.node.check(&format!(
        "ulimit -l 64; {}",
        stage.given("run -- bash -c 'ulimit -l'")
    ));
    assert_eq!(limit.unwrap(), "unlimited\n");
}

fn a_link_that_comes_up_ends_the_waiting(stage: &Stage<'_>) {
    stage.node.check("ip link set eth1 down").unwrap();
    let job = stage.waiting("waiting for rxe1:1: its state is DOWN, expected ACTIVE");
    stage.node.check("ip link set eth1 up").unwrap();
    assert_eq!(job.wait(SOON).unwrap(), 0, "{}", job.stderr().unwrap());
    assert!(job.stdout().unwrap().starts_with("RDMA is ready: 1 port after "));
    assert!(job.stdout().unwrap().contains("rxe1:1 (GID "));
}

fn an_address_that_is_assigned_ends_the_waiting(stage: &Stage<'_>) {
    stage.node.check("ip addr flush dev eth1").unwrap();
    let job = stage.waiting("waiting for rxe1:1: no RoCE v2 GID with a routable address");
    let ended = stage.node.run(&stage.given("wait --timeout 10s")).unwrap();
    assert_eq!(ended.status, 2);
    assert!(
        ended
            .stderr_text()
            .contains("RDMA is not ready:\n  rxe1:1: no RoCE v2 GID"),
        "{}",
        ended.stderr_text()
    );
    stage.node.check("ip addr add 10.0.101.2/24 dev eth1").unwrap();
    assert_eq!(job.wait(SOON).unwrap(), 0, "{}", job.stderr().unwrap());
    assert!(
        job.stdout().unwrap().contains("10.0.101.2"),
        "{}",
        job.stdout().unwrap()
    );
}

fn a_device_that_is_created_ends_the_waiting(stage: &Stage<'_>) {
    stage.node.check("rdma link delete rxe1").unwrap();
    let job = stage.waiting("its driver virtio-pci has no RDMA device for it here");
    stage
        .node
        .check("rdma link add rxe1 type rxe netdev eth1")
        .unwrap();
    assert_eq!(job.wait(SOON).unwrap(), 0, "{}", job.stderr().unwrap());
}

fn each_device_passes_a_loopback(stage: &Stage<'_>) {
    let output = stage
        .node
        .run_within(SOON, &stage.given("wait --probe --timeout 1m"))
        .unwrap();
    assert_eq!(output.status, 0, "{}", output.stderr_text());
    // A device file that neither the job nor the probe can open.
    let script = format!(
        "chmod 0 /dev/infiniband/uverbs1; setpriv --reuid 65534 --clear-groups --inh-caps -all --bounding-set -all {}; \
         status=$?; chmod 666 /dev/infiniband/uverbs1; exit $status",
        stage.given("wait --probe --timeout 10s --memlock 0")
    );
    let output = stage.node.run_within(SOON, &script).unwrap();
    assert_eq!(output.status, 2, "{}", output.stderr_text());
    assert!(
        output
            .stderr_text()
            .contains("rxe1: this user may not open /dev/infiniband/uverbs1 (permission denied)"),
        "{}",
        output.stderr_text()
    );
}

fn a_low_memlock_limit_is_reported_at_once(stage: &Stage<'_>) {
    let script = format!(
        "ulimit -l 64; setpriv --reuid 65534 --clear-groups --inh-caps -all --bounding-set -all {}",
        stage.given("wait --timeout 1h")
    );
    let output = stage.node.run_within(SOON, &script).unwrap();
    assert_eq!(output.status, 2, "{}", output.stderr_text());
    assert!(
        output
            .stderr_text()
            .contains("memlock limit: 64 KiB, expected 64 GiB or CAP_IPC_LOCK"),
        "{}",
        output.stderr_text()
    );
    // With the privilege, the limit does not matter.
    let privileged = format!("ulimit -l 64; {}", stage.given("wait --timeout 1m"));
    assert_eq!(stage.node.run_within(SOON, &privileged).unwrap().status, 0);
}

fn the_first_process_of_a_container_ends_on_a_signal(stage: &Stage<'_>) {
    stage.node.check("ip link set eth1 down").unwrap();
    let job = stage
        .node
        .spawn(&format!(
            "unshare --pid --fork {} & wait $!",
            stage.given("wait --timeout 10m")
        ))
        .unwrap();
    let end = std::time::Instant::now() + SOON;
    while !job.stderr().unwrap().contains("waiting for rxe1:1") {
        assert!(std::time::Instant::now() < end, "{}", job.stderr().unwrap());
        std::thread::sleep(Duration::from_millis(100));
    }
    stage
        .node
        .check("kill -TERM $(pgrep -n -f 'rdma-health wait')")
        .unwrap();
    assert_eq!(job.wait(SOON).unwrap(), 128 + 15, "{}", job.stderr().unwrap());
    stage.node.check("ip link set eth1 up").unwrap();
}

/// `ucx_info` opens the devices that the settings name, and warns about variables that UCX does not know.
fn ucx_accepts_the_settings(stage: &Stage<'_>) {
    for (mode, device, transport) in [("rdma", "rxe1:1", "rc_verbs/rxe1:1"), ("tcp", "eth0", "tcp/eth0")] {
        let script = format!(
            "ip route replace default dev eth0; eval \"$({})\"; ucx_info -c; ucx_info -p -w -u t; ip route del default",
            stage.given(&format!("env --mode {mode}"))
        );
        let output = stage.node.run_within(SOON, &script).unwrap();
        let (text, errors) = (output.stdout_text(), output.stderr_text());
        assert!(text.contains(&format!("UCX_NET_DEVICES={device}\n")), "{text}");
        assert!(text.contains(transport), "{mode}: {text}\n{errors}");
        assert!(text.contains("UCP worker"), "{mode}: {text}\n{errors}");
        for stream in [&text, &errors] {
            assert!(!stream.contains(" WARN "), "{mode}: {stream}");
        }
    }
    // The check above can fail.
    let script = "UCX_NO_SUCH=1 UCX_NET_DEVICES=rxe7:1 ucx_info -p -w -u t 2>&1";
    let output = stage.node.run_within(SOON, script).unwrap();
    for words in ["unused env variable: UCX_NO_SUCH", "'rxe7:1' is not available"] {
        assert!(output.stdout_text().contains(words), "{}", output.stdout_text());
    }
}

/// The device is visible in all network namespaces, and its GIDs belong to the pod's.
fn a_pod_with_its_own_network_uses_its_own_gids(stage: &Stage<'_>) {
    let script = "set -e; ip netns add pod; ip link set eth1 netns pod
        ip netns exec pod sh -ec 'ip link set lo up; ip link set eth1 name net1; ip link set net1 up
        ip addr add 10.9.0.2/24 dev net1; rdma link add rxe9 type rxe netdev net1'";
    stage.node.check(script).unwrap();
    let inside = stage
        .node
        .check(&format!("ip netns exec pod {}", stage.given("env --mode rdma")))
        .unwrap();
    assert!(inside.contains("'=rxe9:1'"), "{inside}");
    let waited = stage
        .node
        .check(&format!("ip netns exec pod {}", stage.given("wait --timeout 1m")))
        .unwrap();
    assert!(waited.contains("10.9.0.2"), "{waited}");
    // The node's other device belongs to another network namespace.
    let other = stage
        .node
        .run(&format!(
            "ip netns exec pod env -i PATH=\"$PATH\" SRIOVNETWORK_x_RDMA_DEVICE=rxe0 {} env --mode rdma",
            stage.product
        ))
        .unwrap();
    assert_eq!(other.status, 2);
    assert!(
        other.stderr_text().contains("outside this network namespace"),
        "{}",
        other.stderr_text()
    );
}
