//! Crashes of the kernel in a module of RDMA, and tasks that hang there.

use rdma_health_kernel_log::{is_rdma_consumer, is_software_rdma};
use rdma_health_protocol::Errno;

use super::{Case, Scales, exhausted::INTERRUPTS, job::logged, layer::raw_not_started};
use crate::{
    log::call,
    symptom::{Symptom, SymptomKind},
};

/// What does not fit, or the module that crashed.
pub(crate) fn driver_firmware(case: &Case<'_>, scales: &mut Scales) {
    const KEEP: &str = "Keep the report (journalctl -k -b) for the maintainers of the module, and restart the node: what the module held stays locked.";
    const OTHER: &str = "Use another version of the kernel, or of the driver package that the module comes from (modinfo shows both).";
    const OF_SOFTWARE: &str = "The module does RDMA with the CPU, so no adapter and no firmware is concerned. Use another version of the kernel, or the RDMA \
        device of an adapter.";
    let Some(symptom) = case.seen(&[SymptomKind::DriverCrashed]).next() else {
        if let Some(symptom) = case.seen(&[SymptomKind::DriverWarned]).next() {
            scales.fits(&symptom.source, &symptom.text);
            scales.next_step = Some(of_warning(symptom));
            return;
        }
        of_bond(case, scales);
        of_raw(case, scales);
        of_message(case, scales);
        if let Some(symptom) = without_interrupts(case) {
            scales.next_step = Some(INTERRUPTS.to_owned());
            return scales.shows(&symptom.source, &symptom.text);
        }
        return logged(case, scales);
    };
    scales.shows(&symptom.source, &symptom.text);
    // The heading alone does not say where.
    scales.next_step = Some(match call(&symptom.text) {
        None => format!("{KEEP} {OTHER}"),
        Some((function, module)) if is_lockup(&symptom.text) => format!(
            "A CPU does not leave the function {function} of the module {module}. Look for what the driver logged before: a command without an answer, or an adapter that does \
            not work (journalctl -k -b | grep -i -e timeout -e health -e {module}). If there is such a line, it is the reason. {KEEP} {OTHER}"
        ),
        Some((function, module)) => format!(
            "The module {module} crashed in its function {function}, which is an error of the module. {KEEP} {}",
            if is_software_rdma(module) {
                OF_SOFTWARE
            } else {
                OTHER
            }
        ),
    });
}

/// What to do where a check of the kernel failed in a module, which goes on.
fn of_warning(symptom: &Symptom) -> String {
    if symptom.text.contains("rdma_rxe: ") {
        return "SoftRoCE (rdma_rxe) could not register the memory, and logged the reason: the kernel gave it no address of a page, as on 32-bit kernels with high memory, or for memory of a device. The limit of locked \
            memory is not the reason. Use a newer kernel, one of 64 bits or without CONFIG_HIGHMEM, ordinary memory for the buffers, or the RDMA device of an adapter; soft iWARP (siw) is another module to compare with."
            .into();
    }
    let place = call(&symptom.text).map_or_else(String::new, |(function, module)| {
        format!(" in the function {function} of the module {module}")
    });
    format!(
        "A check of the kernel failed{place} (a WARN): an error of the module, which goes on with what it does. Keep the report (journalctl -k -b), look whether what used RDMA at that time \
        failed, and use a newer version of the kernel, or of the driver package that the module comes from (modinfo shows both): most of these errors are fixed there. A restart is \
        needed only if BUG, Oops or general protection fault follows in the log."
    )
}

/// Whether the kernel reports a CPU that hangs, and no crash.
fn is_lockup(text: &str) -> bool {
    ["soft lockup", "self-detected stall"]
        .iter()
        .any(|words| text.contains(words))
}

