//! The ports that a job can use, and why others are refused. This is the one place that decides it: `env`, `run` and `wait` show the
//! same answer.

mod named;
mod near;
mod usable;

use rdma_health_node::{Node, Port, access::Access, infiniband::Hca, words::numbered};
use rdma_health_protocol::Gid;

pub use crate::given::Prospect;
use crate::given::{Effect, Given, Grant};
use named::Named;
use near::far_from_gpus;
use usable::{Openable, usable};

/// What a problem with a source is about.
pub(crate) const SOURCES: &str = "what this pod was given";
const NO_IS_RDMA: &str = "its resource has no isRdma in the device plugin's configuration";

/// The ports that a job can use.
#[derive(Debug)]
pub struct Rails<'a> {
    /// How the devices are known.
    pub origin: Origin,
    /// Usable ports, in order of the PCI address of their physical function, then of device and port.
    pub rails: Vec<Rail<'a>>,
    /// Usable EFA devices, which libfabric uses and `NCCL_IB_HCA` does not name.
    pub efa: Vec<&'a Hca>,
    /// Devices and ports that were given or found but cannot be used.
    pub refused: Vec<Refused>,
    /// Sources that are still to be written, if no other names a device.
    pub not_written: Vec<Refused>,
    /// Active ports that this container can open and the job should not use.
    pub others: Vec<Port<'a>>,
    /// What is odd, although no device is missing for it.
    pub notes: Vec<String>,
}

/// How the devices of a job are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An allocator gave them to the pod.
    Given,
    /// This container can open them: the plugin for shared RDMA devices, a privileged pod, or a host.
    Visible,
}

/// One usable port.
#[derive(Debug)]
pub struct Rail<'a> {
    /// The port.
    pub port: Port<'a>,
    /// The GID that a connection should use; `None` on InfiniBand.
    pub gid: Option<&'a Gid>,
    /// The GIDs of network devices in this network namespace.
    pub gids: Vec<Gid>,
    /// The number of its rail: that of its adapter on the node, the same on equal nodes; `None` if it cannot be known.
    pub number: Option<usize>,
    /// The variable or file that names it; empty for [`Origin::Visible`].
    pub source: String,
}

/// A device or port that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name, and the source of the name.
    pub what: String,
    /// The reason.
    pub why: String,
    /// Whether this can change.
    pub prospect: Prospect,
}

impl<'a> Rails<'a> {
    /// Finds the ports of the given devices; without given devices, those that this container can open.
    ///
    /// If devices were given but none of them could be understood, there is none: the visible devices can belong to others. A device that is
    /// not for RDMA does not count as given.
    pub fn find(node: &'a Node, access: &Access, given: &Given) -> Self {
        let mut rails = Self {
            origin: Origin::Given,
            rails: Vec::new(),
            efa: Vec::new(),
            refused: Vec::new(),
            not_written: Vec::new(),
            others: Vec::new(),
            notes: Vec::new(),
        };
        let mut devices = rails.given(node, access, &given.grants);
        let needs = |refused: &Refused| refused.prospect != Prospect::NotNeeded;
        let is_given = !devices.is_empty() || rails.refused.iter().any(needs);
        if !is_given && !given.is_incomplete() {
            rails.origin = Origin::Visible;
            // Next to a function for other traffic, only what is known to be openable: the others can belong to other pods.
            let needs_proof = !rails.refused.is_empty();
            devices = rails.visible(node, access, needs_proof);
        }
        for (hca, grant) in devices {
            rails.take(node, access, hca, grant);
        }
        rails.problems(given, is_given);
        for (port, why) in usable::agree_on_family(&mut rails.rails) {
            rails.refuse(port.to_string(), why, Prospect::Later);
        }
        rails.number(node);
        rails.others = rails.others(node, access);
        rails
    }

    /// Whether there is a port or device to use.
    pub fn is_empty(&self) -> bool {
        self.rails.is_empty() && self.efa.is_empty()
    }

    /// Number of ports and devices to use.
    pub fn count(&self) -> usize {
        self.rails.len() + self.efa.len()
    }

