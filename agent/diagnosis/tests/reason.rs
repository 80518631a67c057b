//! The reason that a log names decides what to do. What only repeats it is a consequence, and a text that mentions an error has none.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

mod common;
#[path = "common/healthy.rs"]
mod healthy;

use common::{each_is, first, kinds, primary, read};
use healthy::{causes, of};
use rdma_health_diagnosis::{Confidence, symptom::SymptomKind as K};
use rdma_health_tests::tree::Tree;

/// An event of the kubelet whose reason stands after the names of sandbox and pod.
fn event(reason: &str) -> String {
    let id = "7caa536a060bf581160dfade36a0a48a".repeat(2);
    format!(
        "  Warning  FailedCreatePodSandBox  24m  kubelet  Failed to create pod sandbox: rpc error: code = Unknown desc = failed to set up \
         sandbox container \"{id}\" network for pod \"w-0\": networkPlugin cni failed to set up pod \"w-0_nccl\" network: Multus: [nccl/w-0]: \
         error loading k8s delegates k8s args: {reason}\n"
    )
}

#[test]
fn the_end_of_a_long_chain_of_messages_decides_the_step() {
    let delegate = event("TryLoadPodDelegates: GetNetworkDelegates: failed getting the delegate");
    let plugin = event(
        "error in invoke Delegate add - \"macvlan\": failed to find plugin \"macvlan\" in path [/opt/cni/bin]",
    );
    each_is(&[
        (
            &delegate,
            "pod-network",
            "names one that its namespace does not have",
        ),
        (&plugin, "pod-network", "Install the plugin"),
        (
            "failed to find plugin \"whereabouts\" in path [/var/opt/cni/bin]\n",
            "pod-network",
            "Install the plugin",
        ),
        (
            "Multus: Err adding pod to network \"rail-0\": Multus: error in invoke Delegate add - \"sriov\": no free addresses\n",
            "pod-network",
            "more addresses",
        ),
    ]);
    // A plugin of the first network carries no RDMA.
    let first_network = kinds("failed to find plugin \"portmap\" in path [/opt/cni/bin]\n");
    assert!(!first_network.contains(&K::NetworkAttachFailed));
    let long = read(&event(&"x".repeat(4000)));
    assert!(
        long.symptoms
            .iter()
            .all(|symptom| symptom.text.chars().count() < 600)
    );
}

#[test]
fn a_driver_that_is_not_built_or_not_replaced_gets_the_step_for_its_reason() {
    let packages = "No OFED driver found for kernel 5.14.0-284.el9\nEnabling RHOCP and EUS RPM repos...\n\
        Errors during downloading metadata for repository 'baseos-rpms':\n";
    each_is(&[
        (packages, "kernel-module-build", "could not be downloaded"),
        (
            "Could not unload NVIDIA driver kernel modules, driver is in use\n",
            "modules-in-use",
            "gdrdrv",
        ),
        (
            "rmmod: ERROR: Module ib_core is in use by: nvidia_peermem\n",
            "modules-in-use",
            "modprobe -r nvidia_peermem",
        ),
    ]);
}

#[test]
fn what_repeats_a_failure_is_no_fault_of_its_own() {
    const CQ: &str = "[1.1] [n1:9:0] ib_mlx5_dv.c:452 UCX  ERROR mlx5dv_devx_obj_create(CQ) failed on mlx5_1, syndrome 0x2aac7c: Remote I/O error\n";
    const CHANNEL: &str =
        "[1.2] [n1:9:0] gdaki.c:397 UCX  ERROR gdaki channel chunk init: create_cq/qp failed (ch=2 ep=4)\n";
    const POOL: &str = "[1.3] [n1:9:0] mpool.c:246 UCX  ERROR Failed to allocate memory pool (name=gdaki_channel_pool) chunk: Input/output error\n";
    assert_eq!(primary(&format!("{CQ}{CHANNEL}{POOL}")), [K::CommandRefused]);
    assert_eq!(primary(CHANNEL), [K::GpuDoorbellFailed]);
    assert_eq!(primary(POOL), [K::RegMrFailed]);
}

#[test]
fn libfabric_has_no_memory_for_an_endpoint_after_its_adapter_was_refused() {
    const ENDPOINT: &str = "create_vni_context(982)..: OFI endpoint open failed (ofi_init.c:982:create_vni_context:Cannot allocate memory)\n";
    let after = |line: &str| primary(&format!("{line}\n{ENDPOINT}"));
    assert_eq!(
        after("n1:rank0: PSM3 can't open nic unit: 0 (err=23)"),
        [K::OpenFailed]
    );
    assert_eq!(primary(ENDPOINT), [K::NoMemory]);
}

#[test]
fn an_npu_that_waits_for_another_gets_the_step_for_npus() {
    each_is(&[(
        "EI0002: [PID: 9] The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank: [24]\n",
        "fabric-or-peer",
        "hccn_tool",
    )]);
}

#[test]
fn a_part_of_what_does_not_matter_does_not_matter() {
    let set = |function: &str| {
        format!("libfabric:9:verbs:eq:{function}():474<warn> Unable to modify QP attribute\n")
    };
    assert_eq!(kinds(&set("vrb_set_rnr_timer")), []);
    assert_eq!(kinds(&set("vrb_ep_enable")), [K::ConnectFailed]);
}

#[test]
fn a_tool_that_does_not_reach_its_own_port_says_nothing_of_a_peer() {
    assert_eq!(
        kinds("ibpanic: [812] main: can't resolve self port (null)\n"),
        [K::PortNotActive]
    );
    assert_eq!(
        kinds("ibpanic: [812] main: can't resolve destination port 4\n"),
        [K::PeerUnreachable]
    );
}

#[test]
fn a_comment_of_a_script_is_no_failure() {
    for text in [
        "# OLCFDEV-1597: OFI Poll Failed UNDELIVERABLE Errors\n",
        "# workaround: NCCL WARN NET/IB : Got completion from peer with status=12\n",
        "# this avoids OFI Poll Failed UNDELIVERABLE\n",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
    assert_eq!(
        first("# OFI Poll Failed UNDELIVERABLE\n").0,
        "fabric-or-peer",
        "an excerpt with a mark"
    );
}

#[test]
fn a_machine_without_rdma_is_not_that_of_a_device_that_cannot_be_opened() {
    let mut laptop = Tree::default();
    laptop.write("proc/modules", "e1000e 1 0 - Live 0x0\n").unwrap();
    let class = "sys/bus/pci/devices/0000:00:02.0/class";
    laptop.write(class, "0x0c0330\n").unwrap();
    let without = of(&laptop);
    let is_likely = |log: &str| {
        causes(&without, log)
            .iter()
            .any(|cause| cause.id == "no-rdma-device" && cause.confidence == Confidence::Likely)
    };
    assert!(!is_likely("Failed to open device\n"));
    assert!(!is_likely(
        "OFI fi_getinfo() failed (ofi_init.c:2819:find_provider:No data available)\n"
    ));
    assert!(is_likely("No IB devices found\n"));
}
