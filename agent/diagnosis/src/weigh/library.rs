//! Libraries that do not use the devices which are there: Open MPI over TCP, libfabric without a provider, UCX without InfiniBand.

use rdma_health_protocol::Errno;

use super::{Case, Scales, job::logged};
use crate::{
    log::{is_frame, is_ucx_check},
    symptom::{Software, Symptom, SymptomKind},
};

/// Where Open MPI uses TCP although it found an RDMA adapter.
pub(super) fn over_tcp<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    case.symptoms
        .iter()
        .copied()
        .find(|symptom| symptom.kind == SymptomKind::SocketFallback && symptom.text.contains("btl_tcp"))
}

/// Where an MPI library finds no provider of libfabric for what it needs. Without containers the devices are there, and no provider is for
/// them.
pub(super) fn of_providers<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    const CALLS: [&str; 3] = ["addrinfo() failed", "fi_getinfo", "ofi addrinfo"];
    case.symptoms.iter().copied().find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.kind == SymptomKind::NoDevice
            && matches!(symptom.software, Some(Software::Mpi | Software::Libfabric))
            && text.contains("mpid")
            && (CALLS.iter().any(|call| text.contains(call))
                // The provider that was chosen has nothing to open (ENODATA).
                || text.contains("fi_open domain failed") && text.contains("no data available"))
    })
}

/// UCX found no RDMA device where a tool lists an active port: its build or installation has no support for InfiniBand.
pub(super) fn unbuilt(case: &Case<'_>, scales: &mut Scales) {
    let Some(symptom) = without_support(case) else {
        return;
    };
    scales.fits(
        &symptom.source,
        "UCX found no RDMA device, although the log shows that the job has them (a tool lists an active port, or the container was started with them)",
    );
    scales.next_step = Some(
        "Where the job runs, run ucx_info -d | grep -i -e mlx -e rc_ and ibv_devinfo. If ibv_devinfo lists the devices and ucx_info does not, this UCX has no \
        support for them: install its module for InfiniBand (package ucx-ib; libuct_ib.so in the directory of libuct.so), rdma-core, or a UCX that was built \
        --with-verbs. If both list none, the job has no /dev/infiniband: with Kubernetes the pod needs the RDMA resource."
            .into(),
    );
}

/// What UCX reports that finds only other networks, in a log that lists an active RDMA port.
pub(super) fn without_support<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let is_listed = case.log.is_some_and(|log| log.active_port || log.marks.given);
    case.symptoms
        .iter()
        .copied()
        .find(|symptom| symptom.kind == SymptomKind::NoDevice && symptom.software == Some(Software::Ucx))
        .filter(|_| is_listed)
}

/// Communication that the GPU starts needs `GDRCopy` where the adapter is an EFA.
pub(crate) fn gpu_initiated(case: &Case<'_>, scales: &mut Scales) {
    let of_gdrcopy = case.seen(&[SymptomKind::GpuDoorbellFailed]).find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        text.contains("gdr") && text.contains("gin")
    });
    if of_gdrcopy.is_some() {
        scales.insisted_step = Some(
            "Load GDRCopy's module on the node (modprobe gdrdrv; package gdrdrv-dkms), and give the container /dev/gdrdrv. The plugin for EFA needs it for communication \
            that the GPU starts (GIN). Without it, use the library's mode without GIN."
                .into(),
        );
    }
    let of_nccl = case.seen(&[SymptomKind::GpuDoorbellFailed]).find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.software == Some(Software::Nccl) && (text.contains("gin") || text.contains("gdaki"))
    });
    if of_nccl.is_some() && of_gdrcopy.is_none() {
        scales.insisted_step = Some(
            "NCCL could not set up communication that the GPU starts (GIN over DOCA, GDAKI). Update NCCL: its first releases with it do not serve every port, such as RoCE and InfiniBand ports that need a \
            global route header (GRH). Until then let the CPU do it, NCCL_GIN_TYPE=2 (proxy), or switch it off: NCCL_GIN_ENABLE=0. NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,NET shows the choice."
                .into(),
        );
    }
    let unfound = case
        .seen(&[SymptomKind::GpuDoorbellFailed])
        .find(|symptom| symptom.text.contains("detect topo"));
    if unfound.is_some() {
        scales.next_step = Some(
            "NVSHMEM found no transport that works on this node. NVSHMEM_DEBUG=INFO shows which it tried; select the one for the adapter: NVSHMEM_REMOTE_TRANSPORT=ibgda, ibrc or ucx with InfiniBand and RoCE, \
            libfabric (NVSHMEM_LIBFABRIC_PROVIDER) with EFA and Slingshot. It must be among the libraries of this build (ls of nvshmem_transport_*.so*), and the job needs the devices: ls /dev/infiniband."
                .into(),
        );
        return scales.unseen("which transports NVSHMEM tried (NVSHMEM_DEBUG=INFO)");
    }
    logged(case, scales);
}

