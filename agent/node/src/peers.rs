//! Equal ports and adapters: those that are built and attached alike, so that one of them is expected to do what the others do.
//!
//! Ports are peers if driver, board (as the driver names it, otherwise by its PCI ids), port number and PCI function number are equal, and either all or none of them share a PCIe
//! switch with a GPU. So the second port of every card, other boards, and adapters for storage are not compared with the rails
//! of the GPUs. The link layer is not part of it, because it is compared itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Function, Node, Port, events::card, pci::Role};

/// The fewest peers that show what is usual.
const FEWEST: usize = 3;

/// Ports that are expected to behave equally, in order of device and number.
#[derive(Debug, Clone)]
pub struct Peers<'a> {
    /// The ports.
    pub ports: Vec<Port<'a>>,
    /// Whether they serve the GPUs of the node: they share PCIe switches with GPUs, or there is one for at most two GPUs.
    pub serve_gpus: bool,
}

/// Members of a group without what most of the others have.
#[derive(Debug, Clone)]
pub struct Exceptions<T> {
    /// Those without it.
    pub without: Vec<T>,
    /// The number of those that have it.
    pub with: usize,
    /// The number of all of them.
    pub of: usize,
}

/// The attachment of a function, by which functions are equal: function number, and whether it shares a switch with a GPU.
type Place = (String, bool);

/// Groups of equal functions of adapters, by vendor, device and place.
type Adapters<'a> = BTreeMap<(u16, u16, Place), Vec<Function<'a>>>;

/// The members without what at least three quarters of all members and at least three have. Without exceptions, and without
/// such a majority, `None`. Members that answer `None` count only as members.
pub fn exceptions<T: Copy>(all: &[T], has: impl Fn(T) -> Option<bool>) -> Option<Exceptions<T>> {
    let answers: Vec<_> = all.iter().map(|one| (*one, has(*one))).collect();
    let with = answers.iter().filter(|(_, has)| *has == Some(true)).count();
    let without: Vec<T> = answers
        .iter()
        .filter(|(_, has)| *has == Some(false))
        .map(|(one, _)| *one)
        .collect();
    let is_majority = with >= FEWEST && with * 4 >= all.len() * 3;
    (is_majority && !without.is_empty()).then_some(Exceptions {
        without,
        with,
        of: all.len(),
    })
}

impl<T> Exceptions<T> {
    /// `7 of 8`.
    pub fn share(&self) -> String {
        format!("{} of {}", self.with, self.of)
    }
}

/// Places of PCI functions.
struct Places<'a> {
    /// The root ports above GPUs.
    above_gpus: BTreeSet<&'a str>,
    is_virtual_machine: bool,
}

impl<'a> Places<'a> {
    fn new(node: &'a Node, functions: &[Function<'a>]) -> Self {
        let gpus = functions
            .iter()
            .filter(|function| function.role == Role::Gpu && function.lent_to.is_none());
        Self {
            above_gpus: gpus
                .filter_map(|gpu| gpu.bridges().first())
                .map(String::as_str)
                .collect(),
            is_virtual_machine: node.is_virtual_machine(),
        }
    }

    fn of(&self, address: &str, bridges: &[String]) -> Place {
        // A hypervisor places functions as it likes.
        if self.is_virtual_machine {
            return (String::new(), false);
        }
        let number = address.rsplit_once('.').map_or("", |(_, number)| number);
        let near = bridges
            .first()
            .is_some_and(|root| self.above_gpus.contains(root.as_str()));
        (number.to_owned(), near)
    }
}

