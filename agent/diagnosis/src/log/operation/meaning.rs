//! What a failed operation shows, by its error number.

use rdma_health_protocol::Errno;

use super::Operation;
use crate::symptom::SymptomKind;

/// The symptoms that an error number leads to, with the operation that failed.
pub(crate) fn failed_operations(errno: Errno) -> Vec<(&'static str, SymptomKind)> {
    const OPERATIONS: [(&str, Operation); 7] = [
        ("registering memory", Operation::Register),
        ("creating a queue", Operation::Create),
        ("connecting a queue pair", Operation::Connect),
        ("opening a device", Operation::Open),
        ("resolving an address", Operation::CmAddress),
        ("connecting with rdma_cm", Operation::CmConnect),
        ("any other call", Operation::Call),
    ];
    OPERATIONS
        .iter()
        .filter_map(|(what, operation)| Some((*what, operation.failed(Some(errno))?)))
        .collect()
}

impl Operation {
    /// The symptom if it failed with this error; `None` if the failure is harmless.
    pub(in crate::log) fn failed(self, errno: Option<Errno>) -> Option<SymptomKind> {
        use SymptomKind as K;
        let denied = matches!(errno, Some(Errno::EPERM | Errno::EACCES));
        Some(match (self, errno) {
            (Self::Harmless, _) => return None,
            (_, Some(Errno::EMFILE | Errno::ENFILE)) => K::TooManyFiles,
            // The rdma cgroup answers EAGAIN (`rdmacg_try_charge`); a memlock limit is ENOMEM. No context is left: others use them all.
            (Self::Register | Self::Create | Self::Open, Some(Errno::EAGAIN))
            // A table of the adapter, or of its driver, is full.
            | (Self::Create, Some(Errno::ENOSPC))
            // There is no room for another address handle or connection, and no packet was sent.
            | (Self::Connect, Some(Errno::ENOMEM | Errno::ENOSPC))
            | (Self::Open, Some(Errno::EBUSY | Errno::ENOSPC | Errno::ENOMEM)) => K::ResourceLimit,
            (Self::Register, Some(Errno::ENOMEM)) => K::RegMrNoMemory,
            // At registration EIO is also the answer of an adapter without room for another region.
            (Self::Create, Some(Errno::EIO | Errno::ENODEV)) => K::DeviceGone,
            (Self::Register, _) => K::RegMrFailed,
            (Self::GpuDoorbell, _) => K::GpuDoorbellFailed,
            (Self::Create, None) => K::CreateUnexplained,
            (Self::Create, Some(Errno::ENOMEM)) => K::CreateFailed,
            // The adapter did not answer the command of its driver in time. Its tables are read without a peer.
            (Self::Create | Self::Gid | Self::Pkey, Some(Errno::ETIMEDOUT | Errno::ETIME)) => K::DeviceStalled,
            (Self::Create, _) if denied => K::NotPermitted,
            (Self::Create, _) | (Self::Connect, Some(Errno::EOPNOTSUPP | Errno::ENOSYS)) => K::CreateRefused,
            (Self::Connect, None) => K::ConnectFailed,
            (Self::Connect, Some(errno)) => K::of_connect(errno),
            // This end has no memory for the connection.
            (Self::CmOpen | Self::CmAddress | Self::CmConnect, Some(Errno::ENOMEM)) => K::NoMemory,
            // The peer rejects a service ID for which nothing listens.
            (Self::CmConnect, Some(Errno::ECONNREFUSED)) => K::NoListener,
            (Self::CmConnect, errno) => match errno.map(K::of_connect) {
                None | Some(K::ConnectFailed) => K::CmFailed,
                Some(kind) => kind,
            },
            (
                Self::CmAddress | Self::CmRoute,
                Some(Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::ECONNABORTED | Errno::EPIPE),
            ) => K::ConnectRefused,
            // The library asks for what this driver does not have.
            (Self::Query, Some(Errno::ENOSYS))
            | (Self::Query | Self::Open, Some(Errno::ENOTTY | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT)) => {
                K::VersionMismatch
            }
            (Self::Open, Some(Errno::ENODEV | Errno::ENXIO | Errno::ENOENT)) => K::DeviceAbsent,
            // libibverbs found no /sys/class/infiniband_verbs.
            (Self::Open, Some(Errno::ENOSYS)) => K::ModuleMissing,
            (Self::Open | Self::Query, _) => K::OpenFailed,
            (Self::CmOpen, _) => K::CmUnavailable,
            (Self::CmAddress, Some(Errno::EADDRINUSE)) => K::AddressInUse,
            (Self::Post, Some(Errno::ENOMEM)) => K::QueueFull,
            (Self::Post | Self::Call, None) => K::Unrecognised,
            (Self::CmAddress | Self::CmRoute, Some(Errno::ETIMEDOUT)) => K::ConnectTimedOut,
            (Self::CmAddress, _) => K::AddressUnresolved,
            (Self::CmRoute, _) => K::RouteUnresolved,
            (Self::Gid, _) => K::NoGid,
            (Self::Pkey, _) => K::PkeyMissing,
            (Self::Post, Some(Errno::EINVAL | Errno::EFAULT | Errno::EOPNOTSUPP)) => K::PostRefused,
            (Self::Call | Self::Post, Some(errno)) => K::of_call(errno),
        })
    }
}
