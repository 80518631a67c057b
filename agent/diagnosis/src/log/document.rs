//! Whether what was given as a log is one: compressed files and texts about errors are not.

mod page;
mod report;
mod shape;
mod signs;

use self::{
    shape::Shape,
    signs::{Line, Signs},
};
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

/// From how many sentences on a text without any line of a program is a page.
const SENTENCES: usize = 3;
/// The fewest words of a sentence.
const WORDS: usize = 6;

/// In how many lines signs are looked for. A text that a person pasted has fewer.
const SIGNED: u32 = 500;
/// The most bytes of a line that has signs: a paragraph.
const LONGEST: usize = 4096;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The log of a program, perhaps with words of a person around it: its lines are judged.
    Log,
    /// A text about errors: what it quotes happened to no one.
    Page,
    /// A text about errors that also has signs of a report: a person must say which lines are their own.
    Unclear,
}

/// What the lines look like.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was seen so far, each independent of the others"
)]
pub(super) struct Style {
    /// Whether a line has a time, a level, a prompt or another mark of a program.
    of_program: bool,
    /// Whether a line that is not quoted as in a mail shows when or where in a program it was written, or how bad it is.
    shows_output: bool,
    /// Whether a line shows when, where or by which process it was written.
    has_origin: bool,
    /// Whether lines are quoted: a mail's `>`, a fence or headings of Markdown, a list that a sentence introduces.
    is_framed: bool,
    sentences: Sentences,
    /// Whether lines have placeholders that a program replaces before it prints them.
    has_placeholders: bool,
    shape: Shape,
    signs: Signs,
    /// How many lines may still show signs.
    signs_left: u32,
}

/// The different sentences so far. A program writes the same one again and again, perhaps with other numbers; a person does not.
#[derive(Debug, Default)]
struct Sentences(Vec<String>);

impl Sentences {
    fn add(&mut self, text: &str) {
        if self.0.len() >= SENTENCES {
            return;
        }
        let letters: String = text.chars().filter(|c| c.is_alphabetic()).collect();
        if !self.0.contains(&letters) {
            self.0.push(letters);
        }
    }

    /// Their number, which is not counted beyond that of a page.
    fn count(&self) -> usize {
        self.0.len()
    }
}

impl Default for Style {
    fn default() -> Self {
        Self {
            of_program: false,
            shows_output: false,
            has_origin: false,
            is_framed: false,
            sentences: Sentences::default(),
            has_placeholders: false,
            shape: Shape::default(),
            signs: Signs::default(),
            signs_left: SIGNED,
        }
    }
}

impl Style {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if self.has_origin {
            return;
        }
        let whole = String::from_utf8_lossy(bytes);
        let (text, is_framed) = without_frame(&whole);
        self.has_origin = origin::has(text) || origin::has(&decoration::bare(text));
        let is_of_program = is_of_program(text);
        self.of_program |= is_of_program;
        self.is_framed |= is_framed || introduces(text);
        if is_sentence(text) {
            self.sentences.add(text);
        }
        let line = Line {
            text,
            lower: &text.to_ascii_lowercase(),
            is_of_program,
            is_quoted: whole.trim_start().starts_with('>'),
        };
        let shows = !line.is_quoted && (has_time(text) || has_place(text)) || names_line(text);
        self.shows_output |= shows && !is_sentence(text);
        self.has_placeholders |= grade::has_conversion(line.lower);
        self.shape.add(text);
        if self.signs_left > 0 && text.len() <= LONGEST {
            self.signs_left -= u32::from(!text.trim().is_empty());
            self.signs.add(&line);
        }
    }

    /// What the text is: a page about errors only if it has the form of one, and if the signs of a report weigh less.
    pub(super) fn kind(&self) -> Kind {
        /// What the forms of a page weigh: a list, a manual or a table; quotes with sentences around them; sentences only.
        const REFERENCE: i32 = 8;
        const QUOTES: i32 = 2;
        const PROSE: i32 = 2;
        let weight_if = |holds: bool, weight: i32| if holds { weight } else { 0 };
        let (report, page) = self.signs.weigh();
        // A sentence before what a program printed explains nothing by itself.
        let quotes = self.is_framed && (page > 0 || !self.shows_output) || self.has_placeholders;
        let form = weight_if(self.shape.is_reference(), REFERENCE)
            + weight_if(quotes && self.sentences.count() > 0, QUOTES)
            + weight_if(!self.of_program && self.signs.lists_changes(), PROSE)
            + weight_if(!self.of_program && self.sentences.count() >= SENTENCES, PROSE);
        if self.has_origin || form == 0 || report > form + page {
            Kind::Log
        } else if report > 0 {
            Kind::Unclear
        } else {
            Kind::Page
        }
    }
}

