//! What the kernel logged about its RDMA modules: drivers, the core, and what uses RDMA for storage.

use rdma_health_node::{
    DeviceEvent, Node,
    kmsg::{Call, EventKind, is_software_rdma},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Writer,
    domain::logged::{PAST, Part, faults, is_past, said},
    draft::Draft,
    policy::Exception,
};

static OF_SERVICE: Exception = Exception {
    condition: "if the last message is more than a day old, and a service of rdma-core loads the module whether it is used or not",
    severities: Severities::INFO,
};

/// Modules for storage that the service of rdma-core tries at each start (`/etc/rdma/modules/rdma.conf`).
const OF_SERVICES: [&str; 8] = [
    "ib_iser", "ib_isert", "ib_srp", "ib_srpt", "rpcrdma", "xprtrdma", "svcrdma", "rds_rdma",
];

static CRASHED_LONG_AGO: Exception = Exception {
    condition: "if it was more than a day ago",
    severities: Severities::WARNING,
};

/// `kernel-module-refused`.
pub static MODULE_REFUSED: Rule = Rule {
    id: "kernel-module-refused",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING).except(&[&OF_SERVICE]),
    title: "The kernel refused an RDMA module that does not match the modules that are loaded",
    explanation: "The kernel log says that a symbol of the module is unknown or has another version, or that the module was built for \
        another kernel. It was built for the RDMA modules of the kernel, and those of a driver package (MLNX_OFED, DOCA-OFED) are loaded, \
        or the reverse. What needs the module does not work: an RDMA device, or storage over RDMA (Lustre, NVMe, NFS, iSER).",
    remedy: Remedy {
        any: "Build or install the module again, for the kernel that runs and the RDMA modules that are loaded, run depmod -a, and load it. \
            Where the module comes from the driver package, install its part for storage as well (NVMe, NFS, iSER and SRP are options of its installer).",
        host: "modinfo -n ib_core; modinfo -F vermagic DEVICE; dkms status; modprobe DEVICE; journalctl -k -b | grep DEVICE",
        ..Remedy::all("")
    },
    false_alarms: "A module that was loaded later is not reported. A module for storage that the service of rdma-core tried to load more than a day \
        ago is info: it may not be in use.",
    inputs: &[Writer::HostRoot],
    judge: module_refused,
};

fn module_refused(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::ModuleMismatch];
    faults(node, &MODULE_REFUSED, Part::Adapters, &kinds, |fault, finding| {
        let module = fault.subject();
        let finding = finding.fill("DEVICE", module);
        let is_idle = OF_SERVICES.contains(&fault.subject().as_ref()) && is_past(node, fault);
        (!fault.is_over).then(|| finding.exception(is_idle.then_some(&OF_SERVICE)))
    })
}

/// `kernel-module-crashed`.
pub static MODULE_CRASHED: Rule = Rule {
    id: "kernel-module-crashed",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::CRITICAL).except(&[&CRASHED_LONG_AGO]),
    title: "The kernel crashed in an RDMA module",
    explanation: "The kernel log has a report (BUG, Oops, general protection fault, KASAN) whose first module is one of RDMA: a driver, the RDMA core, or \
        what uses it for storage. The process that made the call has ended; what it held stays locked, so that further calls hang.",
    remedy: Remedy {
        any: "Drain the node, keep the report for the maintainers of the module, and restart the node. The crash is an error of the module: use \
            another version of the kernel, or of the driver package that the module comes from.",
        host: "journalctl -k -b; modinfo -F version DEVICE; uname -r",
        ..Remedy::all("")
    },
    false_alarms: "A warning of a driver (WARNING:) is not a crash. Only reports that the kernel itself wrote count.",
    inputs: &[Writer::Hardware],
    judge: module_crashed,
};

fn module_crashed(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::ModuleCrashed];
    faults(node, &MODULE_CRASHED, Part::Adapters, &kinds, |fault, finding| {
        let finding = at_call(fault, finding, "the kernel crashed in this module");
        let module = fault.subject();
        let remedy = if is_software_rdma(&module) {
            OF_SOFTWARE
        } else {
            MODULE_CRASHED.remedy
        };
        let finding = finding.remedy(remedy).fill("DEVICE", module);
        Some(finding.exception(is_past(node, fault).then_some(&CRASHED_LONG_AGO)))
    })
}

/// What to do about a crash in RDMA that the CPU does.
const OF_SOFTWARE: Remedy = Remedy {
    any: "Restart the node, and use another version of the kernel: the crash is an error of the module, which does RDMA with the CPU; no adapter and no firmware \
        is concerned. The module is meant for tests: use the RDMA device of an adapter, where there is one.",
    host: "journalctl -k -b; uname -r; rdma link show",
    ..Remedy::all("")
};

/// `kernel-module-hung`.
pub static MODULE_HUNG: Rule = Rule {
    id: "kernel-module-hung",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)).except(&[&PAST]),
    title: "A task of the kernel or a process hangs in an RDMA module",
    explanation: "A task waited for minutes, or a processor did not leave a function for seconds (soft lockup), and the first module of its call trace is an \
        RDMA driver or the RDMA core. Mostly the firmware does not answer a command, or a lock is not released. The process cannot be ended, and \
        others that make the same call hang, too.",
    remedy: Remedy {
        any: "Look for what the driver logged before: command timeouts, a fault of the adapter, a crash. Drain the node and restart it; a reset of \
            the adapter waits for the same lock. If it happens again, update driver and firmware.",
        host: "journalctl -k -b | grep -e DEVICE -e blocked -e timeout; cat /proc/PID/stack for a process in state D",
        ..Remedy::all("")
    },
    false_alarms: "A file system that waits for its server is not reported, although its trace has RDMA further down.",
    inputs: &[Writer::Hardware],
    judge: module_hung,
};

fn module_hung(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::ModuleHung];
    faults(node, &MODULE_HUNG, Part::Adapters, &kinds, |fault, finding| {
        let finding = at_call(fault, finding, "a task hangs in this module");
        let finding = finding.fill("DEVICE", fault.subject());
        Some(finding.exception(is_past(node, fault).then_some(&PAST)))
    })
}

/// The finding with the function in which it happened.
fn at_call(fault: &DeviceEvent<'_>, finding: Draft, what: &str) -> Draft {
    match Call::of_message(&fault.event.message) {
        Some(call) => finding.message(said(fault, &format!("{what}, in {}", call.function))),
        None => finding,
    }
}
