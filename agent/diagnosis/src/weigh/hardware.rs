//! The adapter and its PCIe link, and the CPU.

use rdma_health_node::infiniband::CLASS;
use rdma_health_protocol::Errno;

use super::{
    Case, Scales,
    cluster::function_step,
    crash::{hung_consumer, without_interrupts},
    fabric,
    job::logged,
    port::{ABSENT, absent_and_down},
};
use crate::symptom::{Software, Symptom, SymptomKind};

pub(crate) fn device_fault(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = removed_by_board(case) {
        return scales.against(
            &symptom.source,
            "the driver of the board removed the adapter, which is not faulty",
        );
    }
    if let Some(symptom) = without_interrupts(case) {
        return scales.doubts(
            &symptom.source,
            "the driver gave up because it got no interrupts from the host, and not because of the adapter",
        );
    }
    if let Some((function, module)) = hung_consumer(case) {
        scales.doubts(
            "log",
            format!("the task hangs in {function} of {module}, which is not a driver"),
        );
    }
    if let Some(symptom) = case.seen(&[SymptomKind::DeviceFatal]).next() {
        scales.fits(&symptom.source, &symptom.text);
    }
    let of_start = case.seen(&[SymptomKind::AdapterNotStarted]).next();
    if let Some(symptom) = of_start.filter(|symptom| is_silent(symptom)) {
        scales.fits(&symptom.source, &symptom.text);
    }
    // Drivers name the function, not the RDMA device.
    let function = case.symptoms.iter().find_map(|symptom| {
        let own = || {
            case.node
                .hcas
                .known()?
                .get(symptom.named.device.as_deref()?)?
                .pci_address
                .known()
        };
        symptom.named.function.as_ref().or_else(own)
    });
    if let Some(address) = function.filter(|address| case.node.pci.has(address) == Some(false)) {
        scales.next_step = Some(format!(
            "Drain the node, and switch its power off and on: {address} is not on the PCI bus any more, so that nothing can be loaded into it. Then look whether lspci -s {address} \
            shows the adapter again. If it does not, or if it goes again, reseat the adapter or report it to the maker of the server. journalctl -k | grep {address} shows what happened before."
        ));
    } else if let Some(function) = function.filter(|_| is_without_firmware(case)) {
        scales.next_step = Some(format!(
            "Drain the node, and switch its power off and on: a restart does not start the firmware of the adapter again. If {function} still does not answer, its firmware cannot be updated through the driver: \
            write it in the adapter's recovery mode with the tool of its vendor (mstflint for NVIDIA, niccli or bnxtnvm for Broadcom, the cxgb4 update of Chelsio's package), or replace the adapter. \
            journalctl -k | grep {function} shows how far it got."
        ));
    } else if let Some(function) = function {
        scales.next_step = Some(format!(
            "Check what the kernel logged about the adapter: journalctl -k | grep {function}. Then drain the node, and update the firmware or \
            reset the adapter."
        ));
    }
    for symptom in case.seen(&[SymptomKind::DeviceGone]) {
        let Some(device) = &symptom.named.device else {
            continue;
        };
        let hcas = case.node.hcas.known();
        if hcas.is_some_and(|hcas| !hcas.contains_key(device.as_str())) {
            scales.fits(CLASS, format!("{device} is missing"));
        }
    }
    let text = |symptom: &Symptom| symptom.text.to_ascii_lowercase();
    if case
        .symptoms
        .iter()
        .any(|symptom| text(symptom).contains("vmw_pvrdma"))
    {
        scales.next_step = Some(VMWARE.to_owned());
    } else if case
        .symptoms
        .iter()
        .any(|symptom| text(symptom).contains("to generate interrupt"))
    {
        scales.next_step = Some(INTERRUPT.to_owned());
    } else if case.log.is_some_and(|log| log.marks.hyperv) {
        scales.next_step = Some(GUEST.to_owned());
    } else if case.symptoms.iter().any(|symptom| is_of_guest(symptom)) {
        // A paravirtual or elastic adapter is one of the cloud's.
        let is_of_cloud = case.symptoms.iter().any(|symptom| {
            let text = text(symptom);
            ["erdma", "efa", "ena", "gve", "mana"].iter().any(|driver| {
                text.contains(&format!("{driver} 0000:")) || text.contains(&format!("{driver}: probe"))
            })
        });
        let step = if is_of_cloud { OF_CLOUD } else { GIVEN };
        scales.next_step = Some(step.to_owned());
    }
    if case.node.kernel_log.known().is_none() {
        scales.unseen("kernel log");
    }
    device_present(case, scales);
}

