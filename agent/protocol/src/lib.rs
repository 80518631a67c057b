//! What the agent and the verbs helper say to each other.
//!
//! The helper (`rdma-health-verbs`) is the only process that links libibverbs. The agent and the command line talk to
//! it in frames (see [`frame`]) that carry one [`Request`] or one [`Message`] each, over a Unix socket or over the
//! helper's standard input and output. Each side treats the other's bytes as untrusted: a frame has a maximum length,
//! every list has a maximum number of entries (see [`bounded`]), and a message that does not parse ends the connection.
//!
//! The facts that the helper tells ([`Device`], [`Gid`], [`ProbeReport`]) are plain data and become part of the node.

pub mod bounded;
mod facts;
pub mod frame;
mod message;
mod probe;

pub use facts::{Device, Gid, GidType, MAX_GIDS, MAX_PORTS, Port};
pub use message::{
    Ask, AsyncEvent, AsyncEventKind, Greeting, HelperError, MAX_DEVICES, Message, Reply, Request, Response,
};
pub use probe::{Bandwidth, Completion, Latency, ProbeFailure, ProbeReport, ProbeRequest, Stage};

/// The version of the conversation. Both sides refuse any other: the two binaries come from one image.
pub const PROTOCOL_VERSION: u32 = 1;
