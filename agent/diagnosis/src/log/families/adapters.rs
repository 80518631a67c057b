//! Messages of the drivers of adapters and GPUs that say more than that something failed, as their source code prints them.

use super::Row;
use crate::symptom::SymptomKind::{self as K};

/// In order of the subject: versions and parts, firmware, links, the fabric of GPUs, the path to their memory, functions, the kernel's own users.
pub(super) const ROWS: &[Row] = &[
    (&["cmdif rev", "differs from firmware"], K::FirmwareMismatch),
    (&["driver version supports only revisions"], K::FirmwareMismatch),
    (&["driver needs roce"], K::AdapterNotStarted),
    (&["chip is not supported", "cxgb4"], K::UnsupportedAdapter),
    // The module registers itself with the bus, whatever adapters there are.
    (&["driver_register() ret=-", "failed"], K::AdapterNotStarted),
    // A BAR without an address.
    (&["bar region", "start is 0"], K::PciRoom),
    (&["can't handle bar larger than 4gb"], K::PciRoom),
    (&["failed to re-allocate bar"], K::PciRoom),
    // bnxt_re: the channel to its firmware, in both spellings of the source.
    (&["unreponsive rcfw channel"], K::DeviceStalled),
    (&["unresponsive rcfw channel"], K::DeviceStalled),
    (&["cmdq[", "status 0x"], K::CommandRefused),
    // What a query returned says nothing of the object that was asked for.
    (&["failed, status internal error", "query_"], K::Unrecognised),
    // hfi1: the processor of the link, and the states of the link.
    (&["waiting for the 8051 to become ready"], K::DeviceStalled),
    (&["timeout starting 8051 firmware"], K::AdapterNotStarted),
    (&["timeout waiting for phy link state"], K::PortError),
    (&["timeout waiting for link_transfer_active"], K::PortError),
    (&["firmware key mismatch"], K::FirmwareMismatch),
    (&["qsfp_error_conditions", "too high"], K::ModuleFault),
    (&["qsfp_error_conditions", "too low"], K::ModuleFault),
    (&["qsfp_error_conditions", "alarm"], K::ModuleFault),
    // The manager of the switches between GPUs, and that of their domain across nodes.
    (&["nvidia-fabricmanager daemon", "recovery"], K::GpuLinkError),
    (&["nvidia-fabricmanager daemon shutdown"], K::GpuLinkError),
    (&["abrupt nvidia-imex daemon shutdown"], K::GpuLinkError),
    (&["links failed to train", "gpu"], K::GpuLinkError),
    (&["fabric probe failed"], K::GpuLinkError),
    (&["nvidia-nvswitch", "unrecoverable error"], K::GpuLinkError),
    (&["nvidia probe routine was not called"], K::GpuNotStarted),
    // Memory of GPUs for adapters.
    (&["dma-buf attach failed", "nvrm"], K::DmaBufUnsupported),
    (&["rdma is not supported for", "memory"], K::DmaBufUnsupported),
    (&["acs redirect is set between"], K::AcsRedirected),
    (&["cannot be used for peer-to-peer dma"], K::GdrTooFar),
    // Virtual functions.
    (&["than allowed by hw", "vf"], K::FunctionUnconfigured),
    (&["failed to enable vf ", "(-"], K::FunctionUnconfigured),
    (&["failed to set vport", "node guid"], K::FunctionUnconfigured),
    // SRP, and RPC over RDMA.
    (&["got target logout request", "scsi host"], K::PeerClosed),
    (&["dreq received - connection closed"], K::PeerClosed),
    (&["connection to ", "device removal", "rpcrdma"], K::DeviceGone),
];