/// What to do about an adapter whose first interrupt does not arrive.
const INTERRUPT: &str = "Load the driver with the other kind of interrupts, since the one of the adapter does not arrive: options ib_mthca msi_x=0 (mlx4_core: msi_x=0) in \
    /etc/modprobe.d, or with MSI-X if it was off. Then look at the platform: update the BIOS, leave pci=nomsi and noapic off the kernel command line, try another slot, and \
    check the IOMMU's interrupt remapping. grep -e mthca -e mlx4 /proc/interrupts must count.";
/// What to do about an adapter of a virtual machine on Hyper-V or Azure.
const GUEST: &str = "Stop the virtual machine so that it is deallocated, and start it again (on Azure: redeploy), so that it gets another host: the \
    host did not answer for the adapter, whose firmware the guest cannot change. If it happens again, report it to the operator of the host with the \
    time and the lines of journalctl -k | grep -e hv_pci -e mana -e mlx5.";
/// The same on other clouds.
const OF_CLOUD: &str = "Stop the instance and start it again, so that it gets another host: the adapter belongs to the provider, and the guest can change neither its firmware nor its host. \
    If it does not start there, update the driver to the release that the provider recommends for this instance and kernel, and report it to the provider with the lines of \
    journalctl -k that name the adapter.";
/// The same where a hypervisor such as KVM gives a function to the guest.
const GIVEN: &str = "On the host, check the physical function, and that the virtual function is not given to two guests: journalctl -k | grep -e mlx5 -e vfio, ip link show PF. Then \
    detach the function, reset it there (echo 1 > /sys/bus/pci/devices/ADDRESS/reset), and give it to the guest again. The adapter is on the first bus, \
    where a hypervisor puts what it gives to a virtual machine: the guest can neither update its firmware nor reset it.";
/// The same on `VMware`.
const VMWARE: &str = "The paravirtual adapter (PVRDMA) works only with a vmxnet3 network adapter, which must be function 0 of the same PCI slot: lspci \
    shows both, and lsmod | grep vmxnet3 its driver. In vSphere, the network adapter of type PVRDMA needs virtual hardware 13 or later, a distributed \
    switch and an ESXi host with a configured RDMA adapter. Then load vmw_pvrdma again.";

/// Whether an adapter that does not start is one of a guest: on a host, a bridge or a port is above it, so that it is on another bus.
fn is_of_guest(symptom: &Symptom) -> bool {
    let is_first_bus = |function: &String| function.starts_with("0000:00:");
    symptom.kind == SymptomKind::AdapterNotStarted
        && symptom.named.function.as_ref().is_some_and(is_first_bus)
}

/// A tool showed a device with a GUID of zeros before something failed there.
pub(crate) fn virtual_functions(case: &Case<'_>, scales: &mut Scales) {
    let is_state = |symptom: &&Symptom| symptom.text.to_ascii_lowercase().contains("state");
    if case.is_efa() && case.seen(&[SymptomKind::FunctionUnconfigured]).next().is_none() {
        return scales.against("adapters", "EFA, whose functions the cloud configures");
    }
    if let Some(symptom) = case.seen(&[SymptomKind::FunctionUnconfigured]).next() {
        scales.fits(&symptom.source, &symptom.text);
        scales.next_step = function_step(symptom).map(str::to_owned);
    }
    if let Some(symptom) = case.seen(&[SymptomKind::FunctionUnconfigured]).find(is_state)
        && function_step(symptom).is_none()
    {
        scales.next_step = Some(
            "On the host, set the GUIDs of the virtual function and its state: ip link set PF vf N node_guid GUID, the same with port_guid, then ip link set \
            PF vf N state auto, and bind its driver again. The subnet manager must serve virtual ports: with opensm, virt_enabled 2 in opensm.conf. The \
            cable has a link, so it is not what is missing."
                .into(),
        );
        return;
    }
    if let Some(symptom) = absent_and_down(case) {
        scales.shows(&symptom.source, ABSENT);
        scales.next_step = Some(
            "On the host, find the virtual function of the device (rdma-health devices, ip -d link show) and its physical function. InfiniBand: set its \
            GUIDs and ip link set PF vf N state auto, then bind its driver again; the subnet manager must serve virtual ports (opensm: virt_enabled 2). \
            Ethernet: ip link set PF vf N state auto, and ip link set NETDEV up in the pod. The cable of the physical port has a link."
                .into(),
        );
        return;
    }
    let Some(zero) = case.log.and_then(|log| log.zero_guid.as_ref()) else {
        return;
    };
    let is_there = |symptom: &&&Symptom| {
        let is_same = match (&symptom.named.device, &zero.device) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        symptom.line > Some(zero.line) && is_same
    };
    if !case.is_efa() && case.symptoms.iter().any(|symptom| is_there(&symptom)) {
        scales.shows(format!("log line {}", zero.line), &zero.text);
        scales.next_step = Some(fabric::step_of_zero(case, zero).to_owned());
    }
}

