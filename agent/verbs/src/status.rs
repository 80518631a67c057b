//! Completions in words.

use rdma_health_protocol::Completion;

use crate::sys::WorkCompletion;

/// The names of `enum ibv_wc_status` in `verbs.h`, by number.
const NAMES: [&str; 24] = [
    "IBV_WC_SUCCESS",
    "IBV_WC_LOC_LEN_ERR",
    "IBV_WC_LOC_QP_OP_ERR",
    "IBV_WC_LOC_EEC_OP_ERR",
    "IBV_WC_LOC_PROT_ERR",
    "IBV_WC_WR_FLUSH_ERR",
    "IBV_WC_MW_BIND_ERR",
    "IBV_WC_BAD_RESP_ERR",
    "IBV_WC_LOC_ACCESS_ERR",
    "IBV_WC_REM_INV_REQ_ERR",
    "IBV_WC_REM_ACCESS_ERR",
    "IBV_WC_REM_OP_ERR",
    "IBV_WC_RETRY_EXC_ERR",
    "IBV_WC_RNR_RETRY_EXC_ERR",
    "IBV_WC_LOC_RDD_VIOL_ERR",
    "IBV_WC_REM_INV_RD_REQ_ERR",
    "IBV_WC_REM_ABORT_ERR",
    "IBV_WC_INV_EECN_ERR",
    "IBV_WC_INV_EEC_STATE_ERR",
    "IBV_WC_FATAL_ERR",
    "IBV_WC_RESP_TIMEOUT_ERR",
    "IBV_WC_GENERAL_ERR",
    "IBV_WC_TM_ERR",
    "IBV_WC_TM_RNDV_INCOMPLETE",
];

/// The name of an `ibv_wc_status`, or the number where it has none.
pub fn name(status: u32) -> String {
    let known = usize::try_from(status).ok().and_then(|at| NAMES.get(at));
    known.map_or_else(|| status.to_string(), |&name| name.to_owned())
}

/// The completion's failure; `None` where it succeeded.
pub fn failure(completion: WorkCompletion) -> Option<Completion> {
    (completion.status != 0).then(|| Completion {
        status: completion.status,
        name: name(completion.status),
        vendor_error: completion.vendor_error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        use rdma_sys::ibv_wc_status as status;
        for (number, expected) in [
            (status::IBV_WC_SUCCESS, "IBV_WC_SUCCESS"),
            (status::IBV_WC_LOC_PROT_ERR, "IBV_WC_LOC_PROT_ERR"),
            (status::IBV_WC_WR_FLUSH_ERR, "IBV_WC_WR_FLUSH_ERR"),
            (status::IBV_WC_REM_INV_REQ_ERR, "IBV_WC_REM_INV_REQ_ERR"),
            (status::IBV_WC_REM_ACCESS_ERR, "IBV_WC_REM_ACCESS_ERR"),
            (status::IBV_WC_RETRY_EXC_ERR, "IBV_WC_RETRY_EXC_ERR"),
            (status::IBV_WC_GENERAL_ERR, "IBV_WC_GENERAL_ERR"),
            (status::IBV_WC_TM_RNDV_INCOMPLETE, "IBV_WC_TM_RNDV_INCOMPLETE"),
            (24, "24"),
            (u32::MAX, "4294967295"),
        ] {
            assert_eq!(name(number), expected);
        }
    }

    #[test]
    fn only_a_failure_is_one() {
        let completion = |status| WorkCompletion {
            id: 1,
            status,
            vendor_error: 0x81,
        };
        assert_eq!(failure(completion(0)), None);
        let failed = failure(completion(4)).unwrap();
        assert_eq!(
            (failed.name.as_str(), failed.vendor_error),
            ("IBV_WC_LOC_PROT_ERR", 129)
        );
    }
}
