//! Modules of the kernel that belong to RDMA: drivers of adapters, the RDMA core, and what uses RDMA in the kernel.

use crate::{
    event::{Device, EventKind},
    origin::is_adapter,
};

/// The longest name of a module in bytes (`MODULE_NAME_LEN`, which depends on the size of a pointer).
const MAX_NAME: usize = 64;
/// The core, and drivers without an adapter.
const CORE: [&str; 6] = [
    "rdmavt",
    "siw",
    "mlx_compat",
    "hv_network_direct",
    "opa_vnic",
    "mlx5_vdpa",
];
/// Modules that use RDMA and do not say so in their names.
const CONSUMERS: [&str; 16] = [
    "ko2iblnd",
    "kfilnd",
    "beegfs",
    "smbdirect",
    "smc",
    "rtrs_client",
    "rtrs_server",
    "rnbd_client",
    "rnbd_server",
    // What moves memory of GPUs to storage or to the CPU, and tools of the adapters' firmware.
    "nvidia_fs",
    "gdrdrv",
    "efa_nv_peermem",
    "mstflint_access",
    "mst_pci",
    "mst_pciconf",
    "ksmbd",
];
/// Parts of the names of modules that use the RDMA core for storage or another network protocol: `ib_srp`, `ib_isert`.
const OF_IB: [&str; 5] = ["ib_srp", "ib_srpt", "ib_iser", "ib_isert", "ib_sdp"];
/// RDMA that the CPU does.
const SOFTWARE: [&str; 4] = ["rdma_rxe", "ib_rxe", "rxe", "siw"];

/// Whether a module is a driver of adapters or a part of the RDMA core.
pub fn is_rdma_core(module: &str) -> bool {
    let of_core = ["ib_", "iw_", "rdma_", "hns_roce"]
        .iter()
        .any(|stem| module.starts_with(stem));
    is_adapter(module) || CORE.contains(&module) || of_core && !OF_IB.contains(&module)
}

/// Whether a module of the kernel uses RDMA: storage, file systems, network protocols. Their names say so (`nvme_rdma`, `rpcrdma`,
/// `drbd_transport_rdma`), or they are known.
pub fn is_rdma_consumer(module: &str) -> bool {
    let names_rdma = || module.ends_with("rdma") || module.ends_with("_rdma_transport");
    !is_rdma_core(module) && (OF_IB.contains(&module) || CONSUMERS.contains(&module) || names_rdma())
}

/// Whether a module belongs to RDMA.
pub fn is_rdma_module(module: &str) -> bool {
    is_rdma_core(module) || is_rdma_consumer(module)
}

/// Whether a module does RDMA with the CPU: there is neither an adapter nor its firmware.
pub fn is_software_rdma(module: &str) -> bool {
    SOFTWARE.contains(&module)
}

/// Whether a text can be the name of a module.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !name.is_empty() && name.len() < MAX_NAME && name.bytes().all(is_part)
}

/// What the kernel says of a module of RDMA that it refuses because its symbols are not those of the modules that are loaded, or because it
/// was built for another kernel (`kernel/module/{main,version}.c`): `ko2iblnd: disagrees about version of symbol __ib_alloc_pd`.
pub(crate) fn refused(text: &str) -> Option<(EventKind, Device)> {
    // Type information (BTF) of another build of the kernel (`kernel/bpf/btf.c`): `failed to validate module [mlx5_ib] BTF: -22`.
    if let Some((module, rest)) = text
        .strip_prefix("failed to validate module [")
        .and_then(|rest| rest.split_once(']'))
    {
        return (rest.starts_with(" BTF: -") && is_name(module) && is_rdma_module(module))
            .then(|| (EventKind::ModuleMismatch, Device::Driver(module.to_owned())));
    }
    let (module, rest) = text.split_once(": ")?;
    let is_refusal = [
        "disagrees about version of symbol ",
        "Unknown symbol ",
        "version magic '",
        "no symbol version for ",
    ]
    .iter()
    .any(|words| rest.starts_with(words));
    // The kernel loads a module without a version of its layout and marks itself as tainted.
    let is_loaded = rest.starts_with("no symbol version for module_layout");
    // The other modules that use RDMA or pin memory of a GPU are known by what they call: `nvidia_fs: Unknown symbol nvidia_p2p_get_pages`.
    let symbol = rest.split("symbol ").nth(1).unwrap_or_default();
    // What misses peer memory is a path to GPU memory, and judged as such.
    let calls_rdma = !symbol.contains("peer_memory")
        && ["ib_", "__ib_", "rdma_", "nvidia_p2p_"]
            .iter()
            .any(|call| symbol.starts_with(call));
    (is_refusal && !is_loaded && is_name(module) && (is_rdma_module(module) || calls_rdma))
        .then(|| (EventKind::ModuleMismatch, Device::Driver(module.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    #[test]
    fn modules_of_rdma_are_told_from_others() {
        for module in [
            "mlx5_core",
            "ib_core",
            "rdma_cm",
            "rdma_rxe",
            "siw",
            "hv_network_direct",
            "irdma",
        ] {
            assert!(is_rdma_core(module) && !is_rdma_consumer(module), "{module}");
        }
        for module in [
            "nvme_rdma",
            "nvmet_rdma",
            "rpcrdma",
            "drbd_transport_rdma",
            "rds_rdma",
            "9pnet_rdma",
            "ko2iblnd",
            "ib_iser",
            "ib_srpt",
        ] {
            assert!(is_rdma_consumer(module) && !is_rdma_core(module), "{module}");
        }
        for module in [
            "nvme",
            "sunrpc",
            "drbd",
            "igb",
            "nvidia_peermem",
            "ixgbe",
            "libiscsi",
            "",
        ] {
            assert!(!is_rdma_module(module), "{module}");
        }
    }

    #[test]
    fn a_module_of_rdma_that_the_kernel_refuses_is_named() {
        for (text, module) in [
            (
                "ko2iblnd: disagrees about version of symbol __ib_alloc_pd",
                "ko2iblnd",
            ),
            ("nvmet_rdma: Unknown symbol ib_alloc_cq (err 0)", "nvmet_rdma"),
            (
                "nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)",
                "nvidia_fs",
            ),
            (
                "[  1.5] mlx5_ib: Unknown symbol ib_register_device (err -22)",
                "mlx5_ib",
            ),
            (
                "hv_network_direct: disagrees about version of symbol vmbus_sendpacket",
                "hv_network_direct",
            ),
            ("failed to validate module [nvme_rdma] BTF: -22", "nvme_rdma"),
            (
                "3,1,1,-;rdma_rxe: version magic '5.4.0 SMP ' should be '5.15.0 SMP '",
                "rdma_rxe",
            ),
        ] {
            let found = classify(text).map(|report| (report.kind, report.device));
            let expected = (EventKind::ModuleMismatch, Device::Driver(module.to_owned()));
            assert_eq!(found, Some(expected), "{text}");
        }
        for text in [
            "nvidia_drm: Unknown symbol drm_gem_prime_export (err -2)",
            "ko2iblnd: no symbol version for module_layout",
            "ko2iblnd: module verification failed: signature and/or required key missing - tainting kernel",
            "x ko2iblnd: Unknown symbol ib_alloc_cq",
            "failed to validate module [zfs] BTF: -22",
            "12,1,1,-;ko2iblnd: Unknown symbol ib_alloc_cq (err 0)",
            "ko2iblnd[4711]: Unknown symbol ib_alloc_cq",
        ] {
            let is_refused = classify(text).is_some_and(|report| report.kind == EventKind::ModuleMismatch);
            assert!(!is_refused, "{text}");
        }
    }
}
