//! Names of completion statuses.

use rdma_health_protocol::{Completion, WcStatus};

use crate::sys::WorkCompletion;

/// The name of an `ibv_wc_status` in `verbs.h`, or the number if it has none.
pub fn name(status: u32) -> String {
    match (status, WcStatus::of(status)) {
        (0, _) => "IBV_WC_SUCCESS".to_owned(),
        (_, Some(known)) => known.name().to_owned(),
        (unknown, None) => unknown.to_string(),
    }
}

/// The completion's failure; `None` if it succeeded.
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
