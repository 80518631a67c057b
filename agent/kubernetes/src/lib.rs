//! Publishes the view as Node conditions and Events, in clusters of thousands of agents; and reads the Node's labels as
//! expectations.
//!
//! [`fleet`] asks the agents of a whole cluster. [`condition`] (the content) and [`schedule`] (the time) are pure; [`session`] sends the requests to the API server.
//! None of this runs unless the configuration enables it, and a slow or failing API server never blocks the agent.

#![forbid(unsafe_code)]

mod api;
mod bucket;
mod condition;
mod events;
mod failure;
mod fleet;
mod kind;
mod labels;
mod metrics;
mod preflight;
mod publisher;
mod ready;
mod remove;
mod schedule;
mod session;
mod source;
mod text;
mod token;
mod trouble;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod test_access;
#[cfg(test)]
mod tests;

pub use api::Access;
pub use failure::{Failure, Permission, Refusal};
pub use fleet::{AgentPod, Fleet, FleetAnswer, FleetError, FleetNode, FleetOptions};
pub use metrics::Metrics;
pub use preflight::read_cluster;
pub use publisher::Publisher;
pub use remove::remove;
pub use source::NodeLabels;
