//! Kernel modules, drivers and firmware of RDMA devices; here: the modules that are missing, of adapters and for programs.

use rdma_health_node::{Node, Port};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    draft::Draft, policy::Exception, remedy::load_module,
};

mod devices;
mod kernel_module;
mod needed;
mod no_rdma_device;

pub use self::devices::{DRIVER_UNEXPECTED, FIRMWARE_MIXED, HCAS_MISSING, SOFTROCE_IN_USE};
use self::kernel_module::{allow, configured_off, places};
pub(super) use self::{
    devices::SET_ASIDE,
    kernel_module::{blacklisted, module_of, on_foreign_core, outdated},
    needed::FOREIGN_CORE,
    no_rdma_device::may_be_elsewhere,
};

/// `rdma-modules-missing`.
pub static RDMA_MODULES_MISSING: Rule = Rule {
    id: "rdma-modules-missing",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)).except(&[
        &GPUS_WITHOUT_RDMA,
        &EQUALS_HAVE_ONE,
        &NEXT_TO_GPU,
        &WANTED,
        &ETHERNET,
    ]),
    title: "A kernel module for RDMA is missing",
    explanation: "A network function that supports RDMA has no RDMA device, because its RDMA module (mlx5_ib, irdma, \
        bnxt_re, …) is not loaded or did not bind to it. Or RDMA devices exist but ib_uverbs is not loaded, so no \
        program can use them: /dev/infiniband/uverbs* does not exist and ibv_open_device fails. Or rdma_ucm is not loaded: \
        /dev/infiniband/rdma_cm does not exist, programs that connect with rdma_cm fail, and device plugins offer no device.",
    remedy: Remedy {
        any: "Load the module that the message names with modprobe, and read what the driver logs: journalctl -k. If \
            the module is loaded and no device appears, RDMA may be disabled for the function: devlink dev param \
            show pci/ADDRESS, or mlxconfig -d ADDRESS query.",
        openshift: "Load the modules at boot with a MachineConfig that writes /etc/modules-load.d/rdma-MODULE.conf. With \
            the NVIDIA Network Operator, let its OFED pod load them.",
        kubernetes: "If the NVIDIA Network Operator manages OFED, check its pod, because it unloads the modules of \
            the kernel first.",
        host: LOAD_ON_A_HOST,
    },
    false_alarms: "Not judged: functions bound to vfio-pci, which are meant for another user; functions without a driver, \
        unless they have no other use (EFA, erdma, PVRDMA), or no RDMA device exists and they are the adapters of GPUs, InfiniBand, or NVIDIA's of \
        which no driver holds one; rdma_ucm on nodes with EFA, Omni-Path or Gaudi only; \
        virtual functions, which may be in the network namespace of a pod; functions of a RoCE bond, or of an adapter whose driver makes one RDMA device for all its ports, \
        which share it; functions whose device may be in the network namespace of a pod (exclusive RDMA \
        namespaces); and devices that the configuration excludes.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: rdma_modules_missing,
};

const LOAD_ON_A_HOST: &str = "modprobe -a ib_uverbs MODULE; printf '%s\\n' ib_uverbs MODULE > /etc/modules-load.d/rdma-MODULE.conf. Some \
    distributions ship the modules in the package linux-modules-extra (Ubuntu) or kernel-modules-extra (RHEL, Fedora).";

/// What to do where programs cannot use the RDMA devices.
const LOAD_IB_UVERBS: Remedy = Remedy {
    any: "Load ib_uverbs, now and at each boot. If modprobe finds no such module, the image of the system was built without it: update the \
        system, or use a kernel package with the RDMA modules.",
    openshift: "Apply a MachineConfig that writes ib_uverbs to /etc/modules-load.d/rdma-ib_uverbs.conf.",
    host: "modprobe ib_uverbs; echo ib_uverbs > /etc/modules-load.d/rdma-ib_uverbs.conf. Install rdma-core, which loads it when a \
        device appears.",
    ..Remedy::all("")
};

/// What to do, with the commands that load modules on this node; `None` if too little is known about it.
fn load_here(node: &Node, any: &str, modules: &[&str]) -> Option<String> {
    let commands = load_module::commands(modules, node.platform())?;
    Some(format!("{any}\n{commands}"))
}

static GPUS_WITHOUT_RDMA: Exception = Exception {
    condition: "on a node with GPUs and adapters for them, if there is no RDMA device or no program can use one",
    severities: Severities::CRITICAL,
};

