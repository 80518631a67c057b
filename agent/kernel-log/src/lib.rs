//! What a line of the kernel log reports about a device.
//!
//! Pure parsing: the reader of `/dev/kmsg`, the reader of a job's log and `explain` use the same table. Lines are untrusted.

#![forbid(unsafe_code)]

mod classify;
mod denial;
mod event;
mod failure;
mod gpu;
mod origin;
mod processes;
mod record;
mod speaker;

pub use classify::{Judgement, Report, classify, judge, of_record};
pub use event::{Device, Event, EventClass, EventKind};
pub use gpu::{Xid, xid};
pub use origin::{is_adapter, is_address, writers};
pub use record::{Form, Record, kept, split};
pub use speaker::is_known;
