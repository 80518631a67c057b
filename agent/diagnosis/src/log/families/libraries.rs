//! Messages of communication libraries and of user space of RDMA that name neither a call nor a status, as their sources have them.

use super::Row;
use crate::symptom::SymptomKind as K;

/// Each row as in the module above.
pub(super) const ROWS: &[Row] = &[
    // GDRCopy's library and its module, and the memory of the GPU that it maps for the CPU.
    (&["gdrcopy requires gdrdrv"], K::GdrDisabled),
    (&["required gdrdrv driver version"], K::GdrDisabled),
    (&["gdrdrv driver requires libgdrapi"], K::GdrDisabled),
    (&["gdrdrv:", "incompatible page table"], K::ModuleMismatch),
    (&["gdrdrv:", "no address space left"], K::GdrDisabled),
    (&["gpu direct is not ready"], K::GdrDisabled),
    (&["could not find memory_peers"], K::GdrDisabled),
    // NCCL and RCCL. Releases of NCCL have the first word misspelt.
    (&["count not open libibverbs"], K::NoLibrary),
    (&["could not open libibverbs"], K::NoLibrary),
    (&["has a different number of devices"], K::PeerDiffers),
    (
        &["merge net devices with different link_layer"],
        K::ConnectIncompatible,
    ),
    // MPICH: the nodes of the job have other numbers of adapters.
    (&["different number of nics"], K::PeerDiffers),
    // MVAPICH2: a setting names the adapter, and another scheme takes its place.
    (&["either does not exist on this machine"], K::SettingAdvised),
    // NVSHMEM.
    (&["nic_mem_gpu_map failed"], K::GpuDoorbellFailed),
    (&["ofed is older than"], K::VersionMismatch),
    // libfabric's providers.
    (&["no valid ipoib interfaces"], K::AddressUnresolved),
    (&["hfi1 chip error"], K::DeviceFatal),
    (&["hfi unit", "is not active"], K::PortNotActive),
    (&["no efa rdma read support"], K::UnsupportedAdapter),
    // Huge pages that a fork would split.
    (&["rdmav_hugepages_safe"], K::ForkUnsafe),
    // infiniband-diags, srp_daemon and the examples of librdmacm.
    (&["bad port state found"], K::PortNotActive),
    (&["init umad library"], K::ModuleMissing),
    (&["bind error: no such device"], K::AddressUnresolved),
    // DiSNI and SparkRDMA: no event of the connection manager came in time.
    (&["getcmevent() failed"], K::CmFailed),
    // perftest's own verdicts.
    (&["result is below bw limit"], K::BandwidthLow),
    (&["is below msg_rate limit"], K::BandwidthLow),
    (&["validation: failed", "expected"], K::Corrupted),
    // SPDK reports that the adapter below a listener goes away.
    (&["port_removal", "is being removed"], K::DeviceGone),
    // Open MPI's transport over TCP.
    (&["btl_tcp", "bind() failed"], K::TcpError),
    // The last words of a layer whose reason is in the log of the one below.
    (&["transport type 'rdma' create failed"], K::BackendFailed),
    (&["could not initialize na class"], K::BackendFailed),
    (&["failed to resolve ucx endpoint"], K::BackendFailed),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{log::LogReader, symptom::Grade};

    fn kinds(line: &str) -> Vec<K> {
        let mut reader = LogReader::default();
        reader.feed(line.as_bytes());
        reader.feed(b"\n");
        let symptoms = reader.finish().symptoms.into_iter();
        let grave = symptoms.filter(|symptom| symptom.grade > Grade::Note || symptom.kind.is_of_other());
        grave.map(|symptom| symptom.kind).collect()
    }

    #[test]
    fn messages_of_libraries_show_what_failed() {
        for (line, expected) in [
            (
                "ERR:  The minimum required gdrdrv driver version is 2.0 but the current gdrdrv version is 1.3",
                K::GdrDisabled,
            ),
            (
                "ib_srp: unable to open add_target, maybe ib_srp is not loaded",
                K::ModuleMissing,
            ),
            (
                "ibwarn: [41237] mad_rpc_open_port: can't init UMAD library",
                K::ModuleMissing,
            ),
            (
                "ibping: iberror: failed: cannot resolve SM destination port 1",
                K::NoSubnetManager,
            ),
            ("Couldn't listen to port 18515", K::TcpError),
            (
                "cmatose: bind address failed: Cannot assign requested address",
                K::AddressUnresolved,
            ),
            (
                "srp_daemon[2213]: Critical event 8, raising catastrophic error signal",
                K::DeviceFatal,
            ),
            (
                "libfabric:41237:1795862591::efa:av:efa_ah_alloc():182<warn> ibv_create_ah failed for explicit AV insertion! errno: 12",
                K::ResourceLimit,
            ),
        ] {
            assert_eq!(kinds(line), [expected], "{line}");
        }
        for sound in [
            "libfabric:41237:1795862591::verbs:cq:vrb_cq_open():572<warn> CQ size 131072 exceeds device max_cqe 65535, clamping",
            "web[12]: Critical event 8, restarting",
        ] {
            assert_eq!(kinds(sound), [], "{sound}");
        }
    }
}
