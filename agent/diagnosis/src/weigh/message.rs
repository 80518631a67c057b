//! Causes that the message itself shows, and what the remedy depends on.

use rdma_health_node::infiniband::{CLASS, LinkLayer};
use rdma_health_protocol::Errno;

use super::{Case, Scales, job::logged, layer::layers, library, pods, port::unusable};
use crate::{
    log::{is_named_by_driver, is_of_build, is_without_transport},
    symptom::{Software, Symptom, SymptomKind},
};

/// The program asks for what the adapter does not have. EFA has no RC queue pairs.
pub(crate) fn unsupported(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = renamed(case) {
        return scales.doubts(&symptom.source, "the device is of mlx5 and has another name");
    }
    if let Some(symptom) = case.seen(&[SymptomKind::UnsupportedAdapter]).next() {
        let text = symptom.text.to_ascii_lowercase();
        scales.next_step = without(&text).map(str::to_owned);
        if text.contains("fi_getinfo") && symptom.named.errno == Some(Errno::ENODATA) {
            scales.next_step = Some(OTHER_PROVIDER.to_owned());
        }
        let is_infiniband =
            || layers(case, &LinkLayer::Ethernet) == Some(0) && case.node.hcas().next().is_some();
        if text.contains("client_register") && is_infiniband() {
            return scales.doubts(
                format!("{CLASS}/*/ports/*/link_layer"),
                "no port of this node is of Ethernet",
            );
        }
        return scales.fits(&symptom.source, &symptom.text);
    }
    let created = [SymptomKind::CreateRefused, SymptomKind::CreateUnexplained];
    let Some(symptom) = case.seen(&created).next() else {
        return;
    };
    let is_of_efa = matches!(symptom.software, Some(Software::Libfabric));
    if case.is_efa() && !is_of_efa {
        scales.next_step = Some(
            "Use a transport for EFA: libfabric's provider efa (fi_info -p efa lists its devices), with NCCL the plugin aws-ofi-nccl. \
            perftest needs --connection=SRD and a build with EFA; fi_pingpong -p efa tests the path between two nodes."
                .into(),
        );
        scales.shows(
            &symptom.source,
            format!("{}: EFA has no RC queue pairs", symptom.text),
        );
        return;
    }
    if symptom.text.to_ascii_lowercase().contains("dct to rtr") {
        scales.next_step = Some(DC.to_owned());
        return scales.fits(&symptom.source, &symptom.text);
    }
    if is_of_shared_queue(symptom) && symptom.software == Some(Software::Ucx) {
        scales.next_step = Some(
            "UCX's transports rc and dc need shared receive queues, which this adapter or its driver does not have: ibv_devinfo -v | grep max_srq shows 0. On AWS the adapter is an EFA, \
            which MPI uses through libfabric: --mca pml cm --mca mtl ofi, FI_PROVIDER=efa. Elsewhere leave these transports out: UCX_TLS=ud_verbs,sm,self, or tcp,sm,self."
                .into(),
        );
        return scales.fits(&symptom.source, &symptom.text);
    }
    if is_of_shared_queue(symptom) {
        scales.next_step = Some(
            "Do without shared receive queues, or make them smaller: SPDK's nvmf_create_transport with --no-srq, or a lower --max-srq-depth; elsewhere the \
            setting of the program for SRQ. Compare with max_srq, max_srq_wr and max_srq_sge of ibv_devinfo -v: soft iWARP and some adapters have few \
            or none."
                .into(),
        );
        return scales.fits(&symptom.source, &symptom.text);
    }
    if symptom.software == Some(Software::Dpdk) {
        scales.next_step = Some(DEVX.to_owned());
    }
    // These calls exist for one vendor's adapters only: driver or firmware do not support them.
    let is_of_vendor = ["mlx5dv_", "devx"].iter().any(|name| symptom.text.contains(name));
    let unsupported = [Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EPROTONOSUPPORT];
    if symptom
        .named
        .errno
        .is_some_and(|errno| unsupported.contains(&errno) && !is_of_vendor)
    {
        scales.fits(&symptom.source, &symptom.text);
    }
}

/// libfabric has another provider than the one that the program selects.
const OTHER_PROVIDER: &str = "The provider of libfabric that the program selects finds nothing here (-61), and the log lists another one with devices. Let the program use that one: FI_PROVIDER=NAME (efa for AWS, cxi for Slingshot, psm3 or opx \
    for Omni-Path), or its own setting. A program that is written for verbs only (RC queue pairs) cannot use an EFA: look for a release or transport of it that supports libfabric's efa, or use TCP. fi_info -p NAME -v \
    shows the capabilities of a provider.";

/// UCX does not know the speed or width of a port, which is newer than its release.
const NEWER_PORT: &str = "Update UCX: this release does not know the speed or the width of the port (ibv_devinfo -v | grep -e active_speed -e active_width; 128 is the speed of NDR, \
    16 a width of two lanes), so it cannot use that port. ucx_info -v shows the release that the job loads, which may be another one than that of the system: Open MPI may bring its own \
    (rebuild it with --with-ucx=DIR). Until then, UCX_NET_DEVICES with ports of another speed works.";

