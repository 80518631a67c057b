//! What an agent answers. It is not trusted: lists are bounded, and words that are not known are kept as text to escape.

use rdma_health_node::words::excerpt;
use serde::{Deserialize, Serialize};

/// Maximum size of the answers in bytes.
pub(super) const MAX_VERDICT: usize = 256 << 10;
pub(super) const MAX_INVENTORY: usize = 64 << 10;
pub(super) const MAX_REPORT: usize = 32 << 20;
pub(super) const MAX_SNAPSHOT: usize = 64 << 20;
/// Maximum number of problems and of facts that are shown of one node, and maximum length of a text.
const MANY: usize = 64;
const LONG: usize = 300;

/// `/api/v1/verdict`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct VerdictAnswer {
    pub(super) status: Status,
    #[serde(default)]
    pub(super) unknown_because: Option<String>,
    #[serde(default)]
    pub(super) problems: Vec<Problem>,
}

/// The status of a node. One that is not known counts as unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all(serialize = "lowercase"), from = "String")]
pub(super) enum Status {
    Ok,
    Warning,
    Unknown,
    Critical,
}

impl From<String> for Status {
    fn from(name: String) -> Self {
        let known = Self::ALL.into_iter().find(|status| status.name() == name);
        known.unwrap_or(Self::Unknown)
    }
}

impl Status {
    pub(super) const ALL: [Self; 4] = [Self::Ok, Self::Warning, Self::Critical, Self::Unknown];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
            Self::Critical => "critical",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Problem {
    pub(super) cause: String,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) severity: String,
    #[serde(default)]
    pub(super) device: Option<String>,
    #[serde(default)]
    pub(super) since: Option<Since>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Since {
    /// Seconds since 1970.
    pub(super) time: u64,
    #[serde(default)]
    pub(super) exact: bool,
}

/// `/api/v1/inventory`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct InventoryAnswer {
    pub(super) inventory: std::collections::BTreeMap<String, String>,
}

impl VerdictAnswer {
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let mut answer: Self = parse(body)?;
        answer.problems.truncate(MANY);
        for problem in &mut answer.problems {
            for text in [&mut problem.cause, &mut problem.title, &mut problem.severity] {
                bound(text);
            }
            problem.device.iter_mut().for_each(bound);
        }
        answer.unknown_because.iter_mut().for_each(bound);
        Ok(answer)
    }

    /// Since when the node has had one of its problems.
    pub(super) fn since(&self) -> Option<u64> {
        self.problems
            .iter()
            .filter_map(|problem| problem.since)
            .map(|since| since.time)
            .min()
    }
}

impl InventoryAnswer {
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let mut answer: Self = parse(body)?;
        while answer.inventory.len() > MANY {
            answer.inventory.pop_last();
        }
        answer.inventory.values_mut().for_each(bound);
        Ok(answer)
    }
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body)
        .map_err(|_| "the answer is not the expected JSON; is the agent of another version?".into())
}

fn bound(text: &mut String) {
    if text.len() > LONG {
        *text = excerpt(text, LONG);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_answer_is_bounded() {
        let long = "x".repeat(10_000);
        let problem = format!(r#"{{"cause":"{long}","since":{{"time":1}}}}"#);
        let many = vec![problem; 500].join(",");
        let answer = format!(r#"{{"status":"better than ok","problems":[{many}]}}"#);
        let answer = VerdictAnswer::parse(answer.as_bytes()).unwrap();
        assert_eq!(answer.status, Status::Unknown);
        assert_eq!(answer.problems.len(), MANY);
        assert!(answer.problems[0].cause.len() < 2 * LONG);
        for wrong in [
            "",
            "[]",
            "{}",
            "{\"status\":1}",
            "{\"inventory\":{\"a\":1}}",
            "\u{0}",
        ] {
            assert!(VerdictAnswer::parse(wrong.as_bytes()).is_err(), "{wrong}");
            assert!(InventoryAnswer::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
