//! Running next to the NIC.

use std::{fs, path::Path};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Moves the calling thread to the CPUs of the device's NUMA node, as far as it may run there, and returns the
/// node. `None`, and nothing changes, if the device reports no node (virtual devices, one-node machines) or none of
/// the node's CPUs is allowed.
pub(super) fn pin(sysfs: &Path, device: &str) -> Option<u32> {
    let node = node(sysfs, device)?;
    let list = fs::read_to_string(sysfs.join(format!("devices/system/node/node{node}/cpulist"))).ok()?;
    let allowed = sched_getaffinity(None).ok()?;
    let mut chosen = CpuSet::new();
    for cpu in cpus(&list)?
        .into_iter()
        .filter(|&cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu))
    {
        chosen.set(cpu);
    }
    if chosen.count() == 0 {
        return None;
    }
    sched_setaffinity(None, &chosen).ok()?;
    Some(node)
}

/// The device's NUMA node: the nearest `numa_node` at or above its `device`, which may be a virtual or auxiliary device of
/// a PCI function. A software device has none of its own; its `parent` names the network device below it. `-1` where the
/// firmware reports none.
fn node(sysfs: &Path, device: &str) -> Option<u32> {
    let class = sysfs.join("class/infiniband").join(device);
    let below = match fs::read_to_string(class.join("parent")) {
        Ok(netdev) => sysfs.join("class/net").join(netdev.trim()).join("device"),
        Err(_) => class.join("device"),
    };
    let below = fs::canonicalize(below).ok()?;
    let mut files = below.ancestors().map(|above| above.join("numa_node"));
    let number = files.find_map(|file| fs::read_to_string(file).ok())?;
    number.trim().parse().ok()
}

/// The CPUs in a list of the kernel's (`0-3,8`).
fn cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (usize, usize) = (low.parse().ok()?, high.parse().ok()?);
        // What lies beyond could not be set anyway.
        cpus.extend(low..=high.min(CpuSet::MAX_CPU));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(cpus("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(cpus("\n"), Some(vec![]));
        assert_eq!(cpus("0-x"), None);
        assert!(cpus("0-18446744073709551615").unwrap().len() < 2000);
    }

    #[test]
    fn a_thread_moves_to_the_node_of_its_device_or_stays() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("class/infiniband/m/device");
        let node = root.path().join("devices/system/node/node3");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(&node).unwrap();
        let allowed = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
        let root = root.path().to_owned();
        std::thread::spawn(move || {
            assert_eq!(pin(&root, "m"), None);
            fs::write(device.join("numa_node"), "-1\n").unwrap();
            assert_eq!(pin(&root, "m"), None);
            fs::write(device.join("numa_node"), "3\n").unwrap();
            fs::write(node.join("cpulist"), "1023\n").unwrap();
            assert_eq!(pin(&root, "m"), None);
            fs::write(node.join("cpulist"), format!("{cpu}\n")).unwrap();
            assert_eq!(pin(&root, "m"), Some(3));
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        })
        .join()
        .unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), allowed);
    }

    proptest! {
        #[test]
        fn a_list_holds_the_cpus_of_its_ranges(ranges in prop::collection::vec((0..1000_usize, 0..9_usize), 0..5)) {
            let range = |(low, more): &(usize, usize)| match more {
                0 => low.to_string(),
                more => format!("{low}-{}", low + more),
            };
            let list = ranges.iter().map(range).collect::<Vec<_>>().join(",");
            let expected = ranges.iter().flat_map(|(low, more)| *low..=low + more).collect::<Vec<_>>();
            prop_assert_eq!(cpus(&list), Some(expected));
        }

        /// A range costs no more memory than there can be CPUs, whatever it says.
        #[test]
        fn no_range_is_longer_than_a_set_of_cpus(low in 0..2000_usize, high in 0..1_000_000_usize) {
            let found = cpus(&format!("{low}-{high},{high}")).map_or(0, |cpus| cpus.len());
            prop_assert!(found <= 2 * (CpuSet::MAX_CPU + 1), "{found}");
        }
    }
}
