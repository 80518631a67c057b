//! Memory that the program gives to RDMA without having registered it, as its library reports it.

use crate::symptom::SymptomKind::{self as K};

/// The most words between the memory and what is missing.
const WITHIN: usize = 3;

/// `Memory not registered for RDMA`, `GPU buffer 0x7f… is not registered with verbs`, `unregistered memory region in an RDMA write`.
pub(super) fn unregistered(lower: &str) -> Option<(K, usize)> {
    const MISSING: &str = "not registered";
    const MEMORY: [&str; 10] = [
        "memory",
        "buffer",
        "buffers",
        "region",
        "mr",
        "pointer",
        "address",
        "tensor",
        "attachment",
        "iobuf",
    ];
    const OF_RDMA: [&str; 6] = ["rdma", "verbs", "ibv_", "infiniband", "libfabric", "ucx"];
    // The program registers it now, or copies it.
    const GOES_ON: [&str; 7] = [
        " yet",
        "will ",
        "copy",
        "copies",
        "fall",
        "instead",
        "registering",
    ];
    let at = lower.find(MISSING)?;
    let rest = &lower[at + MISSING.len()..];
    let mut words = lower[..at]
        .rsplit(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(WITHIN + 1);
    let is_memory = words.any(|word| MEMORY.contains(&word));
    let has = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
    (is_memory && has(lower, &OF_RDMA) && !has(rest, &GOES_ON)).then_some((K::PostRefused, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_not_registered_is_refused() {
        for (line, expected) in [
            (
                "w0408 rdma_endpoint.cpp:756] memory not registered for rdma",
                true,
            ),
            ("gpu buffer 0x7f00 is not registered with rdma", true),
            (
                "local send buffer not registered with rdma. ensure it was made with endpoint=",
                true,
            ),
            ("rdma: buffer not registered yet", false),
            ("rdma: buffer is not registered, copying it", false),
            ("the plugin is not registered for rdma", false),
            ("memory not registered with the service", false),
        ] {
            assert_eq!(unregistered(line).is_some(), expected, "{line}");
        }
    }
}
