//! Finds the causes of a node's findings and symptoms.
//!
//! A rule's finding says that something is wrong. A job's log ([`log`]) and the node's own probes show what failed: the
//! [`symptom`]s. [`diagnose`] combines both into causes with a [table](CAUSES) and a score, which is part of the result.
//! Nothing here reads a file or keeps state.

#![forbid(unsafe_code)]

mod concern;
mod diagnose;
mod effect;
pub mod glossary;
mod job_view;
mod known;
pub mod log;
pub mod lookup;
mod observed;
mod origin;
mod outcome;
mod problem;
pub mod symptom;
mod table;
mod weigh;

pub use diagnose::diagnose;
pub use known::{KnownCause, Link};
pub use outcome::{Cause, Confidence, Diagnosis, LogSummary};
pub use problem::{Problem, domain_of, problems};
pub use table::{CAUSES, cause};
