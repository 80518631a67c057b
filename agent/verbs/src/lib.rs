//! The verbs helper: what is known of RDMA devices through libibverbs, and the loopback probe.
//!
//! libibverbs, its providers and the firmware behind them hang and crash in the very failures that this product is
//! for. So they live in a process of their own, the binary `rdma-health-verbs`, which the agent talks to in the frames
//! of `rdma-health-protocol`, and kills when it does not answer.
//!
//! # Layers
//!
//! | module | is |
//! | --- | --- |
//! | [`sys`] | the safe layer over libibverbs; the only unsafe code of the project |
//! | [`nodes`] | device nodes, which explain why the library does not see or open a device |
//! | [`devices`] | devices, ports and GID tables as facts |
//! | [`probe`] | one loopback RDMA WRITE measurement, stage by stage |
//! | [`worker`] | one connection: requests, replies, events |
//! | [`supervisor`] | a Unix socket, and one worker process per connection |
//! | [`args`] | the command line |
//! | [`errno`], [`status`] | numbers in words |
//!
//! # The order of verbs calls
//!
//! Each object keeps alive what it was made from, so that the reverse order of destruction follows by itself.
//!
//! ```text
//! DeviceList::read ─ find ─ Device::open ─> Context ─ attributes, port, gid_table
//!                                             ├─ AsyncEvents::new ─ next …
//!                                             └─ ProtectionDomain::new
//!                                                  ├─ MemoryRegion::new ─> segment, remote
//!                                                  └─ QueuePair::new (with a CompletionQueue::new)
//!                                                       └─ init ─ ready_to_receive ─ ready_to_send
//!                                                            └─ post_write … poll …
//! ```
//!
//! # What is not promised
//!
//! A call that the kernel does not return from blocks its thread; the process can still be killed, unless the kernel
//! sleeps uninterruptibly. A worker that is told to end while another thread is in such a call ends all the same.

pub mod args;
pub mod devices;
pub mod errno;
pub mod nodes;
pub mod probe;
pub mod status;
pub mod supervisor;
pub mod sys;
pub mod worker;
