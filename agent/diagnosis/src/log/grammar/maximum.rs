//! More of something than a device has, by the two numbers that a driver or program prints: the requested number, and the maximum.

use crate::{
    log::line::{is_word, number},
    symptom::SymptomKind::{self as K},
};

/// What stands between both numbers, in lower case.
const COMPARISONS: [&str; 6] = [
    " > ",
    "exceeds",
    "exceed",
    "larger than",
    "greater than",
    ", max = ",
];
/// What the numbers count, as words or the ends of names: `max_send_wr`, `cqe`.
const OBJECTS: [&str; 12] = [
    "cq", "cqe", "cqes", "qp", "qps", "srq", "wr", "wrs", "sge", "sges", "mr", "mrs",
];
/// The same in more than one word.
const PHRASES: [&str; 5] = ["queue size", "queue depth", "inline data", "cq count", "wqe_cnt"];
/// What says that the program goes on with less, or that the numbers count something else.
const OTHERS: [&str; 14] = [
    "clamp", "reduc", "adjust", "limiting", "truncat", "lower", "cap to", "capped", "using", "set to",
    "default", "retr", "timeout", "debug",
];

/// `rxe0: rxe_cq_chk_attr: cqe(65536) > max_cqe(32767)`, `send queue size (65536 * 256 / 64 -> 262144) exceeds limits(32768)`,
/// `max_send_wr 65536 is larger than device max_qp_wr 32768`, `failed to check CQ count 65536, max = 32768`.
pub(in crate::log) fn exceeded(lower: &str) -> Option<(K, usize)> {
    let (at, comparison) = COMPARISONS
        .iter()
        .find_map(|comparison| Some((lower.find(comparison)?, *comparison)))?;
    let (before, after) = (&lower[..at], &lower[at + comparison.len()..]);
    let names_maximum = ["max", "limit", "invalid"]
        .iter()
        .any(|word| lower.contains(word));
    let counts = PHRASES.iter().any(|phrase| lower.contains(phrase))
        || lower
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| OBJECTS.contains(&word));
    if !(names_maximum && counts) || OTHERS.iter().any(|word| lower.contains(word)) {
        return None;
    }
    // `Invalid qp size. Please select a value greater than 2` asks for more.
    let sentence = before.rsplit(". ").next().unwrap_or(before);
    let asked = numbers(sentence).last()?;
    let offered = numbers(after).next()?;
    (asked > offered).then_some((K::ResourceLimit, 0))
}

/// The decimal numbers in a text that are not parts of names, in order.
fn numbers(text: &str) -> impl DoubleEndedIterator<Item = u64> {
    text.split(|c: char| !(c.is_ascii() && is_word(c as u8)))
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_maximum_is_a_limit() {
        for line in [
            "rxe0: rxe_cq_chk_attr: cqe(65536) > max_cqe(32767)",
            "infiniband rxe0: rxe_qp_chk_cap: invalid send wr = 16385 > 16384",
            "mlx5_0: calc_sq_size:601:(pid 4411): send queue size (65536 * 256 / 64 -> 262144) exceeds limits(32768)",
            "requested cqe 65536 exceeds max_cqe 32767 of mlx5_0",
            "error: max_send_wr 65536 is larger than device max_qp_wr 32768",
            "hns3 0000:7d:00.0 hns_0: failed to check cq count 65536, max = 32768.",
        ] {
            assert_eq!(
                exceeded(line).map(|(kind, _)| kind),
                Some(K::ResourceLimit),
                "{line}"
            );
        }
        for line in [
            "nvme nvme1: queue_size 128 > ctrl sqsize 32, clamping down",
            "qp 18: 7 retries exceed max_retry 5",
            "requested 128 send wr, max_qp_wr > 1000",
            "the number of qps exceeds the maximum",
            "queue depth 4096 exceeds max 128, using 128",
            "status: 7 invalid qp size specified. please select a value greater than or equal to 2.",
        ] {
            assert_eq!(exceeded(line), None, "{line}");
        }
    }
}
