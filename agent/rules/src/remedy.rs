//! What to do about a finding, and how it differs by where the node runs.

use std::fmt;

use serde::Serialize;

/// What to do, with the commands. A part that is empty says nothing that the others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What holds everywhere.
    pub any: &'static str,
    /// On OpenShift.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub openshift: &'static str,
    /// On any other Kubernetes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kubernetes: &'static str,
    /// On a host without either.
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

    /// The parts that say something, with the name of the place; what holds everywhere has none.
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

/// One paragraph: `What holds everywhere. OpenShift: … Kubernetes: … Host: …`.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (place, text)) in self.parts().enumerate() {
            let space = if n == 0 { "" } else { " " };
            let colon = if place.is_empty() { "" } else { ": " };
            write!(f, "{space}{place}{colon}{text}")?;
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
            openshift: "With oc.",
            kubernetes: "",
            host: "By hand.",
        };
        assert_eq!(remedy.to_string(), "Do it. OpenShift: With oc. Host: By hand.");
        assert_eq!(Remedy::all("Do it.").to_string(), "Do it.");
    }
}
