//! What limits the memory and the objects that RDMA programs can have, other than the memlock limit: the table of `mlx4_core` and RDMA cgroups.
//!
//! Source: `/sys/module/mlx4_core/parameters/{log_num_mtt,log_mtts_per_seg}` and `/proc/meminfo`; `rdma.max`, `rdma.current` and `rdma.events` of the
//! first level of cgroups (`Documentation/admin-guide/cgroup-v2.rst`).

use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    root::Scope,
    source::{Known, Source},
};

const PARAMETERS: &str = "/sys/module/mlx4_core/parameters";
/// The first levels of the cgroups of version 2, and of version 1.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/rdma"];
/// The most cgroups that are looked at, and the most lines of each.
const MAX_GROUPS: usize = 32;
const MAX_DEVICES: usize = 64;

/// What limits RDMA programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// The table of translations of `mlx4_core`; absent unless its size was set.
    pub mlx4: Fact<Table>,
    /// RDMA devices of which a cgroup has all that it may have, or was refused more.
    #[serde(default)]
    pub reached: Fact<Vec<Reached>>,
}

/// The table of `mlx4_core` that maps registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The logarithm of the number of segments.
    pub log_num_mtt: u32,
    /// The logarithm of the number of pages in a segment.
    pub log_mtts_per_seg: u32,
    /// The memory of the node, in bytes.
    pub memory: u64,
}

impl Table {
    /// How much memory it maps with pages of this size, in bytes.
    pub fn maps(self, page: u64) -> u64 {
        let log = self.log_num_mtt.saturating_add(self.log_mtts_per_seg);
        page.saturating_mul(1_u64.checked_shl(log).unwrap_or(u64::MAX))
    }
}

/// A limit of an RDMA cgroup that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The directory of the cgroup.
    pub group: String,
    /// The RDMA device.
    pub device: String,
    /// `hca_handle` (open devices) or `hca_object` (queues, regions and others).
    pub resource: String,
    /// The limit.
    pub limit: u64,
    /// How many it has.
    pub current: u64,
    /// How often it was refused more; 0 if the kernel does not count that.
    pub refused: u64,
}

impl Source for Objects {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        Self {
            mlx4: table(scope),
            reached: reached(scope),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            mlx4: why.clone().into(),
            reached: why.clone().into(),
        }
    }
}

fn table(scope: &Scope<'_>) -> Fact<Table> {
    let number = |name: &str| -> Option<u32> {
        let text = scope.collected(&format!("{PARAMETERS}/{name}"));
        text.known()?.trim().parse().ok()
    };
    // Without one, or with 0, the driver sizes the table by the memory of the node.
    let log_num_mtt = number("log_num_mtt").filter(|log| *log > 0);
    let found = log_num_mtt.and_then(|log_num_mtt| {
        let text = scope.collected("/proc/meminfo");
        let line = text
            .known()?
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(Table {
            log_num_mtt,
            log_mtts_per_seg: number("log_mtts_per_seg")?,
            memory: kilobytes.saturating_mul(1024),
        })
    });
    found.into()
}

fn reached(scope: &Scope<'_>) -> Fact<Vec<Reached>> {
    let mut found = Vec::new();
    let mut exists = false;
    for hierarchy in HIERARCHIES {
        let names = scope.collected_entries(hierarchy).unwrap_or_default();
        // Files of the controllers have a dot and no such ending; a cgroup without limits has no such file.
        let is_group = |name: &String| match name.rsplit_once('.') {
            Some((_, ending)) => matches!(ending, "slice" | "scope"),
            None => true,
        };
        let groups = names.into_iter().filter(is_group);
        for name in groups.take(MAX_GROUPS) {
            let group = format!("{hierarchy}/{name}");
            let Fact::Known(limits) = scope.collected(&format!("{group}/rdma.max")) else {
                continue;
            };
            exists = true;
            let [current, events] = ["current", "events"].map(|file| {
                let text = scope.collected(&format!("{group}/rdma.{file}"));
                text.known().cloned().unwrap_or_default()
            });
            found.extend(reached_in(&group, &limits, &current, &events));
        }
    }
    if exists { Fact::Known(found) } else { Fact::Absent }
}

/// The limits of a cgroup that were reached, from its three files.
fn reached_in(group: &str, limits: &str, current: &str, events: &str) -> Vec<Reached> {
    let value = |text: &str, device: &str, key: &str| -> u64 {
        let mut all = numbers(text);
        all.find(|(of, name, _)| *of == device && *name == key)
            .map_or(0, |(.., number)| number)
    };
    let found = numbers(limits).filter_map(|(device, resource, limit)| {
        let current = value(current, device, resource);
        let refused = value(events, device, &format!("{resource}.max"));
        (refused > 0 || current >= limit).then(|| Reached {
            group: group.to_owned(),
            device: device.to_owned(),
            resource: resource.to_owned(),
            limit,
            current,
            refused,
        })
    });
    found.collect()
}

/// The numbers in a file with a device and `NAME=NUMBER` for some names on each line; a limit that is `max` is none.
fn numbers(text: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    text.lines().take(MAX_DEVICES).flat_map(|line| {
        let mut words = line.split_whitespace();
        let device = words.next().unwrap_or_default();
        words.filter_map(move |word| {
            let (name, number) = word.split_once('=')?;
            Some((device, name, number.parse().ok()?))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_where_it_was_reached() {
        let limits = "mlx5_0 hca_handle=2 hca_object=100\nmlx5_1 hca_handle=max hca_object=max\n";
        let none = reached_in("/g", limits, "mlx5_0 hca_handle=1 hca_object=99\n", "");
        assert_eq!(none, []);
        let full = reached_in("/g", limits, "mlx5_0 hca_handle=1 hca_object=100\n", "");
        assert_eq!(
            (full.len(), full[0].resource.as_str(), full[0].refused),
            (1, "hca_object", 0)
        );
        let refused = reached_in("/g", limits, "", "mlx5_0 hca_handle.max=3 hca_object.max=0\n");
        assert_eq!((refused.len(), refused[0].refused), (1, 3));
        assert_eq!(reached_in("/g", "<html>", "", ""), []);
    }

    #[test]
    fn the_table_maps_segments_of_pages() {
        let table = |log_num_mtt, log_mtts_per_seg| Table {
            log_num_mtt,
            log_mtts_per_seg,
            memory: 0,
        };
        assert_eq!(table(16, 0).maps(4096), 256 << 20);
        assert_eq!(table(20, 3).maps(4096), 32 << 30);
        assert_eq!(table(u32::MAX, 3).maps(4096), u64::MAX);
    }
}
