//! Grades a line of any program: does it look like a failure, and is it about RDMA?
//!
//! The grade knows no program. It decides which lines are worth parsing, and which of those that nothing recognises are shown as
//! not recognised.

use std::sync::LazyLock;

use super::{
    errors, grammar,
    line::{Lower, is_word},
    phrases::{Occurrence, Phrases},
    status::is_count_of_none,
};

/// The level that a line states about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Information, or less.
    Info,
    Warning,
    Error,
}

/// What a line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grade {
    /// It is about RDMA.
    pub(super) about_rdma: bool,
    /// It has a word of failure that is not negated.
    pub(super) failing: bool,
    /// Its own level, if it states one.
    pub(super) level: Option<Level>,
    /// It quotes documentation, advice or source code, or is known to have no consequence.
    pub(super) quoted: bool,
}

/// Words of RDMA, in lower case. Those of the first list may begin a longer word (`mlx5_0`, `rdmacm`), the others stand alone.
const TOPIC_BEGINNINGS: &[&str] = &[
    "ibv_",
    "rdma",
    "infiniband",
    "mlx4",
    "mlx5",
    "bnxt_re",
    "irdma",
    "i40iw",
    "hfi1",
    "qedr",
    "erdma",
    "libibverbs",
    "librdmacm",
    "libmlx",
    "rdmav",
    "nvshmem",
    "ibgda",
    "ibrc",
    "ucx",
    "uct_",
    "ucp_",
    "openib",
    "openfabrics",
    "libfabric",
    "ofi_",
    "efa_",
    "fi_",
    "transport_ofi",
    "rdmap",
    "roce",
    "verbs",
    "uverbs",
    "umad",
    "kiblnd",
    "o2ib",
    "o2iblnd",
    "lnet",
    "nvmf",
    "nvme_rdma",
    "svcrdma",
    "xprtrdma",
    "rpcrdma",
    "iser",
    "isert",
    "srp_",
    "ib_srp",
    "ibvsocket",
    "peermem",
    "nvidia_peermem",
    "nv_peer_mem",
    "gpudirect",
    "net/ib",
    "net/ofi",
    "ib_",
    "nccl warn net",
    "rccl warn net",
    "mooncake",
    "async error event",
    "deepep",
    "deep_ep",
    "uccl",
    "sharp_get_job",
    "sharp_create_job",
    "sharp_coll",
    "transfer engine",
    "nixl",
    "gdrcopy",
    "connectx",
    "bnxt_en",
    "ionic",
    "mana_ib",
    "hns_roce",
    "lnd o2ib",
    "invalid service id",
    "connect rejected",
    "verbs rdma",
    "transfer_task",
    "transfer_fail",
    "store_py",
    "multi_transport",
    "kvcache",
    "mellanox",
    "smc-r",
    "psm2",
    "psm3",
    "dapl",
    "mvapich",
    "transport retry",
    "completion with error",
    "failed status",
    "wr_id",
    "vendor err",
    "got completion",
    "vendor_err",
    "syndrom",
    "completion queue",
    "queue pair",
    "rccl",
    "failed to connect eps",
    "ibwarn",
    "ibpanic",
    "rxe",
    "siw",
    "opensm",
    "ipoib",
    "rdma_cm",
    "hostdev",
    "sriov",
    "sr-iov",
    "multus",
    "ib-sriov",
    // Adapters, their libraries and their subnet manager.
    "cxgb4",
    "cxi",
    "ehca",
    "hns3",
    "infinipath",
    "mana",
    "ocrdma",
    "osm_",
    "sm port",
    "master sm",
    "subnet manager",
    "duplicated_guid",
    "node guid",
    "pfc ",
    "pfcwd",
    "psm",
    "qed_",
    "qib",
    "rc_mlx5",
    "dc_mlx5",
    "ud endpoint",
    "rc endpoint",
    "dc endpoint",
    "ud_ep",
    // GPUs and the path to them.
    "nvrm",
    "nvidia:",
    "amdgpu:",
    "gdaprovider",
    "rocshmem",
    "segment descriptor",
    "transfer_metadata",
    "arm-smmu",
    "amd-vi",
    "dmar:",
    "pciehp",
    // Programs that communicate over RDMA.
    "nccl warn",
    "rccl warn",
    "distbackenderror",
];
const TOPIC_WORDS: &[&str] = &[
    "qp",
    "cq",
    "cqe",
    "srq",
    "mr",
    "mrs",
    "lkey",
    "rkey",
    "gid",
    "gids",
    "hca",
    "hcas",
    "efa",
    "ib",
    "wc",
    "rtr",
    "rts",
    "pkey",
    "ofi",
    "queue pair",
    "completion queue",
    "memory region",
    "ib device",
    "lid",
    "vfs",
];

