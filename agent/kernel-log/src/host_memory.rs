//! Memory of the host that a driver did not get for itself, which says nothing about its adapter.

/// Whether a driver, in lower case, did not get memory of the host for itself: `Alloc ring memory fail! ret=-12`, `create qp: failed SQ shadow memory
/// allocation`. Memory that the adapter manages, and regions of the memory of programs, are other objects.
pub fn is_of_host_memory(lower: &str) -> bool {
    /// The most words between the verb and what it is for.
    const WITHIN: usize = 4;
    const MEMORY: [&str; 10] = [
        "memory",
        "mem",
        "desc",
        "descs",
        "descriptor",
        "descriptors",
        "buffers",
        "bufs",
        "skb",
        "pages",
    ];
    const OTHERS: [&str; 18] = [
        "region", "regions", "window", "mr", "mw", "hem", "icm", "mtt", "mpt", "context", "ctx", "device",
        "table", "doorbell", "cmd", "command", "hwrm", "private",
    ];
    // The name of a function is one word.
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect();
    let allocates =
        |word: &str| word.starts_with("alloc") || matches!(word, "kmalloc" | "kzalloc" | "vmalloc");
    words.iter().enumerate().any(|(at, word)| {
        let is_near = |range: &[&str]| range.iter().any(|near| allocates(near));
        MEMORY.contains(word)
            && (is_near(&words[at.saturating_sub(WITHIN)..at])
                || is_near(&words[at + 1..words.len().min(at + 2)]))
    }) && !words.iter().any(|word| OTHERS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_host_is_told_from_what_an_adapter_manages() {
        for line in [
            "hns3 0000:7d:00.0: alloc ring memory fail! ret=-12",
            "failed(-12) to alloc csq desc",
            "create qp: failed sq shadow memory allocation",
            "failed to allocate dma memory for producer",
            "send_connect - failed to alloc skb",
        ] {
            assert!(is_of_host_memory(line), "{line}");
        }
        for line in [
            "failed to allocate icm memory",
            "hwrm alloc failure of ring memory",
            "failed to allocate memory region",
            "rx private buffers alloc cmd failed -12",
            // The name of a function.
            "[qedr_alloc_mem_sb:217(qedr0)]status block initialization failed",
            "create qp: failed on ll2 start. rc=-12",
        ] {
            assert!(!is_of_host_memory(line), "{line}");
        }
    }
}
