//! How DMA addresses are handled.

mod cmdline_mismatch;
mod group_translated;
mod mode;
mod pending;

pub(super) use self::mode::{arguments_in_words, requests_passthrough};
pub(crate) use self::mode::{mode_not_recognised, type_not_reported};
pub use self::{cmdline_mismatch::CMDLINE_MISMATCH, group_translated::GROUP_TRANSLATED};