/// Words of failure, in lower case; each stands alone, except that an ending may follow.
pub(super) const FAILURES: &[&str] = &[
    "error",
    "errors",
    "err",
    "fail",
    "failed",
    "fails",
    "failure",
    "failures",
    "failing",
    "cannot",
    "can't",
    "can not",
    "could not",
    "couldn't",
    "couldnt",
    "unable",
    "not found",
    "no such",
    "timed out",
    "timeout",
    "timedout",
    "refused",
    "refuses",
    "denied",
    "forbidden",
    "invalid",
    "unreachable",
    "abort",
    "aborted",
    "aborting",
    "fatal",
    "panic",
    "rejected",
    "reject",
    "exceeded",
    "exceeds",
    "unavailable",
    "not available",
    "not supported",
    "unsupported",
    "lost",
    "missing",
    "corrupt",
    "corrupted",
    "insufficient",
    "bad address",
    "did not",
    "does not exist",
    "not permitted",
    "not allowed",
    "no route",
    "disconnected",
    "catastrophic",
    "compromised",
    "unexpected",
    "mismatch",
    "too small",
    "too low",
    "not enough",
    "no active",
    "is down",
    "not active",
    "violates",
    "hung",
    "stuck",
    "dead",
    "no response",
    "not responding",
    "leak",
    "exception",
    "broken",
    "returned null",
    "null value",
    "bad",
    "stall",
    "stalled",
    "abnormal",
    "giving up",
    "gave up",
    "disagrees",
    "unknown symbol",
    "link down",
    "port down",
    "went down",
    "goes down",
    "disconnect",
    "rejecting",
    "unhealthy",
    "inconsistent",
    "overrun",
    "incompatible",
    "fallen off",
    "safe mode",
    "unhandled",
    "crashed",
    "oops",
    "rip: 0010",
    "storm",
    "catas",
    "duplicated",
    "will be disabled",
    "state down",
    "port_down",
    "non-rdma",
    "fallback route",
    "not loaded",
];

/// What makes the words after it documentation or advice, in lower case.
const QUOTES: &[&str] = &[
    "if you see",
    "when you see",
    "if you get",
    "if you encounter",
    "in case of",
    "hint:",
    "hint ",
    "for example",
    "e.g.",
    "such as",
    "tip:",
    "note:",
    "faq",
    "troubleshoot",
    "searching for",
    "grep ",
    "documentation",
    "usage:",
    "the following errors",
    "would fail",
    "will fail",
    "may fail",
    "might fail",
    "can fail",
    "could fail",
    "to avoid",
    "to prevent",
    "avoids",
    "prevents",
    "in order to",
    "known issue",
    "fixed",
    "fixes",
    "will retry",
    "would be",
    "set this",
    "raise the",
    "default:",
    "description:",
    "explains",
    "on failure",
    "on error",
    "in the event of",
    "alert:",
    "expr:",
    "fix ",
    "fixing ",
    "runbook",
    "summary:",
];

/// Words of a text about errors, wherever they are.
const ABOUT_ERRORS: &[&str] = &[
    " means that",
    " in the log",
    "indicates that",
    "this error",
    "these errors",
    "such errors",
    "error messages",
    "if the ",
];

/// Source code, markup and structured documentation: the line quotes what a program may print.
const CODE: &[&str] = &[
    "raise ",
    "assert ",
    "return ",
    "if ",
    "elif ",
    "else ",
    "case ",
    "logger.",
    "logging.",
    "print(",
    "printf(",
    "echo ",
    "//",
    "#",
    "* ",
    "> ",
    "|",
    "```",
    "throw ",
    "except ",
    "catch ",
    "def ",
    "function ",
    "fprintf(",
    "std::",
    "+ ",
    "$ ",
    "- `",
    "* `",
    "commit ",
    // A line of modprobe.d.
    "options ",
    // Results of tests that passed.
    "ok ",
    "pass:",
    "passed:",
    "[ run ",
    "[       ok",
];

