//! The path between GPU memory and NICs.

use rdma_health_node::{
    Node,
    infiniband::Hca,
    model,
    nvidia::PeerMemory,
    platform::{Cluster, Distribution},
    words::count,
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    domain::modules,
    draft::Draft,
    policy::Exception,
    remedy::{kernel_argument, load_module},
};

/// `peer-memory-missing`.
pub static PEER_MEMORY_MISSING: Rule = Rule {
    id: "peer-memory-missing",
    domain: Domain::GpuDirect,
    policy: Policy::of(NO_PATH).except(&[&NO_DRIVER]),
    title: "No GPUDirect path between GPUs and RDMA devices",
    explanation: "A NIC accesses GPU memory through the module nvidia_peermem (or its predecessor nv_peer_mem), or \
        through DMA-BUF, which needs the open GPU kernel module and Linux 5.12 or later. Without either, NCCL copies \
        through host memory or falls back.",
    remedy: Remedy {
        any: "Load the module nvidia_peermem, or use the open GPU kernel module on Linux 5.12 or later.",
        openshift: "Set driver.rdma.enabled in the ClusterPolicy of the NVIDIA GPU Operator: oc patch clusterpolicy \
            gpu-cluster-policy --type merge -p '{\"spec\":{\"driver\":{\"rdma\":{\"enabled\":true}}}}'. If OFED is \
            installed on the host, also set driver.rdma.useHostMofed.",
        kubernetes: "Let the NVIDIA GPU Operator load it: helm upgrade gpu-operator nvidia/gpu-operator -n gpu-operator \
            --reuse-values --set driver.rdma.enabled=true",
        host: "modprobe nvidia_peermem; echo nvidia_peermem > /etc/modules-load.d/nvidia_peermem.conf. If modprobe \
            reports 'Invalid argument', see peer-memory-install-order.",
    },
    false_alarms: "Silent without NVIDIA GPUs, without physical RDMA devices that can access their memory (the first EFA, of p3dn, cannot), and where peer-memory-install-order \
        names the cause.",
    inputs: &[Writer::HostRoot],
    judge: peer_memory_missing,
};

/// How severe a missing path is.
const NO_PATH: Severities = Severities::WARNING.not_rdma().gpudirect(Severity::Critical);

static NO_DRIVER: Exception = Exception {
    condition: "if no NVIDIA driver is loaded, because the GPUs are unused or meant for virtual machines",
    severities: NO_PATH.not_auto(),
};

/// Vendor and device of the first generation of EFA, as in p3dn: it cannot access the memory of GPUs.
const FIRST_EFA: (u16, u16) = (0x1d0f, 0xefa0);

