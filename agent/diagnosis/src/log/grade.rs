//! Grades a line of any program: does it look like a failure, and is it about RDMA?
//!
//! The grade knows no program. It decides which lines are worth parsing, and which of those that nothing recognises are shown as
//! not recognised.

mod code;
mod level;
pub(super) mod provider;
mod quoted;
mod words;

use rdma_health_kernel_log::Service;

use super::{
    codes,
    events::is_of_cm,
    kernel::of_service,
    line::{Lower, is_word},
    operation::{creates_handle, operation},
    phrases::Occurrence,
    status::{is_count_of_none, is_of_completion, is_of_netdev},
};
pub(super) use level::{Level, is_klog_error, level};
use quoted::is_quoted;
pub(super) use quoted::{has_conversion, is_question};
pub(super) use words::failures;
use words::{FAILURES, LISTS, TOPIC_BEGINNINGS};

/// What a line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers another question about the line"
)]
pub(super) struct Grade {
    /// It is about RDMA.
    pub(super) about_rdma: bool,
    /// It has a word of failure that is not negated.
    pub(super) failing: bool,
    /// Its own level, if it states one.
    pub(super) level: Option<Level>,
    /// It quotes documentation, advice or source code.
    pub(super) quoted: bool,
    /// It is known to have no consequence.
    pub(super) harmless: bool,
}

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
            .or_else(|| code::negative(lower))
            .or_else(|| code::labelled(lower))
            .or_else(|| code::minus_one(lower))
            .or_else(|| code::symbol(line))
            .or_else(|| code::returned(lower))
            .or_else(|| code::status_of_call(lower))
            .or_else(|| provider::refusal(lower))
            .or_else(|| warned(lower).filter(|_| level == Some(Level::Warning)));
        let harmless = is_harmless(lower);
        Self {
            about_rdma: is_about_rdma(lower) || of_service(line.text) == Some(Service::Rdma),
            failing: failure.is_some() && !harmless,
            level,
            quoted: is_quoted(line, level, failure),
            harmless,
        }
    }

    /// Whether the line reports a failure, as far as it can be known without parsing it: by a word, or by its own level.
    pub(super) fn is_failure(self) -> bool {
        let fails = self.failing || self.level == Some(Level::Error);
        fails && !self.quoted && !self.harmless && self.level != Some(Level::Info)
    }
}

/// Where a warning says what is wrong in words that are a failure only there.
fn warned(lower: &str) -> Option<usize> {
    let mut found = LISTS.warned.find(lower);
    let one = found.find(|found| found.begins(lower) && found.ends(lower))?;
    Some(one.start)
}

/// Whether the line is known to have no consequence.
fn is_harmless(lower: &str) -> bool {
    // The heading of a completion that mlx5 dumps: its status is in the next line, or in this one.
    let is_heading =
        lower.contains("error cqe on cqn") && !lower.contains("syndrome") && !is_of_netdev(lower);
    // Communication that the GPU starts (GIN) needs GDRCopy, which others do without.
    LISTS.harmless.occur(lower) && !is_of_compiler(lower) && !lower.contains("gin_init")
        || is_capability(lower)
        || is_heading
        || is_client_gone(lower)
        || tries_memory(lower)
        || misses_tool(lower)
        || codes::absent_module(lower).is_some_and(codes::is_former)
}

/// Whether a compiler, or a tool of a build, refused a file: `…/efa_nv_peermem.o: error: objtool: … is deprecated`.
fn is_of_compiler(lower: &str) -> bool {
    const FILES: [&str; 5] = [".c", ".h", ".o", ".ko", ".mod"];
    let of_file = |before: &str| {
        let path = before.split(' ').next_back().unwrap_or_default();
        let path = path.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
        FILES.iter().any(|suffix| path.ends_with(suffix))
    };
    lower
        .split_once(": error: ")
        .is_some_and(|(before, _)| of_file(before))
}

/// Whether libfabric's core tries the kinds of GPU memory, as it does at each start, whatever the job uses:
/// `libfabric:812:1760000000::core:core:ofi_hmem_init():676<warn> Failed to initialize hmem iface FI_HMEM_ZE: No data available`.
fn tries_memory(lower: &str) -> bool {
    let function = || lower.split_once(":core:core:")?.1.split_once("():");
    function().is_some_and(|(name, _)| {
        name.ends_with("dl_init") || name.contains("hmem") && (name.contains("init") || name.contains("open"))
    })
}

/// Whether what collects metrics does not find the tool that it calls: `failed to get RDMA stats … 'rdma statistic -j' … executable file not found`.
fn misses_tool(lower: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    has(&["executable file not found", "command not found"])
        && has(&["metric", "statistic", "stats", "exporter", "monitor"])
}

/// Whether a server of the kernel reports that a client left, and no reason: `ksmbd: smb_direct: disconnected`.
fn is_client_gone(lower: &str) -> bool {
    let is_of_server = || {
        ["ksmbd:", "nvmet", "isert", "ib_srpt"]
            .iter()
            .any(|name| lower.contains(name))
    };
    lower.trim_end().ends_with(": disconnected") && is_of_server()
}

/// DPDK and drivers list what an adapter does not have when it starts: `mlx5_net: Packet pacing is not supported.`
fn is_capability(lower: &str) -> bool {
    let trimmed = lower.trim().trim_end_matches('.');
    // A row of what a tool found: `Userspace RDMA : Unsupported`.
    if trimmed.ends_with(" : unsupported") {
        return true;
    }
    // The firmware does not know the command (`CMD_STAT_BAD_OP` of mlx4).
    if trimmed.contains("mlx4_core ") && trimmed.ends_with("fw status = 0x2") {
        return true;
    }
    ["mlx5_net: ", "mlx5_common: ", "mlx5_pci: ", "mst::"]
        .iter()
        .any(|component| trimmed.starts_with(component))
        && ["is not supported", "isn't supported"]
            .iter()
            .any(|end| trimmed.ends_with(end))
}

