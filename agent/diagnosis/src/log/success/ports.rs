//! Which of the ports that tools list as down are not in use.
//!
//! A port without a cable is normal where the same list shows active ones, but only if the list says that no one expects a link there: its
//! physical state is `Disabled`, or it is the second port of an adapter.

use std::collections::BTreeSet;

use super::super::{fabric, line::number};

/// Most lines that are kept of ports without an address.
const MOST: usize = 1024;

/// The ports that the lines so far list as down.
#[derive(Debug, Default)]
pub(super) struct Ports {
    down: u64,
    unused: u64,
    /// The lines are about the second port of an adapter, or a further one.
    is_further: bool,
    /// The physical state of a port that is down may follow.
    is_open: bool,
    /// The line of a port that is down, whose physical state may follow.
    last: Option<u64>,
    /// The line of the first port that is down although its physical link is up.
    linked: Option<u64>,
    /// Ports of the adapter that the lines are about, which are down and not known to be unused.
    of_adapter: u64,
    /// The lines of those that look like virtual functions without an address.
    without_address: BTreeSet<u64>,
}

impl Ports {
    /// Adds what a line in lower case shows.
    pub(super) fn add(&mut self, lower: &str, line: u64) {
        let trimmed = lower.trim();
        // An adapter with two ports, one of which has a link: the other one needs none.
        if trimmed.starts_with("hca_id:") || trimmed.starts_with("ca '") || trimmed.contains("node_guid") {
            self.of_adapter = 0;
        }
        if fabric::lists_active_port(lower) {
            self.last = None;
            if self.is_further {
                self.unused += std::mem::take(&mut self.of_adapter);
            }
        } else if fabric::lists_port_down(lower) {
            self.last = Some(line);
        }
        if trimmed.contains("phys") && (trimmed.contains("linkup") || trimmed.contains("link_up")) {
            self.linked = self.linked.or(self.last.take());
        }
        if let Some(rest) = trimmed.strip_prefix("port") {
            self.is_further = number(rest.trim_start_matches([' ', '\t', ':'])).is_some_and(|port| port > 1);
        }
        let is_disabled = trimmed.contains("phys") && trimmed.contains("disabled");
        let has_no_address = is_disabled && is_without_address(trimmed);
        if has_no_address && self.without_address.len() < MOST {
            self.without_address.insert(line);
        }
        if fabric::lists_port_down(lower) {
            // ibdev2netdev lists the interfaces of all adapters.
            let is_unused = is_disabled && !has_no_address || self.is_further || trimmed.contains(" ==> ");
            self.down += 1;
            self.unused += u64::from(is_unused);
            self.is_open = !is_unused;
            self.of_adapter += u64::from(!is_unused);
        } else if self.is_open && is_disabled {
            self.unused += 1;
            self.of_adapter = self.of_adapter.saturating_sub(1);
            self.is_open = false;
        }
    }

    /// Whether a line is of the first port that is down although its physical link is up, or of one without an address where others are active.
    pub(super) fn is_unconfigured(&self, line: u64, active: bool) -> bool {
        self.linked == Some(line) || active && self.without_address.contains(&line)
    }

    /// Whether any port is down.
    pub(super) fn are_down(&self) -> bool {
        self.down > 0
    }

    /// Whether none of those that are down is expected to have a link.
    pub(super) fn are_unused(&self) -> bool {
        self.down <= self.unused
    }
}

/// Whether a row of `rdma link` is about an InfiniBand port without an address that is not waiting for a link: a virtual function that was not
/// configured. The port of an adapter without a cable polls.
fn is_without_address(row: &str) -> bool {
    row.starts_with("link ") && row.contains("/1 ") && row.contains(" lid 65535 ")
}
