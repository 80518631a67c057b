//! The settings of a job: devices, transports and attributes that they select.

use super::{Case, Scales, layer::raw_not_started, library, message::renamed, view};
use crate::symptom::{Software, Symptom, SymptomKind};

/// What a program refused whose message says itself what is to be set: its words, and what to do.
const REFUSED: [(&str, &str); 16] = [
    ("segsize too large", SEGMENT),
    ("egment size too large", SEGMENT),
    (
        "nvalid RDMA endpoint",
        "The program takes the address for RDMA as IP:PORT, and got none or one of another form; it went on over TCP. Set it to the IP address of an RDMA port of \
        the node and a free port (Vineyard: --rdma_endpoint=IP:PORT). rdma link show lists the ports with their network devices, ip -brief address the addresses.",
    ),
    (
        "VM_UNMAP",
        "Set the parameter that the message names: mpirun --mca opal_common_ucx_opal_mem_hooks 1, or use a newer Open MPI and UCX. UCX then learns of memory that the program gives back \
        to the system; without it, it may use a registration of memory that is another's by now, which can corrupt data.",
    ),
    (
        "no receive window",
        "DRBD has no buffers left at the other end: raise max-buffers, sndbuf-size and rcvbuf-size in the section net of the resource, on both nodes, then drbdadm adjust RESOURCE. The message \
        is about DRBD's own flow control, not that of the switch. If it stays, compare the releases of DRBD on both nodes and update.",
    ),
    (
        "mbuf space",
        "Give the program larger buffers for packets (the data room of its mbuf pool: at least the MTU, its headers and the headroom), or let it use several for one packet (the offload \
        RX scatter), or lower the MTU of the port. Nothing is wrong with the adapter and the limits of memory.",
    ),
    (
        "transport does not support",
        "Use other transports of UCX, or a newer UCX: the one that the message names does not have what the addresses of this network need. Unset UCX_TLS, or name rc and ud in it in \
        place of dc (UCX_TLS=rc,ud,sm,self).",
    ),
    (
        "unknown device",
        "The backend knows only the GPUs that its parameters name, and the program registers memory of another one. Give it all that the process uses (gpu_devices of NIXL's \
        GPUNETIO backend), or let each process use the GPU that its backend was started with: the number in the message counts those that the process sees \
        (CUDA_VISIBLE_DEVICES).",
    ),
    (
        "max-buffers at least",
        "DRBD over RDMA keeps the whole receive buffer posted: raise max-buffers in the section net of the resource to the number in the message, or lower \
        rcvbuf-size, on both nodes; then drbdadm adjust RESOURCE.",
    ),
    (
        "rxe creation",
        "SoftRoCE cannot use this network device, because it is a VLAN. Create the RDMA device on the one below it (ip -d link shows which): rdma link \
        add rxe0 type rxe netdev NETDEV. Its GID table has the addresses of the VLAN, too: select the GID index of that address.",
    ),
    (
        "OOO RQ is force enabled",
        "Unset NCCL_IB_OOO_RQ, or set it to 0: it asks for receive queues that take requests out of order, which the adapters of both ends and adaptive routing must support. Without the setting, NCCL uses them where they work.",
    ),
    (
        "either does not exist on this machine",
        "MVAPICH2 does not find the adapter that its settings name on this host, or leaves it out because the hosts have different ones. Compare MV2_IBA_HCA and MV2_PROCESS_TO_RAIL_MAPPING (env | grep MV2_) with the devices of \
        each host: ibv_devices. It goes on with its own choice.",
    ),
    ("already checked in", RANKS),
    ("mismatch in rank count", RANKS),
    ("worker_count=", RANKS),
    (
        "must be created first",
        "SPDK has no transport over RDMA yet: create it before subsystems get listeners, scripts/rpc.py nvmf_create_transport -t RDMA. If it was created, its own \
        error stands earlier in the log: the target was built without RDMA (./configure --with-rdma), or found no device.",
    ),
];

/// What to do where `GASNet` does not give a process as much memory as it asks for.
const SEGMENT: &str = "The program asks for a larger segment than GASNet may pin on this node. Let it ask for less (Legion and Realm: -ll:rsize, -ll:gsize and -ll:fsize, in MiB), or let GASNet pin more: GASNET_MAX_SEGSIZE (such as 0.8, \
    a part of the memory of the node) and GASNET_PHYSMEM_MAX where the job runs. Each process of a node takes its own share: fewer processes have larger ones. ulimit -l there must be unlimited.";

