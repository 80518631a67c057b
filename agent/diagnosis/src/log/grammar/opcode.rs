//! A work request of a kind that the adapter or its driver does not have, as libraries and providers report it.

use crate::symptom::SymptomKind::{self as K};

/// `post work request failed, invalid opcode: 0x9`, `unsupported wr opcode 12`, `opcode 7 is not supported`. The processor has opcodes, too:
/// `invalid opcode: 0000 [#1] SMP`.
pub(super) fn unsupported(lower: &str) -> Option<(K, usize)> {
    const REFUSALS: [&str; 6] = [
        "invalid",
        "unsupported",
        "not supported",
        "unknown",
        "illegal",
        "bad",
    ];
    const REQUESTS: [&str; 7] = [
        "post",
        "work request",
        "wqe",
        " wr ",
        "_wr",
        "send request",
        "rdma",
    ];
    let at = lower.find("opcode")?;
    // A completion that failed lists its opcode, and says more.
    let is_completion = ["completion", "status", "vendor", "cqe", " cq", "stat "]
        .iter()
        .any(|word| lower.contains(word));
    let is_trap = lower.contains("[#") || lower.contains("trap invalid");
    // The word stands next to the opcode: `unsupported wr opcode`, `opcode 7 is not supported`.
    let around = |from: usize, to: usize| lower.get(from..to.min(lower.len())).unwrap_or_default();
    let before = around(at.saturating_sub(20), at);
    let after = around(at, at + 40);
    let is_refused = REFUSALS
        .iter()
        .any(|word| before.contains(word) || word.starts_with("not ") && after.contains(word));
    let is_request = || REQUESTS.iter().any(|word| lower.contains(word));
    (is_refused && !is_completion && !is_trap && is_request()).then_some((K::UnsupportedAdapter, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_a_kind_that_the_adapter_does_not_have_is_recognised() {
        for (line, expected) in [
            (
                "libi40iw-i40iw_upost_send: post work request failed, invalid opcode: 0x9",
                true,
            ),
            ("hns_roce_post_send: unsupported wr opcode 12", true),
            ("post_send: opcode 7 is not supported by this device", true),
            ("invalid opcode: 0000 [#1] smp nopti", false),
            ("traps: rdma_srv[812] trap invalid opcode ip:55f1", false),
            (
                "net/ib: got completion with status=9 opcode=1 (invalid request), rdma write",
                false,
            ),
            ("posting rdma write, opcode 1", false),
        ] {
            assert_eq!(unsupported(line).is_some(), expected, "{line}");
        }
    }
}