/// Whether a driver found no firmware that runs when it started the adapter.
fn is_without_firmware(case: &Case<'_>) -> bool {
    const WORDS: [&str; 2] = ["could not connect to fw", "during device preparation"];
    case.seen(&[SymptomKind::AdapterNotStarted, SymptomKind::DeviceFatal])
        .any(|symptom| {
            let text = symptom.text.to_ascii_lowercase();
            WORDS.iter().any(|words| text.contains(words))
        })
}

/// Whether an adapter did not start because it, or its firmware, did not answer.
pub(crate) fn is_silent(symptom: &Symptom) -> bool {
    // mlx5 before Linux 5.17 returns EBUSY where it waited in vain for the firmware.
    const SILENT: [Errno; 6] = [
        Errno::EBUSY,
        Errno::ETIMEDOUT,
        Errno::ETIME,
        Errno::EIO,
        Errno::ENODEV,
        Errno::ENXIO,
    ];
    let waited = || symptom.text.to_ascii_lowercase().contains("initializing state");
    symptom.named.errno.is_some_and(|errno| SILENT.contains(&errno)) || waited()
}

/// What to do about a GPU that another driver holds.
const HELD: &str = "Another driver holds the GPU, so that NVIDIA's cannot start it: lspci -nnk shows which one is in use. For nouveau write blacklist nouveau and options nouveau \
    modeset=0 to a file in /etc/modprobe.d, rebuild the initramfs (update-initramfs -u, or dracut -f), and restart the node. vfio-pci holds a GPU that is meant for a virtual \
    machine: leave it, or take its id out of the options of vfio-pci.";

/// The kernel reports that it had no memory. ENOMEM alone can as well be a limit of the adapter.
/// The connections between GPUs have a manager of their own.
pub(crate) fn gpu_fault(case: &Case<'_>, scales: &mut Scales) {
    const OF_FABRIC: [&str; 9] = [
        "fabric probe",
        "system not yet initialized",
        "system_not_ready",
        "systemnotready",
        "fabric_state",
        "nvls.cc",
        "nvlink sharp",
        "fabricmanager",
        "fabric manager",
    ];
    if let Some(symptom) = case.seen(&[SymptomKind::GpuNotStarted]).next() {
        scales.next_step = Some(HELD.to_owned());
        return scales.fits(&symptom.source, &symptom.text);
    }
    let of_fabric = case.seen(&[SymptomKind::GpuLinkError]).find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        OF_FABRIC.iter().any(|words| text.contains(words))
    });
    let of_exchange = case
        .seen(&[SymptomKind::GpuLinkError])
        .find(|symptom| symptom.text.to_ascii_lowercase().contains("imex"));
    if let Some(symptom) = of_exchange {
        scales.next_step = Some(super::gpu::EXCHANGE.to_owned());
        return scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = of_fabric {
        scales.next_step = Some(
            "Check the fabric manager of the GPUs: systemctl status nvidia-fabricmanager, journalctl -u nvidia-fabricmanager, and that its version is that of the driver (nvidia-smi). If it was restarted or \
            updated while the GPUs were in use, stop all jobs, reset all GPUs (nvidia-smi -r) or restart the node. nvidia-smi -q | grep -A4 Fabric must show Completed and \
            Success. Until then NCCL works without NVLink multicast: NCCL_NVLS_ENABLE=0."
                .into(),
        );
        return scales.fits(&symptom.source, &symptom.text);
    }
    if case
        .symptoms
        .iter()
        .all(|symptom| symptom.kind == SymptomKind::GpuError)
    {
        scales.unseen("whether other programs fail on this GPU, too");
    }
    logged(case, scales);
}

