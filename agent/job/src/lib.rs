//! The right settings of communication libraries (NCCL, RCCL, UCX, NVSHMEM, libfabric, Gloo) for the devices that a job was
//! given.
//!
//! [`given`] parses what device plugins and drivers leave in a pod. [`rails`] finds the ports of these devices on the node
//! and refuses those that cannot carry traffic, with the reason. [`readiness`] decides whether a job can start. [`settings`] derives the variables, each with its reason.
//! [`format`] writes them. No I/O.

#![forbid(unsafe_code)]

pub mod format;
pub mod given;
pub mod rails;
pub mod readiness;
pub mod settings;
#[cfg(test)]
mod testing;
pub mod user;
