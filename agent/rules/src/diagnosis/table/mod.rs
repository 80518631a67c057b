//! The table of known causes, those that the field sees most often first; the causes themselves by subject.

mod dma;
mod hardware;
mod helper;
mod job;
mod network;

use super::{known::KnownCause, symptom::SymptomKind};

const LOC_LEN: SymptomKind = SymptomKind::Completion(1);
const LOC_QP_OP: SymptomKind = SymptomKind::Completion(2);
const LOC_PROT: SymptomKind = SymptomKind::Completion(4);
const WR_FLUSH: SymptomKind = SymptomKind::Completion(5);
const LOC_ACCESS: SymptomKind = SymptomKind::Completion(8);
const REM_INV_REQ: SymptomKind = SymptomKind::Completion(9);
const REM_ACCESS: SymptomKind = SymptomKind::Completion(10);
const REM_OP: SymptomKind = SymptomKind::Completion(11);
const RETRY_EXC: SymptomKind = SymptomKind::Completion(12);
const RNR_RETRY_EXC: SymptomKind = SymptomKind::Completion(13);
const FATAL: SymptomKind = SymptomKind::Completion(19);
const RESP_TIMEOUT: SymptomKind = SymptomKind::Completion(20);
const GENERAL: SymptomKind = SymptomKind::Completion(21);

/// Every known cause.
pub static CAUSES: &[&KnownCause] = &[
    &dma::IOMMU_TRANSLATION,
    &job::MEMLOCK_LIMIT,
    &dma::ACS_REDIRECT,
    &dma::PEER_MEMORY_PATH,
    &network::PORT_DOWN,
    &network::NO_SUBNET_MANAGER,
    &network::GID_MISSING,
    &network::GID_INDEX,
    &network::FABRIC_OR_PEER,
    &network::LINK_QUALITY,
    &job::DEVICE_NOT_GIVEN,
    &hardware::RDMA_MODULES,
    &hardware::VIRTUAL_FUNCTIONS,
    &network::GUIDS,
    &job::JOB_SETTINGS,
    &hardware::NO_RDMA_DEVICE,
    &hardware::DEVICES_MISSING,
    &job::USERSPACE_LIBRARIES,
    &job::DEVICE_PERMISSION,
    &network::ADDRESSING,
    &network::MTU,
    &network::FLOW_CONTROL,
    &job::HCA_RESOURCES,
    &job::APPLICATION_MEMORY,
    &job::PEER_FAILED,
    &dma::GPU_NIC_DISTANCE,
    &hardware::HOST_LOAD,
    &hardware::PCI_PATH,
    &hardware::PCI_ERRORS,
    &hardware::DEVICE_FAULT,
    &helper::HELPER_MISSING,
    &helper::HELPER_FAILS,
    &hardware::DEVICE_STALLED,
    &hardware::DRIVER_FIRMWARE,
    &hardware::SOFTWARE_RDMA,
    &dma::IOMMU_NEXT_BOOT,
];