    /// The devices that were given, if they are for RDMA.
    fn given<'g>(
        &mut self,
        node: &'a Node,
        access: &Access,
        grants: &'g [Grant],
    ) -> Vec<(&'a Hca, Option<&'g Grant>)> {
        let mut found: Vec<(&Hca, Option<&Grant>)> = Vec::new();
        for grant in grants {
            let label = format!("{} ({})", named::name(grant), grant.source);
            let hcas = match named::find(node, access, grant) {
                Named::OtherKind => continue,
                Named::Nothing(why, prospect) => {
                    self.refuse(label, why, prospect);
                    continue;
                }
                Named::Devices(hcas, odd) => {
                    self.notes.extend(odd);
                    hcas
                }
            };
            for hca in hcas {
                if found.iter().any(|(known, _)| known.name == hca.name) {
                    continue;
                }
                match Openable::of(access, hca) {
                    Openable::NoVerbs => {
                        let (why, prospect) = usable::without_verbs(node, access, hca, true);
                        if prospect == Prospect::NotNeeded {
                            self.refuse(hca.name.clone(), why, prospect);
                        } else {
                            found.push((hca, Some(grant)));
                        }
                    }
                    Openable::NoNode(why) if grant.for_rdma == Some(false) => {
                        self.refuse(
                            hca.name.clone(),
                            format!("{why}: {NO_IS_RDMA}"),
                            Prospect::NotNeeded,
                        );
                    }
                    _ => found.push((hca, Some(grant))),
                }
            }
        }
        found
    }

    /// Every device; on a node with GPUs only the NICs near them, so that NICs for storage and management stay out.
    fn visible<'g>(
        &mut self,
        node: &'a Node,
        access: &Access,
        needs_proof: bool,
    ) -> Vec<(&'a Hca, Option<&'g Grant>)> {
        let topology = node.topology();
        let mut found = Vec::new();
        for hca in node.hcas() {
            if let Some(why) = far_from_gpus(node, &topology, hca) {
                self.refuse(hca.name.clone(), why.to_owned(), Prospect::NotNeeded);
            } else if needs_proof && Openable::of(access, hca) == Openable::Unknown {
                let why = "it is not known whether this container can open it";
                self.refuse(hca.name.clone(), why.to_owned(), Prospect::NotNeeded);
            } else {
                found.push((&**hca, None));
            }
        }
        found
    }

    /// Adds the usable ports of a device.
    fn take(&mut self, node: &'a Node, access: &Access, hca: &'a Hca, grant: Option<&Grant>) {
        // Every library would read another name.
        if hca
            .name
            .contains(|c: char| matches!(c, ',' | ':') || c.is_whitespace() || c.is_control())
        {
            let why = "its name has a character that separates names in the variables of the libraries: rename it (rdma dev set)";
            return self.refuse(hca.name.clone(), why.into(), Prospect::Later);
        }
        match Openable::of(access, hca) {
            Openable::Yes | Openable::Unknown => {}
            Openable::NoVerbs => {
                let (why, prospect) = usable::without_verbs(node, access, hca, grant.is_some());
                return self.refuse(hca.name.clone(), why, prospect);
            }
            Openable::Closed(why) => return self.refuse(hca.name.clone(), why, Prospect::Never),
            Openable::NoNode(why) => {
                let (more, prospect) = match grant.map(|grant| grant.for_rdma) {
                    None => ("the device was not given to it", Prospect::NotNeeded),
                    Some(Some(true)) => (
                        "the pod was given the device, but not its device node",
                        Prospect::Later,
                    ),
                    Some(_) => (
                        "the pod was given the function, but not its device node; check that its resource has isRdma in the device \
                         plugin's configuration",
                        Prospect::Later,
                    ),
                };
                return self.refuse(hca.name.clone(), format!("{why}: {more}"), prospect);
            }
        }
        if is_efa(hca) {
            return self.efa.push(hca);
        }
        for port in node.ports_of(hca) {
            match usable(&port, access) {
                Ok((gid, gids)) => self.rails.push(Rail {
                    port,
                    gid,
                    gids,
                    number: None,
                    source: grant.map_or_else(String::new, |grant| grant.source.clone()),
                }),
                Err((why, prospect)) => self.refuse(port.to_string(), why, prospect),
            }
        }
    }

    /// What follows from problems with the sources.
    fn problems(&mut self, given: &Given, is_given: bool) {
        for problem in &given.problems {
            let text = problem.text.clone();
            match problem.effect {
                Effect::Nothing => self.notes.push(text),
                Effect::Incomplete(prospect) => self.refuse(SOURCES.into(), text, prospect),
                Effect::NotWritten if is_given || given.is_incomplete() => self.notes.push(text),
                Effect::NotWritten => {
                    self.notes.push(format!(
                        "{text}; the devices that this container can open are used"
                    ));
                    self.not_written.push(Refused {
                        what: SOURCES.into(),
                        why: text,
                        prospect: Prospect::Later,
                    });
                }
            }
        }
    }

    fn number(&mut self, node: &Node) {
        let numbers = node.adapter_numbers();
        for rail in &mut self.rails {
            rail.number = numbers.get(rail.port.hca.adapter()).copied().flatten();
        }
        let order = |rail: &Rail<'a>| {
            (
                rail.port.hca.adapter(),
                numbered(&rail.port.hca.name),
                rail.port.number,
            )
        };
        self.rails.sort_by(|a, b| order(a).cmp(&order(b)));
    }

    fn others(&self, node: &'a Node, access: &Access) -> Vec<Port<'a>> {
        let is_rail = |port: &Port<'_>| self.rails.iter().any(|rail| rail.port.is(port));
        let can_open =
            |port: &Port<'_>| matches!(Openable::of(access, port.hca), Openable::Yes | Openable::Unknown);
        node.active_ports()
            .filter(|port| !port.is_iwarp() && !is_efa(port.hca))
            .filter(|port| can_open(port) && !is_rail(port))
            .collect()
    }

    fn refuse(&mut self, what: String, why: String, prospect: Prospect) {
        self.refused.push(Refused { what, why, prospect });
    }
}

/// Whether libfabric uses it, and not NCCL itself.
fn is_efa(hca: &Hca) -> bool {
    hca.driver.known().is_some_and(|driver| driver == "efa")
}

#[cfg(test)]
#[path = "rails_tests.rs"]
mod tests;