fn peer_memory_missing(node: &Node, _: &Expectations) -> Vec<Draft> {
    if load_failure(node).is_some() {
        return Vec::new();
    }
    let gpus = node
        .gpus()
        .filter(|gpu| {
            gpu.pci
                .is_some_and(|pci| pci.vendor.known() == Some(&model::NVIDIA))
        })
        .filter(|gpu| !gpu.is_without_gpudirect())
        .count();
    let functions = node.functions();
    let is_incapable = |hca: &Hca| {
        let mut of_hca = functions
            .iter()
            .filter(|function| function.names.contains(&hca.name.as_str()));
        of_hca.any(|function| function.ids() == Some(FIRST_EFA))
    };
    let nics = node
        .hcas()
        .filter(|hca| !hca.is_software() && !is_incapable(hca))
        .count();
    let (driver, exception) = match node.pci.nvidia_driver.known() {
        Some(driver) => {
            let kind = if driver.open { "open" } else { "proprietary" };
            (format!("{}, {kind}", driver.version), None)
        }
        None => ("none loaded".into(), Some(&NO_DRIVER)),
    };
    if gpus == 0 || nics == 0 || node.peer_memory.known() != Some(&PeerMemory::None) {
        return Vec::new();
    }
    let kernel = node.host.kernel.known().map_or("unknown", String::as_str);
    let mut hardware = node.hcas().filter(|hca| !hca.is_software());
    let is_efa = hardware.all(|hca| hca.driver.known().is_some_and(|driver| driver == "efa"));
    let is_unregistered = node.modules.peermem_registered() == Some(false);
    let (remedy, modules) = match (is_efa, is_unregistered) {
        (true, _) => (ON_EFA, "no efa_nv_peermem"),
        _ if is_before_peermem(node) => (OLD_DRIVER, "no nv_peer_mem"),
        _ if is_without_symbol(node) => (
            WITHOUT_SYMBOL,
            "neither nvidia_peermem nor nv_peer_mem, and not the RDMA modules of MLNX_OFED or DOCA-OFED (no mlx_compat)",
        ),
        (_, true) => (
            PEER_MEMORY_INSTALL_ORDER.remedy,
            "nvidia_peermem is loaded, but is not among the users of ib_core: it did not register",
        ),
        _ => (
            PEER_MEMORY_MISSING.remedy,
            "neither nvidia_peermem nor nv_peer_mem",
        ),
    };
    let unforbidden = modules::blacklisted(node, "nvidia_peermem").map(|argument| {
        let commands = kernel_argument::remove(&argument, node.platform());
        format!(
            "Remove {argument} from the kernel command line: it keeps nvidia_peermem from being loaded. Or use the open GPU kernel module on \
             Linux 5.12 or later.\n{commands}"
        )
    });
    let finding = Draft::new(
        &PEER_MEMORY_MISSING,
        Subject::node(),
        format!(
            "no path between {} and {}: neither a registered peer memory module nor DMA-BUF is available",
            count(gpus, "GPU"),
            count(nics, "RDMA device")
        ),
    )
    .exception(exception)
    .remedy(remedy)
    .written_remedy(
        unforbidden
            .or_else(|| load_here(node))
            .filter(|_| remedy == PEER_MEMORY_MISSING.remedy),
    )
    .evidence("/proc/modules", modules)
    .evidence("/proc/driver/nvidia/version", driver)
    .evidence("/proc/sys/kernel/osrelease", kernel);
    vec![finding]
}

/// How to load the module on a node that has neither a cluster, whose GPU operator loads it, nor the usual files in `/etc`.
fn load_here(node: &Node) -> Option<String> {
    let platform = node.platform();
    let of_operator = platform.cluster.is_some_and(|cluster| cluster != Cluster::Host);
    if of_operator && platform.distribution.is_none_or(Distribution::has_own_etc) {
        return None;
    }
    let commands = load_module::commands(&["nvidia_peermem"], platform)?;
    Some(format!("{}\n{commands}", PEER_MEMORY_MISSING.remedy.any))
}

/// Whether the GPU driver is older than the first release with `nvidia_peermem`.
fn is_before_peermem(node: &Node) -> bool {
    const FIRST: u32 = 470;
    let driver = node.pci.nvidia_driver.known();
    let release = driver.and_then(|driver| driver.version.split('.').next()?.parse::<u32>().ok());
    release.is_some_and(|release| release < FIRST)
}

/// What to do with a GPU driver that has neither module nor DMA-BUF.
const OLD_DRIVER: Remedy = Remedy {
    any: "This GPU driver has no nvidia_peermem, which came with release 470. Install nv_peer_mem (package nvidia-peer-memory, built from source \
        against the RDMA modules of MLNX_OFED) and load it, or install MLNX_OFED or DOCA-OFED and then a GPU driver of release 470 or later.",
    host: "modprobe nv_peer_mem; lsmod | grep nv_peer_mem",
    ..Remedy::all("")
};

/// Whether the kernel's own RDMA modules have no `ib_register_peer_memory_client`, which `nvidia_peermem` needs: only those of MLNX_OFED and
/// DOCA-OFED have it, and kernels of Ubuntu.
fn is_without_symbol(node: &Node) -> bool {
    let is_upstream = match node.platform().distribution {
        Some(distribution) => matches!(distribution, Distribution::RedHat | Distribution::Suse),
        None => node
            .host
            .kernel
            .known()
            .is_some_and(|kernel| kernel.contains(".el")),
    };
    node.modules.is_ofed() == Some(false) && is_upstream
}

/// What to do where `nvidia_peermem` cannot load.
const WITHOUT_SYMBOL: Remedy = Remedy {
    any: "nvidia_peermem cannot load: it needs ib_register_peer_memory_client, which the RDMA modules of this kernel do not have. Install \
        DOCA-OFED or MLNX_OFED and then the GPU driver again, or use Linux 5.12 or later with the open GPU kernel module, which offers DMA-BUF.",
    ..Remedy::all("")
};

