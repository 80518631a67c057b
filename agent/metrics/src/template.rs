//! The families of a view, written once and kept until anything but counters changes.
//!
//! From one scrape to the next only the values of counters differ, as a rule. So the text is kept with gaps for them, and a scrape
//! copies it and fills the gaps.

use std::sync::Arc;

use rdma_health_node::{Node, infiniband::Counter};

/// The text, and where values belong.
#[derive(Debug, Default)]
pub(crate) struct Template {
    /// The text without the values of counters.
    text: Vec<u8>,
    /// In order of place.
    gaps: Vec<Gap>,
    /// The counters that it has gaps for: those with a value, directory by directory.
    shape: Vec<Vec<Option<Arc<str>>>>,
}

/// The place of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    /// How much text comes before it, in bytes.
    pub(crate) at: usize,
    /// Which counter of all it is, in order of port, directory and name.
    pub(crate) counter: u32,
    /// What one unit of the counter is in units of the family.
    pub(crate) scale: u32,
}

impl Template {
    /// Keeps what `write` writes from a node.
    pub(crate) fn new(node: &Node, write: impl FnOnce(&mut Vec<u8>, &mut Vec<Gap>)) -> Self {
        let (mut text, mut gaps) = (Vec::new(), Vec::new());
        write(&mut text, &mut gaps);
        // They stay for long, and grew by doubling.
        text.shrink_to_fit();
        gaps.shrink_to_fit();
        let name = |counter: &Counter| counter.value.known().map(|_| Arc::clone(&counter.name));
        let shape = directories(node).map(|counters| counters.iter().map(name).collect());
        Self {
            text,
            gaps,
            shape: shape.collect(),
        }
    }

    /// Whether the node has values for the same counters.
    pub(crate) fn fits(&self, node: &Node) -> bool {
        let same = |counter: &Counter, expected: &Option<Arc<str>>| match expected {
            Some(name) => counter.value.known().is_some() && Arc::ptr_eq(name, &counter.name),
            None => counter.value.known().is_none(),
        };
        let mut shape = self.shape.iter();
        directories(node).all(|counters| {
            shape.next().is_some_and(|names| {
                names.len() == counters.len() && counters.iter().zip(names).all(|(one, name)| same(one, name))
            })
        }) && shape.next().is_none()
    }

    /// Appends the text with the values of a node that it [fits](Self::fits).
    pub(crate) fn fill(&self, node: &Node, out: &mut Vec<u8>) {
        let counters = directories(node).flatten();
        let values: Vec<u64> = counters
            .map(|counter| counter.value.known().copied().unwrap_or_default())
            .collect();
        let mut done = 0;
        for gap in &self.gaps {
            out.extend_from_slice(&self.text[done..gap.at]);
            // Wrapping is what a counter does, and what the node exporter does.
            let value = values[gap.counter as usize].wrapping_mul(gap.scale.into());
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            done = gap.at;
        }
        out.extend_from_slice(&self.text[done..]);
    }
}

/// The directories of counters, in order of port.
fn directories(node: &Node) -> impl Iterator<Item = &[Counter]> {
    let ports = node.hcas().flat_map(|hca| hca.ports.values());
    ports.flat_map(|port| [port.counters.as_slice(), port.hw_counters.as_slice()])
}