/// A line without what quotes it, and whether something does: `> ` of a mail, a fence or a heading of Markdown.
fn without_frame(text: &str) -> (&str, bool) {
    let trimmed = text.trim_start();
    if shape::is_prompt(trimmed) {
        return (text, false);
    }
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

/// Whether a sentence introduces a list of what may happen: `… can be down in any of the following scenarios:`.
fn introduces(text: &str) -> bool {
    const MODAL: [&str; 5] = [" can ", " may ", " might ", " could ", "if "];
    let lower = text.to_ascii_lowercase();
    is_sentence(text) && lower.trim_end().ends_with(':') && MODAL.iter().any(|word| lower.contains(word))
}

/// Whether a person writes of their own system in a sentence: `my cluster cannot establish an RDMA connection without hostNetwork. As follows:`.
pub(super) fn is_account(text: &str) -> bool {
    let line = Line {
        text,
        lower: &text.to_ascii_lowercase(),
        is_of_program: false,
        is_quoted: false,
    };
    is_sentence(text) && !is_of_program(text) && report::is_first_person(&line)
}

/// Whether a line has a mark of a program. A sentence that names a level, a function or a file has none.
fn is_of_program(text: &str) -> bool {
    let trimmed = text.trim_start();
    let has_value = || {
        // `  Local host:  node1`
        text.starts_with("  ") && trimmed.split_once(": ").is_some_and(|(name, _)| name.len() <= 24)
    };
    let has_mark = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    has_time(text)
        || trimmed.starts_with(['[', '$', '<', '{'])
        || trimmed.starts_with("--")
        || has_mark(&["0x", ".c:", ".cc:", ".cpp:", ".py"])
        || has_value()
        || !(is_sentence(text) || is_command(trimmed))
            && (level(text).is_some() || has_mark(&["errno", "()", "/dev/"]))
}

/// Whether a line is a command that a page gives: `mlxconfig -d /dev/mst/mt4115_pciconf0 query`.
fn is_command(trimmed: &str) -> bool {
    let mut words = trimmed.split_whitespace();
    let is_name = words.next().is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    });
    let has_option = words.next().is_some_and(|word| {
        let option = word.trim_start_matches('-');
        option.len() < word.len() && option.starts_with(|c: char| c.is_ascii_alphabetic())
    });
    is_name && has_option
}

/// Whether a line has a time of day.
fn has_time(text: &str) -> bool {
    text.as_bytes().windows(4).any(|four| {
        let [a, b, c, d] = four else { return false };
        a.is_ascii_digit() && b.is_ascii_digit() && *c == b':' && d.is_ascii_digit()
    })
}

/// Whether a line has a level, or the place in a source from which a program wrote it.
fn has_place(text: &str) -> bool {
    level(text).is_some()
        || [".c:", ".cc:", ".cpp:", ".cu:", ".rs:"]
            .iter()
            .any(|end| text.contains(end))
}

