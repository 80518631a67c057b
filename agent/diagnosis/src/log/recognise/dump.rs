//! The dump of a completion queue entry, of which one row holds the syndrome.

use super::{
    Found,
    reading::{Reading, symptom},
};
use rdma_health_protocol::WcStatus;

use crate::{
    log::line::{Lower, excerpt, row},
    symptom::{SymptomKind, completion::of_syndrome},
};

/// The dump that is being read, if any.
#[derive(Debug, Default)]
pub(super) struct Dump(Option<Entry>);

/// A completion queue entry, as far as it was read.
#[derive(Debug)]
struct Entry {
    line: u64,
    text: String,
    rows: u8,
    /// How many other lines may still come in between.
    patience: u8,
}

impl Dump {
    /// Whether a dump begins: libmlx5's line, which ends in `got completion with error:`, the kernel's, or DPDK's `MLX5 Error CQE: at […]`.
    pub(super) fn begins(&mut self, line: &Lower<'_>, number: u64) -> bool {
        let lower = line.lower.trim_end();
        let ends = lower.ends_with("got completion with error:");
        if !ends && !lower.contains("dump error cqe") && !lower.contains("error cqe: at") {
            return false;
        }
        self.0 = Some(Entry {
            line: number,
            text: excerpt(line.text, 0),
            rows: 0,
            patience: 8,
        });
        true
    }

    /// The fourth row holds the syndrome: `00000000 00008914 10000132 000045d2`.
    pub(super) fn row(&mut self, bytes: &[u8]) -> Option<Found> {
        let dump = self.0.as_mut()?;
        let row = std::str::from_utf8(bytes).ok().and_then(row);
        match row {
            Some(_) => dump.rows += 1,
            None => dump.patience -= 1,
        }
        if dump.patience == 0 {
            self.0 = None;
            return None;
        }
        let (4, Some(row)) = (dump.rows, row) else {
            return None;
        };
        let dump = self.0.take()?;
        let (status, vendor) = failure_in(&row)?;
        let line = Lower::of(&dump.text);
        let mut found = symptom(&line, Reading::of(SymptomKind::Completion(status), 0), dump.line);
        found.named.vendor_error = Some(vendor);
        found.hosts.clear();
        Some(Found::Symptom(Box::new(found)))
    }
}

/// The status and the vendor error in the row of a dump that holds the syndrome.
pub(crate) fn failure_in(row: &[u8; 16]) -> Option<(WcStatus, u32)> {
    Some((of_syndrome(u64::from(row[7]))?, row[6].into()))
}
