//! Judges a node: the rule catalogue, pure functions from facts to findings.
//!
//! No rule reads a file, keeps state or knows who will see its findings. [`CATALOGUE`] is the one list of rules; help,
//! documentation, metrics and tests are made from it.

#![forbid(unsafe_code)]

mod catalogue;
pub mod diagnosis;
mod expectations;
mod finding;
pub mod log;
mod remedy;
mod verdict;

mod domain {
    //! One module per domain; each function is the judgement of one rule.
    pub(crate) mod common;
    pub(crate) mod gids;
    pub(crate) mod gpudirect;
    pub(crate) mod iommu;
    pub(crate) mod iommu_events;
    pub(crate) mod limits;
    pub(crate) mod link;
    pub(crate) mod measured;
    pub(crate) mod modules;
    pub(crate) mod network;
    pub(crate) mod pci_link;
    pub(crate) mod pci_path;
    pub(crate) mod probe;
    pub(crate) mod rate;
    pub(crate) mod reading;
    pub(crate) mod sriov;
    pub(crate) mod trend;
}

pub use catalogue::{CATALOGUE, Domain, Rule, rule};
pub use diagnosis::{Diagnosis, diagnose};
pub use domain::common::size as size_in_words;
pub use domain::probe::words as failure_in_words;
pub use expectations::{Expectations, LABEL_PREFIX, LabelError, Profile, Thresholds};
pub use finding::{Evidence, Finding, Severity, Subject};
pub use remedy::Remedy;
pub use verdict::{Status, Verdict, judge};
