//! Statuses that a library numbers itself and prints as an error of the system is printed, in its own words: Open MPI's `Not found (-13)` is
//! `OPAL_ERR_NOT_FOUND`, UCX's `Destination is unreachable (-6)` is `UCS_ERR_UNREACHABLE`. And numbers that a program sets where no function
//! returned them.

use rdma_health_protocol::Errno;

/// The words of a status before its number, in lower case, and the number. Open MPI (`opal_strerror`), then UCX (`ucs_status_string`).
const STATUSES: [(&str, u64); 30] = [
    ("out of resource", 2),
    ("temporarily out of resource", 3),
    ("resource busy", 4),
    ("bad parameter", 5),
    ("fatal", 6),
    ("not implemented", 7),
    ("not supported", 8),
    ("interrupted", 9),
    ("would block", 10),
    ("unreachable", 12),
    ("not found", 13),
    ("exists", 14),
    ("timeout", 15),
    ("not available", 16),
    ("no permission", 17),
    ("value out of bounds", 18),
    ("file read failure", 19),
    ("file write failure", 20),
    ("file open failure", 21),
    ("no pending message", 1),
    ("no resources are available to initiate the operation", 2),
    ("invalid parameter", 5),
    ("destination is unreachable", 6),
    ("address not valid", 7),
    ("message truncated", 9),
    ("no such element", 12),
    ("request canceled", 16),
    ("element already exists", 18),
    ("unsupported operation", 22),
    ("connection reset by remote peer", 25),
];

/// Whether the number behind a text in lower case is such a status.
pub(super) fn is_status(before: &str, number: u64) -> bool {
    let words = before.trim_end_matches(['-', '(', '[', ' ', ':', ',']);
    STATUSES
        .iter()
        .any(|(text, status)| *status == number && words.ends_with(text))
}

/// Files of Mooncake, whose own numbers (`ERR_*` of its `error.h`) are those of other errors.
const MOONCAKE: [&str; 6] = [
    "transfer_metadata",
    "transfer_engine",
    "rdma_endpoint.cpp",
    "rdma_transport.cpp",
    "rdma_context.cpp",
    "multi_transport",
];

/// What a number stands for that a line in lower case has without its text. SPDK sets EADDRNOTAVAIL where no event of the connection came in time,
/// and EBADMSG where another one came.
pub(super) fn meant(lower: &str, errno: Errno) -> Option<Errno> {
    if lower.contains("rdma connect error") {
        return match errno {
            Errno::EADDRNOTAVAIL => Some(Errno::ETIMEDOUT),
            Errno(74) => None,
            errno => Some(errno),
        };
    }
    let is_own = matches!(errno.0, 1..=7 | 101..=105)
        && !lower.contains("errno")
        && lower.contains(&format!("-{}", errno.0))
        && MOONCAKE.iter().any(|file| lower.contains(file));
    (!is_own).then_some(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_the_words_of_a_library_is_its_own() {
        assert!(is_status(
            "error: failed to receive ucx worker address: not found (-",
            13
        ));
        assert!(is_status("pml_ucx.c:1 error: unreachable (-", 12));
        assert!(!is_status("ibv_open_device failed (-", 13));
        assert!(!is_status("permission denied (-", 13));
    }
}