/// What an adapter's driver reported that got no interrupts and then gave up: the first line of such a chain says why, the later ones only that.
pub(super) fn without_interrupts<'a>(case: &'a Case<'_>) -> Option<&'a Symptom> {
    const INTERRUPT: [&str; 5] = ["irq", "msi-x", "msix", "msi vector", "interrupt vector"];
    const REFUSED: [&str; 6] = ["fail", "unable", "cannot", "can't", "could not", "couldn't"];
    let ended = case.seen(&[SymptomKind::AdapterNotStarted]).next()?.line;
    let function = case
        .seen(&[SymptomKind::AdapterNotStarted])
        .next()?
        .named
        .function
        .clone();
    let all = case.log.map_or(&[][..], |log| &log.symptoms);
    all.iter().find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        let is_same = function
            .as_ref()
            .is_none_or(|function| text.contains(function.as_str()));
        symptom.line <= ended
            && symptom.line.is_some()
            && is_same
            && INTERRUPT.iter().any(|word| text.contains(word))
            && REFUSED.iter().any(|word| text.contains(word))
    })
}

/// A queue pair of a bond that could not be initialised, though no setting of the job chooses an attribute of it.
fn of_bond(case: &Case<'_>, scales: &mut Scales) {
    let is_set = case
        .log
        .is_some_and(|log| log.settings.keys().any(|name| name.ends_with("_PKEY")));
    let refused = case.seen(&[SymptomKind::InitRefused]).find(|symptom| {
        let is_bond = |name: &String| name.contains("bond");
        symptom.named.errno == Some(Errno::EINVAL) && symptom.named.device.as_ref().is_some_and(is_bond)
    });
    let Some(symptom) = refused.filter(|_| !is_set) else {
        return;
    };
    scales.fits(&symptom.source, &symptom.text);
    scales.next_step = Some(
        "Update the firmware of the adapter: some releases refuse this transition on a device of a bond (16.35 of ConnectX-5 before 16.35.3502). ibv_devinfo | grep \
        fw_ver shows the running one, mlxfwmanager --online the newest. Until then name another device of the job, or leave out the transport (UCX_TLS=rc,sm,self)."
            .into(),
    );
}

/// A queue pair for Ethernet frames that could not be initialised: no setting of a job chooses an attribute of it.
fn of_raw(case: &Case<'_>, scales: &mut Scales) {
    let Some(symptom) = raw_not_started(case) else {
        return;
    };
    scales.fits(&symptom.source, &symptom.text);
    scales.next_step = Some(
        "Check that the port is an Ethernet one (ibv_devinfo: link_layer), and that its device is not that of a bond (RoCE LAG), which some releases refuse: the port is the only \
        attribute of this transition. Then read the driver's messages (journalctl -k | grep mlx), and update driver and firmware."
            .into(),
    );
}

/// The firmware refused the tables of the embedded switch.
const SWITCHDEV: &str = "The firmware refused a table of the embedded switch. Some adapters and releases accept the mode switchdev only while there are no virtual functions: echo 0 > \
    /sys/class/net/PF/device/sriov_numvfs, devlink dev eswitch set pci/ADDRESS mode switchdev, then create the functions again. If it is refused without any, compare firmware and driver \
    with those that the vendor releases together: devlink dev info pci/ADDRESS.";

/// The adapter runs without firmware, and shows only its flash.
const RECOVERY: &str = "Write the firmware again: the flash has no valid image, so the adapter offers only its recovery mode, and no driver takes it. Read the PSID that the card had (its label, or \
    flint -d ADDRESS query; mstflint does the same), and write the image of the vendor for that PSID: flint -d ADDRESS -i IMAGE burn. If an image of another vendor was written before, it needs \
    -allow_psid_change, and -nofs if the tool refuses the old content. Then switch the node off and on; a restart is not enough. If flint finds no flash, the card is faulty.";