/// The transport or provider that the job selects in place of what it uses or misses. Returns whether there is one.
pub(super) fn transports(case: &Case<'_>, scales: &mut Scales) -> bool {
    if let Some(symptom) = over_tcp(case) {
        scales.next_step = Some(
            "Let Open MPI use the adapter: --mca pml cm --mca mtl psm2 with Omni-Path, --mca pml ucx with InfiniBand and RoCE, and --mca btl ^openib (ompi_info \
            shows which it has). If TCP is intended, name the network that all nodes share: --mca btl_tcp_if_include SUBNET/LENGTH. Addresses that \
            several nodes have, such as those of bridges of containers and virtual machines, lead to the wrong process."
                .into(),
        );
        scales.fits(&symptom.source, &symptom.text);
        return true;
    }
    if let Some(symptom) = of_providers(case) {
        scales.next_step = Some(
            "Where the job runs, run fi_info -l and fi_info: they list the providers of libfabric and what each finds. Select one that is there: FI_PROVIDER=verbs, \
            mlx, psm3 or tcp. Intel MPI brings its own libfabric: source its vars.sh, do not mix it with the system's (I_MPI_OFI_LIBRARY_INTERNAL=1, \
            FI_PROVIDER_PATH), and see why the others are left out: FI_LOG_LEVEL=debug, I_MPI_DEBUG=5. The provider mlx needs UCX 1.4 or later, verbs an active \
            port. In a container, check ls /dev/infiniband first."
                .into(),
        );
        scales.fits(&symptom.source, &symptom.text);
        return true;
    }
    false
}

/// What UCX reports that found more devices than it has room for.
pub(super) fn is_of_count(symptom: &Symptom) -> bool {
    symptom.text.contains("transports/devices limit")
}

/// The step for too many devices.
pub(super) const COUNT: &str = "UCX counts each transport of each network device, and this release has room for fewer than the node has. Let the process use only the adapters near its \
    GPUs: UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1 (ucx_info -d lists them), or fewer transports: UCX_TLS=rc,cuda,sm,self. Or update UCX: later releases have \
    room for more.";

/// What PSM2 reports whose call of the driver a signal interrupted.
pub(super) fn is_interrupted(symptom: &Symptom) -> bool {
    let by_number = symptom.named.errno == Some(Errno::EINTR) && symptom.text.contains("hfi");
    by_number
        || symptom
            .text
            .to_ascii_lowercase()
            .contains("interrupted system call")
}

/// The step for it.
pub(super) const INTERRUPTED: &str = "A signal interrupted the call that opens the adapter, and this library does not try it again. Something in the program sends signals while MPI starts: a profiler (gprof \
    with -pg, gperftools, HPCToolkit), a timer (setitimer, alarm) or a checkpoint tool. Start the job without it, let it begin after MPI_Init, or update libpsm2. The adapter and its port are not the reason.";

/// What MPICH reports whose provider of libfabric does not open its device.
pub(super) fn is_of_opening(symptom: &Symptom) -> bool {
    symptom.text.contains("fi_open domain failed")
}

/// The step for it.
pub(super) const OPENING: &str = "On Slingshot (provider cxi, as with Cray MPICH) a job without a virtual network (VNI) ends like this: start it with srun, on one node with \
    --network=single_node_vni, or let the launcher in use request one; env | grep SLINGSHOT_ shows whether a process has it. Elsewhere FI_LOG_LEVEL=warn shows why \
    the provider did not open the device, fi_info lists the providers, and FI_PROVIDER selects another one.";

/// What Open MPI reports that did not find a component which the job selects.
pub(super) fn is_of_component(text: &str) -> bool {
    text.contains("requested component was not found")
        || text.contains("no components were able to be opened")
}

/// The step for it.
pub(super) const COMPONENT: &str = "On each host of the job, run ompi_info | grep -e btl -e pml -e mtl: it lists the components that this Open MPI has. One that is missing was not \
    built, or a library that it needs does not load (ldd on mca_btl_NAME.so). Install the same Open MPI on all hosts, or select a component that all have: --mca pml ucx \
    in place of openib, which Open MPI 5 does not have. The selection is in the command, in openmpi-mca-params.conf or in the environment (env | grep OMPI_MCA).";

/// What to do where Open MPI has no transport to ranks of other nodes.
pub(super) const TRANSPORT: &str = "The transports that Open MPI may use here do not reach the other nodes. `BTLs attempted` lists them: openib cannot drive an \
    Omni-Path adapter, and Open MPI 5 does not have it. ompi_info | grep -e btl -e pml -e mtl where the job runs, in its container too, shows what this Open MPI has. \
    Select what fits the adapter: --mca pml cm --mca mtl psm2 (or ofi) with Omni-Path, --mca pml ucx with InfiniBand and RoCE. If none is there, use an Open MPI that was \
    built with it. In a container, ls -d /dev/hfi1_0 /dev/infiniband shows whether it has the devices. A selection of the job (--mca btl, OMPI_MCA_btl) that \
    leaves out tcp leaves nothing else: remove it.";

/// Whether a trace shows a program that crashed in a library of RDMA.
pub(super) fn is_crash(symptom: &Symptom) -> bool {
    is_frame(&symptom.text)
}

