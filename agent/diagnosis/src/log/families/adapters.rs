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
    // What a query returned says nothing of an object of the job.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogReader;

    /// What the only line of a log shows.
    fn kind(line: &str) -> Option<K> {
        let mut reader = LogReader::default();
        reader.feed(line.as_bytes());
        reader.finish().symptoms.first().map(|symptom| symptom.kind)
    }

    #[test]
    fn messages_of_drivers_say_what_failed() {
        for (line, expected) in [
            (
                "mlx5_core 0000:17:00.0: mlx5_cmd_enable:2353:(pid 41233): Driver cmdif rev(5) differs from firmware's(4)",
                K::FirmwareMismatch,
            ),
            (
                "Failed irdma auxiliary_driver_register() ret=-110",
                K::AdapterNotStarted,
            ),
            (
                "bnxt_en 0000:17:00.0: QPLIB: CMDQ BAR region 64 resc start is 0!",
                K::PciRoom,
            ),
            (
                "NVRM: GPU0 _clearFmState: nvidia-fabricmanager daemon shutdown detected, robust channel recovery invoked!",
                K::GpuLinkError,
            ),
            (
                "NVRM: The NVIDIA probe routine was not called for 8 device(s).",
                K::GpuNotStarted,
            ),
            (
                "mlx5_core 0000:17:00.0: ACS redirect is set between the client and provider (0000:65:00.0)",
                K::AcsRedirected,
            ),
            (
                "mlx4_core 0000:17:00.0: Requested more VF's (16) than allowed by hw (8)",
                K::FunctionUnconfigured,
            ),
            (
                "nvidia 0000:3b:00.0: not ready 65535ms after FLR; giving up",
                K::GpuStopped,
            ),
            (
                "mlx5_2: ib_query_pkey port 1 failed (ret = -110)",
                K::DeviceStalled,
            ),
            // The number is one of this host.
            (
                "isert: isert_alloc_login_buf: login_desc dma mapping error: -110",
                K::Unrecognised,
            ),
            (
                "smc: smc_init: proto_register(v6) fails with -12",
                K::Unrecognised,
            ),
            (
                "efa 0000:00:06.0 rdmap0s6: Failed to destroy ah-200 pd-200 [-12]",
                K::Unrecognised,
            ),
            (
                "mana 0000:17:00.0 eth2: Failed to deregister hw vPort: -12, 0xa",
                K::Unrecognised,
            ),
            (
                "mlx5_core 0000:17:00.0: mlx5_cmd_out_err:815:(pid 41233): QUERY_VPORT_COUNTER(0x770) op_mod(0x0) failed, status internal error(0x1), syndrome (0x8e8f3), err(-5)",
                K::Unrecognised,
            ),
        ] {
            let line = format!("[   12.345678] {line}");
            assert_eq!(kind(&line), Some(expected), "{line}");
        }
    }
}
