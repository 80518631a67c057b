//! rdma-health.
fn main() {}
