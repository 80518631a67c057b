//! What to do about a finding, and how it differs by where the node runs.

pub(crate) mod kernel_argument;
pub(crate) mod load_module;
mod machine_config;
pub(crate) mod resolve;
pub(crate) mod sysctl;

use std::fmt;

use serde::Serialize;

/// What to do, with the commands. An empty part adds nothing to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// On every node.
    pub any: &'static str,
    /// On OpenShift.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub openshift: &'static str,
    /// On any other Kubernetes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kubernetes: &'static str,
    /// On a host without Kubernetes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub host: &'static str,
}

impl Remedy {
    /// The same everywhere.
    pub(crate) const fn all(any: &'static str) -> Self {
        Self {
            any,
            openshift: "",
            kubernetes: "",
            host: "",
        }
    }

    /// The parts that are not empty, each with the name of its place; that for every node has none.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let parts = [
            ("", self.any),
            ("OpenShift", self.openshift),
            ("Kubernetes", self.kubernetes),
            ("Host", self.host),
        ];
        parts.into_iter().filter(|(_, text)| !text.is_empty())
    }
}

/// One paragraph: `For every node. OpenShift: … Kubernetes: … Host: …`.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut end = "";
        for (place, text) in self.parts() {
            let colon = if place.is_empty() { "" } else { ": " };
            write!(f, "{end}{place}{colon}{text}")?;
            // A part may end with a command, which has no full stop.
            end = if text.ends_with('.') { " " } else { ". " };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_and_empty_ones_left_out() {
        let remedy = Remedy {
            any: "Do it.",
            openshift: "oc do it",
            kubernetes: "",
            host: "By hand.",
        };
        assert_eq!(remedy.to_string(), "Do it. OpenShift: oc do it. Host: By hand.");
        assert_eq!(Remedy::all("Do it.").to_string(), "Do it.");
    }
}
