//! Whether what was given as a log is one: compressed files and texts about errors are not.

use super::{
    decoration,
    grade::{self, level},
    origin,
};

/// Number of bytes that show the format of a file.
pub(super) const MAGIC: usize = 6;

/// Formats by their first bytes.
const FORMATS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"\x7fELF", "ELF"),
    (b"%PDF", "PDF"),
];

/// The format of a file that must be unpacked before it can be read.
pub(super) fn packed(head: &[u8]) -> Option<&'static str> {
    let found = FORMATS.iter().find(|(magic, _)| head.starts_with(magic));
    found.map(|(_, name)| *name)
}

/// From how many sentences on a text without any line of a program is a document.
const SENTENCES: u32 = 3;
/// From how many different statuses on a text that names one per line is a table of them.
const ENTRIES: usize = 2;
/// From how many headings on a text is a manual page.
const HEADINGS: u32 = 2;
/// From how many rows on lines with separators are a table.
const ROWS: u32 = 3;
/// The fewest words of a sentence.
const WORDS: usize = 6;

/// What the lines look like.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was seen so far, each independent of the others"
)]
pub(super) struct Style {
    /// Whether a line has a time, a level, a prompt or another mark of a program.
    of_program: bool,
    /// Whether a line shows when, where or by which process it was written.
    has_origin: bool,
    /// Whether lines are quoted: a mail's `>`, a fence or headings of Markdown, a list that a sentence introduces.
    is_framed: bool,
    sentences: u32,
    /// Whether a person reports what happened to them.
    is_report: bool,
    /// The first different statuses each of which begins a line and is explained or stands alone, as in tables and manuals.
    entries: Vec<String>,
    /// Whether the previous line is such a status alone, which the next one may explain.
    is_defined: bool,
    /// Whether the text explains one.
    explains: bool,
    /// Lines with placeholders that a program replaces before it prints them.
    has_placeholders: bool,
    /// Headings of a manual page.
    headings: u32,
    /// The columns of the last row of a table, and how many rows in succession have as many.
    columns: usize,
    rows: u32,
    /// The most rows of one table.
    longest: u32,
}

impl Style {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if self.has_origin {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let (text, is_framed) = without_frame(&text);
        self.has_origin = origin::has(text) || origin::has(&decoration::bare(text));
        self.of_program |= is_of_program(text);
        self.is_framed |= is_framed || introduces(text);
        self.sentences += u32::from(is_sentence(text));
        self.is_report = self.is_report || reports(text);
        self.has_placeholders |= grade::has_conversion(&text.to_ascii_lowercase());
        self.explains |=
            self.is_defined && text.starts_with("  ") && text.split_whitespace().count() >= WORDS;
        self.headings += u32::from(is_heading(text));
        self.count_row(text);
        let entry = entry(text);
        self.is_defined = entry.is_some_and(|(_, alone)| alone);
        if let Some((name, _)) = entry
            && self.entries.len() < ENTRIES
            && !self.entries.iter().any(|known| known == name)
        {
            self.entries.push(name.to_owned());
        }
    }

    /// Counts the row of a table whose columns `|` separates.
    fn count_row(&mut self, text: &str) {
        /// The fewest separators between columns. Two columns are also a container's name and what it wrote.
        const SEPARATORS: usize = 2;
        let columns = text.trim().trim_matches('|').matches(" | ").count();
        let is_row = columns >= SEPARATORS && level(text).is_none();
        self.rows = if !is_row {
            0
        } else if columns == self.columns {
            self.rows + 1
        } else {
            1
        };
        self.columns = columns;
        self.longest = self.longest.max(self.rows);
    }

    pub(super) fn is_document(&self) -> bool {
        let is_manual = self.headings >= HEADINGS || self.longest >= ROWS;
        let is_table = self.entries.len() >= ENTRIES || self.explains || is_manual;
        let is_text = (self.is_framed || self.has_placeholders) && self.sentences > 0;
        let is_page = is_text || !self.of_program && self.sentences >= SENTENCES;
        !self.has_origin && (is_table || is_page && !self.is_report)
    }
}

