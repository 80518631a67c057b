//! The software that wrote a line, and the names of its settings: each library has its own.

use serde::Serialize;

/// A family of programs with the same settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Software {
    /// NCCL, RCCL and their plugins.
    Nccl,
    /// UCX, and what uses it: NIXL, UCC, Open MPI's `pml_ucx`.
    Ucx,
    /// NVSHMEM, and what uses it: `DeepEP`.
    Nvshmem,
    /// Mooncake's transfer engine.
    Mooncake,
    /// brpc.
    Brpc,
    /// Open MPI without UCX.
    OpenMpi,
    /// MVAPICH and Intel MPI.
    Mpi,
    /// libfabric, and the plugin aws-ofi-nccl.
    Libfabric,
    /// Programs of storage in user space: SPDK, Ceph, GPFS, DAOS, Gluster.
    Storage,
    /// Modules of the kernel for storage: NVMe over Fabrics, iSER, SRP, Lustre, NFS, SMB Direct, `BeeGFS`, RDS, SMC.
    #[serde(rename = "kernel-storage")]
    KernelStorage,
    /// perftest, and the tools of rdma-core.
    Perftest,
    /// DPDK.
    Dpdk,
    /// The tools of an InfiniBand fabric: opensm, infiniband-diags, ibdiagnet.
    Fabric,
    /// The kernel and its drivers.
    Kernel,
    /// Kubernetes and its plugins.
    Kubernetes,
}

/// Words of each family in lower case; the first row that matches applies.
const WORDS: &[(Software, &[&str])] = &[
    (
        Software::Kubernetes,
        &[
            "kubelet",
            "failedscheduling",
            "device plugin",
            "podsecurity",
            "multus",
            "sriov-cni",
            "failedcreatepodsandbox",
        ],
    ),
    (Software::Storage, &["na_ofi", "daos_engine", " daos["]),
    (Software::Libfabric, &["net/ofi", "libfabric:", "ofi_", " fi_"]),
    (
        Software::Nccl,
        &[
            "nccl warn",
            "nccl info",
            "nccl error",
            "net/ib",
            "ibvwrap",
            "rccl",
        ],
    ),
    (
        Software::Nvshmem,
        &["nvshmem", "ibgda", "ibrc", "deep_ep", "deepep"],
    ),
    (Software::Brpc, &["brpc"]),
    (
        Software::Mooncake,
        &[
            "mooncake",
            "rdma_context.cpp",
            "rdma_endpoint.cpp",
            "rdma_transport.cpp",
            "worker_pool.cpp",
            "transfer_engine",
            "transfer_task",
        ],
    ),
    (
        Software::Ucx,
        &[
            "ucx  ", "ucx ", "ucp_", "uct_", "ucs_", "nixl", "ib_mlx5", "pml_ucx",
        ],
    ),
    (Software::OpenMpi, &["btl_openib", "openib", "openfabrics"]),
    (Software::Mpi, &["mpid", "mvapich", "mpi_init", "mpir_"]),
    (
        Software::KernelStorage,
        &[
            "nvme nvme",
            "nvmet:",
            "nvmet_rdma",
            "lneterror",
            "lnet:",
            "kiblnd",
            "o2ib",
            "rpcrdma",
            "svcrdma",
            "ib_srp",
            "ib_isert",
            "isert:",
            "isert_",
            "iser:",
            "iser_",
            "rds/ib",
            "rds/rdma",
            "smc: ",
            "smb_direct",
            "smbd_",
            "rtrs_client",
            "rtrs_server",
            "rnbd_",
            "beegfs: ",
            "mount.nfs",
            "lnetctl",
        ],
    ),
    (
        Software::Storage,
        &[
            "spdk",
            "nvmf",
            "nvme_rdma.c",
            "nvme-fabrics",
            "nvme",
            "iser",
            "lnet",
            "verbs rdma",
            "rdmastack",
            "infiniband memorymanager",
            "infiniband init",
            "infiniband verify_prereq",
            "gf_rdma",
            "rpc-transport/rdma",
            "0-rdma.",
            "tirpc",
            "iscsi",
            "rdmasocket",
            "ibvsocket",
            "weka",
            "rdma.c:",
        ],
    ),
    (Software::Dpdk, &["mlx5_common", "mlx5_net", "eal:", "mlx5_pci"]),
    (
        Software::Perftest,
        &[
            "couldn't connect to",
            "ib_write_",
            "ib_send_",
            "ib_read_",
            "unable to init the socket",
            "connect the hca's through",
            "run_iter",
            "perftest",
        ],
    ),
];

