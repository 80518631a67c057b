//! Collects what the lines show: the symptoms, each kind once per device, the facts about the job, and what recovered.

use super::{
    Fact, Grade, LogReader, MAX_NAMES, MAX_SYMPTOMS, MAX_UNRECOGNISED, Symptom, SymptomKind, cluster, errors,
    gpu, line::Lower, operator, owners,
};
use crate::symptom::Software;

/// What libibverbs says of a device of the kernel that no library serves.
const UNSERVED: &str = "no userspace device-specific driver found";

/// How often a link goes down that is not in order.
const FLAPS: u64 = 4;
/// The number of ports whose links are counted each for itself.
const MAX_PORTS: usize = 16;

impl LogReader {
    /// The link of a device that was reported down is up again, or its address range was assigned in a second attempt.
    pub(super) fn recover(&mut self, device: &rdma_health_kernel_log::Device) {
        let name = device.to_string();
        for symptom in &mut self.log.symptoms {
            let is_its = symptom.named.function.as_ref() == Some(&name)
                || symptom.named.device.as_ref() == Some(&name);
            // A link that goes down again and again is not in order while it is up.
            let is_down = symptom.kind == SymptomKind::PortError
                && symptom.grade == Grade::Degraded
                && symptom.count < FLAPS;
            let can_recover =
                is_down || symptom.kind == SymptomKind::PciRoom || gpu::can_recover(symptom.kind);
            if can_recover && is_its {
                symptom.grade = Grade::Note;
            }
        }
    }

    /// A connection that was lost once is there again. One that is lost again and again is not.
    pub(super) fn reconnect(&mut self, name: &str) {
        for symptom in &mut self.log.symptoms {
            let is_lost = matches!(
                symptom.kind,
                SymptomKind::PeerClosed | SymptomKind::PeerUnreachable
            ) && symptom.count == 1;
            // The client of SMB tries the port of iWARP first, where servers with other adapters do not listen.
            let is_attempt = matches!(
                symptom.kind,
                SymptomKind::CmFailed
                    | SymptomKind::ConnectRefused
                    | SymptomKind::NoListener
                    | SymptomKind::ConnectTimedOut
                    | SymptomKind::PeerUnreachable
            ) && (name == super::connection::OF_SMB
                || super::connection::is_of_attempts(name));
            if (is_lost || is_attempt) && names(&symptom.text.to_ascii_lowercase(), name) {
                symptom.grade = Grade::Note;
            }
        }
    }

    pub(super) fn learn(&mut self, fact: Fact) {
        let log = &mut self.log;
        match fact {
            Fact::Setting(name, value) => {
                if log.settings.len() < MAX_NAMES || log.settings.contains_key(name) {
                    log.settings.insert(name.to_owned(), value);
                }
            }
            Fact::Nodes(nodes) => log.nodes = log.nodes.max(Some(nodes)),
            Fact::LocalChannel => self.channels.0 = true,
            Fact::NetworkChannel => self.channels.1 = true,
            Fact::Nccl(version) => log.nccl = Some(version),
            Fact::ActivePort => self.recogniser.successes().active_port = true,
            Fact::GidIndex(index) => log.gid_index = Some((log.lines, index)),
        }
    }

    pub(super) fn add(&mut self, symptom: Symptom) {
        for host in &symptom.hosts {
            if self.log.hosts.len() < MAX_NAMES {
                self.log.hosts.insert(host.clone());
            }
        }
        if symptom.kind == SymptomKind::SocketFallback && symptom.text.contains("via NET/Socket") {
            self.channels.1 = true;
        }
        let symptoms = &mut self.log.symptoms;
        let unrecognised = symptoms
            .iter()
            .filter(|known| known.kind == SymptomKind::Unrecognised)
            .count();
        let of_functions = symptoms
            .iter()
            .filter(|known| owners::is_of_function(known.kind))
            .count();
        let ports = symptoms.iter().filter(|known| is_link(known)).count();
        let same = |known: &Symptom| {
            known.kind == symptom.kind
                && if symptom.kind == SymptomKind::Unrecognised {
                    unrecognised >= MAX_UNRECOGNISED || known.text == symptom.text
                } else {
                    known.named.device == symptom.named.device
                        && (ports >= MAX_PORTS || !is_other_port(known, &symptom))
                        && (!owners::is_of_function(symptom.kind)
                            || owners::is_of_port(known) == owners::is_of_port(&symptom)
                                && self.owners.are_counted_together(known, &symptom, of_functions))
                }
        };
        if let Some(known) = symptoms.iter().position(same).and_then(|at| symptoms.get_mut(at)) {
            known.count += 1;
            // After address ranges that a function works without, one that it needs.
            let is_graver = known.kind == SymptomKind::PciRoom && symptom.grade > known.grade;
            if is_graver {
                known.grade = symptom.grade;
            }
            // A library that does not load may serve an adapter that is not there; this line names one that is.
            let names_device = known.kind == SymptomKind::NoProvider
                && symptom.text.contains(UNSERVED)
                && !known.text.contains(UNSERVED);
            if names_device {
                known.grade = known.grade.max(symptom.grade);
            }
            // The second line of a failure has the reason: `cxil_map: write error`, then the error of `fi_mr_regattr`.
            let explains = matches!(
                symptom.kind,
                SymptomKind::RegMrFailed | SymptomKind::RegMrNoMemory
            ) && !has_error(known)
                && has_error(&symptom);
            if explains {
                known.software = symptom.software.or(known.software);
            }
            if is_graver
                || names_device
                || explains
                || !operator::has_reason(known) && operator::has_reason(&symptom)
            {
                known.text = symptom.text;
                known.source = symptom.source;
                known.line = symptom.line;
            }
            // What was lost and came back is lost again, and one pod of several uses RDMA.
            let is_again = matches!(
                known.kind,
                SymptomKind::PeerClosed | SymptomKind::PeerUnreachable | SymptomKind::PeerMemoryError
            );
            let is_again = is_again || is_link(known) || gpu::can_recover(known.kind);
            if is_again || cluster::is_of_any_pod(known.kind, &known.text) {
                known.grade = known.grade.max(symptom.grade);
            }
            for host in symptom.hosts {
                if known.hosts.len() < MAX_NAMES && !known.hosts.contains(&host) {
                    known.hosts.push(host);
                }
            }
            // A later line may name what the first did not.
            known.software = known.software.or(symptom.software);
            known.named.complete(symptom.named);
        } else if symptoms.len() < MAX_SYMPTOMS {
            symptoms.push(symptom);
        } else {
            self.log.dropped += 1;
        }
    }
}

/// Whether the text of a symptom itself has the error number, and not only a line next to it.
fn has_error(symptom: &Symptom) -> bool {
    errors::errno(&Lower::of(&symptom.text)).is_some()
}

/// Whether the kernel reports a link that went down.
fn is_link(symptom: &Symptom) -> bool {
    symptom.kind == SymptomKind::PortError && symptom.software == Some(Software::Kernel)
}

/// Whether two such reports are of the ports of different functions.
fn is_other_port(one: &Symptom, other: &Symptom) -> bool {
    is_link(one) && is_link(other) && one.named.function != other.named.function
}

/// Whether a text has a name that is not the beginning of another one.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_ascii_digit()))
}
