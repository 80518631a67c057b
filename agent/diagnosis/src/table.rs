//! The table of known causes, the most common first. The submodules define the causes by subject.

pub(crate) mod amd;
mod dma;
pub(crate) mod family;
mod hardware;
mod helper;
pub(crate) mod host;
mod job;
mod network;
mod other;
pub(crate) mod plain;
mod platform;
pub(crate) mod storage;

use rdma_health_protocol::WcStatus;

use crate::{known::KnownCause, symptom::SymptomKind};

const LOC_LEN: SymptomKind = SymptomKind::Completion(WcStatus::LocLenErr);
const LOC_QP_OP: SymptomKind = SymptomKind::Completion(WcStatus::LocQpOpErr);
const LOC_PROT: SymptomKind = SymptomKind::Completion(WcStatus::LocProtErr);
const MW_BIND: SymptomKind = SymptomKind::Completion(WcStatus::MwBindErr);
const WR_FLUSH: SymptomKind = SymptomKind::Completion(WcStatus::WrFlushErr);
const LOC_ACCESS: SymptomKind = SymptomKind::Completion(WcStatus::LocAccessErr);
const REM_INV_REQ: SymptomKind = SymptomKind::Completion(WcStatus::RemInvReqErr);
const REM_ACCESS: SymptomKind = SymptomKind::Completion(WcStatus::RemAccessErr);
const REM_OP: SymptomKind = SymptomKind::Completion(WcStatus::RemOpErr);
const RETRY_EXC: SymptomKind = SymptomKind::Completion(WcStatus::RetryExcErr);
const RNR_RETRY_EXC: SymptomKind = SymptomKind::Completion(WcStatus::RnrRetryExcErr);
const FATAL: SymptomKind = SymptomKind::Completion(WcStatus::FatalErr);
const RESP_TIMEOUT: SymptomKind = SymptomKind::Completion(WcStatus::RespTimeoutErr);
const GENERAL: SymptomKind = SymptomKind::Completion(WcStatus::GeneralErr);

/// Every known cause.
pub static CAUSES: &[&KnownCause] = &[
    &dma::IOMMU_TRANSLATION,
    &job::MEMLOCK_LIMIT,
    &dma::PEER_MEMORY_PATH,
    &dma::ACS_REDIRECT,
    &network::LINK_TYPE,
    &network::PORT_DOWN,
    &network::PORT_AUTHENTICATION,
    &network::VIRTUAL_NETWORK,
    &network::NO_SUBNET_MANAGER,
    &network::PARTITION_KEY,
    &network::BOND_DEGRADED,
    &network::GID_MISSING,
    &network::GID_INDEX,
    &network::GID_OTHER_NAMESPACE,
    &network::FABRIC_OR_PEER,
    &network::LINK_QUALITY,
    &job::DEVICE_NOT_GIVEN,
    &hardware::RDMA_MODULES,
    &hardware::DEVICE_NODE,
    &hardware::VIRTUAL_FUNCTIONS,
    &network::GUIDS,
    &job::JOB_SETTINGS,
    &hardware::NO_RDMA_DEVICE,
    &hardware::DEVICES_MISSING,
    &job::USERSPACE_LIBRARIES,
    &job::COMMUNICATION_LIBRARY,
    &job::DEVICE_PERMISSION,
    &network::ADDRESSING,
    &network::NEIGHBOUR_TABLE,
    &network::MTU,
    &network::FLOW_CONTROL,
    &network::AGGREGATION,
    &job::HCA_RESOURCES,
    &job::APPLICATION_MEMORY,
    &job::NO_LISTENER,
    &job::UNSUPPORTED_ADAPTER,
    &job::OPEN_FILES,
    &hardware::MODULE_MISMATCH,
    &platform::MODULE_SIGNATURE,
    &platform::MODULES_IN_USE,
    &platform::TOOL_ACCESS,
    &platform::FIRMWARE_TOOL,
    &platform::FIRMWARE_FILE,
    &platform::PCI_RESOURCES,
    &platform::HOST_MEMORY,
    &platform::DEVICE_ASSIGNMENT,
    &storage::STORAGE_ACCESS,
    &storage::NVME_OPTIONS,
    &storage::PEER_SETTINGS,
    &job::PEER_FAILED,
    &job::ADMISSION_POLICY,
    &job::POD_NETWORK,
    &job::GPU_INITIATED,
    &dma::GPU_BAR_ADDRESS,
    &dma::GPU_NIC_DISTANCE,
    &hardware::HOST_LOAD,
    &hardware::PCI_PATH,
    &hardware::PCI_ERRORS,
    &hardware::SLOT_POWER,
    &hardware::ADAPTER_HOT,
    &hardware::DEVICE_FAULT,
    &hardware::GPU_FAULT,
    &helper::HELPER_MISSING,
    &helper::HELPER_FAILS,
    &hardware::DEVICE_STALLED,
    &hardware::DRIVER_FIRMWARE,
    &hardware::SOFTWARE_RDMA,
    &dma::IOMMU_NEXT_BOOT,
    &other::SHARED_MEMORY,
    &other::TCP_CONNECTION,
    &other::GPU_PROGRAM,
];

/// The cause to look at first where no fact distinguishes the causes of a symptom. Of other symptoms, it is the most common cause.
const FIRST: &[(SymptomKind, &str)] = &[
    (SymptomKind::NoDevice, "device-not-given"),
    (SymptomKind::DeviceAbsent, "device-not-given"),
    (SymptomKind::OpenFailed, "device-not-given"),
    (SymptomKind::SocketFallback, "device-not-given"),
    (SymptomKind::CreateRefused, "unsupported-adapter"),
    (SymptomKind::CreateUnexplained, "hca-resources"),
    (SymptomKind::PeerUnreachable, "fabric-or-peer"),
    (RETRY_EXC, "fabric-or-peer"),
    (SymptomKind::ConnectNoDevice, "gid-other-namespace"),
];

/// Whether this cause is the one to look at first for one of these symptoms.
pub(crate) fn is_usual(id: &str, kinds: &[SymptomKind]) -> bool {
    kinds.iter().any(|kind| FIRST.contains(&(*kind, id)))
}

/// The cause with this id.
pub fn cause(id: &str) -> Option<&'static KnownCause> {
    CAUSES.iter().copied().find(|cause| cause.id == id)
}
