//! The fault bench: breaks a node in one known way, or in two, asks the doctor, and scores its answer.
//!
//! A [`Fault`] says what is broken, what names its cause, and which findings it explains beside that. Faults are
//! injected for real into virtual nodes ([`scenes`]) or, where no emulated machine has the hardware, into trees modelled
//! on the field ([`trees`]). Before each injection the node must be healthy in the doctor's eyes; the answer afterwards
//! is one of [`Score`]. Findings of warning or above that no injected fault explains are false alarms.

use serde_json::Value;

pub mod coverage;
mod doctor;
pub mod live;
pub mod scenes;
pub mod table;
pub mod trees;

/// How a fault comes into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A running kernel is in this state.
    Real,
    /// A running kernel, with one line written where the kernel would write it.
    Written,
    /// A changed copy of a tree.
    Tree,
}

impl How {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Written => "written",
            Self::Tree => "tree",
        }
    }
}

/// One thing that can be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name, for the table and for `--only`.
    pub id: &'static str,
    /// What is done, in one line.
    pub what: &'static str,
    /// How it comes into being.
    pub how: How,
    /// What names the cause, ids of rules or of the diagnosis; any of them does. None: it is no fault, and the doctor must say nothing.
    pub causes: &'static [&'static str],
    /// What else follows from it and may be told, though not first.
    pub explains: &'static [&'static str],
}

/// One thing that the doctor holds to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The cause's name, or the rule's where a finding stands for itself.
    pub name: String,
    /// The rules whose findings the doctor counts to this cause.
    pub rules: Vec<String>,
}

/// Causes of the diagnosis that say the same as a rule, by name: the cause may then stand for its finding. Where a cause
/// joins findings that call for different things, the fault itself lists what names it.
const SAME: &[(&str, &[&str])] = &[
    ("acs-redirect", &["acs-redirect"]),
    ("addressing", &["same-subnet-arp"]),
    ("devices-missing", &["hcas-missing"]),
    ("driver-firmware", &["firmware-mixed", "driver-unexpected"]),
    ("flow-control", &["roce-flow-control"]),
    ("gid-index", &["gid-index-differs"]),
    ("gpu-nic-distance", &["gpu-without-local-nic"]),
    ("guids", &["guid-invalid"]),
    ("iommu-next-boot", &["iommu-cmdline-mismatch"]),
    (
        "iommu-translation",
        &[
            "iommu-group-translated",
            "iommu-cmdline-mismatch",
            "iommu-memory-encryption",
            "iommu-faults",
            "iommu-regressed",
        ],
    ),
    (
        "link-quality",
        &["port-flapping", "counter-errors", "width-degraded", "rate-low"],
    ),
    ("memlock-limit", &["memlock-low"]),
    ("mtu", &["mtu-low"]),
    ("no-subnet-manager", &["no-subnet-manager"]),
    ("pci-errors", &["pci-aer-errors"]),
    ("pci-path", &["pci-link-degraded", "pci-max-read-request"]),
    (
        "peer-memory-path",
        &[
            "peer-memory-missing",
            "peer-memory-install-order",
            "nv-peer-mem-legacy",
        ],
    ),
    ("rdma-modules", &["rdma-modules-missing"]),
    ("software-rdma", &["softroce-in-use"]),
    (
        "virtual-functions",
        &[
            "vfs-missing",
            "vf-without-driver",
            "vf-guid-zero",
            "vf-mac-zero",
            "vf-trust",
        ],
    ),
];

impl Guess {
    /// Whether this names what is wrong; a cause of the diagnosis stands for a finding that it holds.
    fn names(&self, fault: &Fault) -> bool {
        let is_cause = |name: &str| fault.causes.contains(&name);
        let same = SAME.iter().find(|(cause, _)| *cause == self.name);
        let stands_for = |rule: &String| same.is_some_and(|(_, rules)| rules.contains(&rule.as_str()));
        is_cause(&self.name) || self.rules.iter().any(|rule| is_cause(rule) && stands_for(rule))
    }
}

/// What the doctor said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What it holds to be wrong: causes, the first guess in front, then findings.
    pub guesses: Vec<Guess>,
    /// Findings of warning or above: rule and message.
    pub findings: Vec<(String, String)>,
}

impl Answer {
    /// Takes the answer from what `rdma-health check --output json` printed.
    ///
    /// # Errors
    /// Where that is no verdict.
    pub fn parse(json: &str) -> anyhow::Result<Self> {
        doctor::parse(&serde_json::from_str::<Value>(json)?)
    }

    /// The name of its first guess.
    pub fn first(&self) -> Option<&str> {
        self.guesses.first().map(|guess| guess.name.as_str())
    }
}

/// How good an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Score {
    /// Every cause is named, and one of them first. Where nothing is wrong: nothing is said.
    First,
    /// Every cause is named, but something else comes first.
    Named,
    /// A cause is not named.
    Missed,
}

impl Score {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Named => "named",
            Self::Missed => "MISSED",
        }
    }
}

/// One row of the table: faults injected together, and what came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The machine or the tree.
    pub place: String,
    /// The faults; none on a node that is healthy, two in a pair.
    pub faults: Vec<Fault>,
    /// What the doctor said.
    pub answer: Answer,
    /// How good that is.
    pub score: Score,
    /// What it said that no fault explains: rule and message.
    pub false_alarms: Vec<(String, String)>,
}

impl Outcome {
    /// Scores `answer` for a node in which `faults` were injected.
    pub fn of(place: impl Into<String>, faults: &[&Fault], answer: Answer) -> Self {
        let explained = |rule: &str| {
            let mut ids = faults
                .iter()
                .flat_map(|fault| fault.causes.iter().chain(fault.explains));
            ids.any(|id| *id == rule)
        };
        let false_alarms: Vec<_> = answer
            .findings
            .iter()
            .filter(|(rule, _)| !explained(rule))
            .cloned()
            .collect();
        let broken: Vec<_> = faults.iter().filter(|fault| !fault.causes.is_empty()).collect();
        let first_is_a_cause = answer
            .guesses
            .first()
            .is_some_and(|guess| broken.iter().any(|fault| guess.names(fault)));
        let named = |fault: &Fault| answer.guesses.iter().any(|guess| guess.names(fault));
        let score = if !broken.iter().all(|fault| named(fault)) {
            Score::Missed
        } else if first_is_a_cause || broken.is_empty() {
            Score::First
        } else {
            Score::Named
        };
        Self {
            place: place.into(),
            faults: faults.iter().map(|fault| **fault).collect(),
            answer,
            score,
            false_alarms,
        }
    }

    /// What was injected, by name.
    pub fn name(&self) -> String {
        match self.faults.as_slice() {
            [] => "healthy".into(),
            faults => faults
                .iter()
                .map(|fault| fault.id)
                .collect::<Vec<_>>()
                .join(" + "),
        }
    }

    /// Whether the doctor passed: every cause named, and no false alarm.
    pub fn passed(&self) -> bool {
        self.score != Score::Missed && self.false_alarms.is_empty()
    }
}

/// Which faults to inject.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only what has one of these words in its name or in that of its place; all where there is none.
    pub only: Vec<String>,
}

impl Selection {
    /// Whether `name` at `place` is asked for.
    pub fn wants(&self, place: &str, name: &str) -> bool {
        self.only.is_empty()
            || self
                .only
                .iter()
                .any(|word| name.contains(word.as_str()) || place.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests;
