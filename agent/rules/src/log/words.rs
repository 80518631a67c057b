//! Error numbers in the words of the C library.

/// `strerror` in the C locale, and the number: those that libibverbs calls return.
const ERRORS: [(&str, i32); 24] = [
    ("operation not permitted", 1),
    ("no such file or directory", 2),
    ("input/output error", 5),
    ("bad file descriptor", 9),
    ("resource temporarily unavailable", 11),
    ("cannot allocate memory", 12),
    ("permission denied", 13),
    ("bad address", 14),
    ("device or resource busy", 16),
    ("no such device", 19),
    ("invalid argument", 22),
    ("no space left on device", 28),
    ("function not implemented", 38),
    ("no data available", 61),
    ("protocol not supported", 93),
    ("operation not supported", 95),
    ("address family not supported by protocol", 97),
    ("cannot assign requested address", 99),
    ("network is down", 100),
    ("network is unreachable", 101),
    ("connection timed out", 110),
    ("connection refused", 111),
    ("no route to host", 113),
    ("remote i/o error", 121),
];

/// The error that a text names: by its words, else by the number after `errno` or `failed with`.
pub(super) fn errno(text: &str) -> Option<i32> {
    let lower = text.to_ascii_lowercase();
    let named = ERRORS
        .iter()
        .filter_map(|(words, errno)| lower.find(words).map(|at| (at, *errno)))
        .min();
    if let Some((_, errno)) = named {
        return Some(errno);
    }
    let after = ["errno ", "errno=", "errno: ", "failed with "]
        .iter()
        .find_map(|label| super::line::after(&lower, label))?;
    i32::try_from(super::line::number(after.trim_start_matches('-'))?)
        .ok()
        .filter(|errno| (1..=133).contains(errno))
}
