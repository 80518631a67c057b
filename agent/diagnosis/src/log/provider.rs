//! A provider of libfabric that has nothing for what a program asks for, and why.
//!
//! libfabric asks each of its providers, so that most answers of this kind mean nothing. The provider of an adapter that gives the reason, where no other one was
//! selected, does not offer what the program needs.

use super::line::Lower;

/// What such lines have, in lower case.
pub(super) const ANCHORS: &[&str] = &["_check_hints()", "fi_getinfo: provider "];

/// The providers of adapters.
const OF_ADAPTERS: [&str; 4] = ["efa", "cxi", "opx", "psm3"];

/// Those that `fi_info` lists by these names.
const LISTED: [&str; 6] = ["efa", "cxi", "opx", "psm3", "psm2", "verbs"];

/// What the lines so far show.
#[derive(Debug, Default)]
pub(super) struct Providers {
    /// The last reason of a provider.
    reason: Option<(String, u64)>,
    /// What a program requested from a provider that does not have it, in the words of the lines.
    missing: Option<(String, u64)>,
    /// The answers of other providers, at the level of a warning.
    others: bool,
    /// `fi_info` lists a provider with a device.
    listed: bool,
}

impl Providers {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &Lower<'_>, number: u64) {
        let lower = line.lower.as_str();
        if lower.contains("_check_hints()") && lower.contains("unsupported ") {
            self.reason = Some((line.text.trim().to_owned(), number));
            return;
        }
        let listed = lower.trim_start().strip_prefix("provider: ");
        self.listed |= listed.is_some_and(|name| LISTED.contains(&name.trim()));
        let Some((_, rest)) = lower.split_once("fi_getinfo: provider ") else {
            return;
        };
        if !lower.contains("<warn>") || !rest.contains(" returned -61") {
            return;
        }
        let name = rest.split(' ').next().unwrap_or_default();
        if !OF_ADAPTERS.contains(&name) {
            self.others = true;
        } else if self.missing.is_none() {
            let (text, at) = self
                .reason
                .clone()
                .unwrap_or_else(|| (line.text.trim().to_owned(), number));
            self.missing = Some((text, at));
        }
    }

    /// Whether a tool lists a provider of an adapter.
    pub(super) fn are_listed(&self) -> bool {
        self.listed
    }

    /// The reason of the only provider that was asked, and whether it gave one.
    pub(super) fn unfit(&self) -> Option<(&str, u64, bool)> {
        let (text, number) = self.missing.as_ref().filter(|_| !self.others)?;
        Some((text, *number, self.reason.is_some()))
    }
}
