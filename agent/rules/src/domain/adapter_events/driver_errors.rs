//! Errors of RDMA drivers that are not known, and requests that an adapter or the machine refused.

use rdma_health_node::{
    DeviceEvent, Node,
    kmsg::{EventKind, is_software_rdma},
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Writer,
    domain::logged::{is_older, is_past, said},
    draft::Draft,
    policy::Exception,
};

use super::{adapter_faults, not_started::VERSIONS};

/// `driver-errors-logged`.
pub static DRIVER_ERRORS: Rule = Rule {
    id: "driver-errors-logged",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::INFO).except(&[
        &NO_MORE_REGIONS,
        &NO_MORE_QUEUES,
        &NO_ROOM_FOR_VFS,
        &OF_A_SERVICE,
    ]),
    title: "An RDMA driver logged errors whose meaning is not known",
    explanation: "The kernel log contains errors of an RDMA driver that are not among those that this program knows, or calls that \
        the firmware refused. Many are the result of a request that an application made and do not concern the adapter. If the firmware \
        keeps refusing to register memory because its resources are used up, jobs fail with ENOMEM whatever their memory-lock limit is. If it refuses every queue, no program can use the adapter. Virtual functions that were requested \
        do not exist if the machine has no address range left for them.",
    remedy: Remedy::all(
        "Read them: journalctl -k -b -p err | grep ADDRESS. If jobs fail at the same time, keep them for the vendor.",
    ),
    false_alarms: "Info, except for failures of what uses RDMA in the kernel and has not said that it works again, for refused registrations of memory, for queues that the driver could not create again and again, and for virtual functions that could not be created. Refused reads of registers (ACCESS_REG), which monitoring causes on some adapters, are left out.",
    inputs: &[Writer::Hardware, Writer::Job],
    judge: driver_errors,
};

fn driver_errors(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [
        EventKind::DriverError,
        EventKind::ResourceLimit,
        EventKind::FunctionsRefused,
    ];
    adapter_faults(node, &DRIVER_ERRORS, &kinds, |fault, finding| {
        if let Some(module) = fault.service() {
            let what = "this part of the kernel, which uses RDMA or offers it in software, reports a failure";
            let finding = finding
                .case(FindingCase::OfService)
                .message(said(fault, what))
                .fill("MODULE", fault.subject())
                .reason(&fault.event.message);
            // RDMA in software logs what happens to its network device, too.
            let is_now = !fault.is_over && !is_past(node, fault) && !is_software_rdma(module);
            return Some(finding.remedy(SERVICE).exception(is_now.then_some(&OF_A_SERVICE)));
        }
        if is_without_vectors(fault) {
            let what = "the kernel created no virtual functions, because the adapter has no interrupt vectors (MSI-X) left for them";
            let finding = finding
                .case(FindingCase::WithoutResources)
                .message(said(fault, what));
            return Some(finding.remedy(NO_VECTORS).exception(&NO_ROOM_FOR_VFS));
        }
        if is_without_room_for_vfs(fault) {
            return Some(
                finding
                    .case(FindingCase::NoRoomForVfs)
                    .message(said(
                        fault,
                        "the kernel created no virtual functions, because no memory range (MMIO) is left for them",
                    ))
                    .remedy(NO_ROOM)
                    .exception(&NO_ROOM_FOR_VFS),
            );
        }
        if is_creation(node, fault) {
            let what = "the adapter refuses to create queues, so programs cannot use it";
            let finding = finding.case(FindingCase::Refused).message(said(fault, what));
            return Some(finding.remedy(VERSIONS).exception(&NO_MORE_QUEUES));
        }
        if !is_registration(node, fault) {
            let finding = finding.case(FindingCase::UnknownError);
            return Some(match request(&fault.event.message) {
                Some((what, reason)) => {
                    let finding = finding.message(said(fault, &format!("{what}: {reason}")));
                    if is_of_program(&what) {
                        finding.remedy(OF_A_REQUEST).reason(&reason)
                    } else {
                        finding
                    }
                }
                None => finding,
            });
        }
        let finding = finding.case(FindingCase::RegistrationRefused);
        Some(finding.remedy(REGISTRATION).exception(&NO_MORE_REGIONS))
    })
}

