//! The meaning of the status of a failed completion, and the text that programs print for it.
//!
//! Source: `enum ibv_wc_status` of libibverbs, the InfiniBand Architecture Specification volume 1, section 11.6.2.

use rdma_health_protocol::WcStatus::{
    self, BadRespErr, FatalErr, GeneralErr, InvEecStateErr, InvEecnErr, LocAccessErr, LocEecOpErr, LocLenErr,
    LocProtErr, LocQpOpErr, LocRddViolErr, MwBindErr, RemAbortErr, RemAccessErr, RemInvRdReqErr,
    RemInvReqErr, RemOpErr, RespTimeoutErr, RetryExcErr, RnrRetryExcErr, TmErr, TmRndvIncomplete, WrFlushErr,
};

/// What a status means.
pub(crate) fn meaning(status: WcStatus) -> &'static str {
    match status {
        LocLenErr => "A message was longer than the buffer, or longer than the port can send.",
        LocQpOpErr => {
            "The adapter found a work request that is invalid for this queue pair: a wrong lkey, a wrong address handle, or a \
            wrong state."
        }
        LocEecOpErr => "An internal consistency error of a reliable datagram context.",
        LocProtErr => {
            "The adapter could not access the local buffer of a work request: the memory is not registered, is registered without \
            this access right, or its DMA address is invalid. mlx5 adds vendor error 0x51, which NCCL prints in decimal as 81."
        }
        WrFlushErr => {
            "The work request was discarded because its queue pair was already in the error state: look for an earlier error. mlx5 \
            adds vendor error 0xf9 (249) or 0xf4 (244)."
        }
        MwBindErr => "A memory window could not be bound.",
        BadRespErr => "The peer sent an unexpected response.",
        LocAccessErr => "A write from the peer reached a local buffer that does not permit it.",
        RemInvReqErr => {
            "The peer rejected the request: its queue pair does not permit the operation, or its receive buffer is too small."
        }
        RemAccessErr => {
            "The peer rejected the memory access: the rkey is wrong, or the address is outside the registered memory. mlx5 adds \
            vendor error 0x88 (136)."
        }
        RemOpErr => {
            "The peer could not complete the operation, often because of a protection error there; its own log shows the reason. \
            mlx5 adds vendor error 0x89 (137)."
        }
        RetryExcErr => {
            "The peer did not acknowledge, even after all retries: either the packets or the acknowledgements are lost. mlx5 adds \
            vendor error 0x81, which NCCL prints in decimal as 129."
        }
        RnrRetryExcErr => "The peer is reachable but did not post a receive buffer in time.",
        LocRddViolErr => "A reliable datagram domain does not match.",
        RemInvRdReqErr => "The peer rejected a reliable datagram.",
        RemAbortErr => "The peer aborted the operation.",
        InvEecnErr => "An invalid end-to-end context number.",
        InvEecStateErr => "An invalid end-to-end context state.",
        FatalErr => "The adapter cannot recover.",
        RespTimeoutErr => "No response in time.",
        GeneralErr => "An error that has no other status.",
        TmErr => "Tag matching failed.",
        TmRndvIncomplete => "Tag matching handed a rendezvous over to software.",
    }
}

/// The text of `ibv_wc_status_str`, in lower case; UCX and perftest print it.
pub(crate) fn words(status: WcStatus) -> &'static str {
    match status {
        LocLenErr => "local length error",
        LocQpOpErr => "local qp operation error",
        LocEecOpErr => "local ee context operation error",
        LocProtErr => "local protection error",
        WrFlushErr => "wr flushed error",
        MwBindErr => "memory bind error",
        BadRespErr => "bad response error",
        LocAccessErr => "local access error",
        RemInvReqErr => "remote invalid request error",
        RemAccessErr => "remote access error",
        RemOpErr => "remote operation error",
        RetryExcErr => "transport retry counter exceeded",
        RnrRetryExcErr => "rnr retry counter exceeded",
        LocRddViolErr => "local rdd violation error",
        RemInvRdReqErr => "remote invalid rd request",
        RemAbortErr => "aborted error",
        InvEecnErr => "invalid ee context number",
        InvEecStateErr => "invalid ee context state",
        FatalErr => "fatal error",
        RespTimeoutErr => "response timeout error",
        GeneralErr => "general error",
        TmErr => "tm error",
        TmRndvIncomplete => "tm software rendezvous",
    }
}

/// The status with which mlx5 adapters report a vendor error code.
pub(crate) fn of_vendor_error(code: u32) -> Option<WcStatus> {
    Some(match code {
        0x51 => LocProtErr,
        0x81 => RetryExcErr,
        0x88 => RemAccessErr,
        0x89 => RemOpErr,
        0xf4 | 0xf9 => WrFlushErr,
        _ => return None,
    })
}

/// The status of a mlx5 completion syndrome (`MLX5_CQE_SYNDROME_*` in the kernel's `include/linux/mlx5/device.h`).
pub(crate) fn of_syndrome(syndrome: u64) -> Option<WcStatus> {
    Some(match syndrome {
        0x01 => LocLenErr,
        0x02 => LocQpOpErr,
        0x04 => LocProtErr,
        0x05 => WrFlushErr,
        0x06 => MwBindErr,
        0x10 => BadRespErr,
        0x11 => LocAccessErr,
        0x12 => RemInvReqErr,
        0x13 => RemAccessErr,
        0x14 => RemOpErr,
        0x15 => RetryExcErr,
        0x16 => RnrRetryExcErr,
        0x22 => RemAbortErr,
        _ => return None,
    })
}