pub(crate) fn host_memory(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::HostMemory]).next() {
        let text = symptom.text.to_ascii_lowercase();
        if text.contains("queue allocation failed") {
            scales.next_step = Some(
                "DPDK keeps its queues in huge pages, and too few are free: grep -i huge /proc/meminfo. Reserve more (dpdk-hugepages.py --setup 4G, or hugepages= on \
                the kernel command line) on the NUMA node of the adapter, and end programs that left some behind (/dev/hugepages)."
                    .into(),
            );
        } else if text.contains("hugepage") {
            scales.next_step = Some(
                "The program takes its buffers from huge pages of shared memory, and got none. Reserve enough (sysctl vm.nr_hugepages=N; grep -i huge /proc/meminfo shows what is free), and raise the number and size of \
                segments, of which it makes one for each queue pair: sysctl kernel.shmmni kernel.shmmax kernel.shmall. Remove those that ended programs left: ipcs -m, ipcrm. Or run it without huge pages, or with fewer \
                queue pairs (-q)."
                    .into(),
            );
        } else if text.contains("shmget") {
            scales.next_step = Some(
                "The target keeps its buffers in shared memory of huge pages, and found too little: compare the size in the message with sysctl kernel.shmmax \
                kernel.shmall and grep -i huge /proc/meminfo. Reserve more (vm.nr_hugepages), or lower the target's pool (tgtd --iser pool_size_mb=N)."
                    .into(),
            );
        }
        return scales.fits(&symptom.source, &symptom.text);
    }
    let ended = case.seen(&[SymptomKind::RankFailed]).find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        ["out of memory: killed", "oom-kill", "oom_kill", "oomkilled"]
            .iter()
            .any(|words| text.contains(words))
    });
    if let Some(symptom) = ended {
        return scales.shows(&symptom.source, &symptom.text);
    }
    let starved = case
        .seen(&[SymptomKind::AdapterNotStarted])
        .any(|symptom| symptom.named.errno == Some(Errno::ENOMEM));
    let in_kernel = case
        .symptoms
        .iter()
        .all(|symptom| symptom.software.is_some_and(Software::is_kernel));
    let short = [
        SymptomKind::NoMemory,
        SymptomKind::CreateFailed,
        SymptomKind::RegMrNoMemory,
    ];
    let is_unlimited = || super::limits::unlimited(case).is_some() && !case.is_efa();
    if starved || (in_kernel || is_unlimited()) && case.seen(&short).next().is_some() {
        scales.unseen("free memory of the node (free -g) at that time");
    } else {
        scales.against("log", "the kernel did not report that it had no memory");
    }
}

/// A device that is missing, or was removed under the job and may be there again.
pub(crate) fn devices_missing(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = removed_by_board(case) {
        scales.insisted_step = Some(UNCABLED.to_owned());
        return scales.shows(&symptom.source, &symptom.text);
    }
    let Some(symptom) = removed(case) else {
        let mut gone = case.seen(&[SymptomKind::DeviceGone]);
        // The facts of the node were read before the probe, and may still show the device.
        return match gone.find(|symptom| symptom.line.is_none() && symptom.named.errno == Some(Errno::ENODEV))
        {
            Some(symptom) => scales.fits(&symptom.source, &symptom.text),
            None => device_present(case, scales),
        };
    };
    scales.fits(&symptom.source, &symptom.text);
    scales.next_step = Some(
        "Find out what removed the device at that time: journalctl -k --since TIME. It is removed when a bond of RoCE is made, changed or dissolved, when the driver or \
        firmware is loaded again or reset, and when the adapter is unplugged. Do so only while no job runs; connections must be opened again after it."
            .into(),
    );
}

/// The adapter is not faulty, and a rescan by hand can hang the machine.
const UNCABLED: &str = "Plug the cable in at both ends and restart the machine: its board took the adapters off the bus because it sees no cable, and they are not faulty. Do not rescan the \
    bus by hand, which can hang the machine. If the cable was plugged in when they were removed, delete /etc/nvidia/cx7-hotplug-enabled and restart.";

/// What the driver of a board reports that takes adapters without a cable off the bus.
fn removed_by_board<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let mut symptoms = case.symptoms.iter().copied();
    symptoms.find(|symptom| {
        symptom.kind == SymptomKind::DeviceGone
            && symptom.text.contains("-hotplug ")
            && symptom.text.contains("Cable removal")
    })
}

/// What `rdma_cm` reports when its device is taken away, and not because a transfer failed.
fn removed<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    case.symptoms.iter().copied().find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.kind == SymptomKind::DeviceGone
            && ["device_removal", "device removal"]
                .iter()
                .any(|event| text.contains(event))
    })
}