static NO_MORE_REGIONS: Exception = Exception {
    condition: "if the firmware refused three times or more to register memory because no resources are left, the last time within 30 days",
    severities: Severities::WARNING,
};

static NO_MORE_QUEUES: Exception = Exception {
    condition: "if the driver could not create queues or other objects three times or more, the last time within 30 days",
    severities: Severities::WARNING,
};

static OF_A_SERVICE: Exception = Exception {
    condition: "if a part of the kernel that uses RDMA (nvme_rdma, rpcrdma, LNet) reported a failure in the last day, and not that it works again",
    severities: Severities::WARNING,
};

/// What to do about a service of the kernel.
const SERVICE: Remedy = Remedy {
    any: "MODULE logged REASON. Read what is logged just before it, on this node and on its server. No program is at fault. If a mount or a volume does not work, check the path to the server (ping, rping), then connect or mount it again.",
    host: "journalctl -k -b -p warning | grep -B4 -i -e MODULE -e rdma; rdma link show",
    ..Remedy::all("")
};

/// What to do about virtual functions without interrupt vectors.
const NO_VECTORS: Remedy = Remedy {
    any: "Free interrupt vectors (MSI-X) of the adapter, then create the virtual functions again: use fewer virtual functions, fewer queues (ethtool -L NETDEV combined 8), or none for RDMA of the physical function if only the virtual functions use it (modprobe -r irdma; devlink dev param set pci/ADDRESS name enable_rdma for newer drivers). A newer firmware of the adapter may offer more vectors.",
    host: "lspci -vv -s ADDRESS | grep MSI-X; journalctl -k -b | grep ADDRESS; devlink resource show pci/ADDRESS",
    ..Remedy::all("")
};

static NO_ROOM_FOR_VFS: Exception = Exception {
    condition: "if virtual functions could not be created, because the firmware of the machine left no address range for them, or the adapter has no interrupt vectors left, and there are none",
    severities: Severities::WARNING,
};

/// What failed at the request of a program, and why, in the words of mlx5: `RTR2RTS_QP(0x504) op_mod(0x0) failed, status bad parameter(0x3), …`, `QP
/// 51291 error: local length error (0x8e 0x0 0x0)`.
fn request(message: &str) -> Option<(String, String)> {
    let is_plain = |text: &&str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || " _-".contains(c);
        !text.is_empty() && text.len() <= 48 && text.chars().all(is_part)
    };
    if let Some((_, rest)) = message.split_once("QP ")
        && let Some((_, rest)) = rest.split_once(" error: ")
    {
        let reason = rest.split('(').next().map(str::trim).filter(is_plain)?;
        return Some(("a queue pair of a program failed".to_owned(), reason.to_owned()));
    }
    let (before, rest) = message.split_once(" failed, status ")?;
    let reason = rest.split('(').next().map(str::trim).filter(is_plain)?;
    let (before, _) = before.split_once("(0x")?;
    let command = before.rsplit(' ').next().filter(is_plain)?;
    Some((format!("the firmware refused {command}"), reason.to_owned()))
}

/// Whether a command, or what failed, is one that programs request, and not only the driver for itself.
fn is_of_program(what: &str) -> bool {
    const OBJECTS: [&str; 9] = ["qp", "cq", "srq", "dct", "mkey", "mr", "umem", "xrcd", "queue"];
    let lower = what.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| OBJECTS.contains(&word))
}

/// What to do about a request of a program that the adapter refused.
const OF_A_REQUEST: Remedy = Remedy::all(
    "Nothing, as long as no program fails: the adapter works and refused one request. Read the log of the program that failed at that time (rdma-health check \
    --log FILE), which asked for it, and what the words mean: rdma-health explain REASON. If programs keep failing so, compare driver, firmware and rdma-core with \
    releases that belong together.",
);

/// Whether virtual functions were requested and not created, because no interrupt vectors are left for them: `Only 0 MSI-X interrupts available for
/// SR-IOV. Not enough to support minimum of 2 MSI-X interrupts per VF`.
fn is_without_vectors(fault: &DeviceEvent<'_>) -> bool {
    let lower = fault.event.message.to_ascii_lowercase();
    let is_of_vectors = ["msi-x", "msix", "interrupt", "vectors"]
        .iter()
        .any(|word| lower.contains(word));
    is_of_vectors && is_without_room_for_vfs(fault)
}

