//! Statuses of completions that failed.

/// Makes the type and its names from one list.
macro_rules! statuses {
    ($($variant:ident = $number:literal, $name:literal;)*) => {
        /// The status of a completion that failed: `enum ibv_wc_status` of libibverbs without its success.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum WcStatus {
            $(#[doc = concat!("`", $name, "`")] $variant = $number,)*
        }

        impl WcStatus {
            /// Every status, in order of number.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in `verbs.h`: `IBV_WC_LOC_PROT_ERR`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

statuses! {
    LocLenErr = 1, "IBV_WC_LOC_LEN_ERR";
    LocQpOpErr = 2, "IBV_WC_LOC_QP_OP_ERR";
    LocEecOpErr = 3, "IBV_WC_LOC_EEC_OP_ERR";
    LocProtErr = 4, "IBV_WC_LOC_PROT_ERR";
    WrFlushErr = 5, "IBV_WC_WR_FLUSH_ERR";
    MwBindErr = 6, "IBV_WC_MW_BIND_ERR";
    BadRespErr = 7, "IBV_WC_BAD_RESP_ERR";
    LocAccessErr = 8, "IBV_WC_LOC_ACCESS_ERR";
    RemInvReqErr = 9, "IBV_WC_REM_INV_REQ_ERR";
    RemAccessErr = 10, "IBV_WC_REM_ACCESS_ERR";
    RemOpErr = 11, "IBV_WC_REM_OP_ERR";
    RetryExcErr = 12, "IBV_WC_RETRY_EXC_ERR";
    RnrRetryExcErr = 13, "IBV_WC_RNR_RETRY_EXC_ERR";
    LocRddViolErr = 14, "IBV_WC_LOC_RDD_VIOL_ERR";
    RemInvRdReqErr = 15, "IBV_WC_REM_INV_RD_REQ_ERR";
    RemAbortErr = 16, "IBV_WC_REM_ABORT_ERR";
    InvEecnErr = 17, "IBV_WC_INV_EECN_ERR";
    InvEecStateErr = 18, "IBV_WC_INV_EEC_STATE_ERR";
    FatalErr = 19, "IBV_WC_FATAL_ERR";
    RespTimeoutErr = 20, "IBV_WC_RESP_TIMEOUT_ERR";
    GeneralErr = 21, "IBV_WC_GENERAL_ERR";
    TmErr = 22, "IBV_WC_TM_ERR";
    TmRndvIncomplete = 23, "IBV_WC_TM_RNDV_INCOMPLETE";
}

impl WcStatus {
    /// Its number in `verbs.h`.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The status with this number; `None` for success and for numbers that have no name.
    pub fn of(number: impl Into<u64>) -> Option<Self> {
        let number = number.into();
        Self::ALL
            .iter()
            .copied()
            .find(|status| u64::from(status.number()) == number)
    }

    /// The status with this name, with or without `IBV_WC_`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|status| without_prefix(status.name()) == without_prefix(name))
    }
}

fn without_prefix(name: &str) -> &str {
    name.strip_prefix("IBV_WC_").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_by_number_and_by_name_with_or_without_prefix() {
        for status in WcStatus::ALL {
            assert_eq!(WcStatus::of(status.number()), Some(*status));
            assert_eq!(WcStatus::named(status.name()), Some(*status));
        }
        assert_eq!(WcStatus::named("RETRY_EXC_ERR"), Some(WcStatus::RetryExcErr));
        for number in [0_u32, 24, u32::MAX] {
            assert_eq!(WcStatus::of(number), None);
        }
    }
}
