//! The words that make a line worth parsing.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};

use super::nearby;
use crate::log::{
    attach, cluster, codes, compile, complaint, components, connection, cufile, ended, fabric, families,
    grade::failures, grammar, launch, loader, marks, memory, nvme, operator, packages, passthrough, pods,
    provider, ranks, registration, removal, retries, scripts, settings, status, success, trace, vfio,
    waiting, wrapped,
};

/// Other words of lines that matter, in lower case.
const OTHER_ANCHORS: &[&str] = &[
    "completion",
    "completed",
    "dump error cqe",
    "async event",
    "event",
    "synd",
    "status",
    "retry",
    "flushed",
    "vendor err",
    // The kernel's messages.
    "port module",
    "link down",
    "link up",
    "link is",
    "offline",
    "temp",
    "aer:",
    "eeh: f",
    "eeh: phb",
    "eeh: unable to recover",
    "dpc:",
    "rp pio",
    "rp_pio_status",
    // The interface that NCCL uses.
    "bootstrap : using ",
    "health",
    "heartbeat",
    "stall",
    "rej reason",
    "assert_",
    "abnormal",
    "warn",
    "critical",
    "fault",
    "io_page",
    "xid (",
    "no cid",
    "gpu reset",
    " reset",
    "f_trans",
    "slot",
    "inaccessible",
    "containment",
    "insufficient",
    "firmware",
    // Codes and names.
    "(-",
    "[-",
    ": -",
    "=-",
    "= -",
    "returned -",
    "returns -1",
    "errno",
    // Symbols of errors, of which a line may have nothing else.
    "enomem",
    "einval",
    "efault",
    "eperm",
    "eacces",
    "enodev",
    "enoent",
    "enodata",
    "enospc",
    "enosys",
    "eopnotsupp",
    "etimedout",
    "econnre",
    "eaddr",
    "enetunreach",
    "ehostunreach",
    ") returned ",
    "_down",
    "disconnect",
    "nccl warn",
    "arm-smmu",
    "ae qpid",
    "qp event",
    "freeze",
    "function:",
];

/// Finds a line that is worth parsing. Never `None` with these words; if it were, no line would be recognised. It is built once:
/// it has a state for each letter of each word.
pub(super) static ANCHORS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let of_forms = [
        OTHER_ANCHORS,
        settings::ANCHORS,
        grammar::ANCHORS,
        grammar::OF_GPU_PATH,
        grammar::OF_SOCKETS,
        grammar::OF_VALUES,
        packages::ANCHORS,
        passthrough::ANCHORS,
        vfio::ANCHORS,
        scripts::ANCHORS,
        codes::ANCHORS,
        compile::ANCHORS,
        complaint::ANCHORS,
        attach::ANCHORS,
        cluster::ANCHORS,
        components::ANCHORS,
        operator::ANCHORS,
        pods::ANCHORS,
        fabric::ANCHORS,
        launch::ANCHORS,
        loader::ANCHORS,
        connection::ANCHORS,
        cufile::ANCHORS,
        nvme::ANCHORS,
        wrapped::WHOLE,
        nearby::ANCHORS,
        waiting::ANCHORS,
        registration::ANCHORS,
        removal::ANCHORS,
        retries::ANCHORS,
        provider::ANCHORS,
        ranks::ANCHORS,
        &cluster::REQUESTS,
        &[ended::LABEL, wrapped::COUNTED, status::LABEL_OF_NAMES],
    ];
    let words = of_forms
        .into_iter()
        .flatten()
        .copied()
        .chain(failures())
        .chain(complaint::anchors())
        .chain(memory::neighbours())
        .chain(marks::anchors())
        .chain(success::anchors())
        .chain(ended::anchors())
        .chain(ended::exceptions())
        .chain(trace::anchors())
        .chain(families::anchors());
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(words)
        .ok()
});
