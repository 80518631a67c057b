//! `rdma-health`: checks whether RDMA works on a Linux node; if not, reports why and what to do.
//!
//! This crate combines the others: the command line, and the loop of the agent. `agent/kernel` reads, `agent/node` joins,
//! `agent/rules` and `agent/diagnosis` judge, and each publisher has its own crate. Everything that uses libibverbs is in the
//! helper program `rdma-health-verbs`.
//!
//! Without the feature `agent` it is the command line only, for pods and images in which no agent runs: without HTTP server,
//! TLS and Kubernetes client.

#![forbid(unsafe_code)]

#[cfg(feature = "agent")]
mod agent;
mod cli;
mod descriptors;
mod helper;
#[cfg(feature = "agent")]
mod liveness;
mod patient;

fn main() -> std::process::ExitCode {
    cli::run()
}
