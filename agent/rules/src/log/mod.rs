//! Reads what a job wrote - NCCL, UCX, `PyTorch`, perftest, the kernel - and finds the lines that tell of RDMA errors.
//!
//! Pure parsing: the caller hands over bytes in pieces of any size. Nothing is trusted: any encoding, binary junk, escape
//! sequences and lines without end cost bounded memory and are never fatal.

mod line;
mod names;
mod recognise;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::diagnosis::symptom::Symptom;
pub(crate) use recognise::connect;
use recognise::{Found, Recogniser};

/// The most of one line that is looked at, in bytes; the rest of it is skipped.
pub const MAX_LINE: usize = 16 << 10;
/// The most different symptoms that are kept.
pub const MAX_SYMPTOMS: usize = 64;
/// The most characters of a line that are kept.
pub const MAX_TEXT: usize = 300;
/// The most machines that are kept by name, and the most settings.
const MAX_NAMES: usize = 16;

/// What a log tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Log {
    /// How many lines it has.
    pub lines: u64,
    /// After how many bytes whoever read it stopped, where it went on.
    pub cut_after: Option<u64>,
    /// What went wrong, in order of first appearance, each kind once per device.
    pub symptoms: Vec<Symptom>,
    /// How many lines told of further symptoms that were not kept.
    pub dropped: u64,
    /// Settings of the job that the log names (`NCCL_IB_HCA`), as the last line has them.
    pub settings: BTreeMap<String, String>,
    /// The machines that wrote it, where lines say so; the first few.
    pub hosts: BTreeSet<String>,
}

/// Reads a log piece by piece.
#[derive(Debug, Default)]
pub struct LogReader {
    log: Log,
    /// The line begun, at most [`MAX_LINE`] bytes of it.
    begun: Vec<u8>,
    /// Whether the piece before ended inside a line.
    inside: bool,
    recogniser: Recogniser,
}

impl LogReader {
    /// Takes the next piece.
    pub fn feed(&mut self, mut piece: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, rest) = piece.split_at(end);
            if self.begun.is_empty() {
                self.line(&line[..line.len().min(MAX_LINE)]);
            } else {
                self.begin(line);
                let line = std::mem::take(&mut self.begun);
                self.line(&line);
                // The allocation stays for the next line.
                self.begun = line;
                self.begun.clear();
            }
            self.inside = false;
            piece = &rest[1..];
        }
        self.begin(piece);
        self.inside |= !piece.is_empty();
    }

    /// Ends the log.
    pub fn finish(mut self) -> Log {
        if self.inside {
            let line = std::mem::take(&mut self.begun);
            self.line(&line);
        }
        self.log
    }

    fn begin(&mut self, part: &[u8]) {
        let room = MAX_LINE - self.begun.len().min(MAX_LINE);
        self.begun.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn line(&mut self, bytes: &[u8]) {
        self.log.lines += 1;
        let bytes = line::plain(bytes);
        let Some(found) = self.recogniser.recognise(&bytes, self.log.lines) else {
            return;
        };
        match found {
            Found::Setting(name, value) => {
                if self.log.settings.len() < MAX_NAMES || self.log.settings.contains_key(&name) {
                    self.log.settings.insert(name, value);
                }
            }
            Found::Symptom(symptom) => self.add(*symptom),
        }
    }

    fn add(&mut self, symptom: Symptom) {
        for host in &symptom.hosts {
            if self.log.hosts.len() < MAX_NAMES {
                self.log.hosts.insert(host.clone());
            }
        }
        let symptoms = &mut self.log.symptoms;
        let same = |known: &Symptom| known.kind == symptom.kind && known.named.device == symptom.named.device;
        if let Some(known) = symptoms.iter().position(same).and_then(|at| symptoms.get_mut(at)) {
            known.count += 1;
            for host in symptom.hosts {
                if known.hosts.len() < MAX_NAMES && !known.hosts.contains(&host) {
                    known.hosts.push(host);
                }
            }
            // A later line may name what the first did not.
            known.named.complete(symptom.named);
        } else if symptoms.len() < MAX_SYMPTOMS {
            symptoms.push(symptom);
        } else {
            self.log.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests;
