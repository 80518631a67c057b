//! What an agent answers. It is not trusted: lists are bounded, and words that are not known are kept as text to escape.

use rdma_health_node::words::{duration, excerpt, printable};
use rdma_health_report::SCHEMA;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Maximum size of the answers in bytes.
pub(super) const MAX_VERDICT: usize = 256 << 10;
pub(super) const MAX_INVENTORY: usize = 64 << 10;
pub(super) const MAX_REPORT: usize = 32 << 20;
pub(super) const MAX_SNAPSHOT: usize = 64 << 20;
/// Maximum number of problems and of facts that are shown of one node.
const MANY: usize = 64;
/// Maximum length of a text, and of one that is a cell of a table, in bytes.
const LONG: usize = 300;
const CELL: usize = 120;

/// After this many seconds a reading says nothing about the node any more: an agent reads every few seconds.
const OLD: u64 = 15 * 60;

/// `/api/v1/verdict`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct VerdictAnswer {
    time: u64,
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

impl Since {
    /// How long ago it was: `2 h or longer`.
    pub(super) fn ago(self, now: u64) -> String {
        let or_longer = if self.exact { "" } else { " or longer" };
        format!("{}{or_longer}", duration(now.saturating_sub(self.time)))
    }
}

/// `/api/v1/inventory`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct InventoryAnswer {
    pub(super) inventory: std::collections::BTreeMap<String, String>,
}

impl VerdictAnswer {
    pub(super) fn parse(body: &[u8], node: &str) -> Result<Self, String> {
        let mut answer: Self = parse(body, node)?;
        answer.problems.truncate(MANY);
        for problem in &mut answer.problems {
            let names = [&mut problem.cause, &mut problem.title, &mut problem.severity];
            for text in names.into_iter().chain(problem.device.as_mut()) {
                bound(text, CELL);
            }
        }
        answer.unknown_because.iter_mut().for_each(|why| bound(why, LONG));
        if let Some(why) = old(answer.time, rdma_health_time::now()) {
            answer.status = Status::Unknown;
            answer.unknown_because = Some(why);
        }
        if answer.status == Status::Unknown && answer.unknown_because.is_none() {
            answer.unknown_because = Some("the agent gives no status that this program knows".into());
        }
        Ok(answer)
    }

    /// Since when the node has had one of its problems.
    pub(super) fn since(&self) -> Option<Since> {
        let since = self.problems.iter().filter_map(|problem| problem.since);
        since.min_by_key(|since| since.time)
    }
}

impl InventoryAnswer {
    pub(super) fn parse(body: &[u8], node: &str) -> Result<Self, String> {
        let mut answer: Self = parse(body, node)?;
        while answer.inventory.len() > MANY {
            answer.inventory.pop_last();
        }
        answer.inventory.values_mut().for_each(|fact| bound(fact, LONG));
        Ok(answer)
    }
}

/// Why a reading of this time does not count.
pub(super) fn old(time: u64, now: u64) -> Option<String> {
    let (age, ahead) = (now.saturating_sub(time), time.saturating_sub(now));
    if ahead > OLD {
        return Some(format!(
            "the clock of the node is {} ahead of this machine's",
            duration(ahead)
        ));
    }
    (age > OLD).then(|| format!("the agent's last reading is {} old", duration(age)))
}

/// An answer about a Node, of the schema that this program knows. The address of a pod that is gone may lead to the agent of another Node.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8], node: &str) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: u32,
        #[serde(default)]
        kubernetes_node: Option<String>,
    }
    let wrong = |_| "the answer is not the expected JSON; is the agent of another version?".to_owned();
    let Head {
        schema,
        kubernetes_node,
    } = serde_json::from_slice(body).map_err(wrong)?;
    if schema != SCHEMA {
        return Err(format!(
            "the answer has schema {schema}, and this program knows schema {SCHEMA}: use the program of the agent's version"
        ));
    }
    if let Some(other) = kubernetes_node.filter(|other| other != node) {
        return Err(format!(
            "the answer is that of the agent on {}: the address of the pod leads to another node",
            printable(&excerpt(&other, CELL))
        ));
    }
    serde_json::from_slice(body).map_err(wrong)
}

fn bound(text: &mut String, length: usize) {
    if text.len() > length {
        *text = excerpt(text, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_about_another_node_does_not_count() {
        let now = rdma_health_time::now();
        let of =
            |node: &str| format!(r#"{{"schema":1,"time":{now},"status":"ok","kubernetes_node":"{node}"}}"#);
        assert_eq!(
            VerdictAnswer::parse(of("a").as_bytes(), "a").unwrap().status,
            Status::Ok
        );
        let why = VerdictAnswer::parse(of("b").as_bytes(), "a").unwrap_err();
        assert!(why.contains("of the agent on b"), "{why}");
    }

    #[test]
    fn an_old_answer_and_one_of_another_schema_are_not_believed() {
        let old = br#"{"schema":1,"time":1700000000,"status":"ok"}"#;
        let old = VerdictAnswer::parse(old, "a").unwrap();
        assert_eq!(old.status, Status::Unknown);
        assert!(
            old.unknown_because
                .unwrap()
                .starts_with("the agent's last reading is ")
        );
        let ahead = br#"{"schema":1,"time":99999999999,"status":"ok"}"#;
        let ahead = VerdictAnswer::parse(ahead, "a").unwrap();
        assert_eq!(ahead.status, Status::Unknown);
        assert!(ahead.unknown_because.unwrap().contains("ahead of this machine's"));
        let other = VerdictAnswer::parse(br#"{"schema":2,"time":1700000000,"status":"ok"}"#, "a");
        assert!(other.unwrap_err().contains("schema 2"));
    }

    #[test]
    fn a_hostile_answer_is_bounded() {
        let long = "x".repeat(10_000);
        let problem = format!(r#"{{"cause":"{long}","since":{{"time":1}}}}"#);
        let many = vec![problem; 500].join(",");
        let now = rdma_health_time::now();
        let answer = format!(r#"{{"schema":1,"time":{now},"status":"better than ok","problems":[{many}]}}"#);
        let answer = VerdictAnswer::parse(answer.as_bytes(), "a").unwrap();
        assert_eq!(answer.status, Status::Unknown);
        let why = answer.unknown_because.unwrap();
        assert!(why.contains("no status that this program knows"), "{why}");
        assert_eq!(answer.problems.len(), MANY);
        assert!(answer.problems[0].cause.len() < 2 * CELL);
        for wrong in [
            "",
            "[]",
            "{}",
            "{\"status\":1}",
            "{\"schema\":1,\"inventory\":{\"a\":1}}",
            "\u{0}",
        ] {
            assert!(VerdictAnswer::parse(wrong.as_bytes(), "a").is_err(), "{wrong}");
            assert!(InventoryAnswer::parse(wrong.as_bytes(), "a").is_err(), "{wrong}");
        }
    }
}