/// What to do where all adapters are Elastic Fabric Adapters.
const ON_EFA: Remedy = Remedy {
    any: "Use the open GPU kernel module on Linux 5.12 or later (DMA-BUF), or load efa_nv_peermem, which comes with the EFA \
        installer.",
    host: "modprobe efa_nv_peermem; /opt/amazon/efa/bin/fi_info -p efa",
    ..Remedy::all("")
};

/// `peer-memory-install-order`.
pub static PEER_MEMORY_INSTALL_ORDER: Rule = Rule {
    id: "peer-memory-install-order",
    domain: Domain::GpuDirect,
    policy: Policy::of(NO_PATH),
    title: "nvidia_peermem does not load: the GPU driver was built for another RDMA stack",
    explanation: "The kernel refused nvidia_peermem because the symbol ib_register_peer_memory_client is missing (err -2: the RDMA modules of \
        the kernel do not have it, only those of MLNX_OFED and DOCA-OFED) or has another version (err -22). The GPU driver was installed before MLNX_OFED or DOCA (modprobe then reports 'Invalid \
        argument'), or the RDMA stack was replaced later. Without the module, DMA-BUF is the only path to GPU \
        memory.",
    remedy: Remedy {
        any: "Reinstall the GPU driver after MLNX_OFED or DOCA, so that nvidia_peermem is built against it, then run \
            modprobe nvidia_peermem. Or use the open GPU kernel module with DMA-BUF, which needs neither.",
        openshift: "Wait until the OFED pod of the NVIDIA Network Operator is ready, then delete the driver pod of \
            the node: oc -n nvidia-gpu-operator delete pod POD. If driver.rdma.enabled is true, the new pod waits \
            for OFED.",
        kubernetes: "Wait until the OFED pod is ready, then delete the driver pod of the node: kubectl -n \
            gpu-operator delete pod POD. If driver.rdma.enabled is true, the new pod waits for OFED.",
        host: "dkms remove nvidia/VERSION --all; dkms install nvidia/VERSION; or run the installer of the driver \
            again.",
    },
    false_alarms: "Log lines of an earlier attempt are ignored once nvidia_peermem, nv_peer_mem or DMA-BUF is \
        available.",
    inputs: &[Writer::HostRoot],
    judge: peer_memory_install_order,
};

/// The line of the kernel log that says why `nvidia_peermem` was refused; `None` if another path exists.
fn load_failure(node: &Node) -> Option<&str> {
    const SYMBOL: &str = "ib_register_peer_memory_client";
    if node.peer_memory.known() != Some(&PeerMemory::None) {
        return None;
    }
    let refused = |line: &&String| {
        let peermem = line.contains("nvidia_peermem") || line.contains("nv_peer_mem");
        let symbol = line.contains(SYMBOL) || line.contains("ib_unregister_peer_memory_client");
        peermem
            && ((symbol && (line.contains("nknown symbol") || line.contains("disagrees about version")))
                || line.contains("Invalid argument"))
    };
    node.kernel_lines().iter().rev().find(refused).map(String::as_str)
}

fn peer_memory_install_order(node: &Node, _: &Expectations) -> Vec<Draft> {
    let Some(line) = load_failure(node) else {
        return Vec::new();
    };
    let stack = match node.modules.is_ofed() {
        Some(true) => "mlx_compat is loaded: the RDMA stack is MLNX_OFED or DOCA",
        Some(false) => "no mlx_compat: the RDMA stack is that of the kernel, which has no such symbol",
        None => "could not be read",
    };
    let is_own = line.contains("nv_peer_mem");
    let is_absent = is_symbol_absent(line) && node.modules.is_ofed() != Some(true);
    let (message, remedy) = match (is_absent, is_own) {
        (true, true) => (
            "the kernel refused to load nv_peer_mem: its RDMA modules have no symbol for peer memory",
            OWN_WITHOUT_SYMBOL,
        ),
        (true, false) => (
            "the kernel refused to load nvidia_peermem: its RDMA modules have no symbol for peer memory",
            WITHOUT_SYMBOL,
        ),
        (false, true) => (
            "the kernel refused to load nv_peer_mem: it was built for another RDMA stack",
            OWN_PACKAGE,
        ),
        (false, false) => (
            "the kernel refused to load nvidia_peermem: the GPU driver was built for another RDMA stack",
            PEER_MEMORY_INSTALL_ORDER.remedy,
        ),
    };
    vec![
        Draft::new(&PEER_MEMORY_INSTALL_ORDER, Subject::node(), message)
            .remedy(remedy)
            .evidence("/dev/kmsg", line)
            .evidence("/proc/modules", stack),
    ]
}