/// What to do where a message in lower case says that the adapter, or its driver, does not have something.
fn without(text: &str) -> Option<&'static str> {
    let of_libfabric = ["getinfo", "requested capabilities", "unsupported capabilities"];
    if of_libfabric.iter().any(|words| text.contains(words)) {
        Some(
            "Compare what the program requests with what the provider offers: fi_info -p efa -v lists the capabilities of each device. FI_RMA and \
                FI_ATOMIC need a newer libfabric, or a device with RDMA read (ibv_devinfo -v; rdma-health lists it). Update libfabric and the EFA \
                driver, or let the program request less.",
        )
    } else if text.contains("verbs nic") {
        Some(
            "PSM3 cannot use this adapter, or may not open it. Choose another provider of libfabric: FI_PROVIDER=\"verbs;ofi_rxm\", or tcp \
                where the adapter has no RC queue pairs (fi_info lists the providers and their devices). If PSM3 is intended, check ls -l \
                /dev/infiniband where the job runs, and name an adapter that it supports: PSM3_NIC.",
        )
    } else if text.contains("client_register") {
        Some(
            "The tools of infiniband-diags (ibnetdiscover, ibhosts, ibaddr, perfquery) work on ports of InfiniBand only, and took one of Ethernet (RoCE) or iWARP. \
                If the node has an InfiniBand port, name it: -C DEVICE -P PORT (ibstat shows them by link layer). For RoCE use rdma link, rdma \
                statistic and ethtool -S NETDEV instead.",
        )
    } else if text.contains("cq resize") {
        Some(
            "The driver of this adapter cannot enlarge a completion queue, which the target does when more hosts connect. Give it fewer queues \
                and requests: nvmf_create_transport with a lower -q (queue depth) and -m (queue pairs), nvme connect with fewer queues (-i) and a \
                lower queue size (-Q). Or use an adapter of RoCE or InfiniBand.",
        )
    } else if text.contains("invalid active_") {
        Some(NEWER_PORT)
    } else if text.contains("unsupported qp type") {
        Some(IWARP)
    } else if text.contains("opcode") {
        Some(
            "The driver of this adapter does not have a kind of request that the program posts, such as a send that invalidates a key, a memory window or an \
                atomic operation: iWARP and old adapters have fewer. Update rdma-core and the driver. If it stays, switch the feature off in the program, or use an \
                adapter that has it (ibv_devinfo -v lists what it can).",
        )
    } else if text.contains("_sge") {
        Some(
            "SMB Direct needs more entries in a request than this adapter has (ibv_devinfo -v | grep max_sge). A newer kernel asks for fewer: update \
                it. Until then mount without the option rdma, or use another adapter.",
        )
    } else if text.contains("-e- ") {
        Some(
            "This release of the firmware tools does not know the adapter: use a newer one for a new adapter. For an old one use an old one: mstflint 3.8 \
                and MFT 4.22 are the last for ConnectX-2 and ConnectX-3. lspci -nn shows the model.",
        )
    } else if text.contains("roce is not supported on this device") {
        Some(
            "RDMA is switched off in the firmware of this adapter, or the model has none. Where lspci -nn shows a model with RoCE, switch it on for each \
                port, in the adapter's menu of the host's firmware setup (NIC + RDMA) or with niccli -i N nvm -setoption support_rdma -scope I -value 1, and \
                restart the node.",
        )
    } else if text.contains("rdma functionality is not available") {
        Some(
            "The adapter offers no RDMA as it is set up now: its firmware has it off for these ports, or too few MSI-X vectors. Switch it on in the adapter's menu of the host's firmware setup, update the \
                adapter's NVM and the driver (ice, irdma), and look whether other messages of ice report safe mode (its DDP package is missing). devlink dev param show pci/ADDRESS and rdma link show what \
                is there afterwards. Some models of the E82x series have no RDMA.",
        )
    } else if [
        "fast registration",
        "fmrs",
        "'frwr' mode",
        "support memory registration",
    ]
    .iter()
    .any(|words| text.contains(words))
    {
        Some(
            "The kernel's storage clients and servers register memory through the queue of the adapter (fast registration), which this adapter or its driver does not \
                offer: ibv_devinfo -v shows MEM_MGT_EXTENSIONS among the capabilities of one that does. Use the port of another adapter, a newer driver, or TCP: \
                proto=tcp for NFS, -t tcp for NVMe, the network tcp of LNet.",
        )
    } else if text.contains("devices are not supported") {
        Some(
            "This release of the driver package has no driver for the adapter: MLNX_OFED 5.1 and later, and DOCA-OFED, have none for \
                ConnectX-3 and older, and 4.9 is the last with one. Install that release on a kernel that it supports, use the distribution's \
                drivers (mlx4_core, mlx4_ib) with its rdma-core, or replace the adapter.",
        )
    } else {
        None
    }
}

/// What to do where a library takes an adapter of iWARP for one of InfiniBand or RoCE.
pub(crate) const IWARP: &str = "The adapter has no queue pairs of the kind that the program creates: iWARP (Intel X722 and E800, Chelsio) has no datagrams (UD) and no XRC. Nothing is broken in it. Leave it \
    out: with Open MPI --mca btl ^openib and --mca oob ^ud, or --mca btl_openib_if_exclude DEVICE; with UCX, UCX_NET_DEVICES with the other devices, or tcp. An adapter of the E800 series can use RoCE \
    instead: devlink dev param set pci/ADDRESS name enable_roce value true cmode runtime.";

