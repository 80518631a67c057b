//! Completion statuses: their names in `verbs.h` and what each says.
//!
//! Source: `enum ibv_wc_status` of libibverbs, the InfiniBand Architecture Specification volume 1, section 11.6.2.

/// One value of `enum ibv_wc_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WcStatus {
    /// Its number.
    pub number: u8,
    /// Its name in `verbs.h`.
    pub name: &'static str,
    /// What the adapter says with it.
    pub meaning: &'static str,
    /// The words of `ibv_wc_status_str`, in lower case; UCX and perftest print them.
    pub words: &'static str,
}

const fn status(number: u8, name: &'static str, words: &'static str, meaning: &'static str) -> WcStatus {
    WcStatus {
        number,
        name,
        meaning,
        words,
    }
}

/// Every status but success, in order of number.
pub static WC_STATUSES: [WcStatus; 23] = [
    status(
        1,
        "IBV_WC_LOC_LEN_ERR",
        "local length error",
        "A message was longer than the buffer, or longer than the port can send.",
    ),
    status(
        2,
        "IBV_WC_LOC_QP_OP_ERR",
        "local qp operation error",
        "The adapter found a work request that makes no sense for this queue pair: a wrong lkey, a wrong address handle, a \
         wrong state.",
    ),
    status(
        3,
        "IBV_WC_LOC_EEC_OP_ERR",
        "local ee context operation error",
        "An internal consistency error of a reliable datagram context.",
    ),
    status(
        4,
        "IBV_WC_LOC_PROT_ERR",
        "local protection error",
        "The adapter could not reach the local buffer of a work request: the memory is not registered, not for this access, or \
         the DMA address leads nowhere. mlx5 adds vendor error 0x51, which NCCL prints in decimal as 81.",
    ),
    status(
        5,
        "IBV_WC_WR_FLUSH_ERR",
        "wr flushed error",
        "The work request was thrown away since its queue pair was in error already: an earlier error is the cause. mlx5 adds \
         vendor error 0xf9 (249) or 0xf4 (244).",
    ),
    status(
        6,
        "IBV_WC_MW_BIND_ERR",
        "memory bind error",
        "A memory window could not be bound.",
    ),
    status(
        7,
        "IBV_WC_BAD_RESP_ERR",
        "bad response error",
        "The other side answered with something unexpected.",
    ),
    status(
        8,
        "IBV_WC_LOC_ACCESS_ERR",
        "local access error",
        "A write from the other side hit a local buffer that does not allow it.",
    ),
    status(
        9,
        "IBV_WC_REM_INV_REQ_ERR",
        "remote invalid request error",
        "The other side refused the request: its queue pair does not allow the operation, or the receive buffer is too small.",
    ),
    status(
        10,
        "IBV_WC_REM_ACCESS_ERR",
        "remote access error",
        "The other side refused the memory access: wrong rkey, or an address outside the registered memory. mlx5 adds vendor \
         error 0x88 (136).",
    ),
    status(
        11,
        "IBV_WC_REM_OP_ERR",
        "remote operation error",
        "The other side could not complete the operation, for the reason that its own log has: often a protection error there. \
         mlx5 adds vendor error 0x89 (137).",
    ),
    status(
        12,
        "IBV_WC_RETRY_EXC_ERR",
        "transport retry counter exceeded",
        "The other side did not acknowledge, however often the adapter sent: the packets or the answers do not arrive. mlx5 adds \
         vendor error 0x81, which NCCL prints in decimal as 129.",
    ),
    status(
        13,
        "IBV_WC_RNR_RETRY_EXC_ERR",
        "rnr retry counter exceeded",
        "The other side is reachable but posted no receive buffer in time.",
    ),
    status(
        14,
        "IBV_WC_LOC_RDD_VIOL_ERR",
        "local rdd violation error",
        "A reliable datagram domain does not match.",
    ),
    status(
        15,
        "IBV_WC_REM_INV_RD_REQ_ERR",
        "remote invalid rd request",
        "The other side refused a reliable datagram.",
    ),
    status(
        16,
        "IBV_WC_REM_ABORT_ERR",
        "aborted error",
        "The other side aborted the operation.",
    ),
    status(
        17,
        "IBV_WC_INV_EECN_ERR",
        "invalid ee context number",
        "An invalid end-to-end context number.",
    ),
    status(
        18,
        "IBV_WC_INV_EEC_STATE_ERR",
        "invalid ee context state",
        "An invalid end-to-end context state.",
    ),
    status(
        19,
        "IBV_WC_FATAL_ERR",
        "fatal error",
        "The adapter cannot recover.",
    ),
    status(
        20,
        "IBV_WC_RESP_TIMEOUT_ERR",
        "response timeout error",
        "No response in time.",
    ),
    status(
        21,
        "IBV_WC_GENERAL_ERR",
        "general error",
        "An error that fits no other status.",
    ),
    status(22, "IBV_WC_TM_ERR", "tm error", "Tag matching failed."),
    status(
        23,
        "IBV_WC_TM_RNDV_INCOMPLETE",
        "tm software rendezvous",
        "Tag matching left a rendezvous to software.",
    ),
];

impl WcStatus {
    /// The status with this number; `None` for success and for numbers that `verbs.h` does not know.
    pub fn of(number: u64) -> Option<&'static Self> {
        WC_STATUSES
            .iter()
            .find(|status| u64::from(status.number) == number)
    }

    /// The status with this name, with or without `IBV_WC_`.
    pub fn named(name: &str) -> Option<&'static Self> {
        let short = name.strip_prefix("IBV_WC_").unwrap_or(name);
        WC_STATUSES
            .iter()
            .find(|status| status.name.strip_prefix("IBV_WC_") == Some(short))
    }

    /// The status of a mlx5 completion syndrome (`MLX5_CQE_SYNDROME_*` in the kernel's `include/linux/mlx5/device.h`).
    pub fn of_syndrome(syndrome: u64) -> Option<&'static Self> {
        let number = match syndrome {
            0x01 => 1,
            0x02 => 2,
            0x04 => 4,
            0x05 => 5,
            0x06 => 6,
            0x10 => 7,
            0x11 => 8,
            0x12 => 9,
            0x13 => 10,
            0x14 => 11,
            0x15 => 12,
            0x16 => 13,
            0x22 => 16,
            _ => return None,
        };
        Self::of(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_stands_at_its_number_and_is_found_by_name() {
        for (at, status) in WC_STATUSES.iter().enumerate() {
            assert_eq!(usize::from(status.number), at + 1);
            assert_eq!(WcStatus::named(status.name), Some(status));
            assert_eq!(WcStatus::of(u64::from(status.number)), Some(status));
        }
        assert_eq!(WcStatus::named("RETRY_EXC_ERR").unwrap().number, 12);
        assert_eq!(WcStatus::of_syndrome(0x15).unwrap().name, "IBV_WC_RETRY_EXC_ERR");
        assert_eq!(WcStatus::of(0), None);
        assert_eq!(WcStatus::of(24), None);
    }
}