/// Lines of failure that are known to have no consequence, in lower case.
const HARMLESS: &[&str] = &[
    // NCCL looks for optional plugins, and for a second time under another name.
    "/plugin: could not find",
    "/plugin : could not find",
    "/plugin: no plugin found",
    "no plugin found",
    "failed to initialize net plugin",
    "libnccl-net.so",
    "libnccl-tuner",
    "libnccl-profiler",
    "failed to open libibverbs.so.1 (",
    // Open MPI since 4.0 leaves InfiniBand to UCX and logs it.
    "error initializing an openfabrics device",
    "infiniband ports on a device",
    "no preset parameters were found",
    "btl_openib_allow_ib",
    // Changes that the subnet manager or the administrator makes; programs continue.
    "client reregistration",
    "client_reregister",
    "sm change",
    "sm_change",
    "lid change",
    "port active",
    "port_active",
    // PyTorch's and Gloo's sockets try IPv6 first; the end of a job.
    "client socket cannot be initialized",
    "destroy_process_group",
    "connection closed by localrank",
    // libfabric asks every provider.
    "returned -61 (no data available)",
    "ofi_mrail_addr_strc",
    "disabling shared memory failed",
    "ibv_fork_init() was disabled or failed",
    "unused env variable",
    "unused environment variable",
    "gdrcopy library not found",
    "nvlsmemory",
    // Advice of NCCL and RCCL at their only level for it, and the end of a job.
    "is deprecated",
    "atomic ops is not supported",
    "numa auto balancing",
    "hsa_force_fine_grain_pcie",
    "could not find real path of",
    "cannot initialize collnet",
    "accept failed success",
    "version is incompatible, required",
    // The program goes on without it, or a test provoked it.
    ", ignoring",
    "(ignored)",
    "(expected)",
    "as expected",
    // Memory that was corrected has a syndrome, too.
    "edac mc",
    "nvreg_registrydwords=",
    "[firmware bug]",
    // The kernel tries other sizes; what does not fit afterwards is reported for the device.
    "bridge window",
];

/// Words of failure, and the C library's texts of error numbers.
pub(super) fn failures() -> impl Iterator<Item = &'static str> {
    FAILURES.iter().copied().chain(errors::texts())
}

/// The lists above, each searched in one pass.
struct Lists {
    topics: Phrases,
    failures: Phrases,
    quotes: Phrases,
    about_errors: Phrases,
    harmless: Phrases,
}

static LISTS: LazyLock<Lists> = LazyLock::new(|| Lists {
    topics: Phrases::new(TOPIC_BEGINNINGS.iter().chain(TOPIC_WORDS).copied()),
    failures: Phrases::new(failures()),
    quotes: Phrases::new(QUOTES.iter().copied()),
    about_errors: Phrases::new(ABOUT_ERRORS.iter().copied()),
    harmless: Phrases::new(HARMLESS.iter().copied()),
});

impl Grade {
    /// Grades a line.
    pub(super) fn of(line: &Lower<'_>) -> Self {
        let lower = line.lower.as_str();
        let level = level(line.text);
        let failure = LISTS
            .failures
            .find(lower)
            .find(|found| is_failure(lower, *found))
            .map(|found| found.start)
            .or_else(|| failing_symbol(line.text))
            .or_else(|| negative_code(lower));
        let harmless = is_harmless(lower);
        Self {
            about_rdma: is_about_rdma(lower),
            failing: failure.is_some() && !harmless,
            level,
            quoted: harmless || is_quoted(line, level, failure),
        }
    }

    /// Whether the line reports a failure, as far as it can be known without parsing it: by a word, or by its own level.
    pub(super) fn is_failure(self) -> bool {
        let fails = self.failing || self.level == Some(Level::Error);
        fails && !self.quoted && self.level != Some(Level::Info)
    }
}

/// Whether the line is known to have no consequence.
fn is_harmless(lower: &str) -> bool {
    LISTS.harmless.occur(lower)
}

fn is_about_rdma(lower: &str) -> bool {
    // In names such as `RegisterRdmaMemoryRegion`.
    const WITHIN: [&str; 3] = ["rdma", "infiniband", "ibverbs"];
    let is_topic = |found: Occurrence| {
        found.begins(lower) && (found.index < TOPIC_BEGINNINGS.len() || found.ends(lower))
    };
    WITHIN.iter().any(|word| lower.contains(word))
        || LISTS.topics.find(lower).any(is_topic)
        || lower.split([' ', ':', '[']).any(is_ipoib)
}

