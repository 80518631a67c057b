//! Adapters that were taken away on purpose: their driver was unloaded, or the driver of the board took them off the bus.
//!
//! The link of an adapter goes down when its driver ends; no cable is at fault then.

use rdma_health_kernel_log::is_address;

use super::{Log, line::Lower, recognise::failure};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// Maximum number of functions that are kept.
const MOST: usize = 64;

/// What such lines have, in lower case.
pub(super) const ANCHORS: &[&str] = &["e-switch: cleanup", "-hotplug ", "from iommu group"];

/// What the lines so far show.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// The functions that their driver or the bus let go, with the first line that says it.
    functions: Vec<(String, u64, String)>,
    /// The driver of the board took the adapters off the bus, and did not put them there again.
    by_board: Option<(u64, String)>,
}

impl Removals {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &Lower<'_>, number: u64) {
        let lower = line.lower.as_str();
        if lower.contains("-hotplug ") {
            if lower.contains(": cable removal") {
                self.by_board = Some((number, line.text.to_owned()));
            } else if lower.contains(": cable plug") {
                self.by_board = None;
            }
            return;
        }
        let is_end = lower.contains("e-switch: cleanup") || lower.contains("removing from iommu group");
        let mut words = lower.split([' ', '\t']).map(|word| word.trim_end_matches(':'));
        let Some(function) = words.find(|word| is_address(word)).filter(|_| is_end) else {
            return;
        };
        if self.functions.len() < MOST && !self.functions.iter().any(|(known, ..)| known == function) {
            let text = line.text.trim().to_owned();
            self.functions.push((function.to_owned(), number, text));
        }
    }

    /// Changes the symptoms of what was taken away.
    pub(super) fn settle(&self, log: &mut Log) {
        // A driver that fails, or an adapter that falls off the bus, ends in the same words.
        let has_failed = |symptom: &Symptom| {
            symptom.software == Some(Software::Kernel)
                && symptom.grade > Grade::Note
                && symptom.kind != K::PortError
        };
        let failed = log.symptoms.iter().any(has_failed);
        for symptom in log.symptoms.iter_mut().filter(|_| !failed) {
            let is_of_link = symptom.kind == K::PortError && symptom.software == Some(Software::Kernel);
            let Some(function) = symptom.named.function.as_deref().filter(|_| is_of_link) else {
                continue;
            };
            let mut ends = self.functions.iter();
            let end = ends.find(|(ended, line, _)| ended == function && Some(*line) > symptom.line);
            if let Some((_, line, text)) = end {
                symptom.kind = K::DeviceGone;
                symptom.grade = Grade::Note;
                symptom.line = Some(*line);
                symptom.source = format!("log line {line}");
                symptom.text.clone_from(text);
            }
        }
        if let Some((line, text)) = &self.by_board {
            let mut found = failure(&Lower::of(text), K::DeviceGone, *line);
            found.grade = Grade::Degraded;
            found.software = Some(Software::Kernel);
            log.symptoms.push(found);
        }
    }
}