/// What to do where a job has two processes with one rank, or another number of processes than ranks.
const RANKS: &str = "The job was started with other ranks than it expects: two processes have the same one, or processes of an earlier run are still there. Start one process per rank: the launcher's number of tasks per \
    node must be that of the program (srun --ntasks-per-node, torchrun --nproc-per-node, devices and num_nodes of Lightning), each with its own RANK and LOCAL_RANK and the same WORLD_SIZE. \
    End what is left of earlier runs, or take another MASTER_PORT.";

/// A program refused a setting in words that say why. Returns whether it did.
fn refused(case: &Case<'_>, scales: &mut Scales) -> bool {
    let kinds = [SymptomKind::SettingUnmatched, SymptomKind::SettingAdvised];
    let found = case.seen(&kinds).find_map(|symptom| {
        let (_, step) = REFUSED.iter().find(|(words, _)| symptom.text.contains(words))?;
        Some((symptom, *step))
    });
    let Some((symptom, step)) = found else {
        return false;
    };
    scales.next_step = Some(step.to_owned());
    scales.shows(&symptom.source, &symptom.text);
    true
}

/// What to do where a program of verbs calls `fork`.
const FORK: &str = "Set RDMAV_FORK_SAFE=1 (IBV_FORK_SAFE=1 does the same) in the environment before the program starts, or let it call ibv_fork_init() before it registers memory or \
    calls any library that does: afterwards the call is refused. On kernels from 5.13 on with a \
    current rdma-core neither is needed. Or keep the program from calling fork() (workers: start method spawn).";

/// What to do where a program is set up for `fork` and registers memory in huge pages.
const HUGE: &str = "Set RDMAV_HUGEPAGES_SAFE=1 in the environment of the program, as the message says: with it libibverbs protects memory at a fork() by its real pages, and registers memory in huge pages. Or do not ask for that protection: unset \
    RDMAV_FORK_SAFE and IBV_FORK_SAFE (UCX: UCX_IB_FORK_INIT=n). On kernels from 5.13 on with a current rdma-core neither is needed.";

/// The program calls `fork` without the setting for it. Returns whether it does.
fn forks(case: &Case<'_>, scales: &mut Scales) -> bool {
    let unsafe_fork = case.seen(&[SymptomKind::ForkUnsafe]).next();
    let Some(symptom) = unsafe_fork else { return false };
    let text = symptom.text.to_ascii_lowercase();
    let is_of_libfabric = ["libfabric", "efa", "fi_"].iter().any(|name| text.contains(name));
    if !is_of_libfabric {
        let step = if text.contains("hugepages_safe") {
            HUGE
        } else {
            FORK
        };
        scales.next_step = Some(step.to_owned());
        scales.shows(&symptom.source, &symptom.text);
        return true;
    }
    scales.next_step = Some(
        "Set FI_EFA_FORK_SAFE=1, or RDMAV_FORK_SAFE=1 with libfabric before 1.13, where the job runs: the library then protects registered \
        memory at a fork(), which slows registration down. On kernels from 5.13 on with a current rdma-core, neither is needed: update \
        libfabric and rdma-core. Or keep the program from calling fork() (a data loader with workers: start method spawn)."
            .into(),
    );
    scales.shows(&symptom.source, &symptom.text);
    true
}

/// The devices have other names than the library expects. Returns whether they do.
fn names(case: &Case<'_>, scales: &mut Scales) -> bool {
    let Some(symptom) = renamed(case) else {
        return false;
    };
    scales.next_step = Some(
        "NVSHMEM takes a device for one of mlx5 by its name, and these were renamed (udev rules of rdma-core, or the cloud's). Give them their kernel names back: ln \
        -s /dev/null /etc/udev/rules.d/60-rdma-persistent-naming.rules, remove rules of your own, then load the driver again or restart the node; rdma dev set \
        NAME name mlx5_0 renames one at once. Or use a release of NVSHMEM that asks the device."
            .into(),
    );
    scales.shows(&symptom.source, &symptom.text);
    true
}

/// What Open MPI's transport could not create or register before it was left out.
fn failed_before<'a>(case: &Case<'a>, left_out: &Symptom) -> Option<&'a Symptom> {
    let mut symptoms = case.symptoms.iter().copied();
    symptoms.find(|symptom| {
        let is_of_memory = matches!(
            symptom.kind,
            SymptomKind::CreateFailed | SymptomKind::RegMrNoMemory | SymptomKind::MemlockWarning
        );
        is_of_memory && symptom.line < left_out.line
    })
}

