//! Messages that report a failure in plain words, without one of failure or an error number.

use super::Row;
use crate::symptom::SymptomKind::{self as K};

/// In order of the subject.
pub(super) const ROWS: &[Row] = &[
    // DPDK: the function of a bond has no device of verbs, and the library that it loads is of another release.
    (&["have verbs device matches"], K::NoDevice),
    (&["rdma-core glue", "mismatch"], K::NoLibrary),
    // The device plugin for shared RDMA devices.
    (&["no pci network device"], K::NoDevice),
    // Ceph.
    (
        &["connection between server and client not working"],
        K::PeerUnreachable,
    ),
    (&["binding_port", "port not found"], K::PortNotActive),
    // SPDK: no RDMA device has the address.
    (&["ibv_context is null", "listen"], K::AddressUnresolved),
    // The driver may refuse it for more than one reason.
    (&["rdma cq resize failed", "invalid argument"], K::Unrecognised),
    // QEMU.
    (&["ipv6 over roce", "not supported"], K::AddressUnresolved),
    (&["mlock()", "limit", "too low"], K::MemlockWarning),
    // The SR-IOV device plugin, and hypervisors: the kernel has no group of the IOMMU for the function.
    (&["unable to find iommu_group"], K::AssignRefused),
    (&["iommu_group: no such file"], K::AssignRefused),
    // Operators.
    (&["validating mofed driver"], K::ModuleMissing),
    // The GPU operator waits for it, and may go on to do so.
    (&["peermem driver is not ready"], K::Unrecognised),
    (&["supports only mlx"], K::UnsupportedAdapter),
    (&["device detected when in lockdown mode"], K::ToolNoAccess),
    (&["gdrdrv", "not loaded"], K::GdrDisabled),
    // LNet goes on, with fewer requests for each peer, or after a message of the peer that it did not expect.
    (&["kiblnd", "queue depth reduced"], K::Unrecognised),
    (&["kiblnd", "put_nack from"], K::Unrecognised),
];