/// A line without what quotes it, and whether something does: `> ` of a mail, a fence or a heading of Markdown.
fn without_frame(text: &str) -> (&str, bool) {
    let trimmed = text.trim_start();
    if let Some(quoted) = trimmed.strip_prefix('>') {
        return (quoted.trim_start_matches(['>', ' ']), true);
    }
    // A section of a file of messages: `[btl_openib:retry-exceeded]`.
    let section = trimmed
        .trim_end()
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_section = section.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.contains(':')
            && !name.contains(char::is_whitespace)
    });
    (
        text,
        is_section || trimmed.starts_with("```") || is_title(trimmed),
    )
}

/// Whether a line is a heading of Markdown: `## Known errors`. One `#` is also the prompt of a shell and a comment.
fn is_title(trimmed: &str) -> bool {
    let title = trimmed.trim_start_matches('#');
    let begins = title.trim_start().starts_with(|c: char| c.is_ascii_uppercase());
    let is_short =
        (2..=8).contains(&title.split_whitespace().count()) && !title.contains(['.', ':', '=', '/', '(']);
    match trimmed.len() - title.len() {
        0 => false,
        1 => title.starts_with(' ') && begins && is_short,
        _ => title.starts_with(' ') && trimmed.len() - title.len() <= 3,
    }
}

/// Whether a line is a heading of a manual page.
fn is_heading(text: &str) -> bool {
    const HEADINGS: [&str; 14] = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "RETURN VALUE",
        "RETURN VALUES",
        "ERRORS",
        "NOTES",
        "EXAMPLES",
        "SEE ALSO",
        "BUGS",
        "AUTHOR",
        "AUTHORS",
        "ENVIRONMENT",
    ];
    HEADINGS.contains(&text.trim())
}

/// Whether a sentence introduces a list of what may happen: `… can be down in any of the following scenarios:`.
fn introduces(text: &str) -> bool {
    const MODAL: [&str; 5] = [" can ", " may ", " might ", " could ", "if "];
    let lower = text.to_ascii_lowercase();
    is_sentence(text) && lower.trim_end().ends_with(':') && MODAL.iter().any(|word| lower.contains(word))
}

/// Whether a person writes of their own system, as in an issue: `I am testing …`, `we get the following warning`. Manuals do not, though they
/// recommend.
fn reports(text: &str) -> bool {
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
    if text.trim_start().starts_with('>') || text.split_whitespace().count() < WORDS {
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
            _ => false,
        })
}

/// The status that a line defines, and whether it stands alone: `IBV_WC_RETRY_EXC_ERR (12) - Transport …`, `| IBV_EVENT_CQ_ERR | … |`,
/// `FI_EFA_ERR_OOM = 4105,`. A status with its own value, such as `IBV_WC_RETRY_EXC_ERR: 5`, is a count of them.
fn entry(text: &str) -> Option<(&str, bool)> {
    const FAMILIES: [&str; 9] = [
        "IBV_WC_",
        "IB_WC_",
        "IBV_EVENT_",
        "IB_EVENT_",
        "RDMA_CM_EVENT_",
        "FI_E",
        "UCS_ERR_",
        "NIXL_ERR_",
        "MLX5_CQE_",
    ];
    let bullet = |c: char| {
        c.is_ascii_digit() || c.is_whitespace() || matches!(c, '*' | '-' | '|' | '`' | '.' | ')' | '#' | ':')
    };
    let text = text.trim_start_matches(bullet);
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !FAMILIES.iter().any(|family| name.starts_with(family)) {
        return None;
    }
    let rest = rest.trim_end().trim_end_matches([',', '`', '*']);
    let described = rest
        .split_whitespace()
        .filter(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_alphabetic()));
    let is_alone = rest
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ' ' | '=' | '(' | ')' | '`'))
        .is_empty()
        && !rest.starts_with(':');
    (is_alone || described.count() >= 2).then_some((name, is_alone))
}

fn is_of_program(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_time = bytes.windows(4).any(|four| {
        let [a, b, c, d] = four else { return false };
        a.is_ascii_digit() && b.is_ascii_digit() && *c == b':' && d.is_ascii_digit()
    });
    let trimmed = text.trim_start();
    let has_value = || {
        // `  Local host:  node1`
        text.starts_with("  ") && trimmed.split_once(": ").is_some_and(|(name, _)| name.len() <= 24)
    };
    has_time
        || level(text).is_some()
        || trimmed.starts_with(['[', '$', '<', '{'])
        || trimmed.starts_with("--")
        || ["0x", "errno", "()", ".c:", ".cc:", ".cpp:", ".py", "/dev/"]
            .iter()
            .any(|mark| text.contains(mark))
        || has_value()
}