/// What to do where the words of a message say more than its kind.
fn of_message(case: &Case<'_>, scales: &mut Scales) {
    const STEPS: [(&str, &str); 12] = [
        ("flash recovery", RECOVERY),
        ("livefish", RECOVERY),
        ("e-switch: failed", SWITCHDEV),
        ("create_flow_table", SWITCHDEV),
        (
            "iommu required",
            "Switch the IOMMU on: usNIC gives programs access to the adapter only through it. Enable VT-d or AMD-Vi in the BIOS, add intel_iommu=on (on AMD it is on by default) to the \
            kernel command line, and restart the node. ls /sys/class/iommu must list a unit. Then load usnic_verbs again.",
        ),
        (
            "rxe_invalidate_m",
            "SoftRoCE (rdma_rxe) of this kernel and the user of its memory regions do not agree about a key, which is an error of a module and of no adapter. Use another version of the kernel, or \
            the RDMA device of an adapter, or soft iWARP (siw).",
        ),
        ("alloc irq", INTERRUPTS),
        ("enable irq", INTERRUPTS),
        (
            "set_roce_address",
            "The firmware refused an entry of the GID table. Compare the MAC and IP addresses of the network device with what they should be: ip address show, rdma link. A MAC address \
            whose second digit is odd is one of a group, which no adapter takes as its own: set another one (ip link set NETDEV address MAC), and correct what assigned it. If the \
            addresses are in order, compare firmware and driver with those that the vendor releases together.",
        ),
        // What moves a queue pair has attributes that settings choose.
        (
            "for init2rtr_qp",
            "On RoCE, check the GID index of all ranks (show_gids): NVSHMEM_IB_GID_INDEX most often has to be set, to that of a RoCE v2 GID with an address that the peer reaches. The firmware \
            refused an attribute of the connection: on InfiniBand unset the GID index, and on both service level, traffic class and MTU (NVSHMEM_IB_SL, NVSHMEM_IB_TRAFFIC_CLASS, UCX_IB_SL). Then \
            compare firmware, driver and library of all nodes with those that the vendor releases together: ibv_devinfo | grep fw_ver, ofed_info -s.",
        ),
        (
            "upgrade to later fw",
            "Update the firmware of the adapter, which is too old for this driver: mlxfwmanager --query shows the present version, mlxfwmanager --online -u (or flint -d \
            ADDRESS -i IMAGE burn) installs the newest; then restart the node. If the RDMA device is still missing, load mlx4_ib and ib_uverbs, and read why its driver made none: \
            journalctl -k | grep -e mlx4 -e mlx5.",
        ),
        (
            "communicating with the driver",
            "Read what the driver of the Omni-Path adapter logged: journalctl -k | grep hfi1. Then bring driver and library to releases that belong together (modinfo hfi1, \
            fi_info --version; libpsm2 comes with the driver): the library asks the driver for what an older or other one does not do. Until then, try the other provider of \
            libfabric, psm2 or opx, than the one that failed: FI_PROVIDER selects it.",
        ),
    ];
    let found = STEPS.iter().find(|(words, _)| {
        let says = |symptom: &Symptom| symptom.text.to_ascii_lowercase().contains(words);
        // A line that is not recognised may say why the next one failed.
        case.symptoms.iter().any(|symptom| says(symptom))
            || case.log.is_some_and(|log| log.symptoms.iter().any(says))
    });
    if let Some((words, step)) = found {
        if *step == RECOVERY
            && let Some(symptom) = case.seen(&[SymptomKind::AdapterNotStarted]).next()
        {
            scales.shows(&symptom.source, &symptom.text);
        }
        if words.contains("init2rtr") {
            scales.doubts(
                "log",
                "the attributes of a connection come from the job: GID index, MTU, service level",
            );
        }
        scales.next_step = Some((*step).to_owned());
    }
}

/// The function and the module in which a task hangs that ends its own connection, so that it waits for no adapter.
pub(super) fn hung_consumer<'a>(case: &Case<'a>) -> Option<(&'a str, &'a str)> {
    let mut stalled = case.symptoms.iter().copied();
    let symptom = stalled.find(|symptom| symptom.kind == SymptomKind::DeviceStalled)?;
    call(&symptom.text).filter(|(_, module)| is_rdma_consumer(module))
}
