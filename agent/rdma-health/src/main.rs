//! `rdma-health`: tells for a Linux node whether RDMA works, why not, and what to do.
//!
//! This crate publishes: the command line, the agent's loop, metrics over HTTP. Facts come from `rdma-health-node`,
//! judgements from `rdma-health-rules`, and everything that touches libibverbs from the helper `rdma-health-verbs`.

#![forbid(unsafe_code)]

mod agent;
mod cli;
mod config;
mod helper;
mod history;
mod http;
mod kubernetes;
mod metrics;
mod report;
mod view;

fn main() -> std::process::ExitCode {
    cli::run()
}
