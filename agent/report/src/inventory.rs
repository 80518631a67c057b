//! What a node is made of, as a few words for each kind of fact: for comparing nodes that should be alike. Nothing is judged, and
//! nothing in it differs between equal nodes (no names, addresses or times).

use std::collections::BTreeMap;

use rdma_health_node::{DmaMode, Fact, Node, nvidia::PeerMemory, words::gigabits};

use super::devices::{Row, rows};

/// A word about one port.
type Word = fn(&Row<'_>) -> String;

const UNREAD: &str = "unread";
const NONE: &str = "none";

/// The words by kind of fact: `kernel` → `6.1.0-37-amd64`, `adapters` → `8x ConnectX-7 (mlx5_core)`.
pub(super) fn inventory(node: &Node) -> BTreeMap<&'static str, String> {
    let rows = rows(node);
    let ports = |word: Word| counted(rows.iter().map(word));
    let dma = match node.dma_mode() {
        None => UNREAD,
        Some(DmaMode::NoIommu) => NONE,
        Some(DmaMode::Passthrough) => "passthrough",
        Some(DmaMode::Translated) => "translated",
        Some(DmaMode::Other) => "other",
    };
    let peer_memory = words(&node.peer_memory, |memory| match memory {
        PeerMemory::None => NONE.into(),
        _ => "present".into(),
    });
    let mut all = BTreeMap::from([
        ("kernel", words(&node.host.kernel, Clone::clone)),
        ("iommu", dma.to_owned()),
        ("peer-memory", peer_memory),
    ]);
    let of_ports: [(&str, Word); 6] = [
        ("adapters", |row| {
            let model = row.model.unwrap_or("unknown model");
            format!("{model} ({})", words(row.driver, Clone::clone))
        }),
        ("firmware", |row| words(row.firmware, Clone::clone)),
        ("ports", |row| {
            let rate = words(&row.rate, |rate| gigabits(*rate));
            format!("{rate} {}", words(&row.state, ToString::to_string))
        }),
        ("rdma-mtu", |row| number(row.active_mtu)),
        ("netdev-mtu", |row| number(row.netdev_mtu)),
        ("gid-index", |row| number(row.gid.as_ref().map(|gid| gid.index))),
    ];
    for (key, word) in of_ports {
        let text = if node.hcas.unread().is_some() {
            UNREAD.to_owned()
        } else {
            ports(word)
        };
        all.insert(key, text);
    }
    all
}

fn words<T>(fact: &Fact<T>, text: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => text(value),
        Fact::Absent => NONE.into(),
        Fact::Unread { .. } => UNREAD.into(),
    }
}

fn number(number: Option<u32>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

/// `8x ACTIVE, 1x DOWN`, in order of words.
fn counted(words: impl Iterator<Item = String>) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    let parts: Vec<_> = counts
        .iter()
        .map(|(word, count)| format!("{count}x {word}"))
        .collect();
    if parts.is_empty() {
        NONE.to_owned()
    } else {
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_things_are_counted() {
        let words = ["b", "a", "b"].map(str::to_owned);
        assert_eq!(counted(words.into_iter()), "1x a, 2x b");
        assert_eq!(counted(std::iter::empty()), "none");
    }
}
