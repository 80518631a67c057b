//! What a line of the kernel log reports about a device.
//!
//! Pure parsing: the reader of `/dev/kmsg`, the reader of a job's log and `explain` use the same table. Lines are untrusted.

#![forbid(unsafe_code)]

mod classify;
mod consumer;
mod denial;
mod event;
mod failure;
mod gpu;
mod hardware_error;
mod host_memory;
mod modules;
mod origin;
mod phrases;
mod processes;
mod record;
mod speaker;
mod table;
mod trace;

pub use classify::{Judgement, Report, classify, judge, of_record};
pub use consumer::{Service, service};
pub use event::{Device, Event, EventClass, EventKind};
pub use gpu::{Xid, xid};
pub use host_memory::is_of_host_memory;
pub use modules::{is_rdma_consumer, is_rdma_core, is_rdma_module, is_software_rdma};
pub use origin::{is_adapter, is_address, writers};
pub use record::{Form, Record, kept, lines_of, split};
pub use speaker::is_known;
pub use trace::{Call, Reports, is_concerned, is_part};