/// The step for it.
pub(super) const CRASH: &str = "The program crashed in the function that the log names: an error of that library or program, not of the network. Update it: librdmacm, libibverbs and the providers come with \
    rdma-core or MLNX_OFED (rpm -q rdma-core, dpkg -l rdma-core, ofed_info -s; one of them only), UCX, libfabric and Open MPI from their own releases, a program of storage or messaging from its own. A device with a GUID that is zero or that another \
    one has (ibv_devinfo | grep guid) can lead to such a crash in librdmacm: correct it, or unbind the device. If the newest release crashes too, give its maintainers the whole trace.";

/// Whether a program crashed while the library copied the program's own buffer.
pub(super) fn is_of_copy(symptom: &Symptom) -> bool {
    const COPIES: [&str; 7] = [
        "_dt_pack",
        "_dt_unpack",
        "_dt_contig",
        "_dt_iter",
        "pack_eager",
        "pack_rendezvous",
        "memcpy",
    ];
    is_crash(symptom) && COPIES.iter().any(|name| symptom.text.contains(name))
}

/// The step for it.
pub(super) const COPY: &str = "The library crashed while it copied a buffer of the program, which may be memory of a GPU that it takes for memory of the host. See whether UCX and MPI support GPUs: ucx_info -v | grep cuda, ompi_info --parsable --all | \
    grep mpi_built_with_cuda_support (rocm for GPUs of AMD). UCX_TLS, if it is set, must have cuda or rocm, and UCX_MEMTYPE_CACHE=n shows whether UCX only took the memory for another kind. Without GPUs the program freed the buffer or gave a \
    size beyond its end: run it with valgrind or -fsanitize=address.";

/// What PSM2 reports whose own check failed.
pub(super) fn is_check_of_psm(symptom: &Symptom) -> bool {
    symptom
        .text
        .to_ascii_lowercase()
        .contains("assertion failure at psm")
}

/// The step for it.
pub(super) const CHECK_OF_PSM: &str = "A check in PSM2 failed. If it is about epid, the adapter has no address: see whether its port is active and has a LID, which the fabric manager gives (opainfo, ibstat). Without an Omni-Path network, or on one \
    node, leave PSM2 out: --mca mtl ^psm2, or PSM2_DEVICES=self,shm. Otherwise update libpsm2 together with the driver hfi1.";

/// What UCX reports whose own check failed: ``ud_ep.c:478  Assertion `…' failed``.
pub(super) fn is_check(symptom: &Symptom) -> bool {
    is_ucx_check(&symptom.text.to_ascii_lowercase())
}

/// The step for it.
pub(super) const CHECK: &str = "A check in UCX failed: an error of UCX, or something on the node that this release does not know. Update UCX to the newest release, the same on all nodes (ucx_info -v). If the words of the check name a GID, compare the GIDs \
    of the ports (show_gids), give all of them an IPv4 address, or choose one: UCX_IB_GID_INDEX. Until then leave out the transport whose source failed, ud, dc or rc: UCX_TLS=rc,sm,self.";

/// Whether the system ended the process for a fault, and no trace shows where.
pub(super) fn is_of_signal(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    [
        "segmentation fault",
        "signal 11",
        "illegal instruction",
        "signal code",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// The step for it.
pub(super) const SIGNAL: &str = "The process crashed, and the log does not show where. Get the trace: coredumpctl gdb (or gdb PROGRAM core, with ulimit -c unlimited before the start), then bt; for Python, python3 -X \
    faulthandler. The innermost function names the library. In one of RDMA (libibverbs, a provider, UCX, NCCL's plugin) look for a second copy of another release: ldd, LD_LIBRARY_PATH, libraries in the Python \
    environment. To narrow it down, run the job without RDMA once: NCCL_IB_DISABLE=1, UCX_TLS=tcp,sm,self.";

/// What to do where the start of NVSHMEM failed, which goes over TCP or MPI and not over RDMA.
pub(super) const BOOTSTRAP: &str = "The start of NVSHMEM failed, which goes over TCP (or MPI), before it uses RDMA. Name the interface that all nodes reach: NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=INTERFACE (ip -brief address), and \
    see that all processes run, with the same unique ID or the same launcher. NVSHMEM_DEBUG=INFO with NVSHMEM_DEBUG_SUBSYS=BOOTSTRAP shows the addresses.";

/// Whether a plugin for a cloud's network could not register GPU memory with the daemon that moves it.
pub(super) fn is_of_daemon(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    ["fastrak", "tcpx", "rxdm"].iter().any(|name| text.contains(name))
}

/// The step for it.
pub(super) const DAEMON: &str = "The plugin moves GPU memory through a daemon of the node (RxDM), which did not take or see it. Check that the daemon runs in the pod or on the node, in the version that belongs to \
    the plugin, and read its log. Its container needs every GPU and what it asks for: hostNetwork: true, the devices and libraries of the driver, the volumes of the vendor's manifest. The number of GPUs that it \
    finds must be that of nvidia-smi.";