/// Whether a line names the line of a source that wrote it: `/src/ibrc.cpp:nvshmemt_init:1851: …`. Pages leave it out.
fn names_line(text: &str) -> bool {
    let word = text.trim_start().split(' ').next().unwrap_or_default();
    let mut parts = word.split(':');
    let is_file = parts.next().is_some_and(|name| {
        [".c", ".cc", ".cpp", ".cu", ".rs", ".py", ".go"]
            .iter()
            .any(|end| name.ends_with(end))
    });
    is_file && parts.any(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a line is, or ends, a sentence in which a person explains. A message begins with its level: `Warning  FailedScheduling  … 0/12
/// nodes are available.`
fn is_sentence(text: &str) -> bool {
    /// A level within so many bytes begins a line.
    const BEGINNING: usize = 20;
    let trimmed = text.trim_end();
    let plain = trimmed.trim_start_matches(['>', '#', ' ']);
    let end = (0..=plain.len().min(BEGINNING))
        .rev()
        .find(|at| plain.is_char_boundary(*at));
    let head = &plain[..end.unwrap_or_default()];
    let articles = [
        " the ", " a ", " that ", " is ", " this ", " are ", " you ", " these ", " may ", " can ",
    ];
    (trimmed.ends_with(['.', ':']) || grade::is_question(&trimmed.to_ascii_lowercase()))
        && trimmed.split_whitespace().count() >= WORDS
        && articles.iter().any(|word| trimmed.contains(word))
        && level(head).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Kind {
        let mut style = Style::default();
        for line in text.lines() {
            style.add(line.as_bytes());
        }
        style.kind()
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
            assert_eq!(kind(text), Kind::Page, "{text}");
        }
    }

    #[test]
    fn a_log_in_a_fence_or_a_quote_is_a_log() {
        for text in [
            "## What I see\n\nThe job stops with these lines.\n```\nn1:812:901 [0] NCCL WARN Call to ibv_create_qp failed\n```",
            "> The kernel of that node printed this:\n> [ 8201.17] mlx5_core 0000:5e:00.0: health compromised",
            "> Note: the above is a list of all options that this test takes.\n> /src/ibrc.cpp:nvshmemt_init:1851: neither nv_peer_mem, or \
             nvidia_peermem detected. Skipping transport.",
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
            "The program fails to initialize its transport and aborts.\n```\n/opt/lib/transport/ibgda.cpp:1889: NULL value cannot \
             allocate mlx5dv_devx_uar\n```",
            "n1: the transfer of this rank is stuck on the queue.\nn2: the transfer of this rank is stuck on the queue.\n\
             n3: the transfer of this rank is stuck on the queue.",
            "Couldn't allocate MR with error=93\nFailed to create MR\nCouldn't create IB resources",
        ] {
            assert_eq!(kind(text), Kind::Log, "{text}");
        }
    }

    #[test]
    fn signs_of_a_report_and_of_a_page_are_weighed() {
        let quoted = "\n```\nibv_create_qp failed: Cannot allocate memory\n```\n";
        for (before, after, expected) in [
            ("This is the list of the known messages.", "", Kind::Page),
            (
                "[Bug] The program ends when it opens the second device.",
                "",
                Kind::Log,
            ),
            (
                "The program ends when it opens the second device.",
                "Expected behavior\nIt goes on.",
                Kind::Log,
            ),
            (
                "Here's the message that the second device leads to.",
                "",
                Kind::Log,
            ),
            (
                "The message in the log is this one.",
                "#0  0x00007f0f in raise () from /lib64/libc.so.6",
                Kind::Log,
            ),
            (
                "If the limit is too low, the program stops with this message.",
                "root@n1:~# ulimit -l",
                Kind::Unclear,
            ),
            (
                "## Cause\nThe limit of the process is too low for the job.\n## Solution\nRaise the limit of the process.",
                "See #1234.",
                Kind::Unclear,
            ),
            (
                "| Component | Version | Where |\n| --- | --- | --- |\n| NCCL | 2.20.5 | container |\n| OFED | 23.10 | host |",
                "The job on both of the nodes ends.",
                Kind::Log,
            ),
        ] {
            let text = format!("{before}\n{quoted}\n{after}");
            assert_eq!(kind(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_level_a_function_or_a_file_in_a_sentence_is_no_mark_of_a_program() {
        for text in [
            "Set the variable to WARN, and the library prints a message.\nA call such as ibv_create_qp() can fail.\n\
             The process must be able to open /dev/infiniband/uverbs0, or the call is refused.",
            "A \"fatal device\" error leads to a reset of the adapter.\nThe program is informed of the reset by an event.\n\
             All of its requests are returned with \"flush in error\" in that case.",
        ] {
            assert_eq!(kind(text), Kind::Page, "{text}");
        }
    }
}
