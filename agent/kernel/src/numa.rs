//! The NUMA nodes with memory.
//!
//! Source: `/sys/devices/system/node/has_memory` (`Documentation/ABI/stable/sysfs-devices-node`).

use crate::{fact::Fact, root::Scope};

/// Maximum number of nodes that are reported.
const MAX_NODES: usize = 64;

/// The NUMA nodes with memory, in order; absent if the kernel has no NUMA support.
pub fn memory_nodes(scope: &Scope<'_>) -> Fact<Vec<u32>> {
    scope.parsed(
        "/sys/devices/system/node/has_memory",
        "a list of numbers",
        numbers,
    )
}

/// The numbers in a list of the kernel's (`0-3,8`); none beyond [`MAX_NODES`].
fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for range in list.split(',').filter(|range| !range.is_empty()) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        found.extend((low..=high).take(MAX_NODES.saturating_sub(found.len())));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_kernel_is_read_and_bounded() {
        assert_eq!(numbers("0-1"), Some(vec![0, 1]));
        assert_eq!(numbers("0,2-3"), Some(vec![0, 2, 3]));
        assert_eq!(numbers(""), Some(vec![]));
        assert_eq!(numbers("0-x"), None);
        assert_eq!(numbers("0-4294967295,7").map(|all| all.len()), Some(MAX_NODES));
    }
}