static EQUALS_HAVE_ONE: Exception = Exception {
    condition: "if equal adapters have an RDMA device, or only rdma_ucm is missing",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static NEXT_TO_GPU: Exception = Exception {
    condition: "if the adapter shares a PCIe switch with a GPU, the module that makes its RDMA device is loaded, and other adapters have \
        an RDMA device",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static WANTED: Exception = Exception {
    condition: "for Ethernet adapters, if no adapter has an RDMA device and the node has one in software, or modules for storage over RDMA \
        (nvme_rdma, nvmet_rdma, ib_srp, ko2iblnd, rds_rdma), or the module of the adapter is not loaded, although ib_uverbs is and no driver needs it, or \
        /etc/modules-load.d or openibd loads modules for RDMA at boot",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static ETHERNET: Exception = Exception {
    condition: "for Ethernet adapters that a driver holds or the configuration keeps from one, many of which are never used for RDMA",
    severities: Severities::INFO.rdma_expected(Severity::Critical),
};

fn rdma_modules_missing(node: &Node, _: &Expectations) -> Vec<Draft> {
    user_verbs_missing(node)
        .into_iter()
        .chain(rdma_cm_missing(node))
        .chain(no_rdma_device::functions(node))
        .collect()
}

/// `rdma_ucm` is missing although devices exist that programs connect to with `rdma_cm`.
fn rdma_cm_missing(node: &Node) -> Option<Draft> {
    /// Drivers of devices without `rdma_cm`.
    const WITHOUT: [&str; 5] = ["efa", "hfi1", "usnic_verbs", "habanalabs", "habanalabs_ib"];
    let uses = |driver: &String| !WITHOUT.contains(&driver.as_str());
    // What controls NVSwitches needs datagrams to the subnet manager only.
    let is_of_jobs = |port: &Port<'_>| !port.hca.is_software() && !node.controls_nvswitch(port);
    let is_concerned = node
        .ports()
        .any(|port| is_of_jobs(&port) && port.hca.driver.known().is_some_and(uses));
    // If the kernel has the RDMA stack built in, the list of modules does not show it.
    let is_modular = node.modules.has("ib_core") == Some(true);
    let is_missing = node.modules.user_rdma_cm.known() == Some(&false);
    // Without ib_uverbs nothing works, which is reported instead.
    let has_verbs = node.modules.user_verbs.known() == Some(&true);
    if !(is_concerned && is_modular && is_missing && has_verbs) {
        return None;
    }
    // Azure's virtual machines use MANA for their network; RDMA comes with it.
    let is_mana = |driver: &String| driver.starts_with("mana");
    let is_optional = node.gpus().next().is_none()
        && node
            .hcas()
            .all(|hca| hca.is_software() || hca.driver.known().is_some_and(is_mana));
    let message =
        "rdma_ucm is not loaded: /dev/infiniband/rdma_cm does not exist, so programs cannot use rdma_cm";
    let finding = Draft::new(&RDMA_MODULES_MISSING, Subject::node(), message)
        .case(FindingCase::ModuleMissing)
        .exception(if is_optional { &ETHERNET } else { &EQUALS_HAVE_ONE })
        .remedy(LOAD_RDMA_UCM)
        .written_remedy(load_here(node, LOAD_RDMA_UCM.any, &["rdma_ucm"]))
        .evidence("/proc/modules", "no rdma_ucm")
        .evidence("/sys/class/misc/rdma_cm", "no such directory");
    Some(kept_out(finding, node, "rdma_ucm"))
}

const LOAD_RDMA_UCM: Remedy = Remedy {
    any: "Load rdma_ucm, now and at each boot.",
    openshift: "Apply a MachineConfig that writes rdma_ucm to /etc/modules-load.d/rdma-rdma_ucm.conf.",
    host: "modprobe rdma_ucm; echo rdma_ucm > /etc/modules-load.d/rdma-rdma_ucm.conf. Install rdma-core, which loads it when a \
        device appears.",
    ..Remedy::all("")
};

fn user_verbs_missing(node: &Node) -> Option<Draft> {
    if node.hcas().next().is_none() || node.modules.user_verbs.known() != Some(&false) {
        return None;
    }
    let message = "RDMA devices exist, but ib_uverbs is not loaded: no program can use them";
    let gpus = node.gpus().count();
    let serve_gpus = gpus > 0 && node.hcas().filter(|hca| !hca.is_software()).count() * 2 >= gpus;
    let finding = Draft::new(&RDMA_MODULES_MISSING, Subject::node(), message)
        .case(FindingCase::ModuleMissing)
        .exception(serve_gpus.then_some(&GPUS_WITHOUT_RDMA))
        .remedy(LOAD_IB_UVERBS)
        .written_remedy(load_here(node, LOAD_IB_UVERBS.any, &["ib_uverbs"]))
        .evidence("/proc/modules", "no ib_uverbs")
        .evidence("/sys/class/infiniband_verbs", "no such directory");
    Some(kept_out(finding, node, "ib_uverbs"))
}

/// The finding about a missing module with the lines of modprobe's configuration that keep the module out.
fn kept_out(mut finding: Draft, node: &Node, module: &str) -> Draft {
    let lines = configured_off(node, module);
    if lines.is_empty() {
        return finding;
    }
    finding.extend_message(&format!("; {} keeps it from being loaded", places(&lines)));
    finding.written_remedy(allow(&lines, module))
}
