//! Other names under which the aggregate condition is published, for controllers that know only their own names.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{node_name::is_subdomain, settings::duration};

/// Maximum number of aliases.
pub const MAX_ALIASES: usize = 8;
/// Maximum length of a condition's type in bytes, with its prefix, as the API server allows it.
const LONGEST: usize = 316;
/// Maximum length of the name after the prefix.
const LONGEST_NAME: usize = 63;
/// Conditions that the kubelet and the cloud controllers write: to write one of them would break scheduling.
const OF_KUBERNETES: [&str; 6] = [
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
    "OutOfDisk",
];

/// One more condition with the content of `rdma-health.io/RDMAReady`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    /// Its type.
    pub r#type: ConditionName,
    /// What its status `True` means.
    #[serde(default)]
    pub meaning: Meaning,
    /// How long a fault must last before the condition reports it; until then it is `Unknown`.
    #[serde(default, with = "duration")]
    pub delay: Duration,
    /// The faults that it reports, by what repairs them; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repair: Vec<RepairedBy>,
}

/// What a controller does that acts on a condition, and that repairs the faults to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RepairedBy {
    /// It reboots the node.
    Reboot,
    /// It replaces the node.
    Replace,
}

/// What `True` means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// RDMA works.
    #[default]
    Ready,
    /// RDMA does not work.
    Problem,
}

/// The type of a condition that is neither Kubernetes' own nor one of this product's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConditionName(String);

/// A text that cannot be the type of an alias.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAConditionName {
    /// It is not a qualified name.
    #[error(
        "must be the type of a condition, like AcceleratedHardwareReady or example.com/NodeHealthy, not {0:?}"
    )]
    Malformed(String),
    /// It belongs to Kubernetes or to this product.
    #[error("must not be {0:?}: {1}")]
    Taken(String, &'static str),
}

impl ConditionName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ConditionName {
    type Error = NotAConditionName;

    fn try_from(text: String) -> Result<Self, NotAConditionName> {
        let (prefix, name) = match text.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, text.as_str()),
        };
        if text.len() > LONGEST || !is_name(name) || !prefix.is_none_or(is_subdomain) {
            return Err(NotAConditionName::Malformed(text));
        }
        if OF_KUBERNETES.contains(&text.as_str()) {
            return Err(NotAConditionName::Taken(text, "Kubernetes writes this condition"));
        }
        let own = |name: &str| {
            name.ends_with("Problem") && (name.starts_with("RDMA") || name == "GPUDirectProblem")
        };
        if prefix == Some("rdma-health.io") || (prefix.is_none() && own(name)) {
            return Err(NotAConditionName::Taken(
                text,
                "rdma-health writes conditions of this kind already",
            ));
        }
        Ok(Self(text))
    }
}

/// The part after the prefix: letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(name: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let at_end = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    name.len() <= LONGEST_NAME
        && name.bytes().all(inside)
        && at_end(name.bytes().next())
        && at_end(name.bytes().next_back())
}

impl FromStr for ConditionName {
    type Err = NotAConditionName;

    fn from_str(text: &str) -> Result<Self, NotAConditionName> {
        Self::try_from(text.to_owned())
    }
}

impl From<ConditionName> for String {
    fn from(name: ConditionName) -> Self {
        name.0
    }
}

impl fmt::Display for ConditionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why these aliases cannot be used together, if so.
pub(super) fn conflict(aliases: &[Alias], force: bool) -> Option<String> {
    if aliases.len() > MAX_ALIASES {
        return Some(format!(
            "has {} entries; at most {MAX_ALIASES} are allowed",
            aliases.len()
        ));
    }
    if force && !aliases.is_empty() {
        return Some(
            "cannot be used with `kubernetes.force`, which could take over another controller's condition"
                .into(),
        );
    }
    let twice = |(n, one): (usize, &Alias)| aliases[..n].iter().any(|other| other.r#type == one.r#type);
    let (_, twice) = aliases.iter().enumerate().find(|one| twice(*one))?;
    Some(format!("has {} twice", twice.r#type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_refused() {
        for good in [
            "AcceleratedHardwareReady",
            "kubernetes.azure.com/NodeHealthy",
            "a.b_c-d",
            "RDMAReady",
        ] {
            assert_eq!(good.parse::<ConditionName>().unwrap().as_str(), good);
        }
        let long = format!("{}/{}", "a".repeat(254), "b");
        for bad in [
            "", "a/", "/a", "a/b/c", "-a", "a\"b", "A B", "X/Y", "a.-b/c", &long, "ä",
        ] {
            let error = bad.parse::<ConditionName>().unwrap_err();
            assert!(matches!(error, NotAConditionName::Malformed(_)), "{bad}: {error}");
        }
        for taken in [
            "Ready",
            "DiskPressure",
            "RDMALinkProblem",
            "GPUDirectProblem",
            "rdma-health.io/RDMAReady",
        ] {
            let error = taken.parse::<ConditionName>().unwrap_err();
            assert!(matches!(error, NotAConditionName::Taken(..)), "{taken}: {error}");
        }
    }
}
