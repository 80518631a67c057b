//! What the agent and `rdma-health alive` say to each other on the liveness socket: one line of the agent.

/// The agent has read the node.
pub(crate) const READY: &str = "ready\n";
/// The agent has not read the node yet.
pub(crate) const STARTING: &str = "starting\n";