fn is_about_rdma(lower: &str) -> bool {
    // In names such as `RegisterRdmaMemoryRegion`.
    const WITHIN: [&str; 4] = ["rdma", "infiniband", "ibverbs", "nvfs"];
    let is_topic = |found: Occurrence| {
        found.begins(lower) && (found.index < TOPIC_BEGINNINGS.len() || found.ends(lower))
    };
    WITHIN.iter().any(|word| lower.contains(word))
        || LISTS.topics.find(lower).any(is_topic)
        || lower.split([' ', ':', '[']).any(is_ipoib)
        || is_of_completion(lower)
        || is_of_cm(lower)
        || creates_handle(lower)
}

/// Whether a word is an interface of IP over InfiniBand by its usual name: `ib0`, or by its place: `ibp20s0`, `ibs3`.
pub(super) fn is_ipoib(word: &str) -> bool {
    let rest = word
        .strip_prefix("ib")
        .map(|rest| rest.split('.').next().unwrap_or_default());
    let is_place = |rest: &str| {
        rest.strip_prefix(['p', 's', 'o', 'x']).is_some_and(|place| {
            place.starts_with(|c: char| c.is_ascii_digit())
                && place.len() <= 12
                && place
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        })
    };
    if rest.is_some_and(is_place) {
        return true;
    }
    let number = rest;
    number.is_some_and(|number| {
        (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether the last clause of a text in lower case has a word of failure, or names a call: a number behind it is what it returned.
pub(super) fn fails_before(lower: &str) -> bool {
    let clause = [". ", "; ", "\t"].iter().fold(lower, |rest, end| {
        let at = rest.rfind(end).map_or(0, |at| at + end.len());
        &rest[at..]
    });
    // How a connection ends: `closed (-111)`.
    let is_ended = ["closed", "ended", "reset"]
        .iter()
        .any(|end| clause.trim_end_matches(['(', '[', '-', ' ', ':']).ends_with(end));
    let has_word = || LISTS.failures.find(clause).any(|found| is_failure(clause, found));
    is_ended || has_word() || operation(clause).is_some()
}

/// Whether a text in lower case has a word of failure, or an error number.
pub(super) fn fails(lower: &str) -> bool {
    let has_word = || LISTS.failures.find(lower).any(|found| is_failure(lower, found));
    has_word() || code::negative(lower).is_some()
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
    let negated = follows_space
        && !is_state
        && !ends_with_name(before)
        && NEGATIONS.iter().any(|no| ends_with_word(before, no));
    let rest = lower[end..].trim_start_matches(['"', '\'']);
    let assigned = [":", "=", " =", " :", " count"]
        .iter()
        .any(|sign| rest.starts_with(sign));
    let value = rest.trim_start_matches([' ', '=', ':']);
    // `failed tasks: 0`.
    let counted = rest
        .trim_start()
        .split_once([':', '='])
        .filter(|(noun, _)| rest.starts_with(' ') && noun.bytes().all(|byte| byte.is_ascii_lowercase()));
    let counts_none = counted.is_some_and(|(_, value)| begins_with_word(value.trim_start(), "0"));
    // `retries 3, errors 0`.
    let is_noun = FAILURES
        .get(index)
        .is_some_and(|word| matches!(*word, "error" | "errors" | "failures" | "lost"));
    let follows_none = is_noun
        && rest
            .strip_prefix(' ')
            .is_some_and(|value| begins_with_word(value, "0"));
    let is_nothing = counts_none
        || follows_none
        || assigned && NOTHING.iter().any(|nothing| begins_with_word(value, nothing));
    // `timeout=20`, `timeout set to 20` are settings.
    let is_timeout = FAILURES.get(index) == Some(&"timeout");
    let is_number = rest
        .strip_prefix(' ')
        .is_some_and(|value| value.starts_with(|c: char| c.is_ascii_digit()));
    let is_setting = is_timeout
        && (assigned
            || is_number
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

/// Whether a text ends with a 0 that counts nothing: the end of a version or of a PCI address (`0000:3b:00.0 unable to …`), or the number of something
/// (`port 0 is down`).
fn ends_with_name(before: &str) -> bool {
    const NUMBERED: [&str; 18] = [
        "port", "device", "dev", "rank", "gpu", "node", "queue", "qp", "channel", "lane", "rail", "nic",
        "hca", "pf", "vf", "socket", "core", "index",
    ];
    let Some(rest) = before.strip_suffix('0') else {
        return false;
    };
    let is_part = rest
        .strip_suffix('.')
        .is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_hexdigit()));
    let word = rest
        .trim_end()
        .rsplit(|c: char| !c.is_ascii_alphanumeric())
        .next();
    is_part || rest.ends_with(' ') && word.is_some_and(|word| NUMBERED.contains(&word))
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
            "mlx5_common: rdma-core glue \"20.03.0\" mismatch: \"24.11.0\" is required",
            "mlx5_common: Device 0000:3b:00.0 unable to DMA map",
            "rdma: port 0 is down",
        ] {
            let grade = of(line);
            assert!(grade.about_rdma && grade.is_failure(), "{line}: {grade:?}");
        }
        for line in [
            "INFO rdma: 0 errors, 0 failed",
            "rdma counters: errors=0 failures: 0 timeout=20",
            "rdma counters: retries 3, errors 0, lost 0",
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