/// A library that reads only the names does not take a device of mlx5 for one, because it was renamed.
pub(super) fn renamed<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let is_mlx5 = |name: &String| {
        let mut hcas = case.node.hcas();
        let known = hcas.find(|hca| hca.name == *name);
        match known {
            Some(hca) => hca
                .driver
                .known()
                .is_some_and(|driver| driver.starts_with("mlx5")),
            // The device may be another node's. Drivers of others name theirs after themselves.
            None => !is_named_by_driver(name) && case.node.modules.has("mlx5_core") != Some(false),
        }
    };
    case.symptoms.iter().copied().find(|symptom| {
        symptom.kind == SymptomKind::UnsupportedAdapter
            && symptom.text.contains("not enumerated as an mlx5")
            && symptom
                .named
                .device
                .as_ref()
                .is_some_and(|name| !name.starts_with("mlx5") && is_mlx5(name))
    })
}

/// Whether the adapter refused a shared receive queue.
fn is_of_shared_queue(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    ["srq", "shared receive queue"]
        .iter()
        .any(|name| text.contains(name))
        && matches!(
            symptom.named.errno,
            Some(Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS)
        )
}

/// UCX's transport DC.
const DC: &str = "The driver or the library refused a queue of the transport DC, which only mlx5 has from ConnectX-4 on: leave it out, UCX_TLS=rc,sm,self. To use it, install a kernel driver, rdma-core and UCX of releases that belong together \
    (MLNX_OFED or DOCA-OFED brings all three; ofed_info -s, ucx_info -v), and update the firmware.";

/// DPDK's mlx5 works through `DevX`.
const DEVX: &str = "DPDK needs DevX of the adapter: check UCTX_EN (mlxconfig -d ADDRESS query UCTX_EN; set it to 1 and reset the adapter), that \
    firmware and kernel driver are not too old for this DPDK, and that a virtual function is trusted (ip link set PF vf N trust on). With an adapter \
    before ConnectX-5, or without DevX, leave out features that need it: dv_flow_en=0.";

/// What Open MPI reports where a call of libfabric failed.
fn is_of_ofi(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    text.contains("open mpi") && text.contains("ofi ")
}

/// What PSM2 reports of an adapter with another name than the kernel's.
fn is_renamed(symptom: &Symptom) -> bool {
    symptom.text.contains("PSM2 looks for")
}

/// What MPICH, or Intel MPI, reports where a provider of libfabric refused a transfer.
fn is_of_mpich(symptom: &Symptom) -> bool {
    symptom.text.contains("MPIDI_OFI")
}

/// What DPDK reports where the memory of one of its drivers is there already.
fn is_of_dpdk(symptom: &Symptom) -> bool {
    symptom.software == Some(Software::Dpdk)
}

/// The step for it.
const DPDK: &str = "Start each primary process of DPDK with its own --file-prefix, or the others with --proc-type=secondary: the memory of the driver, which processes share, \
    is there already. If only one process runs, it may hold the driver twice: link DPDK's drivers either statically or as shared libraries, not both (ldd PROGRAM | grep rte_, \
    and the option -d).";

/// The step where the library does not say why it failed.
const UNEXPLAINED: &str = "Let the library say why: UCX_LOG_LEVEL=info with UCX (MPICH, Open MPI and NIXL use it), FI_LOG_LEVEL=warn with libfabric, \
    NVSHMEM_DEBUG=INFO with NVSHMEM. The first error before this line is the cause. Where no library loads, ldd on the one that the message names \
    shows what is missing or too old.";
/// The step for a call of libfabric.
const OFI: &str = "Let Open MPI use another provider of libfabric, or none: --mca mtl_ofi_provider_exclude PROVIDER (psm3 where the adapter is not one of \
    Cornelis or Intel), or --mca pml ucx with InfiniBand and RoCE. On Slingshot (cxi) start the job with srun, which gives it its VNI. fi_info -l lists the providers, and --mca opal_common_ofi_verbose 100 shows which one \
    it chose. Then FI_LOG_LEVEL=warn shows why the call failed.";

/// The step for an adapter that was renamed.
const RENAMED: &str = "Turn the renaming of RDMA devices off, so that the adapter is hfi1_0 again, where libpsm2 looks for it: ln -s /dev/null \
    /etc/udev/rules.d/60-rdma-persistent-naming.rules, then restart the node (rdma dev set NAME name hfi1_0 renames it at once). Or update libpsm2 to a release that \
    finds the adapter by any name.";
/// The step for a transfer that a provider refused.
const MPICH: &str = "Run the job with another provider or release of libfabric. fi_info -l lists those that this MPI has: FI_PROVIDER=mlx, verbs or psm3. \
    Intel MPI brings its own libfabric: update Intel MPI, or use the system's with I_MPI_OFI_LIBRARY_INTERNAL=0. FI_LOG_LEVEL=warn shows why the provider refused \
    the transfer. In fi_info of another installation the devices may be missing: run the one of this MPI.";