impl Node {
    /// The groups of equal ports with at least three members. Not compared: software devices, virtual functions and their
    /// representors, which a pod or virtual machine controls.
    pub fn peers(&self) -> Vec<Peers<'_>> {
        let functions = self.functions();
        let places = Places::new(self, &functions);
        let gpus = functions
            .iter()
            .filter(|function| function.role == Role::Gpu && function.lent_to.is_none())
            .count();
        let known = self.pci.functions.known();
        let mut groups: BTreeMap<_, Vec<Port<'_>>> = BTreeMap::new();
        for port in self.ports() {
            let hca = port.hca;
            let (Some(driver), Some(board)) = (hca.driver.known(), port.board()) else {
                continue;
            };
            if port.is_lent() || hca.is_software() {
                continue;
            }
            let address = hca.pci_address.known().map_or("", String::as_str);
            let bridges = known
                .and_then(|known| known.get(address))
                .map_or(&[][..], |pci| &pci.bridges);
            let place = places.of(address, bridges);
            groups
                .entry((driver, board, port.number, place))
                .or_default()
                .push(port);
        }
        groups
            .into_iter()
            .filter(|(_, ports)| ports.len() >= FEWEST)
            .map(|((.., (_, near)), ports)| Peers {
                serve_gpus: gpus > 0 && (near || ports.len() * 2 >= gpus),
                ports,
            })
            .collect()
    }

    /// The PCI addresses of the adapters that share PCIe switches with GPUs: the rails of a node that has other adapters, too.
    pub fn adapters_beside_gpus(&self) -> BTreeSet<&str> {
        let functions = self.functions();
        let places = Places::new(self, &functions);
        let near = functions.iter().filter(|function| {
            let (_, near) = places.of(function.address, function.bridges());
            near
        });
        near.map(|function| function.address).collect()
    }

    /// The groups of equal adapter functions: physical functions of one model that the host uses, with or without an RDMA
    /// device, attached alike. Only groups with at least three members.
    pub fn equal_adapters(&self) -> Vec<Vec<Function<'_>>> {
        self.adapters()
            .into_values()
            .filter(|group| group.len() >= FEWEST)
            .collect()
    }

    /// Physical functions of adapters that the host uses, by vendor, device and place.
    fn adapters(&self) -> Adapters<'_> {
        let functions = self.functions();
        let places = Places::new(self, &functions);
        let mut groups: BTreeMap<_, Vec<Function<'_>>> = BTreeMap::new();
        for function in functions {
            let is_adapter = matches!(function.role, Role::Rdma | Role::Capable) && !function.is_software;
            if !is_adapter || function.is_virtual() || function.lent_to.is_some() {
                continue;
            }
            let Some(pci) = function.pci else { continue };
            if let (Some(vendor), Some(device)) = (pci.vendor.known(), pci.device.known()) {
                let place = places.of(function.address, &pci.bridges);
                groups
                    .entry((*vendor, *device, place))
                    .or_default()
                    .push(function);
            }
        }
        groups
    }

    /// The adapter functions that serve the GPUs, by PCI address with their number from 0: the rails, in the order in which NCCL
    /// numbers NICs. Empty on a node without GPUs.
    ///
    /// Those that share PCIe switches with GPUs; without such, those of the model with the most cards, of which each port is a rail.
    /// A function that is gone keeps its number as long as the history of this boot or of the one before has it.
    pub fn rails(&self) -> BTreeMap<&str, usize> {
        let gpus = self.gpus().count();
        let adapters = self.adapters();
        let near: Vec<_> = adapters
            .iter()
            .filter(|((_, _, (_, near)), _)| *near)
            .map(|(_, group)| group)
            .collect();
        let serving = match near.as_slice() {
            _ if gpus == 0 => Vec::new(),
            [] => self.usual_model(&adapters, gpus),
            _ => near,
        };
        let mut addresses: BTreeSet<&str> =
            serving.iter().copied().flatten().map(|nic| nic.address).collect();
        let drivers: BTreeSet<&str> = serving
            .iter()
            .copied()
            .flatten()
            .filter_map(|nic| nic.driver)
            .collect();
        let known = self.pci.functions.known();
        let boots = self
            .history
            .iter()
            .flat_map(|history| history.boots.iter().rev().take(2));
        let gone = boots.flat_map(|boot| &boot.hcas).filter(|(address, seen)| {
            let driver = seen.driver.as_deref().unwrap_or_default();
            let is_there = known.is_none_or(|known| known.contains_key(*address));
            !seen.is_virtual && !is_there && drivers.contains(driver)
        });
        addresses.extend(gone.map(|(address, _)| address.as_str()));
        addresses.into_iter().zip(0..).collect()
    }

    /// The groups of the model with the most cards, if it has a function for every two GPUs. A second port that no card uses is left out.
    fn usual_model<'g, 'a>(&self, adapters: &'g Adapters<'a>, gpus: usize) -> Vec<&'g Vec<Function<'a>>> {
        let mut models: BTreeMap<_, Vec<&Vec<Function<'a>>>> = BTreeMap::new();
        for ((vendor, device, _), group) in adapters {
            models.entry((vendor, device)).or_default().push(group);
        }
        let number = |groups: &[&Vec<Function<'a>>]| groups.iter().map(|group| group.len()).sum::<usize>();
        let cards = |groups: &[&Vec<Function<'a>>]| {
            let functions = groups.iter().copied().flatten();
            let cards: BTreeSet<_> = functions.map(|one| card(one.address)).collect();
            cards.len()
        };
        let most = models
            .into_values()
            .max_by_key(|groups| (cards(groups), number(groups)));
        let mut groups = most
            .filter(|groups| number(groups) * 2 >= gpus)
            .unwrap_or_default();
        let active: BTreeSet<&str> = self
            .active_ports()
            .filter_map(|port| port.hca.pci_address.known().map(String::as_str))
            .collect();
        let is_unused = |group: &[Function<'a>]| {
            group
                .iter()
                .all(|one| one.role == Role::Rdma && !active.contains(one.address))
        };
        if !groups.iter().all(|group| is_unused(group)) {
            groups.retain(|group| !is_unused(group));
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(answers: &[Option<bool>]) -> Option<(usize, String)> {
        let all: Vec<_> = (0..answers.len()).collect();
        exceptions(&all, |n| answers[n]).map(|found| (found.without.len(), found.share()))
    }

    #[test]
    fn three_quarters_show_what_is_usual() {
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(of(&[yes, yes, yes, no]), Some((1, "3 of 4".into())));
        assert_eq!(of(&[yes, yes, no]), None, "two of three");
        assert_eq!(of(&[yes, yes, yes, yes]), None, "no exception");
        assert_eq!(of(&[yes, yes, yes, no, no]), None, "three of five");
        assert_eq!(
            of(&[yes, yes, yes, None]),
            None,
            "what is not known does not count"
        );
    }
}