/// Open MPI does not use its transport openib.
fn without_openib(case: &Case<'_>, symptom: &Symptom, scales: &mut Scales) {
    if let Some(first) = failed_before(case, symptom) {
        return scales.against(
            &first.source,
            "the transport failed before it was left out, and the reason is there",
        );
    }
    scales.shows(&symptom.source, &symptom.text);
    scales.next_step = Some(
        "Select UCX: mpirun --mca pml ucx, with an Open MPI that was built with it (ompi_info | grep -i ucx). If the job uses UCX already, \
        only the transport openib is left out, and --mca btl ^openib ends the message. To use openib with InfiniBand: \
        --mca btl_openib_allow_ib 1, with a parameter that the message names corrected; a RoCE port needs an IP address then, and \
        --mca btl_openib_cpc_include rdmacm."
            .into(),
    );
}

pub(crate) fn settings(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::RdmaDisabled]).next() {
        if !symptom.text.to_ascii_lowercase().contains("nccl_ib_disable") {
            return without_openib(case, symptom, scales);
        }
        scales.shows(&symptom.source, "NCCL_IB_DISABLE is 1");
        scales.next_step = Some(
            "Unset NCCL_IB_DISABLE in the job's environment, or set it to 0. If TCP is intended, nothing needs to change.".into(),
        );
    }
    if let Some(symptom) = raw_not_started(case) {
        return scales.against(
            &symptom.source,
            "no setting selects the port of a raw packet queue pair",
        );
    }
    if let Some(symptom) = case
        .seen(&[SymptomKind::InitRefused, SymptomKind::RtsRefused])
        .next()
    {
        return attributes(case, symptom, scales);
    }
    if forks(case, scales) || names(case, scales) {
        return;
    }
    if library::transports(case, scales) {
        return;
    }
    if refused(case, scales) {
        return;
    }
    if view::settings(case, scales, selects) {
        return;
    }
    let Some(log) = case.log else { return };
    if log
        .settings
        .get("NCCL_NET")
        .is_some_and(|net| net.eq_ignore_ascii_case("socket"))
    {
        scales.shows("NCCL_NET in the log", "Socket");
    }
    if of_ucx(case, scales) || of_plugin(case, scales) {
        return;
    }
    let interface = log.settings.get("NCCL_SOCKET_IFNAME");
    if let (Some(interface), Some(symptom)) = (interface, case.seen(&[SymptomKind::NoSocketInterface]).next())
    {
        if symptom.text.contains("family") {
            scales.fits(
                &symptom.source,
                format!("NCCL_SOCKET_IFNAME is {interface}, and a rank sent no valid address"),
            );
            scales.unseen("the interfaces and the version of NCCL of the other hosts");
            scales.score -= 1;
            scales.next_step = Some(format!(
                "See on every host of the job, and in its container, whether the interface that NCCL_SOCKET_IFNAME selects ({interface}) exists and has an address: ip -brief \
                address. Set it to one that does, or unset it. If all have it, compare the lines NCCL version, NET/Plugin and Using network of all hosts: ranks with another version or \
                plugin send addresses that the others do not understand."
            ));
            return;
        }
        scales.shows(
            &symptom.source,
            format!("NCCL_SOCKET_IFNAME is {interface}, and no interface of this name has an address where the job runs"),
        );
        scales.next_step = Some(format!(
            "Set NCCL_SOCKET_IFNAME to an interface that exists where the job runs (ip -brief address), or unset it; it is {interface} now."
        ));
        return;
    }
    if let Some(symptom) = case
        .seen(&[SymptomKind::SettingUnmatched, SymptomKind::ConnectIncompatible])
        .next()
    {
        return unmatched(case, symptom, scales);
    }
    let Some(wanted) = log.settings.get("NCCL_IB_HCA") else {
        if scales.supports.is_empty() {
            scales.unseen("settings of the job (run it with NCCL_DEBUG=INFO)");
        }
        return;
    };
    let names: Vec<_> = case.node.hcas().map(|hca| hca.name.as_str()).collect();
    if names.is_empty() {
        return;
    }
    let source = "NCCL_IB_HCA in the log";
    if selects(wanted, &names) {
        scales.against(source, format!("{wanted}, which names a device of this node"));
    } else {
        scales.shows(source, format!("{wanted}, but the node has {}", names.join(", ")));
    }
}