/// Whether virtual functions were requested and not created, because there is no room for their address ranges (`drivers/pci/iov.c`), and none came later.
fn is_without_room_for_vfs(fault: &DeviceEvent<'_>) -> bool {
    let pci = fault.function.as_ref().and_then(|function| function.pci);
    let active = pci
        .and_then(|pci| pci.sriov.known())
        .map_or(0, |sriov| sriov.active);
    fault.event.kind == EventKind::FunctionsRefused && !fault.is_over && active == 0
}

/// Whether the driver reported the same often and lately, which one application with a wrong request does not cause.
fn is_repeated(node: &Node, fault: &DeviceEvent<'_>) -> bool {
    const OFTEN: u64 = 3;
    const MONTH: u64 = 30 * 86_400;
    fault.event.count >= OFTEN && !fault.is_over && !is_older(node, fault.event, MONTH)
}

/// Whether the firmware refused to register memory, and more than a single application tried.
fn is_registration(node: &Node, fault: &DeviceEvent<'_>) -> bool {
    let lower = fault.event.message.to_ascii_lowercase();
    let names = [
        "reg_mr",
        "register mr",
        "reg mr",
        "create_mkey",
        "alloc_mr",
        "memory region",
    ];
    fault.event.kind == EventKind::ResourceLimit
        && names.iter().any(|name| lower.contains(name))
        && is_repeated(node, fault)
}

/// Whether the driver could not create an object that every program needs: `Failed to create HW CQ`, `Failed to allocate HW AH`. A parameter that the driver
/// calls wrong or a size is one of the request.
fn is_creation(node: &Node, fault: &DeviceEvent<'_>) -> bool {
    const CREATIONS: [&str; 4] = ["create", "allocate", "alloc", "register"];
    const OBJECTS: [&str; 6] = ["cq", "qp", "srq", "ah", "pd", "mr"];
    const OF_REQUEST: [&str; 8] = [
        "invalid",
        "bad",
        "unsupported",
        "not supported",
        "user",
        "size",
        "limit",
        "max",
    ];
    let lower = fault.event.message.to_ascii_lowercase();
    let fails = ["failed to ", "couldn't ", "could not ", "unable to "]
        .iter()
        .find_map(|words| lower.split_once(words));
    let Some((_, what)) = fails.filter(|_| fault.event.kind == EventKind::DriverError) else {
        return false;
    };
    let words: Vec<&str> = what
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let is_object = words.iter().skip(1).take(3).any(|word| OBJECTS.contains(word));
    let is_created = words.first().is_some_and(|word| CREATIONS.contains(word));
    is_created && is_object && !OF_REQUEST.iter().any(|word| lower.contains(word)) && is_repeated(node, fault)
}

/// What to do about virtual functions that do not fit.
const NO_ROOM: Remedy = Remedy {
    any: "In the firmware setup of the machine, enable SR-IOV and Above 4G Decoding, raise the MMIO size (MMIO High Size), and update that firmware: it \
        left no room for the address ranges (VF BARs) of the virtual functions. The adapter itself works. If there is no such setting, boot with \
        pci=realloc, or configure fewer virtual functions.",
    host: "lspci -vv -s ADDRESS | grep -A12 SR-IOV; journalctl -k -b | grep -e 'VF BAR' -e ADDRESS",
    ..Remedy::all("")
};

/// What to do about refused registrations.
const REGISTRATION: Remedy = Remedy {
    any: "The adapter has no room for more registered memory (it supports a limited number of regions and of pages in them): end processes of finished \
        jobs that hold some, let jobs use huge pages, which need fewer entries, and register less (smaller buffers, fewer channels). Raising the \
        memory-lock limit does not help.",
    host: "rdma resource show mr; ibv_devinfo -v -d DEVICE | grep -i max_mr; journalctl -k -b | grep -e DEVICE -e ADDRESS",
    ..Remedy::all("")
};