/// What a program reports that calls libfabric itself (`GASNet`, Charm++, SOS): `fi_domain failed: -38(Function not implemented)`.
fn is_of_call(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    ["fi_domain", "fi_endpoint"]
        .iter()
        .any(|call| text.contains(call))
}

/// The step for such a call.
const OF_CALL: &str = "FI_LOG_LEVEL=warn shows why the provider of libfabric refused the call; fi_info -l lists the providers, and FI_PROVIDER selects another one \
    (verbs or psm2 where the node has such an adapter). On Slingshot (cxi) the call is not implemented for a job without a virtual network (VNI): start it \
    with srun, on one node with --network=single_node_vni.";

/// What NCCL reports of a description of the node's topology that it does not understand.
fn is_of_topology(symptom: &Symptom) -> bool {
    symptom.text.contains("WARN Attribute ")
}

/// The step for it.
const TOPOLOGY: &str = "NCCL does not understand the description of the node's topology: a part that it needs is missing from it. Look where it comes from: a file that NCCL_TOPO_FILE names (a plugin such as \
    aws-ofi-nccl or the image may set it; env | grep NCCL_TOPO), or the /sys of the container (/sys/devices/system/node, /proc/cpuinfo). Use the file of this machine type and of this NCCL, or none: unset \
    NCCL_TOPO_FILE, and update NCCL and its plugin together. NCCL_TOPO_DUMP_FILE=FILE writes what NCCL reads itself.";

/// What NCCL reports that finds no sysfs.
fn is_of_sysfs(symptom: &Symptom) -> bool {
    symptom.text.contains("real path of /sys/")
}

/// The step for it.
const SYSFS: &str = "Give the container the /sys of the host: NCCL reads there where GPUs and adapters are, and ends if the entry that the line names is not there. Compare ls -l of \
    that path in the container and on the host. Start the container without a mask or another file system over /sys (docker run -v /sys:/sys:ro, or --privileged to compare); \
    gVisor and similar runtimes have no such entries. Or describe the node in a file: NCCL_TOPO_FILE.";

/// Whether a symptom is of one kind.
type Is = fn(&Symptom) -> bool;

/// Failures of a backend that name what failed, each with its step.
const FAILED: [(Is, &str); 18] = [
    (library::is_of_copy, library::COPY),
    (library::is_check_of_psm, library::CHECK_OF_PSM),
    (library::is_check, library::CHECK),
    (library::is_crash, library::CRASH),
    (library::is_of_signal, library::SIGNAL),
    (library::is_of_daemon, library::DAEMON),
    (is_of_topology, TOPOLOGY),
    (library::is_interrupted, library::INTERRUPTED),
    (is_of_sysfs, SYSFS),
    (is_without_transport, library::TRANSPORT),
    (library::is_of_count, library::COUNT),
    (library::is_of_opening, library::OPENING),
    (is_of_ofi, OFI),
    (is_of_call, OF_CALL),
    (is_renamed, RENAMED),
    (is_of_mpich, MPICH),
    (is_of_dpdk, DPDK),
    (pods::is_path, pods::PATH),
];