/// `NCCL_NET` names the network of a plugin, and no plugin could start. Returns whether it does.
fn of_plugin(case: &Case<'_>, scales: &mut Scales) -> bool {
    let network = case.log.and_then(|log| log.settings.get("NCCL_NET"));
    let missed = case
        .seen(&[SymptomKind::NoDevice])
        .any(|symptom| symptom.text.contains("initialize any NET plugin"));
    let Some(network) = network.filter(|_| missed) else {
        return false;
    };
    let is_own = ["ib", "socket"]
        .iter()
        .any(|own| network.eq_ignore_ascii_case(own));
    if !is_own {
        scales.insisted_step = Some(NETWORK.to_owned());
        scales.shows(
            "NCCL_NET in the log",
            format!("{network}, the network of a plugin"),
        );
    }
    !is_own
}

/// Devices or transports that the settings of UCX leave out. Returns whether they do.
fn of_ucx(case: &Case<'_>, scales: &mut Scales) -> bool {
    if let Some((symptom, devices)) = without_port(case) {
        scales.next_step = Some(format!(
            "Name the port, too: UCX_NET_DEVICES={devices}:1. Without it, UCX finds no device of this name."
        ));
        scales.shows(
            "UCX_NET_DEVICES in the log",
            format!("{devices} has no port: {}", symptom.source),
        );
        return true;
    }
    if let Some((symptom, transports)) = within_node(case) {
        scales.next_step = Some(format!(
            "Unset UCX_TLS, which is {transports}, or add a transport that leaves the node: UCX_TLS=rc,{transports} with RDMA, tcp,{transports} without. \
            Look where it is set, too: env | grep UCX_, the module file of the MPI, and ucx.conf in the installation."
        ));
        scales.shows(
            "UCX_TLS in the log",
            format!(
                "{transports} has only transports within a node: {}",
                symptom.source
            ),
        );
        return true;
    }
    if let Some((symptom, transports)) = without_rdma(case) {
        scales.next_step = Some(format!(
            "Unset UCX_TLS, which is {transports}, or add a transport of RDMA: UCX_TLS=rc,{transports}. For TCP alone, use UCX 1.7 or later: older ones cannot send \
            all messages over it."
        ));
        scales.shows(
            "UCX_TLS in the log",
            format!("{transports} has no transport of RDMA: {}", symptom.source),
        );
        return true;
    }
    if let Some((symptom, transports)) = left_out(case) {
        scales.next_step = Some(format!(
            "Unset UCX_TLS, which is {transports}, or add the transports of RDMA and of the GPUs: UCX_TLS=rc,cuda (with AMD's GPUs rocm)."
        ));
        scales.shows(
            "UCX_TLS in the log",
            format!("{transports} leaves out GPU memory and RDMA: {}", symptom.source),
        );
        return true;
    }
    false
}

/// A setting names what does not exist where the job runs.
fn unmatched(case: &Case<'_>, symptom: &Symptom, scales: &mut Scales) {
    if symptom.kind == SymptomKind::ConnectIncompatible && symptom.software == Some(Software::Nccl) {
        scales.next_step = Some(
            "NCCL connects ports of two link layers, InfiniBand and RoCE, which cannot reach each other. Leave out those of one: the line NET/IB : Using \
            lists the ports with their layer. Set NCCL_IB_HCA=^NAME to exclude, or NCCL_IB_HCA==NAME,NAME to select, on all nodes."
                .into(),
        );
    } else if let Some((name, value)) = case
        .log
        .and_then(|log| log.path_of_ucx())
        .filter(|_| symptom.named.errno.is_some())
    {
        scales.insisted_step = Some(format!(
            "Run the job without {name}, which is {value}: the adapter refused an attribute of the connection, and this setting chooses one. If it runs then, the fabric does not have this service \
            level or class for the path: on InfiniBand compare with the subnet manager (saquery, sminfo; opensm's QoS), on RoCE with the priorities of the switch. If it still fails, look at the \
            GID index and the MTU."
        ));
    } else if is_file(symptom) {
        scales.insisted_step = Some(FILE.to_owned());
    } else if is_network(symptom) {
        if let Some(plugin) = case.seen(&[SymptomKind::BackendMissing]).next() {
            return scales.doubts(&plugin.source, "the plugin that has this network does not load");
        }
        scales.insisted_step = Some(NETWORK.to_owned());
    } else if let Some(name) = named_in(&symptom.text) {
        scales.next_step = Some(format!(
            "Correct {name}, or unset it: the message says what is wrong with its value. env | grep {name} where the job runs shows it, and it may come from the job's script, a module file or the \
            configuration file of the library."
        ));
    } else if let Some(setting) = symptom.software.and_then(Software::device_setting) {
        scales.next_step = Some(format!(
            "Compare the names in the log with the devices that exist where the job runs (rdma link show), and correct {setting}."
        ));
    }
    scales.fits(&symptom.source, &symptom.text);
}

