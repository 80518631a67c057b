//! What a program does at the end of what it made: a failure of it has no consequence of its own.

/// Words of the end of an object, in lower case.
const ENDS: [&str; 19] = [
    "close",
    "closing",
    "destroy",
    "destroying",
    "dealloc",
    "deallocate",
    "deallocating",
    "dereg",
    "deregister",
    "deregistering",
    "unregister",
    "unregistering",
    "release",
    "releasing",
    "free",
    "freeing",
    "unmap",
    "detach",
    "teardown",
];

/// The most words between the end and what it is of: `close fabric address vector`.
const WITHIN: usize = 2;

/// Whether the words of an operation, from `start` to `end` in a line in lower case, are those of its reverse: `Failed to deallocate PD`,
/// `Unable to close fabric address vector`, `ofi_domain_close fails`, `Error de-registering MR`.
pub(super) fn is_undone(lower: &str, start: usize, end: usize) -> bool {
    let before = &lower[..start];
    let joined = before.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let prefix = &before[joined.len()..];
    let is_reversed = prefix == "de" || prefix == "un" || prefix.is_empty() && before.ends_with(" de-");
    let clause = before.rsplit([':', ';', ',', '.']).next().unwrap_or_default();
    let is_end = |word: &str| ENDS.contains(&word);
    let follows = clause
        .split(|c: char| !c.is_ascii_alphanumeric())
        .rev()
        .filter(|word| !word.is_empty())
        .take(WITHIN + 1)
        .any(is_end);
    let is_suffix = lower[end..].strip_prefix('_').is_some_and(|rest| {
        rest.split(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .is_some_and(is_end)
    });
    is_reversed || follows || is_suffix
}

/// Whether a text in lower case says that an object could not be ended: `Failed to deallocate pd-3`.
pub(in crate::log) fn ends_object(lower: &str) -> bool {
    const BEFORE: [&str; 4] = ["failed to ", "unable to ", "could not ", "couldn't "];
    BEFORE.iter().any(|begin| {
        let rest = lower.split_once(begin).map_or("", |(_, rest)| rest);
        let word = rest.split(|c: char| !c.is_ascii_alphabetic()).next();
        word.is_some_and(|word| ENDS.contains(&word))
    })
}

/// Whether a line in lower case is about a queue pair that is moved to the error state, from which nothing is sent: `Failed to modify ibv qp
/// 0x7f state to ERR`.
pub(super) fn ends_queue(lower: &str) -> bool {
    const STATES: [&str; 3] = ["err", "error", "ibv_qps_err"];
    let names = |states: &[&str]| {
        lower.match_indices(" to ").any(|(at, to)| {
            let word = lower[at + to.len()..]
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            states.contains(&word)
        })
    };
    names(&STATES) && !names(&["init", "rtr", "rts"])
}

#[cfg(test)]
mod tests {
    use super::super::{Operation, operation};

    #[test]
    fn the_end_of_an_object_is_harmless() {
        for line in [
            "failed to deallocate pd-3 [-22]",
            "unable to close fabric address vector: 22: invalid argument",
            "ofi_domain_close fails",
            "rail manager deregistermemory failed",
            "error de-registering mr",
            "failed to modify ibv qp 0x7f0012345000 state to err, rc 22",
            "[rdma] mlx5dv_modify_qp_lag_port failed (qp_index=1)",
        ] {
            let found = operation(line).map(|(operation, _)| operation);
            assert_eq!(found, Some(Operation::Harmless), "{line}");
        }
        for (line, expected) in [
            ("failed to allocate pd", Operation::Create),
            ("unable to insert ep names in address vector", Operation::Create),
            ("failed to modify qp to rtr: err 22", Operation::Connect),
            ("cleanup: failed to register memory", Operation::Register),
        ] {
            let found = operation(line).map(|(operation, _)| operation);
            assert_eq!(found, Some(expected), "{line}");
        }
    }
}