/// What does not load, and what the remedy is where the message names it.
pub(crate) fn backend(case: &Case<'_>, scales: &mut Scales) {
    if unusable(case, scales) {
        return;
    }
    let Some(symptom) = case.seen(&[SymptomKind::BackendMissing]).next() else {
        let found = FAILED.iter().find_map(|(is_one, step)| {
            let mut failed = case.seen(&[SymptomKind::BackendFailed]);
            Some((failed.find(|symptom| is_one(symptom))?, step))
        });
        if let Some((symptom, step)) = found {
            scales.next_step = Some((*step).to_owned());
            // It ends NCCL, whatever it did without before.
            if is_of_sysfs(symptom) {
                return scales.shows(&symptom.source, &symptom.text);
            }
            return scales.fits(&symptom.source, &symptom.text);
        }
        scales.next_step = Some(UNEXPLAINED.to_owned());
        return scales.unseen("the library's own log of the failure");
    };
    scales.fits(&symptom.source, &symptom.text);
    let text = symptom.text.to_ascii_lowercase();
    if text.contains("rpc-transport") || text.contains("transport-type 'rdma'") {
        scales.next_step = Some(
            "Install Gluster's transport over RDMA in the version of the other packages (glusterfs-rdma). Gluster 8 and later have none: change the \
            volume to TCP (gluster volume set VOLUME config.transport tcp), which also works over IP over InfiniBand."
                .into(),
        );
    } else if ["re-compile libfabric", "requested ofi provider"]
        .iter()
        .any(|words| text.contains(words))
    {
        scales.next_step = Some(
            "This libfabric was built without the provider that the program requests: fi_info -l lists those that it has. Install or build one with it \
            (--enable-verbs; with Spack fabrics=verbs), or let the program use another one. If the provider is there, fi_info -p PROVIDER shows \
            whether it finds a device."
                .into(),
        );
    } else if ["trtype", "transport"].iter().any(|word| text.contains(word))
        && symptom.software.is_some_and(Software::is_storage)
    {
        scales.next_step = Some(
            "Build SPDK with its transport over RDMA: install the headers of libibverbs and librdmacm (libibverbs-dev and librdmacm-dev, or \
            rdma-core-devel), then ./configure --with-rdma and make. A package of SPDK needs the variant with RDMA."
                .into(),
        );
    } else if text.contains("no tls are") || text.contains("no tl teams") || text.contains("no cl teams") {
        scales.next_step = Some(
            "UCC found none of its transports (TL). ucc_info -v and ls of lib/ucc in its installation show which it was built with: libucc_tl_ucx.so needs UCX (configure --with-ucx), \
            libucc_tl_nccl.so needs NCCL. If they are there, ldd shows what each misses, and UCC_TLS, UCC_CL_BASIC_TLS and UCC_CLS in the environment leave them out: unset these. \
            UCC_LOG_LEVEL=info shows the choice."
                .into(),
        );
    } else if library::is_of_component(&text) {
        scales.next_step = Some(library::COMPONENT.to_owned());
    } else if text.contains("van type") {
        scales.next_step = Some(
            "This build of BytePS has no RDMA in its ps-lite. Build it again with BYTEPS_USE_RDMA=1 and the headers of libibverbs and librdmacm (libibverbs-dev and librdmacm-dev, \
            or rdma-core-devel), on workers, servers and scheduler alike. DMLC_ENABLE_RDMA=0 uses TCP until then."
                .into(),
        );
    } else if text.contains("mpi_thread_multiple") {
        scales.next_step = Some(
            "This UCX was built without threads. Use one that was built with --enable-mt (HPC-X has it under ucx/mt; ucx_info -v shows the options), or let the \
            program ask for less than MPI_THREAD_MULTIPLE."
                .into(),
        );
    } else if text.contains("memory is detected")
        || ["cuda", "rocm", "gdr_copy", "gpu(s)"]
            .iter()
            .any(|word| text.contains(word))
            && symptom.software == Some(Software::Ucx)
            && !text.contains("cannot open shared")
    {
        scales.next_step = Some(
            "Run ucx_info -d | grep -i -e cuda -e rocm where the job runs. If it lists nothing, install a UCX that was built for the GPUs \
            (--with-cuda, --with-rocm), with its modules (libuct_cuda, libuct_rocm). If it lists them, UCX_TLS leaves them out: unset it or add \
            them."
                .into(),
        );
    } else if ["unknown ", "unsupported ", "unrecogni", "not loadable"]
        .iter()
        .any(|word| text.contains(word))
    {
        scales.next_step = Some(
            "This build of the program has no RDMA in it. Install its package with RDMA, or build it with the headers of libibverbs and librdmacm \
            (libibverbs-dev and librdmacm-dev, or rdma-core-devel) and its option for RDMA (QEMU: --enable-rdma). Distributions may leave it out: use TCP then."
                .into(),
        );
    } else if text.contains("glibc") {
        scales.next_step = Some(
            "The library was built for a newer C library than the image has (ldd --version). Use an image with at least the version that the \
            message names, or a build of the library for this image."
                .into(),
        );
    }
}

/// What to do about an address of no known family, if nothing else shows where it is from.
const FAMILY: &str = "A rank got an address of no known family. Look for the reason in this order. Run all ranks with the same version of NCCL, the same plugin and the same network: compare the lines \
    NCCL version, NET/Plugin and Using network of all hosts. Check that the interface of NCCL_SOCKET_IFNAME, if it is set, exists and has an address on every host: ip -brief address. Check that the \
    program calls sends and receives in the same order on all ranks. Family 1 is that of sockets within a host: ranks believe that they run on one host (containers with one host \
    name; NCCL_HOSTID makes them different).";

