//! Messages of Kubernetes, its device plugins and network plugins, and of OpenShift.

use super::Row;
use crate::symptom::SymptomKind::{self as K};

/// In order of the subject.
pub(super) const ROWS: &[Row] = &[
    (
        &["unable to validate against any security context constraint"],
        K::AdmissionRefused,
    ),
    (&["violates podsecurity"], K::AdmissionRefused),
    // Before PodSecurity.
    (&["against any pod security policy"], K::AdmissionRefused),
    (&["podsecuritypolicy: unable to admit"], K::AdmissionRefused),
    (&["denied the request", "ipc_lock"], K::AdmissionRefused),
    (&["capabilities", "ipc_lock", "not allowed"], K::AdmissionRefused),
    (
        &["hostpath volumes are not allowed", "infiniband"],
        K::AdmissionRefused,
    ),
    (&["avc:", "denied", "infiniband"], K::NotPermitted),
    (&["apparmor=\"denied\"", "infiniband"], K::NotPermitted),
    // A device plugin may not write its socket.
    (&["avc:", "denied", "device-plugins"], K::NotPermitted),
    (&["avc:", "denied", "sriov.sock"], K::NotPermitted),
    // The daemon of Docker looks on the host, and modules make these files.
    (
        &["gathering device information", "/dev/infiniband"],
        K::ModuleMissing,
    ),
    (
        &["hostpath type check failed", "/dev/infiniband"],
        K::ModuleMissing,
    ),
    // runc names the limit by its number, crun by its name.
    (&["setting rlimit type 8"], K::MemlockWarning),
    (
        &["setrlimit", "rlimit_memlock", "not permitted"],
        K::MemlockWarning,
    ),
    (&["setrlimit", "rlimit_memlock", "failed"], K::MemlockWarning),
    (&["setrlimit", "rlimit_memlock", "error"], K::MemlockWarning),
    (&["memlock", "ulimit", "not permitted"], K::MemlockWarning),
    (&["rdma device", "rdma_cm", "not found"], K::CmUnavailable),
    (&["ifaddr of", "not found"], K::InterfaceHidden),
    (
        &["incorrect rdma subsystem network namespace"],
        K::NetworkAttachFailed,
    ),
    (
        &["rdma is required in the configuration", "not rdma device"],
        K::ModuleMissing,
    ),
    // The kernel has no such socket of netlink until ib_core is loaded.
    (&["rdma", "mode", "protocol not supported"], K::ModuleMissing),
    (&["rdma", "netlink", "protocol not supported"], K::ModuleMissing),
    (&["netlink_rdma", "socket"], K::ModuleMissing),
    // Apptainer.
    (&["mount source /dev/infiniband", "exist"], K::DeviceAbsent),
    (&["rdma device", "not found"], K::ModuleMissing),
    (&["error creating new device", "rdma"], K::ModuleMissing),
    (&["missing rdma device spec"], K::ModuleMissing),
    (&["non-rdma device"], K::ModuleMissing),
    (&["no allocatable devices"], K::ResourceUnavailable),
    (&["guid is not valid"], K::FunctionUnconfigured),
    // Docker's plugin for virtual functions.
    (&["createnetwork:", "enable sriov"], K::FunctionUnconfigured),
    // KubeVirt: the networks of the pod do not name a function for the virtual machine.
    (&["failed to create sr-iov host devices"], K::NetworkAttachFailed),
    (&["sriov", "failed to load netconf"], K::NetworkAttachFailed),
    (&["sri-ov cni", "failed"], K::NetworkAttachFailed),
    (&["sriov-cni", "failed"], K::NetworkAttachFailed),
    (&["rdma-cni", "failed"], K::NetworkAttachFailed),
    (
        &["specify either \"device\"", "\"pcibusid\""],
        K::NetworkAttachFailed,
    ),
    (&["rdma subsystem", "namespace mode"], K::NetworkAttachFailed),
    (&["rdma system", "exclusive"], K::NetworkAttachFailed),
    (
        &["network-attachment-definition", "not found"],
        K::NetworkAttachFailed,
    ),
    (
        &["cannot find a network-attachment-definition"],
        K::NetworkAttachFailed,
    ),
    (&["could not allocate ip in range"], K::NetworkAttachFailed),
];