/// Whether a word is an interface of IP over InfiniBand by its usual name: `ib0`.
fn is_ipoib(word: &str) -> bool {
    let number = word
        .strip_prefix("ib")
        .map(|rest| rest.split('.').next().unwrap_or_default());
    number.is_some_and(|number| {
        (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether a word of failure stands alone and is neither negated nor the name of a setting or of a counter.
fn is_failure(lower: &str, found: Occurrence) -> bool {
    const NEGATIONS: [&str; 9] = [
        "no", "0", "without", "zero", "non", "not", "any", "ignore", "ignoring",
    ];
    const NOTHING: [&str; 11] = [
        "0", "none", "null", "false", "off", "ok", "success", "no", "nil", "[]", "{}",
    ];
    if !(found.begins(lower) && found.ends(lower)) {
        return false;
    }
    let Occurrence { start, end, index } = found;
    let bytes = lower.as_bytes();
    let ends_with_word = |text: &str, word: &str| {
        text.strip_suffix(word)
            .is_some_and(|rest| rest.as_bytes().last().is_none_or(|byte| !is_word(*byte)))
    };
    let begins_with_word = |text: &str, word: &str| {
        text.strip_prefix(word)
            .is_some_and(|rest| rest.as_bytes().first().is_none_or(|byte| !is_word(*byte)))
    };
    let before = lower[..start].trim_end_matches([' ', '\'', '"', '(']);
    // `[0] error` is a rank.
    let follows_space = start > 0 && bytes[start - 1] == b' ';
    // `lmc 0 state DOWN` is not none of them.
    let is_state = FAILURES
        .get(index)
        .is_some_and(|words| words.starts_with("state"));
    let negated = follows_space && !is_state && NEGATIONS.iter().any(|no| ends_with_word(before, no));
    let rest = lower[end..].trim_start_matches(['"', '\'']);
    let assigned = [":", "=", " =", " :", " count"]
        .iter()
        .any(|sign| rest.starts_with(sign));
    let value = rest.trim_start_matches([' ', '=', ':']);
    let is_nothing = assigned && NOTHING.iter().any(|nothing| begins_with_word(value, nothing));
    // `timeout=20`, `timeout set to 20` are settings.
    let is_timeout = FAILURES.get(index) == Some(&"timeout");
    let is_setting = is_timeout
        && (assigned
            || [
                " set",
                " is ",
                " of ",
                " polling",
                " handling",
                " interval",
                " value",
            ]
            .iter()
            .any(|word| rest.starts_with(word)));
    let continues = bytes.get(end) == Some(&b'-');
    !(negated || is_nothing || is_setting || continues)
}

/// Whether a line that begins with `#` is a message: mercury begins its lines with `# [` or, in DAOS, with a function, `# na_ofi_msg_send(): …`.
fn is_message_after_hash(trimmed: &str) -> bool {
    trimmed.strip_prefix("# ").is_some_and(|rest| {
        let end = rest.find("(): ").unwrap_or_default();
        rest.starts_with('[') || end > 0 && rest.bytes().take(end).all(is_word)
    })
}

/// Whether the line is a comment, a command, a part of a patch or source code, whatever level it quotes.
fn is_source(lower: &str) -> bool {
    const BEGINNINGS: [&str; 8] = ["#", "//", "```", "export ", "$ ", "+ ", "-  ", "| "];
    const ENDS: [&str; 4] = [");", "{", "};", "\\n\","];
    let trimmed = lower.trim();
    let begins = BEGINNINGS.iter().any(|beginning| trimmed.starts_with(beginning));
    begins && !is_message_after_hash(trimmed)
        || ENDS.iter().any(|end| trimmed.ends_with(end))
        || has_conversion(trimmed)
        || is_pattern(trimmed)
}

/// Whether a line has a conversion of `printf`, `%s` or `%08lx`: a program replaces it before it prints the message.
pub(super) fn has_conversion(lower: &str) -> bool {
    memchr::memchr_iter(b'%', lower.as_bytes()).take(64).any(|at| {
        // `50%s` is a number, `%%` a percent sign.
        let follows =
            at > 0 && (lower.as_bytes()[at - 1].is_ascii_digit() || lower.as_bytes()[at - 1] == b'%');
        let rest = lower[at + 1..]
            .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '#' | '*'));
        let rest = rest.trim_start_matches(['l', 'h', 'z', 'j', 't']);
        let mut bytes = rest.bytes();
        let converts = matches!(
            bytes.next(),
            Some(b'd' | b's' | b'u' | b'x' | b'p' | b'i' | b'm' | b'f')
        );
        // The kernel's `%pI4`, `%pM`, `%pe` go on with letters; a path of a URL such as `%dfoo` does not occur.
        let ends = bytes.next().is_none_or(|byte| !is_word(byte)) || rest.starts_with('p');
        !follows && converts && ends
    })
}

/// Whether a line is a regular expression, as monitors of logs have them, or a pattern in their configuration.
fn is_pattern(lower: &str) -> bool {
    const PARTS: [&str; 8] = [".*", ".+", "\\d", "\\s", "\\w", "[0-9]+", "(?i)", "(?:"];
    PARTS.iter().any(|part| lower.contains(part)) && !super::origin::has(lower)
}

/// A name in capitals one part of which is a failure: `TRANSFER_FAIL`, `NIXL_ERR_BACKEND`, `PORT_DOWN`; and where it is. Names of
/// settings are left out.
fn failing_symbol(text: &str) -> Option<usize> {
    const PARTS: [&str; 13] = [
        "ERR",
        "ERROR",
        "FAIL",
        "FAILED",
        "FAILURE",
        "DOWN",
        "ABORT",
        "ABORTED",
        "DISCONNECT",
        "DISCONNECTED",
        "UNREACHABLE",
        "FATAL",
        "REJECTED",
    ];
    const SETTINGS: [&str; 8] = [
        "NCCL_", "TORCH_", "UCX_", "FI_LOG", "NVSHMEM_", "OMPI_", "MC_", "SLURM_",
    ];
    let mut place = 0;
    for token in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let start = place;
        place += token.len();
        let name = token.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_symbol = name.len() > 4
            && name.contains('_')
            && name
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            && !SETTINGS.iter().any(|setting| name.starts_with(setting));
        let counts_none =
            || text.starts_with("0 occurrences") || is_count_of_none(&text[start + name.len()..]);
        if is_symbol && name.split('_').any(|part| PARTS.contains(&part)) && !counts_none() {
            return Some(start);
        }
    }
    None
}

/// A negative number where programs print the error number of a call: `ibv_poll_cq: -5`, `returned -71`, `rc=-22`.
fn negative_code(lower: &str) -> Option<usize> {
    const BEFORE: [&str; 9] = [":", "=", "(", "[", "returned", "ret", "rc", "code", "with"];
    let bytes = lower.as_bytes();
    memchr::memchr_iter(b'-', bytes).take(64).find(|at| {
        let digits = &bytes[at + 1..];
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let ends = digits
            .get(length)
            .is_none_or(|byte| !is_word(*byte) && !matches!(byte, b'.' | b'-' | b'%' | b':' | b'/'));
        // -1 is also "none": a NUMA node, a rank.
        let code: u32 = lower[at + 1..at + 1 + length].parse().unwrap_or(0);
        let before = lower[..*at].trim_end_matches(' ');
        let follows = *at == 0 || !is_word(bytes[at - 1]);
        follows && ends && (2..=133).contains(&code) && BEFORE.iter().any(|word| before.ends_with(word))
    })
}

/// The level near the beginning of the line: `NCCL WARN`, `[error]`, `level=info`, klog's `E0331`, SPDK's `*ERROR*`.
pub(super) fn level(text: &str) -> Option<Level> {
    let mut begin = text.len().min(240);
    while !text.is_char_boundary(begin) {
        begin -= 1;
    }
    let head = &text[..begin];
    let mut place = 0;
    for token in head.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let before = head[..place].chars().next_back();
        // `level=info` is a level; `NCCL_DEBUG=INFO` is a setting.
        let is_value = before == Some('=')
            && !["level=", "lvl=", "severity="]
                .iter()
                .any(|key| head[..place].ends_with(key));
        place += token.len();
        if is_value {
            continue;
        }
        let (word, after) = match token.char_indices().next_back() {
            Some((at, last)) if !last.is_ascii_alphanumeric() => (&token[..at], Some(last)),
            _ => (token, None),
        };
        let marked = matches!(before, Some('<' | '[' | '=' | '*' | '"')) && !matches!(after, Some('_' | '.'));
        let found = match word {
            "INFO" | "DEBUG" | "TRACE" | "DIAG" | "REQ" => Some(Level::Info),
            // NCCL has no other level for what goes wrong.
            "WARN" if head[..place].ends_with("NCCL WARN ") => Some(Level::Error),
            "Fatal" if after == Some(':') => Some(Level::Error),
            "WARN" | "WARNING" | "Warning" => Some(Level::Warning),
            "ERROR" | "ERR" | "FATAL" | "CRITICAL" | "CRIT" | "EMERG" | "ALERT" => Some(Level::Error),
            "info" | "debug" | "trace" | "notice" | "dbg" if marked => Some(Level::Info),
            "warn" | "warning" if marked => Some(Level::Warning),
            "error" | "err" | "fatal" | "critical" | "crit" if marked => Some(Level::Error),
            "Normal" if place <= "Normal ".len() + 4 => Some(Level::Info),
            word if word.len() == 5 && word[1..].bytes().all(|b| b.is_ascii_digit()) => {
                match word.as_bytes()[0] {
                    b'I' => Some(Level::Info),
                    b'W' => Some(Level::Warning),
                    b'E' | b'F' => Some(Level::Error),
                    _ => None,
                }
            }
            _ => None,
        };
        // `ERROR` in the name of a status is not a level.
        if found.is_some() && !matches!(before, Some('_' | '-')) && !matches!(after, Some('_')) {
            return found;
        }
    }
    None
}

