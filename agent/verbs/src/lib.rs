//! The verbs helper: what is known of RDMA devices through libibverbs, and the loopback probe.
//!
//! libibverbs, its providers and the firmware below them hang and crash in exactly the failures that this product
//! diagnoses. So they run in a separate process, the binary `rdma-health-verbs`. The agent communicates with it in frames
//! of `rdma-health-protocol`, and kills it when it does not respond.
//!
//! # Layers
//!
//! | module | content |
//! | --- | --- |
//! | [`sys`] | the safe layer over libibverbs; the only unsafe code of the project |
//! | [`nodes`] | device nodes, which explain why the library does not see or open a device |
//! | [`devices`] | devices, ports and GID tables as facts |
//! | [`host`] | what only a process with the host's `/proc` can read |
//! | [`probe`] | one loopback RDMA WRITE measurement, stage by stage |
//! | [`worker`] | one connection: requests, replies, events |
//! | [`supervisor`] | a Unix socket, and one worker process per connection |
//! | [`prepare`] | the directory of the agent's history, before the agent starts |
//! | [`args`] | the command line |
//! | [`errno`], [`status`] | names of numbers |
//!
//! # The order of verbs calls
//!
//! Each object keeps the objects that it depends on alive, so that destruction always happens in reverse order.
//!
//! ```text
//! DeviceList::read ─ find ─ Device::open ─> Context ─ attributes, port, gid_table
//!                                             ├─ AsyncEvents::new ─ next …
//!                                             └─ ProtectionDomain::new
//!                                                  ├─ MemoryRegion::new ─> segment, remote
//!                                                  └─ CompletionQueue::new ─> QueuePair::new
//!                                                       └─ init ─ ready_to_receive ─ ready_to_send
//!                                                            └─ post_write … poll …
//! ```
//!
//! # Limitations
//!
//! A call that does not return from the kernel blocks its thread. The process can still be killed, unless the kernel sleeps
//! uninterruptibly. A worker ends on request even if another of its threads is in such a call.

pub mod args;
pub mod devices;
pub mod errno;
pub mod host;
pub mod nodes;
pub mod prepare;
pub mod probe;
pub mod status;
pub mod supervisor;
pub mod sys;
pub mod worker;