impl Software {
    /// The software that a line in lower case shows.
    pub(crate) fn of(lower: &str) -> Option<Self> {
        if crate::log::is_of_tools(lower) {
            return Some(Self::Fabric);
        }
        let row = WORDS
            .iter()
            .find(|(_, words)| words.iter().any(|word| lower.contains(word)));
        row.map(|(software, _)| *software)
    }

    /// Whether it stores data, so that neither pods nor GPUs are concerned.
    pub(crate) fn is_storage(self) -> bool {
        matches!(self, Self::Storage | Self::KernelStorage)
    }

    /// Whether it is a part of the kernel: no limit, permission, container or library of a process concerns it.
    pub(crate) fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::KernelStorage)
    }

    /// What selects the GID; `None` where the cause's own text applies.
    pub(crate) fn gid_step(self) -> Option<&'static str> {
        Some(match self {
            Self::Nccl => return None,
            Self::Ucx => {
                "Unset UCX_IB_GID_INDEX, so that UCX selects the GID itself, or set it to the index of the RoCE v2 IPv4 GID of the device \
                that the log names: show_gids lists them."
            }
            Self::Nvshmem => {
                "Set NVSHMEM_IB_GID_INDEX to the index of the RoCE v2 IPv4 GID, which must be the same on all devices: show_gids lists them. \
                NVSHMEM_HCA_LIST restricts the job to devices that have it."
            }
            Self::Mooncake => {
                "Set MC_GID_INDEX to the index of the RoCE v2 IPv4 GID on the device that the log names: show_gids lists them."
            }
            Self::Brpc => {
                "Start the program with -rdma_gid_index=INDEX, the index of the RoCE v2 IPv4 GID of an interface in its own network namespace (show_gids lists \
                them). Without it, brpc takes the last GID of the table, which can be that of another container."
            }
            Self::OpenMpi => {
                "Use UCX (--mca pml ucx), which selects the GID itself, or set --mca btl_openib_gid_index to the index of the RoCE v2 IPv4 \
                GID: show_gids lists them."
            }
            Self::Perftest => {
                "Pass the index of the RoCE v2 IPv4 GID on both ends: -x INDEX for perftest (ib_write_bw), -g INDEX for the examples of rdma-core \
                (ibv_rc_pingpong), which use none by default; show_gids lists them."
            }
            Self::Libfabric | Self::Mpi => {
                "Bind the job to the interface whose address makes the RoCE v2 IPv4 GID (FI_VERBS_IFACE, or UCX_IB_GID_INDEX if it uses UCX). For \
                datagrams (ofi_rxd) the provider verbs takes index 0: set FI_VERBS_GID_IDX to that GID's index; show_gids lists the GIDs."
            }
            Self::Storage
            | Self::KernelStorage
            | Self::Dpdk
            | Self::Fabric
            | Self::Kernel
            | Self::Kubernetes => GENERAL_GID_STEP,
        })
    }

    /// What selects the device; `None` where the cause's own text applies.
    pub(crate) fn device_setting(self) -> Option<&'static str> {
        Some(match self {
            Self::Ucx => {
                "UCX_NET_DEVICES (ucx_info -d lists the devices and transports that UCX finds) and UCX_TLS"
            }
            Self::Nvshmem => "NVSHMEM_HCA_LIST",
            Self::Mooncake => "the device names in Mooncake's configuration",
            Self::Brpc => "-rdma_device=DEVICE",
            Self::OpenMpi => "--mca btl_openib_if_include",
            Self::Libfabric => "FI_PROVIDER and FI_VERBS_IFACE (fi_info lists what libfabric finds)",
            Self::Perftest => "-d DEVICE (ibv_devices lists them)",
            _ => return None,
        })
    }
}

/// What selects the GID in a program that is not known.
pub(crate) const GENERAL_GID_STEP: &str = "Compare the GID that the program uses with show_gids: it must be a RoCE v2 GID of an address that \
    the peer can reach, at the same index on all devices that it uses. Change the program's own setting for it.";