/// The ends of a connection do not agree: such as two ranks of NCCL in one operation.
pub(crate) fn peer_settings(case: &Case<'_>, scales: &mut Scales) {
    let says = |words: &str| {
        case.seen(&[SymptomKind::PeerDiffers])
            .any(|symptom| symptom.text.contains(words))
    };
    if ["connecting to address", "NCCL uses network", "wrong type"]
        .into_iter()
        .any(says)
    {
        scales.insisted_step = Some(
            "Run all ranks with the same version of NCCL, the same plugin and the same network: compare the lines NCCL version, NET/Plugin and Using network \
            of all hosts. A container or a Python environment with another NCCL, a plugin (libnccl-net.so) that one host does not have, or NCCL_NET and \
            NCCL_IB_DISABLE on one host only make the difference. Ranks that differ send each other addresses that they do not understand, or wait for ever."
                .into(),
        );
    }
    let is_of_family = case
        .seen(&[SymptomKind::PeerDiffers])
        .find(|symptom| symptom.text.contains("connecting to address"));
    if let Some(symptom) = is_of_family.filter(|symptom| !symptom.text.contains("the log has NCCL")) {
        scales.insisted_step = Some(FAMILY.to_owned());
        scales.doubts(
            &symptom.source,
            "no line shows other versions of NCCL: a rank without an address sends the same",
        );
    }
    if says("packet mismatch") {
        scales.insisted_step = Some(
            "One end of Mooncake's connection has stale data of the other: a process was restarted under the same address, or two use the same name. Stop all processes of \
            the job, clear the metadata server (or use a new session), then start them again with the same version of Mooncake on all nodes."
                .into(),
        );
    }
    if says("remote rails") || says("remote control rails") || says("ail count mismatch") {
        scales.insisted_step = Some(
            "Give all processes of the job the same number of EFA devices for each GPU. The library groups the devices that it finds near a GPU, so a pod that \
            requests only a part of them (vpc.amazonaws.com/efa) gets other groups on each node: request all devices of the node. fi_info -p efa lists them where the job \
            runs. All nodes must be of one type, with one version of the library (aws-ofi-nccl, NIXL), too."
                .into(),
        );
    }
    if says("engine ID mismatch") {
        scales.insisted_step = Some(
            "Give every instance of vLLM its own address for NIXL's side channel: VLLM_NIXL_SIDE_CHANNEL_HOST to the address of its node or pod, and another \
            VLLM_NIXL_SIDE_CHANNEL_PORT for each instance on a node. Without them an instance announces localhost, and its peers reach another one."
                .into(),
        );
    }
    if says("loop back to start") || says("not contain rank") {
        scales.insisted_step = Some(
            "The ranks worked out different rings, because they see different devices or settings. Compare on all hosts, and between the processes of one: the NCCL_ variables (NCCL_IB_HCA, NCCL_CUMEM_ENABLE, \
            NCCL_P2P_DISABLE, NCCL_TOPO_FILE), the version of NCCL, and the adapters and GPUs that each container has (ibv_devices, nvidia-smi topo -m). Set them the same way for all \
            ranks: a variable in the shell of one host does not reach the others."
                .into(),
        );
    }
    if says("SQSIZE") {
        scales.insisted_step = Some(
            "Connect with a smaller queue: nvme connect --queue-size=N (-Q), below the depth of the target's transport (SPDK: nvmf_create_transport -q), or raise \
            that depth. If both are equal, one of the two counts one entry differently: update the older software."
                .into(),
        );
    }
    if says("collective mismatch") {
        scales.next_step = Some(
            "Check that all ranks call the same operations with the same sizes, in the same order (TORCH_DISTRIBUTED_DEBUG=DETAIL), with one version of \
            NCCL. If they do, the adapter may deliver writes out of order: mlxconfig -d ADDRESS query PCI_WR_ORDERING must show per_mkey, and \
            a run with NCCL_IB_PCI_RELAXED_ORDERING=0 shows whether this is the reason."
                .into(),
        );
    }
    logged(case, scales);
}

/// A target that failed itself, where its answer shows it.
pub(crate) fn storage_access(case: &Case<'_>, scales: &mut Scales) {
    let failed = case
        .seen(&[SymptomKind::StorageRefused])
        .any(|symptom| symptom.text.trim_end().ends_with("DNR bit: 6"));
    if failed {
        scales.next_step = Some(
            "Status 6 is an internal error of the target: read its log at the time of the connection. It may not have the subsystem's name, its namespace or \
            memory for another queue, or be older than what this kernel asks for: update it, and compare the name with its configuration."
                .into(),
        );
    }
    logged(case, scales);
}

/// Whether the modules of NVIDIA's driver could not be unloaded, and not those between them and the adapters.
fn is_of_gpu_driver(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    text.contains("nvidia") && !["peermem", "in use by"].iter().any(|words| text.contains(words))
}

/// The modules that keep others loaded, where the log names them: `rmmod: ERROR: Module rdma_cm is in use by: ksmbd`.
pub(crate) fn in_use(case: &Case<'_>, scales: &mut Scales) {
    let is_name = |word: &&str| {
        word.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let users: Vec<&str> = case
        .symptoms
        .iter()
        .filter(|symptom| symptom.kind == SymptomKind::ModuleInUse)
        .filter_map(|symptom| symptom.text.split_once("in use by: "))
        .flat_map(|(_, names)| names.split([' ', ',']).filter(|name| !name.is_empty()))
        .filter(is_name)
        .take(8)
        .collect();
    let of_settings = |symptom: &Symptom| symptom.text.contains("when RDMA is active");
    if case.seen(&[SymptomKind::ModuleInUse]).any(of_settings) {
        scales.next_step = Some(
            "The driver of the network card changes this only while RDMA does not use the card: set it before irdma is loaded (a udev rule or a unit before it), or stop what uses RDMA, modprobe -r irdma, change it, and modprobe irdma again. If a tool such as TuneD sets it, leave the interface out of its profile."
                .into(),
        );
    }
    if case.seen(&[SymptomKind::ModuleInUse]).any(is_of_gpu_driver) {
        scales.next_step = Some(
            "What is in use is the driver of the GPUs, not the RDMA stack. lsmod | grep nvidia shows the modules that hold it, fuser -v /dev/nvidia* the programs. End the programs (pods with \
            GPUs, DCGM, nvidia-persistenced: drain the node), unload the modules that stand on it (modprobe -r gdrdrv nvidia_fs nvidia_peermem), and restart the driver or its \
            container."
                .into(),
        );
    } else if !users.is_empty() {
        let users = users.join(" ");
        scales.next_step = Some(format!(
            "Unload first what the log names: stop what uses it (mounts, exports, sessions, programs), then modprobe -r {users}, and restart openibd or the \
            driver container. If a module comes back by itself, a service loads it: stop that service, too."
        ));
    }
    logged(case, scales);
}

/// DPDK found a function without an RDMA device. Returns whether it did.
pub(super) fn unbound(case: &Case<'_>, scales: &mut Scales) -> bool {
    let found = case.seen(&[SymptomKind::NoDevice]).find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        ["are kernel drivers loaded", "unused=mlx5_core"]
            .iter()
            .any(|words| text.contains(words))
    });
    let Some(symptom) = found else { return false };
    let function = symptom.named.function.as_deref().unwrap_or("ADDRESS");
    scales.fits(&symptom.source, &symptom.text);
    scales.next_step = Some(format!(
        "On the host, show the driver of the function: ls -l /sys/bus/pci/devices/{function}/driver. DPDK's mlx5 works through the kernel's driver, \
        not vfio-pci or igb_uio: bind the function to mlx5_core (echo {function} > /sys/bus/pci/drivers/mlx5_core/bind), and load mlx5_ib and ib_uverbs. Then \
        ls /sys/bus/pci/devices/{function}/infiniband names the RDMA device. In a container, the program also needs /dev/infiniband."
    ));
    true
}