/// A device that the job misses and that is there, with an active port, speaks against a fault of the hardware.
pub(crate) fn device_present(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = removed_by_board(case) {
        return scales.against(&symptom.source, "the driver of the board removed the adapter");
    }
    let is_lost = case.seen(&[SymptomKind::DeviceGone]).next().is_some() && removed(case).is_none();
    if scales.supported() || !is_lost {
        return;
    }
    let ports = case.ports();
    let all_active = !ports.is_empty() && ports.iter().all(|port| port.is_active() == Some(true));
    if let (true, Some(port)) = (all_active, ports.first()) {
        scales.against(
            port.file("state"),
            format!("4: ACTIVE: {} is there and works", port.hca.name),
        );
    }
}

/// The firmware of a board with soldered adapters announces little power for them, in the same words as that of a server for a slot.
pub(crate) fn slot_power(case: &Case<'_>, scales: &mut Scales) {
    logged(case, scales);
    let is_off = |symptom: &Symptom| symptom.text.contains("powered down");
    if case.node.hcas().next().is_some() || case.seen(&[SymptomKind::SlotPower]).any(is_off) {
        return;
    }
    scales.doubts(
        "log",
        "which machine it is, and whether its links are slow, is not shown: where the adapter is part of the board, the message is usual",
    );
    scales.next_step = Some(
        "See what the machine is, first: cat /sys/class/dmi/id/product_name. On a DGX Spark or another GB10, where the adapter is part of the board, the \
        message is usual, and nothing is to be done. In a server, see whether the links have their full speed (ethtool NETDEV) and stay up. If not, use a slot with the \
        power that the adapter's manual demands, and update the firmware of the server, which announces that power: lspci -vv -s ADDRESS | grep PowerLimit."
            .into(),
    );
}

pub(crate) fn pci_path(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::PciLimited]).next() {
        scales.shows(&symptom.source, &symptom.text);
    }
    if scales.supported() {
        return;
    }
    for hca in case.devices() {
        let Some((address, function)) = case.node.link_of(hca) else {
            scales.unseen(format!("PCIe link of {}", hca.name));
            continue;
        };
        match (function.link.speed.known(), function.link.width.known()) {
            // A link below its capability would be a finding.
            (Some(speed), Some(width)) => scales.against(
                format!("/sys/bus/pci/devices/{address}/current_link_speed"),
                format!(
                    "{}.{} GT/s, {width} lanes: the most that both ends support",
                    speed / 1000,
                    speed % 1000 / 100
                ),
            ),
            // Software devices and devices of virtual machines have no PCIe link.
            _ => scales.unseen(format!("PCIe link of {address}")),
        }
    }
    // One contradicting fact is enough.
    scales.contradicts.truncate(1);
    scales.score = scales.score.max(super::AGAINST);
}

pub(crate) fn host_load(case: &Case<'_>, scales: &mut Scales) {
    for probe in case.node.loopbacks() {
        let report = &probe.report;
        let own = case
            .devices()
            .into_iter()
            .find(|hca| hca.name == report.path.from.device);
        let near = own.and_then(|hca| hca.numa_node.known().copied());
        if let (Some(used), Some(near)) = (report.numa_node, near)
            && used != near
        {
            scales.fits(
                format!("probe of {}", report.path.from.device),
                format!("ran on NUMA node {used}; the adapter is on NUMA node {near}"),
            );
        }
    }
    scales.unseen("CPU load and power settings (uptime, cpupower idle-info)");
}

pub(crate) fn software(case: &Case<'_>, scales: &mut Scales) {
    let used = case
        .seen(&[SymptomKind::BandwidthLow])
        .find(|symptom| ["]rxe", "]siw"].iter().any(|name| symptom.text.contains(name)));
    if let Some(symptom) = used {
        scales.next_step = Some(
            "NCCL uses RDMA in software (SoftRoCE or soft iWARP), which is for tests. If the node has an adapter, name its device: NCCL_IB_HCA=mlx5 (rdma link show \
            lists the devices), or remove the software device: rdma link delete NAME. Without an adapter, TCP is faster: NCCL_IB_DISABLE=1."
                .into(),
        );
        return scales.shows(&symptom.source, &symptom.text);
    }
    let devices = case.devices();
    if scales.supported() || devices.is_empty() {
        return;
    }
    match devices.iter().find(|hca| hca.is_software()) {
        Some(hca) => scales.shows(format!("{CLASS}/{}", hca.name), "software device"),
        None => scales.against(CLASS, "each device has a hardware driver"),
    }
}