/// Whether the kernel says that a symbol is not there at all, and not that it has another version: `(err 0)`, since Linux 4.20 `(err -2)`. A module that
/// is built again for the same modules is refused again.
pub fn is_symbol_absent(line: &str) -> bool {
    line.contains("nknown symbol") && ["(err 0)", "(err -2)"].iter().any(|number| line.contains(number))
}

/// What to do about `nv_peer_mem` where the RDMA modules offer no peer memory.
const OWN_WITHOUT_SYMBOL: Remedy = Remedy {
    any: "Install MLNX_OFED or DOCA-OFED for this kernel and load its modules, then build nv_peer_mem: the RDMA modules that are loaded have no \
        ib_register_peer_memory_client, so building nv_peer_mem again does not help. If MLNX_OFED is installed, its modules are not the ones that run: modinfo -n \
        ib_core shows which are. Or use a GPU driver with open modules on Linux 5.12 or later, which offers DMA-BUF and needs no module.",
    host: "modinfo -n ib_core; grep ib_register_peer_memory_client /proc/kallsyms; ofed_info -s; /etc/init.d/openibd restart",
    ..Remedy::all("")
};

/// What to do about `nv_peer_mem`, which is built by a separate package and not with the GPU driver.
const OWN_PACKAGE: Remedy = Remedy {
    any: "Build nv_peer_mem again, against the RDMA modules that are installed now. GPU drivers from release 470 on bring \
        nvidia_peermem instead; remove nv_peer_mem then.",
    host: "dkms status; dkms remove nv_peer_mem/VERSION --all; dkms install nv_peer_mem/VERSION; or reinstall the package \
        nvidia_peer_memory; then modprobe nv_peer_mem",
    ..Remedy::all("")
};

/// `nv-peer-mem-legacy`.
pub static NV_PEER_MEM_LEGACY: Rule = Rule {
    id: "nv-peer-mem-legacy",
    domain: Domain::GpuDirect,
    policy: Policy::of(Severities::INFO).except(&[&BOTH_LOADED]),
    title: "The legacy module nv_peer_mem is loaded",
    explanation: "nvidia_peermem, which comes with the GPU driver since release 470, replaced nv_peer_mem. The old \
        module still works with old drivers, but is not maintained for new kernels. If both are loaded, they serve \
        the same memory, and which of them is used is undefined.",
    remedy: Remedy {
        any: "Remove nv_peer_mem and load nvidia_peermem, which comes with the GPU driver.",
        host: "rmmod nv_peer_mem; modprobe nvidia_peermem. Then remove the package: apt remove \
            nvidia-peer-memory-dkms (Debian, Ubuntu) or dnf remove nvidia-peer-memory (RHEL, Fedora).",
        ..Remedy::all("")
    },
    false_alarms: "The module works if it is the only path to GPU memory.",
    inputs: &[Writer::HostRoot],
    judge: nv_peer_mem_legacy,
};

static BOTH_LOADED: Exception = Exception {
    condition: "if nvidia_peermem is loaded too",
    severities: Severities::WARNING,
};

fn nv_peer_mem_legacy(node: &Node, _: &Expectations) -> Vec<Draft> {
    if node.modules.has("nv_peer_mem") != Some(true) {
        return Vec::new();
    }
    let both = node.modules.has("nvidia_peermem") == Some(true);
    let message = if both {
        "nv_peer_mem and nvidia_peermem are both loaded, expected nvidia_peermem only"
    } else {
        "nv_peer_mem is loaded, expected its replacement nvidia_peermem"
    };
    let finding = Draft::new(&NV_PEER_MEM_LEGACY, Subject::node(), message);
    vec![
        finding
            .exception(both.then_some(&BOTH_LOADED))
            .evidence("/proc/modules", "nv_peer_mem"),
    ]
}