/// The setting in a message that selects no device: `NVSHMEM_IBGDA_DCI_MAP_BY=foo is not supported`. UCX names its own without the prefix.
fn named_in(text: &str) -> Option<String> {
    const PREFIXES: [&str; 10] = [
        "NCCL_",
        "RCCL_",
        "OFI_NCCL_",
        "UCX_",
        "UCC_",
        "NVSHMEM_",
        "PSM2_",
        "PSM3_",
        "MC_",
        "FI_",
    ];
    /// Parts of the names of settings that select devices.
    const OF_DEVICES: [&str; 8] = [
        "HCA", "DEVICES", "_TLS", "NIC", "IFNAME", "IFACE", "_NET", "PROVIDER",
    ];
    const OF_UCX: [&str; 3] = ["GID_INDEX", "ROCE_SUBNET_LIST", "ROCE_LOCAL_SUBNET"];
    let words = || text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_setting = |word: &&str| {
        let is_name = word
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let has_prefix = PREFIXES
            .iter()
            .any(|prefix| word.len() > prefix.len() && word.starts_with(prefix));
        // What libraries return, or name in their sources.
        let is_other = ["FI_E", "NCCL_NET_PLUGIN"]
            .iter()
            .any(|other| word.starts_with(other));
        is_name && has_prefix && !is_other
    };
    if let Some(name) = words().find(is_setting) {
        let of_device = OF_DEVICES.iter().any(|part| name.contains(part));
        return (!of_device).then(|| name.to_owned());
    }
    let of_ucx = text.contains(" UCX ") && text.contains("subnet list");
    let named = words()
        .find(|word| OF_UCX.contains(word))
        .filter(|_| text.contains(" UCX "));
    named
        .map(|name| format!("UCX_IB_{name}"))
        .or_else(|| of_ucx.then(|| "UCX_IB_ROCE_SUBNET_LIST".to_owned()))
}

/// NCCL did not find the network that a setting names.
const NETWORK: &str = "NCCL_NET, or the plugin that sets it, names this network. The lines NET/Plugin and NET/NAME before it show whether the plugin was \
    found and which devices it has. If it found none, check the devices where the job runs: ls /dev/infiniband, ibv_devinfo. If it was not found, \
    correct NCCL_NET_PLUGIN and LD_LIBRARY_PATH. Without NCCL_NET, NCCL selects the network itself.";

/// What to do about a file of NCCL that does not fit.
const FILE: &str = "NCCL cannot use the file that NCCL_TOPO_FILE or NCCL_GRAPH_FILE names: it is of another machine type, of another number of GPUs or of \
    another version. Unset both where the job runs: env | grep NCCL_, and look in /etc/nccl.conf and ~/.nccl.conf, from which NCCL reads settings too. NCCL then \
    finds the topology itself. Where a plugin sets the file, such as aws-ofi-nccl, update the plugin.";

/// Whether NCCL does not understand a file of a topology or of a graph.
fn is_file(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    text.contains("xml import") || text.contains("attribute ") && text.contains("of node")
}

/// Whether NCCL did not find the network that a setting names: `Error: network gIB not found`.
fn is_network(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    symptom.software == Some(Software::Nccl) && text.contains("network ") && text.contains("not found")
}

