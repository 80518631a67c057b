//! Judges a node: the rule catalogue, pure functions from facts to findings.
//!
//! No rule reads a file, keeps state or knows who will see its findings. [`CATALOGUE`] is the one list of rules; help,
//! documentation, metrics and tests are made from it.

#![forbid(unsafe_code)]

mod catalogue;
mod draft;
mod expectations;
mod finding;
mod inputs;
mod kept;
mod policy;
mod remedy;
mod repair;
mod required;
mod verdict;

pub mod domain {
    //! The rules, one module per domain; each function is the judgement of one rule.
    pub mod access;
    pub mod adapter_events;
    pub mod bond;
    pub mod bounce;
    mod compared;
    pub mod device_node;
    pub mod devlink;
    pub mod efa;
    pub mod gids;
    pub mod gpu_aperture;
    pub mod gpu_driver;
    pub mod gpu_events;
    pub mod gpudirect;
    pub mod iommu;
    pub mod iommu_events;
    pub mod kernel_modules;
    pub mod limits;
    pub mod link;
    mod logged;
    pub mod lost;
    pub mod measured;
    pub mod modules;
    pub mod neighbour_table;
    pub mod network;
    pub mod objects;
    pub mod optics;
    pub mod pci_link;
    pub mod pci_path;
    pub mod pci_payload;
    pub mod pci_rate;
    pub mod pci_stall;
    pub mod pods;
    pub mod priorities;
    pub mod probe;
    pub mod rails;
    pub mod rate;
    pub mod reading;
    pub mod signal;
    pub mod sriov;
    pub mod trend;
}

pub use catalogue::{CATALOGUE, Domain, Rule, rule, rule_with_reason};
pub use expectations::{Expectations, LABEL_PREFIX, LabelError, Profile, Thresholds, unnameable_ports};
pub use finding::{Evidence, Finding, FindingCase, Severity, Subject};
pub use inputs::Writer;
pub use policy::{Exception, Policy, Severities};
pub use remedy::Remedy;
pub use repair::Repair;
pub use required::{
    is_judged_at_once, kernel_log_unread, not_judged, unread_facts, unread_in_short, unread_of,
};
pub use verdict::{Status, Verdict, judge};
