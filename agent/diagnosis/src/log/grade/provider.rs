//! What a provider of libibverbs reports of its caller: the library prints the device, the function and its line first.

use crate::log::{entity::is_rdma_name, line::is_word};

/// Where a provider says why it refuses a call without a word of failure: `rdmap16s27: efa_check_qp_attr:2059: Driver QP type must be SRD`.
pub(in crate::log) fn refusal(lower: &str) -> Option<usize> {
    const REASONS: [&str; 10] = [
        " must ",
        " should ",
        " not provided",
        " needs ",
        " requires ",
        " does not support ",
        " not a ",
        " not an ",
        " > ",
        " full",
    ];
    let (device, rest) = lower.split_once(": ")?;
    let (place, message) = rest.split_once(": ")?;
    let (function, line) = place.split_once(':')?;
    let is_place = !function.is_empty()
        && function.bytes().all(is_word)
        && !line.is_empty()
        && line.bytes().all(|byte| byte.is_ascii_digit());
    let is_refusal = || {
        let padded = format!(" {message}");
        REASONS.iter().any(|reason| padded.contains(reason))
    };
    (is_place && is_rdma_name(device) && is_refusal()).then(|| lower.len() - message.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_refuses_a_call_without_a_word_of_failure() {
        for (line, expected) in [
            (
                "rdmap16s27: efa_check_qp_attr:2059: driver qp type must be srd",
                true,
            ),
            (
                "rdmap16s27: efa_check_qp_attr:2112: send/receive cq not provided",
                true,
            ),
            ("mlx5_0: mlx5_post:12: sq[3] wr num_sge 4 > 2", true),
            ("mlx5_0: not an address", false),
            ("node7: run:12: the job must wait", false),
        ] {
            assert_eq!(refusal(line).is_some(), expected, "{line}");
        }
    }
}