/// RDMA devices without a port in a setting of UCX, where it then finds none.
fn without_port<'a>(case: &Case<'a>) -> Option<(&'a Symptom, &'a str)> {
    let devices = case.log?.settings.get("UCX_NET_DEVICES")?;
    let names = || devices.split(',').filter(|name| !name.is_empty());
    let is_rdma = |name: &str| {
        ["mlx", "bnxt_re", "irdma", "hfi", "roce", "ib"]
            .iter()
            .any(|of| name.starts_with(of))
    };
    let has_none = names().count() > 0 && names().all(|name| is_rdma(name) && !name.contains(':'));
    let missed = case.symptoms.iter().copied().find(|symptom| {
        let is_missed = matches!(
            symptom.kind,
            SymptomKind::NoDevice | SymptomKind::SettingUnmatched
        );
        is_missed && symptom.software == Some(Software::Ucx)
    })?;
    has_none.then_some((missed, devices.as_str()))
}

/// The transports of UCX that a setting selects without those of RDMA and of GPUs, where UCX then finds no support for GPU memory.
fn left_out<'a>(case: &Case<'a>) -> Option<(&'a Symptom, &'a str)> {
    const NEEDED: [&str; 9] = ["all", "rc", "dc", "ud", "ib", "cuda", "rocm", "srd", "gdr"];
    let transports = case.log?.settings.get("UCX_TLS")?;
    let has_needed = transports
        .split(',')
        .any(|name| NEEDED.iter().any(|needed| name.starts_with(needed)));
    let missed = case
        .symptoms
        .iter()
        .copied()
        .find(|symptom| symptom.kind == SymptomKind::BackendMissing)?;
    (!has_needed && !transports.starts_with('^')).then_some((missed, transports.as_str()))
}

/// The transports of UCX that a setting selects without those of RDMA, where UCX then has none for what the program needs.
fn without_rdma<'a>(case: &Case<'a>) -> Option<(&'a Symptom, &'a str)> {
    let transports = case.log?.without_rdma()?;
    let missed = case.symptoms.iter().copied().find(|symptom| {
        symptom.kind == SymptomKind::NoDevice
            && symptom.software == Some(Software::Ucx)
            && symptom.text.contains(" transport to ")
    })?;
    Some((missed, transports))
}

/// The transports of UCX that a setting selects, all of them within a node, where UCX then finds no way to a peer.
fn within_node<'a>(case: &Case<'a>) -> Option<(&'a Symptom, &'a str)> {
    let transports = case.log?.within_node()?;
    let missed = case.symptoms.iter().copied().find(|symptom| {
        let of_peer = matches!(
            symptom.kind,
            SymptomKind::SettingUnmatched | SymptomKind::NoDevice
        );
        of_peer && symptom.text.to_ascii_lowercase().contains("unreachable")
    })?;
    Some((missed, transports))
}

/// The settings that become attributes of a queue pair in the transition that failed.
fn attributes(case: &Case<'_>, symptom: &Symptom, scales: &mut Scales) {
    let (names, step): (&[&str], _) = if symptom.kind == SymptomKind::InitRefused {
        (
            &["NCCL_IB_PKEY", "UCX_IB_PKEY"],
            "Compare the partition key index and the port number that the program uses with those of the device: ibv_devinfo -v -d DEVICE \
            lists both (port, pkey). RoCE ports have only index 0. If they are right, the driver refuses an access flag: compare with \
            ib_write_bw -d DEVICE.",
        )
    } else {
        (
            &["NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "UCX_RC_TIMEOUT"],
            "Check the program's timeout (at most 31), retry count (at most 7) and number of outstanding reads (max_qp_rd_atom of ibv_devinfo \
            -v).",
        )
    };
    scales.next_step = Some(step.to_owned());
    let settings = case.log.map(|log| &log.settings);
    let set = names.iter().find_map(|name| Some((name, settings?.get(*name)?)));
    match set {
        Some((name, value)) => scales.fits(format!("{name} in the log"), value),
        None => scales.unseen(format!("settings of the job ({})", names.join(", "))),
    }
}

/// Whether `NCCL_IB_HCA` selects any device. Names are prefixes; `=` makes them exact, `^` excludes them; a port may follow.
fn selects(wanted: &str, names: &[&str]) -> bool {
    let (exclude, list) = wanted
        .strip_prefix('^')
        .map_or((false, wanted), |list| (true, list));
    let (exact, list) = list.strip_prefix('=').map_or((false, list), |list| (true, list));
    let matches = |name: &str| {
        list.split(',')
            .map(|one| one.split(':').next().unwrap_or_default())
            .any(|one| !one.is_empty() && if exact { one == name } else { name.starts_with(one) })
    };
    names.iter().any(|name| matches(name) != exclude)
}
