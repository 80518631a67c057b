//! Signs that a person reports what happened to them.

use super::{
    super::trace::is_call as is_call_of_kernel,
    signs::{Line, WORDS},
};

/// Whether a person writes of their own system, as in an issue: `I am testing …`, `we get the following warning`. Manuals do not, though they
/// recommend.
pub(super) fn is_first_person(line: &Line<'_>) -> bool {
    // `What do I do if …?`
    const ASKS: [&str; 6] = ["do", "does", "can", "could", "should", "must"];
    const OURS: [&str; 14] = [
        "am",
        "are",
        "can",
        "cannot",
        "did",
        "encountered",
        "get",
        "got",
        "have",
        "hit",
        "observed",
        "run",
        "see",
        "tried",
    ];
    const PAPERS: [&str; 6] = ["documentation", "docs", "guide", "website", "wiki", "knowledge"];
    let text = line.text;
    if text.split_whitespace().count() < WORDS {
        return false;
    }
    let words = || {
        let parts = text.split([' ', '\'', '\u{2019}']);
        parts.map(|part| part.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
    };
    let before = std::iter::once("").chain(words());
    words()
        .zip(words().skip(1))
        .zip(before)
        .any(|((word, next), before)| match word {
            "I" => next.starts_with(|c: char| c.is_ascii_lowercase()) && !ASKS.contains(&before),
            "my" | "My" => true,
            "we" | "We" => OURS.contains(&next),
            // `in our cluster`, but not `see our documentation`.
            "our" => ["in", "on", "from"].contains(&before) && !PAPERS.contains(&next),
            _ => false,
        })
}

/// The title of an issue with its kind in brackets: `[Bug]: …`, `[Question] …`.
pub(super) fn is_issue_title(line: &Line<'_>) -> bool {
    const KINDS: [&str; 9] = [
        "bug",
        "question",
        "help",
        "usage",
        "issue",
        "support",
        "regression",
        "problem",
        "help wanted",
    ];
    let plain = line.lower.trim_start_matches(['#', '*', ' ']);
    let bracketed = plain.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    bracketed.is_some_and(|(kind, _)| KINDS.contains(&kind.trim()))
        || ["bug:", "bug report:", "question:"]
            .iter()
            .any(|kind| plain.starts_with(kind))
}

/// A heading of a form for issues: `### Describe the bug`, `**Expected behavior**`, `Environment:`.
pub(super) fn is_form_heading(line: &Line<'_>) -> bool {
    const BEGINNINGS: [&str; 24] = [
        "describe the bug",
        "describe the issue",
        "bug description",
        "issue description",
        "problem description",
        "expected behavio",
        "actual behavio",
        "current behavio",
        "expected result",
        "actual result",
        "steps to reproduce",
        "step to reproduce",
        "how to reproduce",
        "to reproduce",
        "reproduction",
        "reproducer",
        "your current environment",
        "environment",
        "setup and versions",
        "system info",
        "what happened",
        "what did you expect",
        "additional information",
        "additional context",
    ];
    /// The most words after the beginning.
    const MORE: usize = 5;
    let plain = line.lower.trim_matches(['#', '*', '_', ':', '-', ' ', '\r', '?']);
    // `ENVIRONMENT` is a heading of a manual page, `environment variables` one of any page.
    let is_manual = || !line.text.bytes().any(|byte| byte.is_ascii_lowercase());
    BEGINNINGS.iter().any(|beginning| {
        plain
            .strip_prefix(beginning)
            .is_some_and(|rest| !rest.starts_with(" variable") && rest.split_whitespace().count() <= MORE)
    }) && !is_manual()
}

/// What trackers and mails put before the words of a person: `name commented on Jan 13, 2025`, `On Mon, … wrote:`, `opened this issue`.
pub(super) fn is_of_thread(line: &Line<'_>) -> bool {
    const ACTS: [&str; 7] = [
        " commented ",
        "opened this issue",
        "opened an issue",
        " wrote:",
        " · comment · ",
        " · description · ",
        "posted on ",
    ];
    ACTS.iter().any(|act| line.lower.contains(act))
}

/// A question to other people, and the thanks for an answer.
pub(super) fn asks_for_help(line: &Line<'_>) -> bool {
    const PHRASES: [&str; 19] = [
        "what is the solution",
        "how to solve this",
        "how can this be solved",
        "anyone help",
        "anyone know",
        "anyone else",
        "someone help",
        "any help",
        "any idea",
        "any suggestion",
        "any advice",
        "any thoughts",
        "please help",
        "help me",
        "thanks",
        "thank you",
        "appreciate",
        "is this a bug",
        "is this a known",
    ];
    PHRASES.iter().any(|phrase| line.lower.contains(phrase))
}

/// What happened, without a condition: `The process crashes after …`, `It worked with 5.4`. `If the job fails with …` is advice.
pub(super) fn narrates(line: &Line<'_>) -> bool {
    const HAPPENED: [&str; 27] = [
        " happening",
        " happened",
        " crashes",
        " crashed",
        " hangs",
        " hung",
        " got stuck",
        " get stuck",
        "reproduc",
        " fails with",
        " failing with",
        " fails at",
        " fails on",
        " threw ",
        " throws",
        " stopped working",
        " ran into",
        " running into",
        " works fine",
        " worked ",
        "after upgrad",
        "after updat",
        "here's ",
        " this morning",
        " yesterday",
        " no longer work",
        " started to fail",
    ];
    let line_is = |words: &[&str]| words.iter().any(|word| line.lower.contains(word));
    let padded = || line.lower.starts_with("here's ") || line_is(&HAPPENED);
    // An item of a list names what can happen.
    let is_item = || line.text.trim_start().starts_with(['-', '*', '•']);
    // A person who leaves out the subject: `Getting "… not found" while creating a pod`.
    let is_short = || {
        const BEGINNINGS: [&str; 6] = [
            "getting ",
            "facing ",
            "seeing ",
            "hitting ",
            "encountering ",
            "encountered ",
        ];
        BEGINNINGS
            .iter()
            .any(|beginning| line.lower.starts_with(beginning))
            && line.lower.split_whitespace().count() >= WORDS
    };
    !line.is_of_program && (padded() || is_short()) && !is_item() && !is_conditional(line)
}

/// Whether a sentence has a condition, or speaks of what is usual.
fn is_conditional(line: &Line<'_>) -> bool {
    const WORDS: [&str; 13] = [
        "if",
        "may",
        "might",
        "can",
        "could",
        "should",
        "would",
        "usually",
        "typically",
        "often",
        "example",
        "symptom",
        "whenever",
    ];
    line.lower
        .split(|c: char| !c.is_ascii_alphabetic() && c != '\'')
        .any(|word| WORDS.contains(&word))
}

/// What a debugger, a runtime, a signal or the kernel leaves: a stack, the end of a process.
pub(super) fn is_crash(line: &Line<'_>) -> bool {
    const MARKS: [&str; 8] = [
        "kernel panic - not syncing",
        "program received signal",
        "segmentation fault",
        "core dumped",
        "traceback (most recent call",
        "(gdb)",
        "panicked at",
        "caught signal",
    ];
    let trimmed = line.lower.trim_start();
    let is_frame = || {
        let number = trimmed.strip_prefix('#').unwrap_or_default();
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && number[digits..].trim_start().starts_with("0x")
    };
    MARKS.iter().any(|mark| trimmed.contains(mark)) || is_frame() || is_call_of_kernel(line.text)
}

/// A prompt that names its host, or a prompt with the command of a program in its folder: `root@n1:~#`, `[user@n1 ~]$`, `$ ./run`.
pub(super) fn is_shell(line: &Line<'_>) -> bool {
    let trimmed = line.text.trim_start_matches(['`', ' ', '\t', '[', '(']);
    let first = trimmed.split([' ', '#', '$', '%']).next().unwrap_or_default();
    let ends_prompt = || {
        let rest = &trimmed[first.len()..];
        rest.contains("$ ") || rest.contains("# ") || rest.ends_with(['$', '#'])
    };
    let is_at_host = first.split_once('@').is_some_and(|(user, host)| {
        !user.is_empty() && !host.is_empty() && !user.contains(':') && !first.contains('<')
    });
    is_at_host && ends_prompt() || trimmed.starts_with("$ ./")
}

/// A value that only one machine has: `Local host: n110502`, `fw_ver: 22.41.1000`, `CA 'mlx5_0'`, a row of `rdma link`.
pub(super) fn is_own_value(line: &Line<'_>) -> bool {
    const NAMES: [&str; 12] = [
        "local host",
        "local device",
        "local adapter",
        "device name",
        "hostname",
        "hca_id",
        "fw_ver",
        "firmware version",
        "node_guid",
        "node guid",
        "port guid",
        "sys_image_guid",
    ];
    let trimmed = line.lower.trim();
    let named = trimmed.split_once(':').is_some_and(|(name, value)| {
        let value = value.trim();
        NAMES.contains(&name.trim())
            && !value.is_empty()
            && value.len() < 40
            && !value.contains(['<', '%', '.', ' '])
            || NAMES.contains(&name.trim()) && value.starts_with(|c: char| c.is_ascii_digit())
    });
    // `link mlx5_7/1 state ACTIVE physical_state LINK_UP netdev net1`.
    let is_link = || {
        let port = trimmed
            .strip_prefix("link ")
            .and_then(|rest| rest.split_once(" state "));
        port.is_some_and(|(port, rest)| port.contains('/') && rest.contains("physical_state "))
    };
    named || trimmed.starts_with("ca '") && trimmed.ends_with('\'') || is_link()
}

/// A version of a system, a driver or a library that stands for itself: `- OS version: Ubuntu 18.04`, `|NCCL|2.4.2|`, the whole name of a
/// package.
pub(super) fn is_version(line: &Line<'_>) -> bool {
    const PACKAGES: [&str; 5] = [".x86_64", ".aarch64", ".noarch", "_amd64.deb", "_arm64.deb"];
    const THINGS: [&str; 22] = [
        "os",
        "ubuntu",
        "centos",
        "rhel",
        "debian",
        "kernel",
        "cuda",
        "nccl",
        "ofed",
        "mofed",
        "driver",
        "firmware",
        "fw",
        "ucx",
        "openmpi",
        "libfabric",
        "rdma-core",
        "pytorch",
        "torch",
        "python",
        "version",
        "linux",
    ];
    /// The most words of such a line.
    const LENGTH: usize = 10;
    let words = || {
        line.lower
            .split(|c: char| {
                c.is_whitespace() || matches!(c, '|' | ':' | ',' | '(' | ')' | '=' | '*' | '`' | '_')
            })
            .filter(|word| !word.is_empty())
    };
    let is_number = |word: &str| {
        let number = word.trim_start_matches(|c: char| !c.is_ascii_digit());
        let dots = number.bytes().filter(|byte| *byte == b'.').count();
        let length = number
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
            .count();
        // An address has four numbers, and a sentence ends with a full stop.
        (1..=3).contains(&dots)
            && length >= 3
            && !word.contains('/')
            && !(dots == 3 && length == number.len())
    };
    let plain = line.lower.trim();
    if !plain.contains(char::is_whitespace) && PACKAGES.iter().any(|end| plain.ends_with(end)) {
        return true;
    }
    words().count() <= LENGTH
        && !plain.ends_with('.')
        && words().any(|word| THINGS.contains(&word))
        && words().any(is_number)
}

/// A number of an issue: `#1573`.
pub(super) fn refers_to_issue(line: &Line<'_>) -> bool {
    line.text.match_indices('#').take(8).any(|(at, _)| {
        let digits = line.text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let before = line.text[..at].chars().next_back();
        (3..=6).contains(&digits) && before.is_none_or(|c| !c.is_ascii_digit() && c != '&')
    })
}
