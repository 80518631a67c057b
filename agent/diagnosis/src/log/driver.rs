//! What a driver of the kernel did not get from the host, or from the program that called it: neither the adapter nor its firmware refused it.

use rdma_health_kernel_log::is_of_host_memory;
use rdma_health_protocol::Errno;

use super::{errors::errno, line::Lower};
use crate::symptom::SymptomKind::{self as K};

/// What a failure shows that a driver reports, if the adapter has no part in it.
pub(super) fn unserved(line: &Lower<'_>, of_driver: bool) -> Option<K> {
    if !of_driver {
        return None;
    }
    let lower = line.lower.as_str();
    let is_short = || errno(line).is_none_or(|errno| errno == Errno::ENOMEM);
    if exchanges_with_program(lower) {
        Some(K::VersionMismatch)
    } else {
        let is_of_host = || is_of_host_memory(lower) || lower.contains("out of memory");
        (is_of_host() && is_short()).then_some(K::HostMemory)
    }
}

/// Whether the driver could not read what libibverbs passed, or not write its answer: `ib_copy_from_udata error for create qp`, `create srq: problem
/// copying data to user space`. The library's provider has another layout of them.
fn exchanges_with_program(lower: &str) -> bool {
    const CALLS: [&str; 4] = [
        "copy_from_udata",
        "copy_to_udata",
        "copy_from_user",
        "copy_to_user",
    ];
    const COPIES: [&str; 3] = ["copy ", "copying ", "copied "];
    const PLACES: [&str; 4] = ["user space", "userspace", "to user", "from user"];
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    lower.contains("cop") && (has(&CALLS) || has(&COPIES) && has(&PLACES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_or_the_program_did_not_provide_is_told_from_what_the_adapter_refused() {
        for (line, expected) in [
            (
                "hns3 0000:7d:00.0: ib_copy_from_udata error for create qp",
                Some(K::VersionMismatch),
            ),
            (
                "[qedr_copy_qp_uresp:1463(qedr0)]create qp: failed a copy to user space with qp icid=0x2f.",
                Some(K::VersionMismatch),
            ),
            (
                "hns3 0000:7d:00.0: Alloc ring memory fail! ret=-12",
                Some(K::HostMemory),
            ),
            (
                "[qedr_create_kernel_qp:1839(qedr0)]create qp: failed SQ shadow memory allocation",
                Some(K::HostMemory),
            ),
            ("bnxt_en 0000:3b:00.0: Failed to allocate memory, rc = -28", None),
            ("mlx5_core 0000:3b:00.0: failed to allocate icm memory", None),
            ("infiniband bnxt_re0: Failed to allocate HW PD", None),
        ] {
            assert_eq!(unserved(&Lower::of(line), true), expected, "{line}");
        }
    }
}