/// The module calls functions of the NVIDIA driver, which is not there or is another version.
const WITHOUT_GPU_DRIVER: &str = "Load the NVIDIA driver first (modprobe nvidia; nvidia-smi shows whether it works), then the module that the log names. If its symbols \
    still do not fit, the module was built for another version of the driver: build it again (dkms autoinstall). Where the kernel logs 'uses symbols from \
    proprietary module', it needs NVIDIA's open kernel modules. From driver 470 on, nvidia_peermem comes with the \
    driver and takes the place of nv_peer_mem.";

/// Whether a message in lower case is of a package manager that did not reach the repository, or was refused there.
fn lacks_packages(text: &str) -> bool {
    [
        "resolve host",
        "resolving '",
        "downloading metadata",
        "download metadata",
        "failed to fetch",
        "cannot download",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// Whether a message in lower case is of a package manager that misses another package, or waits for one.
fn is_dependency(text: &str) -> bool {
    [
        "not installable",
        "not going to be installed",
        "dependency problems",
        "unmet dependenc",
        "is not configured yet",
        "error processing package",
        "nothing provides",
        "failed dependencies",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// The package itself refuses the kernel.
const OTHER_KERNEL: &str = "This release of the driver package does not support the kernel that runs (uname -r): building it again changes nothing. Install a release whose release notes name this kernel (DOCA-OFED, or a newer MLNX_OFED), \
    or none: the distribution's kernel has the drivers (modprobe mlx5_ib), and its rdma-core the libraries. ConnectX-3 and older adapters need the kernel's own driver, or MLNX_OFED 4.9 with a kernel that it supports.";

/// Whether it refused it, and what to do then.
fn refuses_kernel(text: &str, scales: &mut Scales) -> bool {
    let is_one = ["support kernel version", "unsupported kernel version"]
        .iter()
        .any(|words| text.contains(words));
    if is_one {
        scales.next_step = Some(OTHER_KERNEL.to_owned());
    }
    is_one
}

/// A driver that was not built for this kernel has another remedy than a module that does not fit the others. Where a container installs it,
/// the operator's settings are part of it.
pub(crate) fn module_build(case: &Case<'_>, scales: &mut Scales) {
    let kinds = [SymptomKind::DriverNotBuilt, SymptomKind::DriverNotReady];
    let mut mismatched = case.seen(&[SymptomKind::ModuleMismatch]);
    if mismatched.any(|symptom| symptom.text.contains("nvidia_p2p_")) {
        scales.next_step = Some(WITHOUT_GPU_DRIVER.to_owned());
    }
    let Some(symptom) = case.seen(&kinds).next() else {
        return logged(case, scales);
    };
    if symptom.kind == SymptomKind::DriverNotBuilt {
        scales.shows(&symptom.source, &symptom.text);
    } else {
        scales.fits(&symptom.source, &symptom.text);
    }
    let text = symptom.text.to_ascii_lowercase();
    if refuses_kernel(&text, scales) {
        return;
    }
    // A container installs packages of its own image; its lines begin with a time, and the pod's name with the operator's.
    let of_installer = [
        "installation failed!",
        "does not have drivers available",
        "is intended for",
        "failed to build mlnx_ofed",
        "does not exist, skipping",
        "required packages",
        "conflict",
    ]
    .iter()
    .any(|words| text.contains(words));
    // DKMS builds on a host; a container installs modules that its image has, or builds them with the installer.
    let of_host = ["dkms", "status for module build", "module.symvers"]
        .iter()
        .any(|words| text.contains(words));
    let of_peer_memory = [
        "nv_peer_mem",
        "nvidia-peer-memory",
        "nv-peer-mem",
        "peer_memory_client",
    ]
    .iter()
    .any(|name| text.contains(name));
    let is_container = case.containers && !of_host && !of_installer;
    scales.next_step = Some(if is_dependency(&text) && !of_host {
        "The driver package waits for another package, which the line names: nothing has to be built for it. Install that one first, in the version that it asks for: a package of the kernel \
        (linux-modules-extra-VERSION, kernel-modules-extra) must be that of the kernel that runs (uname -r) and be in a repository that is configured: apt-cache policy NAME, dnf list NAME. Then complete the rest: \
        apt-get -f install, dpkg --configure -a. In a driver container, use an image or a precompiled driver made for this kernel, or a kernel whose packages its repository has."
            .into()
    } else if of_peer_memory {
        "nv_peer_mem is built against the sources of the NVIDIA driver and of MLNX_OFED or DOCA-OFED: install both for the kernel that runs first, then build it again \
        (dkms autoinstall) and read the first error in its make.log. From driver 470 on, nothing has to be built: remove the package and load \
        nvidia_peermem, which comes with the driver (modprobe nvidia_peermem)."
            .into()
    } else if text.contains("nvidia_p2p_") {
        "The module uses functions of the GPU's driver (nvidia_p2p_*), and was built without their symbols. Build it again with the sources of the driver that is loaded: the Module.symvers of \
        /usr/src/nvidia-VERSION must be there (build that driver there first, or install its DKMS package), with nvidia-smi showing the same VERSION. Then reload the module: modinfo and dmesg must name \
        no missing symbol. A packaged nvidia-fs or nvidia_peermem of the same driver release needs no build."
            .into()
    } else if is_of_build(&text) {
        "The sources of the module and the interface of the RDMA stack that they were built against are of different releases: the compiler names what is \
        missing or has other arguments. Build against the headers of the stack that is loaded (the kernel's, or /usr/src/ofa_kernel/default of MLNX_OFED and DOCA), with a \
        release of the module that supports it; the release notes of the module name the kernels and stacks."
            .into()
    } else if symptom.kind == SymptomKind::DriverNotReady && text.contains("waiting for ") {
        "The container waits for the driver of the adapters, which another one installs: kubectl get pods -A -o wide | grep -e mofed -e doca shows that of the network operator on this node, and its log why it is not \
        ready; when it is, it makes the file /run/mellanox/drivers/.driver-ready on the node. If the driver of the host is to be used, no container installs one: set driver.rdma.useHostMofed=true for the GPU \
        operator (and check lsmod | grep mlx5_core on the node), or driver.rdma.enabled=false where no RDMA is needed."
            .into()
    } else if text.contains("driver-ready") {
        "The driver container has not finished, and the kubelet restarts it when its startup probe fails too often. Read its log from the start: kubectl -n \
        NAMESPACE logs POD -c mofed-container, with --previous after a restart. If it was still building the driver, give it more time: \
        ofedDriver.startupProbe in the NicClusterPolicy, or a precompiled image. If the build failed, its first error is the cause."
            .into()
    } else if ["pull image", "pulling image", "imagepull"]
        .iter()
        .any(|words| text.contains(words))
    {
        "Look up whether the registry has the image that kubectl describe pod names: its tag is the version of the driver, and for a precompiled driver the kernel and the \
        distribution, too (kubectl get nodes -o wide shows those of the node). In ofedDriver of the NicClusterPolicy, set a version that exists, or forcePrecompiled: false, so that \
        the container builds the driver. For a private registry, add imagePullSecrets."
            .into()
    } else if lacks_packages(&text) {
        "The packages with which the driver is built could not be downloaded. Look up the name of the host in the log, and fetch from it, where the build runs: getent hosts NAME; curl -I \
        URL. In a driver container that is the pod: check its DNS and proxy (env of ofedDriver in the NicClusterPolicy), the repository in \
        ofedDriver.repoConfig, and on RHEL and OpenShift the entitlement. A precompiled image of the driver needs no repository."
            .into()
    } else if is_container {
        "Read the log of the driver container from its start: kubectl -n NAMESPACE logs POD -c mofed-container. It needs the kernel's packages of \
        headers (linux-headers-VERSION, kernel-devel-VERSION) from a repository that has this kernel: check proxy and DNS of the pod, the \
        repository in ofedDriver.repoConfig of the NicClusterPolicy, and on RHEL and OpenShift the entitlement. If no version of the driver \
        supports this kernel, use a driver version that does, a precompiled image for it, or the driver of the kernel (remove ofedDriver)."
            .into()
    } else if of_installer {
        "The package has no modules for the kernel that runs (uname -r). Install its headers (linux-headers-VERSION, or kernel-devel-VERSION) and build them: \
        mlnxofedinstall --add-kernel-support, or the packages of DOCA-OFED with DKMS. If the build fails, its log names the first error; if this \
        release does not support the kernel or distribution, use one that does. Then /etc/init.d/openibd restart."
            .into()
    } else {
        "Install the headers of the kernel that runs (uname -r): linux-headers-VERSION, or kernel-devel-VERSION. Read the first error in the \
        build log that the message names (make.log): if the driver does not support this kernel, install a newer driver package. Then build it \
        again: dkms autoinstall, depmod -a."
            .into()
    });
}
