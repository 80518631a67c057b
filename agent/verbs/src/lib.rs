//! Verbs.
pub mod args;
pub mod devices;
pub mod errno;
pub mod probe;
pub mod status;
pub mod supervisor;
pub mod sys;
pub mod worker;