/// Whether a line is a part of a text about errors: several sentences with a condition or advice, and no sign of a program that ran.
fn is_prose(text: &str) -> bool {
    /// The fewest words of two sentences in one line. Programs wrap their own help at less.
    const WORDS: usize = 20;
    const ADVICE: [&str; 12] = [
        "if", "should", "may", "can", "could", "when", "would", "must", "such", "you", "default", "value",
    ];
    let words = || text.split_whitespace();
    let sentences =
        words().filter(|word| word.ends_with('.')).count() + usize::from(text.trim_end().ends_with(':'));
    // `Error from server (Forbidden): …`: a program names itself or the kind of its message first.
    let is_labelled = words().take(6).any(|word| word.ends_with(':'));
    let advises = words()
        .filter(|word| ADVICE.contains(&word.to_ascii_lowercase().trim_end_matches(',')))
        .count();
    let begins = text.trim_start().starts_with(|c: char| c.is_ascii_uppercase());
    begins
        && !is_labelled
        && sentences >= 2
        && advises >= 2
        && words().count() >= WORDS
        && !super::origin::has(text)
}

fn is_quoted(line: &Lower<'_>, level: Option<Level>, failure: Option<usize>) -> bool {
    /// A hint follows NCCL's prefix.
    const NEAR: usize = 120;
    let lower = line.lower.as_str();
    if lower.find("hint:").is_some_and(|at| at < NEAR)
        || is_source(lower)
        || grammar::is_search(lower)
        || is_prose(line.text)
    {
        return true;
    }
    if level >= Some(Level::Warning) {
        return false;
    }
    let failure = failure.unwrap_or(lower.len());
    let advice = || {
        LISTS
            .quotes
            .find(lower)
            .any(|found| found.start < failure && found.begins(lower))
    };
    let about = || level.is_none() && LISTS.about_errors.occur(lower);
    let trimmed = lower.trim_start();
    let code = CODE.iter().any(|beginning| trimmed.starts_with(beginning)) && !is_message_after_hash(trimmed);
    // A status in backquotes is a name in a text.
    let named = || lower.contains("`ibv_wc_") || lower.contains("`ibv_");
    code || advice() || about() || named()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Grade {
        Grade::of(&Lower::of(line))
    }

    #[test]
    fn failures_about_rdma_are_told_from_healthy_and_foreign_lines() {
        for line in [
            "E0331 12:03:04.222625 56060 worker_pool.cpp:281] Worker: cannot make connection for endpoint: mlx5_1",
            "[2026-11-21 10:00:00] [ERROR] rdma agent: lost connection to peer 10.0.0.3",
            "kernel: infiniband mlx5_0: unexpected cqe",
            "storage[12]: verbs queue pair died: no response",
        ] {
            let grade = of(line);
            assert!(grade.about_rdma && grade.is_failure(), "{line}: {grade:?}");
        }
        for line in [
            "INFO rdma: 0 errors, 0 failed",
            "rdma counters: errors=0 failures: 0 timeout=20",
            "I0513 11:04:17.478277 5507 rdma_context.cpp:125] RDMA device: mlx5_4, retry after timeout 3",
            "2026-01-01 INFO hint: if you see IBV_WC_RETRY_EXC_ERR in the logs raise NCCL_IB_TIMEOUT",
            "If you see `ibv_reg_mr failed`, raise the memlock limit of the RDMA job.",
            "    raise RuntimeError(\"ibv_reg_mr failed\")",
            "step 100 loss 2.31",
        ] {
            let grade = of(line);
            assert!(!(grade.about_rdma && grade.is_failure()), "{line}: {grade:?}");
        }
        assert!(!of("error: the database is not reachable").about_rdma);
    }
}
