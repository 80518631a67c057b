//! The name of a Kubernetes Node.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Maximum length of a name in bytes.
const LONGEST: usize = 253;

/// A Node's name, as `kubectl get nodes` shows it: a DNS subdomain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

/// A text that is not a valid Node name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a Node's name as kubectl get nodes shows it, not {0:?}")]
pub struct NotANodeName(String);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a text is a DNS subdomain as Kubernetes allows it: a Node's name, the prefix of a condition's type.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= LONGEST && text.split('.').all(label)
}

impl TryFrom<String> for NodeName {
    type Error = NotANodeName;

    fn try_from(name: String) -> Result<Self, NotANodeName> {
        if is_subdomain(&name) {
            Ok(Self(name))
        } else {
            Err(NotANodeName(name))
        }
    }
}

impl FromStr for NodeName {
    type Err = NotANodeName;

    fn from_str(name: &str) -> Result<Self, NotANodeName> {
        Self::try_from(name.to_owned())
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_name_is_safe_in_a_path() {
        for good in ["node-1", "10.0.0.1", "a.b-c.d"] {
            assert!(good.parse::<NodeName>().is_ok(), "{good}");
        }
        for bad in ["", "Node", "a/b", "..", "a_b", "-a", "a?b", &"a".repeat(254)] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }
}