fn is_sentence(text: &str) -> bool {
    let trimmed = text.trim_end();
    let articles = [
        " the ", " a ", " that ", " is ", " this ", " are ", " you ", " these ", " may ", " can ",
    ];
    (trimmed.ends_with(['.', ':']) || grade::is_question(&trimmed.to_ascii_lowercase()))
        && trimmed.split_whitespace().count() >= WORDS
        && articles.iter().any(|word| trimmed.contains(word))
        // `Warning  FailedScheduling  … 0/12 nodes are available.` is a message.
        && level(trimmed.trim_start_matches(['>', '#', ' '])).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_document(text: &str) -> bool {
        let mut style = Style::default();
        for line in text.lines() {
            style.add(line.as_bytes());
        }
        style.is_document()
    }

    #[test]
    fn tables_manuals_quotes_and_sources_are_documents() {
        for text in [
            "IBV_WC_SUCCESS (0) - Operation completed successfully: this means\n\
             IBV_WC_RETRY_EXC_ERR (12) - Transport Retry Counter Exceeded: the peer did not",
            "| Status | Meaning |\n| --- | --- |\n| `IBV_WC_RNR_RETRY_EXC_ERR` | The peer posted no receive |\n\
             | `IBV_WC_REM_ACCESS_ERR` | A wrong rkey |",
            "FI_EFA_ERR_OOM = 4105,\nFI_EFA_ERR_UNESTABLISHED_RECV_UNRESP = 4126,",
            "RDMA_CM_EVENT_ROUTE_ERROR\n       Generated if the attempt to resolve the route of a destination failed.",
            "## Known errors\n\nIf the job stops, look for this message.\n\n```\nNCCL WARN Call to ibv_create_qp failed\n```",
            "NAME\n       ibv_create_qp - create a queue pair\n\nERRORS\n       ENOMEM  ibv_create_qp failed: Cannot allocate memory",
            "Issue | Cause | Solution\nibv_create_qp failed | Limit | Raise it\nPort down | Cable | Replace it",
            "What do I do if the message \"ibv_create_qp failed\" appears?\nThe limit of the process is too low for this job.\n\
             What do I do if no device is found by the program?",
            "We recommend to look for these messages in the log of the job.\n```\nibv_create_qp failed: Cannot allocate memory\n```",
            "> Last week the job printed this message:\n> UCX ERROR Transport retry count exceeded on mlx5_0:1/RoCE",
            "[btl_openib:no-cpcs]\nA port cannot be used by the program on this host.\n  Local host: %s\n  ibv_open_device failed",
        ] {
            assert!(is_document(text), "{text}");
        }
    }

    #[test]
    fn a_log_in_a_fence_or_a_quote_is_a_log() {
        for text in [
            "## What I see\n\nThe job stops with these lines.\n```\nn1:812:901 [0] NCCL WARN Call to ibv_create_qp failed\n```",
            "> The kernel of that node printed this:\n> [ 8201.17] mlx5_core 0000:5e:00.0: health compromised",
            "> This is the log of the job.\n> 2026-11-22 10:11:12 ERROR rdma: IBV_WC_RETRY_EXC_ERR",
            "On rank 3 the job stopped with this error:\n```\n[rank3]: ibv_modify_qp failed with 110\n```",
            "IBV_WC_RETRY_EXC_ERR: 5\nIBV_WC_RNR_RETRY_EXC_ERR: 0",
            "worker-1 | step 3 | ibv_create_qp failed: Cannot allocate memory",
            "worker-1  | starting\nworker-1  | ibv_create_qp failed: Cannot allocate memory\nworker-2  | stopping",
            "2026-11-22 10:11:12.001 | ERROR | rdma:connect:12 - ibv_create_qp failed\n\
             2026-11-22 10:11:12.002 | ERROR | rdma:connect:12 - ibv_create_qp failed\n\
             2026-11-22 10:11:12.003 | ERROR | rdma:connect:12 - ibv_create_qp failed",
            "we get the following warning when running on a new cluster:\n```\nThe program could not open a device: ibv_open_device failed\n```",
            "I am testing a program on two nodes with RoCE.\nRegistration of GPU memory fails with:\n```\n\
             ibv_reg_mr(gpu) failed: Bad address\n```",
            "Couldn't allocate MR with error=93\nFailed to create MR\nCouldn't create IB resources",
        ] {
            assert!(!is_document(text), "{text}");
        }
    }
}
