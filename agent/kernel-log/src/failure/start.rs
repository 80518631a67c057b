//! An adapter with which its driver does not start: it gets no channel to the firmware, or the adapter as a whole does not begin.

use super::{ADAPTER, FAILED, any};

/// `Cmd queue init failed`, `failed to initialize the mailbox`, `firmware version query failed -11`: the first that a driver does with an adapter is to
/// set up the channel to its firmware and to ask it for its version.
pub(super) fn has_no_channel(words: &[&str]) -> bool {
    const STARTS: [&str; 9] = [
        "init",
        "initialize",
        "initialise",
        "initializing",
        "initialization",
        "initialisation",
        "setup",
        "create",
        "enable",
    ];
    // What works without it.
    const OTHERS: [&str; 4] = ["timestamp", "image", "flash", "rom"];
    let begins_with_error = matches!(words, ["error", "when" | "while" | "during", ..]);
    let fails = any(words, &FAILED) || any(words, &["unable", "not"]) || begins_with_error;
    if !fails || any(words, &OTHERS) {
        return false;
    }
    let pair = |first: &[&str], second: &[&str]| {
        words
            .windows(2)
            .any(|pair| first.contains(&pair[0]) && second.contains(&pair[1]))
    };
    // bnxt_re has its own channel to the firmware, and allocates it first.
    let is_rcfw = any(words, &["rcfw"]) && any(words, &["allocate", "initialized"]);
    let sets_up = pair(&["setting"], &["up"]) && any(words, &["hwc"]);
    if is_rcfw || sets_up {
        return true;
    }
    let is_channel = any(words, &["cmdq", "mailbox", "mbox", "adminq", "hwc", "rcfw"])
        || pair(
            &["cmd", "command", "admin", "control"],
            &["queue", "queues", "interface", "ring", "rings"],
        );
    let asks = pair(&["firmware", "fw"], &["version"]) && any(words, &["query", "get", "read"]);
    is_channel && any(words, &STARTS) || asks || has_not_started(words)
}

/// `initialization failed for port ens1f0`, `fail to initialize hw`, `could not allocate device`, `failed to activate device`: all of the adapter, and
/// not one of its features.
fn has_not_started(words: &[&str]) -> bool {
    const STARTED: [&str; 11] = [
        "init",
        "initialize",
        "initialise",
        "initialization",
        "initialisation",
        "activate",
        "activation",
        "allocate",
        "alloc",
        "start",
        "bringup",
    ];
    const WHOLE: [&str; 3] = ["port", "function", "vnic"];
    // What stands between the two and names no part.
    const FILL: [&str; 10] = [
        "the", "its", "rdma", "roce", "ib", "pci", "hw", "for", "failed", "physical",
    ];
    const FAILS: [&str; 6] = ["failed", "fail", "failure", "unable", "cannot", "not"];
    const NEXT: [&str; 9] = ["during", "with", "err", "error", "ret", "rc", "on", "in", "after"];
    let is_whole = |word: &str| ADAPTER.contains(&word) || WHOLE.contains(&word);
    words.iter().enumerate().any(|(at, word)| {
        if !STARTED.contains(word) {
            return false;
        }
        let fails = words[at.saturating_sub(3)..words.len().min(at + 3)]
            .iter()
            .any(|word| FAILS.contains(word));
        let mut rest = words[at + 1..]
            .iter()
            .skip_while(|word| FILL.contains(word) && !is_whole(word));
        // `failed to allocate device memory`, `failed to init hw stats`: of a part.
        let is_of_all = rest.next().is_some_and(|word| is_whole(word));
        let ends = rest
            .next()
            .is_none_or(|next| NEXT.contains(next) || next.contains(|c: char| c.is_ascii_digit()));
        fails && is_of_all && ends
    })
}
