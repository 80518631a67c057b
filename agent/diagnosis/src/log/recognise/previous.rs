//! The lines before a line, of which it may be the end: a message that a program, a terminal or a person wrapped.

use std::{collections::VecDeque, sync::LazyLock};

use crate::{
    log::{
        families,
        grade::level,
        operation::operation,
        phrases::Phrases,
        wrapped::{self, said},
    },
    symptom::SymptomKind,
};

/// How many lines are kept.
const KEPT: usize = 4;
/// The most bytes of a line that may be a part of a wrapped message.
const LONGEST: usize = 200;

static SENTENCES: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(wrapped::WHOLE.iter().copied()));

/// The last lines, the newest one last.
#[derive(Debug, Default)]
pub(super) struct Previous {
    lines: VecDeque<String>,
}

impl Previous {
    /// Adds a line. A blank one, or one that is too long, ends what was before.
    pub(super) fn add(&mut self, text: &str) {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed.len() > LONGEST {
            self.lines.clear();
            return;
        }
        // The oldest one gives its memory to the new one.
        let oldest = if self.lines.len() < KEPT {
            None
        } else {
            self.lines.pop_front()
        };
        let mut line = oldest.unwrap_or_default();
        line.clear();
        line.push_str(trimmed);
        self.lines.push_back(line);
    }

    /// A sentence of a help text that is known and ends in this line; `None` if it is in one of the lines alone.
    pub(super) fn sentence(&self, text: &str) -> Option<String> {
        let last = self.lines.back().filter(|line| SENTENCES.occur(line))?;
        let joined = format!("{last} {}", text.trim());
        let is_known = |text: &str| said(&text.to_ascii_lowercase()).is_some();
        (is_known(&joined) && !is_known(last) && !is_known(text)).then_some(joined)
    }

    /// A check that failed, whose status is in this line: `wc[i].status == IBV_WC_SUCCESS Failed status`, then `local protection error 4 …`. Or a
    /// call, whose result is in this line: `fi_scalable_ep(…, nullptr)`, then ` fails with ret: -12, strerror: …`.
    pub(super) fn checked(&self, text: &str) -> Option<String> {
        let last = self.lines.back()?;
        let is_result = || {
            let text = text.trim_start();
            ["fails with ", "failed with "]
                .iter()
                .any(|words| text.starts_with(words))
        };
        if let Some(whole) = folded(last, text).or_else(|| tool_crashed(last, text)) {
            return Some(whole);
        }
        let is_one = last.ends_with("Failed status") && last.contains("IBV_WC_SUCCESS")
            || last.ends_with(')') && is_result() && operation(&last.to_ascii_lowercase()).is_some();
        is_one.then(|| format!("{last} {}", text.trim()))
    }

    /// The message that a line continues, with what it shows: a line that begins in small letters, and that no other reading knows.
    pub(super) fn completed(&self, text: &str) -> Option<(String, SymptomKind)> {
        let trimmed = text.trim();
        let continues = trimmed.starts_with(|c: char| c.is_ascii_lowercase()) && level(trimmed).is_none();
        if !continues || trimmed.len() > LONGEST {
            return None;
        }
        let mut before = String::new();
        for line in self.lines.iter().rev() {
            before = if before.is_empty() {
                line.clone()
            } else {
                format!("{line} {before}")
            };
            let lower = before.to_ascii_lowercase();
            if families::find(&lower).is_some() {
                return None;
            }
            let whole = format!("{before} {trimmed}");
            if let Some((kind, _)) = families::find(&whole.to_ascii_lowercase()) {
                return Some((whole, kind));
            }
        }
        None
    }
}

/// A message about resources that YAML folded before the name of one: `0/3 nodes are available: 3 Insufficient`, then `mellanox.com/mlnx_rdma. preemption: …`.
fn folded(last: &str, text: &str) -> Option<String> {
    const ENDS: [&str; 4] = ["insufficient", "unavailable for", "exceeded quota:", "requested:"];
    let lower = last.to_ascii_lowercase();
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_one = ENDS.iter().any(|end| lower.ends_with(end)) && first.contains('/');
    is_one.then(|| format!("{last} {}", text.trim()))
}

/// A tool for the firmware that crashed, by its command: `# mstlink -d lid-0x1e5 -m`, then `Segmentation fault (core dumped)`.
fn tool_crashed(last: &str, text: &str) -> Option<String> {
    const TOOLS: [&str; 9] = [
        "mstlink",
        "mlxlink",
        "flint",
        "mstflint",
        "mlxconfig",
        "mstconfig",
        "mlxfwmanager",
        "mstfwmanager",
        "mlxup",
    ];
    let is_crash = text.trim_start().starts_with("Segmentation fault");
    let is_tool = |word: &str| word.rsplit('/').next().is_some_and(|name| TOOLS.contains(&name));
    (is_crash && last.split_whitespace().take(6).any(is_tool))
        .then(|| format!("{last}: the tool crashed, Segmentation fault"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_wrapped_message_completes_it() {
        let mut previous = Previous::default();
        for line in [
            "Warning  FailedPrepareDynamicResources  kubelet",
            "Failed to prepare dynamic resources: prepare dynamic resources:",
            "NodePrepareResources failed for ResourceClaim rails:",
        ] {
            previous.add(line);
        }
        let end = "interface configuration is not supported for RDMA-only devices";
        let found = previous.completed(end).map(|(_, kind)| kind);
        assert_eq!(found, Some(SymptomKind::NetworkAttachFailed));
        previous.add("");
        assert_eq!(previous.completed(end), None);
        previous.add("fragment.  The OpenFabrics (openib) BTL will therefore be");
        assert!(previous.sentence("deactivated for this run.").is_some());
        assert_eq!(previous.sentence("used"), None);
    }
}
