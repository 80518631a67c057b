//! The numbers of a node's adapters, which are the same on equal nodes, even if one of them is without an adapter.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_kernel::pci::Role;

use crate::{Function, Node, peers::exceptions};

/// The number of each adapter from 0, by PCI address of its physical function (of a software device: by its network device). `None` if an
/// adapter that is missing may stand before it or after it.
pub type AdapterNumbers<'a> = BTreeMap<&'a str, Option<usize>>;

/// A place in the order: an adapter, or one that is missing before or after it, with the number of the missing one.
type Place<'a> = (&'a str, Order, usize);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Before,
    Itself,
    After,
}

impl Node {
    /// Numbers the adapters in order of PCI address.
    ///
    /// Every adapter on the bus counts: one without a driver, and one whose RDMA device is in another network namespace. One that is gone
    /// from the bus counts if the history of this boot or of the one before has it, or if most root ports above as many GPUs
    /// have an adapter where it is missing. Without history and GPUs, it is not noticed.
    pub fn adapter_numbers(&self) -> AdapterNumbers<'_> {
        let functions = self.functions();
        let adapters: Vec<_> = functions.iter().filter(|one| is_adapter(one)).collect();
        let mut present: BTreeSet<&str> = adapters.iter().map(|one| one.address).collect();
        present.extend(self.hcas().map(|hca| hca.adapter()));

        let remembered = self.gone().filter(|address| !present.contains(address));
        let mut gone: Vec<Place<'_>> = remembered.map(|address| (address, Order::Before, 0)).collect();
        let mut unsure = BTreeSet::new();
        if gone.is_empty() && !self.is_virtual_machine() {
            for hole in holes(&self.gpus().collect::<Vec<_>>(), &adapters) {
                gone.extend(hole.places);
                unsure.extend(hole.unsure);
            }
        }
        let places = present.iter().map(|address| (*address, Order::Itself, 0));
        let all: BTreeSet<Place<'_>> = places.chain(gone).collect();
        let numbered = all.into_iter().zip(0..);
        numbered
            .filter(|((_, order, _), _)| *order == Order::Itself)
            .map(|((address, ..), number)| (address, (!unsure.contains(address)).then_some(number)))
            .collect()
    }

    /// The addresses of physical adapters in the history of this boot and of the one before that are not on the bus.
    fn gone(&self) -> impl Iterator<Item = &str> {
        let known = self.pci.functions.known();
        let histories = self.history.iter();
        let boots = histories.flat_map(|history| history.boots.iter().rev().take(2));
        let seen = boots.flat_map(|boot| &boot.hcas);
        // A software device has the name of its network device.
        seen.filter(move |(address, seen)| {
            !seen.is_virtual
                && address.contains(':')
                && known.is_some_and(|known| !known.contains_key(*address))
        })
        .map(|(address, _)| address.as_str())
    }
}

fn is_adapter(function: &Function<'_>) -> bool {
    matches!(function.role, Role::Rdma | Role::Capable) && !function.is_software && !function.is_virtual()
}

/// Adapters that are missing below one root port.
#[derive(Default)]
struct Hole<'a> {
    /// Where they are missing.
    places: Vec<Place<'a>>,
    /// The adapters there that may stand before or after them.
    unsure: Vec<&'a str>,
}

/// What is below a root port.
#[derive(Default)]
struct Below<'a> {
    gpus: Vec<&'a str>,
    /// The adapters by their way from the root port: device and function numbers, which are equal in equal slots.
    adapters: BTreeMap<Vec<&'a str>, &'a str>,
}

impl<'a> Below<'a> {
    /// What is missing, if the adapters are usually at these ends of the way.
    fn hole(&self, usual: &BTreeSet<&Vec<&'a str>>) -> Option<Hole<'a>> {
        let missing: Vec<_> = usual
            .iter()
            .filter(|way| !self.adapters.contains_key(**way))
            .collect();
        let others = self.adapters.keys().filter(|way| !usual.contains(way)).count();
        let number = missing.len().saturating_sub(others);
        if others > 0 {
            // The adapters are in other slots than elsewhere, and some are missing: it is not known which.
            let first = self.adapters.values().min()?;
            return Some(Hole {
                places: (0..number).map(|one| (*first, Order::Before, one)).collect(),
                unsure: if number > 0 {
                    self.adapters.values().copied().collect()
                } else {
                    Vec::new()
                },
            });
        }
        let place = |(one, way): (usize, &&&Vec<&'a str>)| {
            let next = self.adapters.iter().find(|(own, _)| own > *way);
            let last = || {
                self.adapters
                    .values()
                    .next_back()
                    .map(|last| (*last, Order::After))
            };
            // Without any, next to the GPU: all below one root port stand together.
            let none = || self.gpus.first().map(|gpu| (*gpu, Order::Before));
            let (at, order) = next
                .map(|(_, next)| (*next, Order::Before))
                .or_else(last)
                .or_else(none)?;
            Some((at, order, one))
        };
        Some(Hole {
            places: missing.iter().enumerate().filter_map(place).collect(),
            unsure: Vec::new(),
        })
    }
}

/// What is missing below the root ports above GPUs, compared with those above equally many.
fn holes<'a>(gpus: &[Function<'a>], adapters: &[&Function<'a>]) -> Vec<Hole<'a>> {
    let mut roots: BTreeMap<&str, Below<'a>> = BTreeMap::new();
    for gpu in gpus {
        if let Some(root) = gpu.bridges().first() {
            roots.entry(root).or_default().gpus.push(gpu.address);
        }
    }
    for adapter in adapters {
        if let Some(below) = adapter
            .bridges()
            .first()
            .and_then(|root| roots.get_mut(root.as_str()))
        {
            let bridges = adapter.bridges().iter().skip(1).map(String::as_str);
            let way = bridges.chain([adapter.address]).map(in_bus).collect();
            below.adapters.insert(way, adapter.address);
        }
    }
    let mut alike: BTreeMap<usize, Vec<&Below<'a>>> = BTreeMap::new();
    for below in roots.values() {
        alike.entry(below.gpus.len()).or_default().push(below);
    }
    let mut found = Vec::new();
    for group in alike.values() {
        let ways: BTreeSet<_> = group.iter().flat_map(|below| below.adapters.keys()).collect();
        let all = ways.iter().copied();
        // The root ports without an adapter at the end of a way at which most have one.
        let usual =
            all.filter(|way| exceptions(group, |below| Some(below.adapters.contains_key(*way))).is_some());
        let usual: BTreeSet<_> = usual.collect();
        let of_all = ways
            .iter()
            .copied()
            .filter(|way| group.iter().all(|below| below.adapters.contains_key(*way)));
        let usual: BTreeSet<_> = usual.into_iter().chain(of_all).collect();
        found.extend(group.iter().filter_map(|below| below.hole(&usual)));
    }
    found
}

/// Device and function number of a PCI address.
fn in_bus(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(_, end)| end)
}
