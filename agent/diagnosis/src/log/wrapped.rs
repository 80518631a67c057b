//! Messages that a program wraps over several lines: Open MPI prints its help texts in a frame of dashes.
//!
//! A sentence of such a text is read as one line, wherever it breaks. Open MPI prints each text once, and then only counts it:
//! `3 more processes have sent help message help-mpi-btl-openib.txt / pp retry exceeded`.

use std::sync::LazyLock;

use super::{line::after, phrases::Phrases};
use crate::symptom::SymptomKind::{self as K};
use rdma_health_protocol::WcStatus;

/// The dashes of a frame: Open MPI prints 74. Tables have other lengths.
const DASHES: std::ops::RangeInclusive<usize> = 70..=80;
/// The fewest of them.
const RULE: &str = "----------------------------------------------------------------------";
/// The most lines in a frame; after them it is not one.
const LINES: u8 = 60;
/// The most bytes of a sentence that are kept for the next line.
const KEPT: usize = 600;

/// The frame that the last lines are in.
#[derive(Debug, Default)]
pub(super) struct Frame {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    /// The sentence so far.
    sentence: String,
    /// Whether it has a line of text.
    has_text: bool,
    /// Whether one of its sentences was recognised.
    is_known: bool,
    /// How many lines the frame may still have.
    left: u8,
    around: Around,
}

/// What a launcher or a collector of logs writes before and after each line: a rank, a time, a container, a key of JSON.
#[derive(Debug, Default)]
struct Around {
    before: String,
    after: String,
}

impl Around {
    /// What is around the dashes of a frame in a line; `None` if it is none.
    fn of_rule(text: &str) -> Option<Self> {
        /// The most bytes before or after the dashes.
        const LONGEST: usize = 200;
        let start = text.find(RULE)?;
        let length = text[start..].bytes().take_while(|byte| *byte == b'-').count();
        let (before, after) = (&text[..start], text[start + length..].trim_end());
        // The end of a value of JSON, and what follows it.
        let is_end = after.is_empty() || after.starts_with('"') || after.starts_with("\\n");
        let is_rule = DASHES.contains(&length) && is_end && before.len().max(after.len()) <= LONGEST;
        is_rule.then(|| Self {
            before: before.to_owned(),
            after: after.to_owned(),
        })
    }

    /// A line without it. Its numbers differ from line to line.
    fn strip<'a>(&self, text: &'a str) -> &'a str {
        let begin = same(&self.before, text).unwrap_or_default();
        let rest = &text[begin..];
        if self.after.is_empty() {
            return rest;
        }
        // It begins with a quotation mark or a backslash, and may go on with any character.
        let sign = self.after.get(..2).unwrap_or(&self.after[..1]);
        let end = rest
            .rfind(sign)
            .filter(|end| same(&self.after, &rest[*end..]).is_some());
        end.map_or(rest, |end| &rest[..end])
    }
}

/// How many bytes at the beginning of a text are a pattern, but for its numbers and the width of its spaces.
fn same(pattern: &str, text: &str) -> Option<usize> {
    let (wanted, bytes) = (pattern.as_bytes(), text.as_bytes());
    let run = |bytes: &[u8], of: fn(&u8) -> bool| bytes.iter().take_while(|byte| of(byte)).count();
    let (mut i, mut j) = (0, 0);
    while i < wanted.len() {
        let kind: Option<fn(&u8) -> bool> = match wanted[i] {
            byte if byte.is_ascii_digit() => Some(u8::is_ascii_digit),
            b' ' => Some(|byte| *byte == b' '),
            _ => None,
        };
        if let Some(kind) = kind {
            i += run(&wanted[i..], kind);
            let found = run(&bytes[j..], kind);
            // The line may end before the last spaces.
            if found == 0 && !(i == wanted.len() && j == bytes.len()) {
                return None;
            }
            j += found;
        } else if bytes.get(j) == Some(&wanted[i]) {
            (i, j) = (i + 1, j + 1);
        } else {
            return None;
        }
    }
    text.is_char_boundary(j).then_some(j)
}

impl Frame {
    /// Adds a line. Returns the sentence that continues in this line, from its beginning as far as it is known.
    pub(super) fn add(&mut self, text: &str) -> Option<String> {
        let trimmed = text.trim();
        if let Some(around) = Around::of_rule(text) {
            // Two frames in a row have a line each: the second one opens again.
            let is_closing = self.open.as_ref().is_some_and(|open| open.has_text);
            self.open = (!is_closing).then(|| Open {
                sentence: String::new(),
                has_text: false,
                is_known: false,
                left: LINES,
                around,
            });
            return None;
        }
        let open = self.open.as_mut()?;
        open.left -= 1;
        if open.left == 0 {
            self.open = None;
            return None;
        }
        if trimmed.is_empty() {
            // A blank line separates the text from the values below it, not two messages.
            return None;
        }
        open.has_text = true;
        if is_value(trimmed) {
            open.sentence.clear();
            return None;
        }
        let continues = !open.sentence.is_empty();
        if continues {
            open.sentence.push(' ');
        }
        let begin = open.sentence.len();
        open.sentence.push_str(trimmed);
        // The first end of a sentence in this line, and what follows the last one.
        let end = sentence_end(&open.sentence, begin);
        let joined = continues.then(|| open.sentence[..end.unwrap_or(open.sentence.len())].to_owned());
        let mut rest = end;
        while let Some(end) = rest {
            open.sentence.drain(..end);
            let spaces = open.sentence.len() - open.sentence.trim_start().len();
            open.sentence.drain(..spaces);
            rest = sentence_end(&open.sentence, 0);
        }
        if open.sentence.len() > KEPT {
            open.sentence.clear();
        }
        joined
    }

    /// A line without what is around each line of the frame.
    pub(super) fn inner<'a>(&self, text: &'a str) -> &'a str {
        self.open.as_ref().map_or(text, |open| open.around.strip(text))
    }

    /// Whether the lines are in a frame.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The sentence was recognised: what follows in the frame explains it.
    pub(super) fn recognised(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_known = true;
            open.sentence.clear();
        }
    }

    /// Whether the lines are in a frame one sentence of which was recognised.
    pub(super) fn is_known(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_known)
    }
}

/// Where the first sentence ends whose end is at `from` or later: after a full stop or a colon that white space or nothing follows.
fn sentence_end(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    (from..bytes.len()).find_map(|at| {
        let ends = matches!(bytes[at], b'.' | b'!') || bytes[at] == b':' && at + 1 == bytes.len();
        // Any other byte may be inside a character.
        if !ends {
            return None;
        }
        // `i.e.` and `etc.` may be followed by a small letter.
        let follows = text[at..].strip_prefix(['.', '!', ':']).unwrap_or_default();
        let next = follows.trim_start();
        let is_apart = follows.len() != next.len() || next.is_empty();
        let begins = next.is_empty() || next.starts_with(|c: char| !c.is_ascii_lowercase());
        (is_apart && begins).then_some(at + 1)
    })
}

/// Whether a line has a name and its value: `Local host: n1`. `WARNING: …` begins a sentence.
fn is_value(line: &str) -> bool {
    const WORDS: usize = 3;
    line.split_once(':').is_some_and(|(name, value)| {
        !value.trim().is_empty()
            && name.split_whitespace().count() <= WORDS
            && name.bytes().any(|byte| byte.is_ascii_lowercase())
    })
}

/// The files of help texts that are about RDMA, in lower case.
const FILES: [&str; 7] = [
    "openib",
    "mtl-ofi",
    "common-ofi",
    "mtl-psm",
    "common-verbs",
    "pml-ucx",
    "common-ucx",
];

/// What topics of the help texts show.
const TOPICS: &[(&str, K)] = &[
    ("srq rnr retry exceeded", K::Completion(WcStatus::RnrRetryExcErr)),
    ("pp rnr retry exceeded", K::Completion(WcStatus::RnrRetryExcErr)),
    ("pp retry exceeded", K::Completion(WcStatus::RetryExcErr)),
    ("init-fail-no-mem", K::RegMrNoMemory),
    ("init-fail-create-q", K::CreateFailed),
    ("no active ports found", K::PortNotActive),
    ("default subnet prefix", K::DefaultSubnetPrefix),
    ("nonexistent port", K::SettingUnmatched),
    ("reg mem limit low", K::ResourceLimit),
    ("no cpcs for port", K::RdmaDisabled),
    ("ibv_create_qp failed", K::CreateFailed),
    ("ibv_open_device fail", K::OpenFailed),
    ("modex failed", K::PeerClosed),
    ("buffer memory registration failed", K::RegMrFailed),
    ("conflicting transport types", K::ConnectIncompatible),
    ("rdma cm event error", K::CmFailed),
    ("rdma cm device removal", K::DeviceGone),
];

/// What sentences of Open MPI's help texts show, in lower case; `None` is nothing that RDMA fails for. They read like documentation, and are
/// not.
const SENTENCES: &[(&str, Option<K>)] = &[
    (
        "infiniband retry count between two mpi processes has been exceeded",
        Some(K::Completion(WcStatus::RetryExcErr)),
    ),
    (
        "\"receiver not ready\" retry count",
        Some(K::Completion(WcStatus::RnrRetryExcErr)),
    ),
    // Open MPI 4 leaves InfiniBand to UCX, and prints this whether UCX is there or not.
    ("the intent is to use ucx for these devices", None),
    ("policy by setting the btl_openib_allow_ib", None),
    ("btl will be deactivated for this run", Some(K::RdmaDisabled)),
    (
        "btl will therefore be deactivated for this run",
        Some(K::RdmaDisabled),
    ),
    ("deactivating the openib btl", Some(K::RdmaDisabled)),
    ("deactivating the openfabrics btl", Some(K::RdmaDisabled)),
    // It leaves the device to UCX, too: the kind of the device, or a parameter, is not one that openib takes.
    ("there was an error initializing an openfabrics device", None),
    ("failed to open an openfabrics device", Some(K::OpenFailed)),
    ("failed to query an openfabrics device", Some(K::OpenFailed)),
    ("was unable to open an endpoint", Some(K::OpenFailed)),
    (
        "failed to initialize while trying to create an internal queue",
        Some(K::CreateUnexplained),
    ),
    ("a process failed to create a queue pair", Some(K::CreateFailed)),
    ("the rdma cm returned an event error", Some(K::CmFailed)),
    (
        "two different openfabrics transport types",
        Some(K::ConnectIncompatible),
    ),
    (
        "receive queue configuration for the openfabrics devices on two nodes are incompatible",
        Some(K::PeerDiffers),
    ),
    ("no openfabrics devices of the right type", Some(K::NoDevice)),
    ("cuda gpu direct rdma support but this ofed", Some(K::GdrDisabled)),
    (
        "cuda gpu direct rdma support but the open mpi",
        Some(K::BackendMissing),
    ),
    ("failed an ofi libfabric library call", Some(K::BackendFailed)),
    // The launcher: its daemons find each other over TCP.
    ("unable to complete a tcp connection", Some(K::TcpError)),
    ("open mpi failed to register your buffer", Some(K::RegMrFailed)),
    ("multiple nics on the system but cannot select", None),
    // Its connections outside of MPI, for which it has others.
    (
        "there are ud-capable verbs devices on your system, but none of them",
        None,
    ),
    ("open mpi will ignore the \"ud\" oob component", None),
    ("in parsing the openfabrics (openib) btl parameter file", None),
    ("was unable to find or read an ini file", None),
    ("an invalid mca parameter value was found", None),
    // The daemons of its launcher connect over TCP.
    (
        "an inability to create a connection back to mpirun",
        Some(K::TcpError),
    ),
    // What it says itself to set: two of its parts watch memory that the program gives back.
    ("ucx is unable to handle vm_unmap", Some(K::SettingAdvised)),
];

/// The first letters of sentences that a line outside a frame can hold whole.
pub(super) const WHOLE: &[&str] = &[
    "not ready\" retry",
    "infiniband retry count",
    "intent is to use ucx",
    "btl_openib",
    "openib",
    "openfabrics",
    "vm_unmap",
    "connection back to mpirun",
    "complete a tcp connection",
];

/// What a sentence of a help text in lower case shows.
#[expect(
    clippy::option_option,
    reason = "no help text, one that reports no failure, or one that does"
)]
pub(super) fn said(lower: &str) -> Option<Option<(K, usize)>> {
    static WORDS: LazyLock<Phrases> =
        LazyLock::new(|| Phrases::new(SENTENCES.iter().map(|(words, _)| *words)));
    let found = WORDS.first_in_list(lower)?;
    let (_, kind) = SENTENCES.get(found.index)?;
    Some(kind.zip(Some(found.start)))
}

/// What marks the line that counts a help text.
pub(super) const COUNTED: &str = "sent help message ";

/// What a line in lower case counts: `Some(None)` is a help text that reports no failure of RDMA.
#[expect(
    clippy::option_option,
    reason = "no count, a count of something else, or of a failure"
)]
pub(super) fn counted(lower: &str) -> Option<Option<(K, usize)>> {
    let rest = after(lower, COUNTED)?;
    let (file, topic) = rest.split_once(" / ")?;
    if !FILES.iter().any(|name| file.contains(name)) {
        return Some(None);
    }
    let kind = TOPICS.iter().find(|(name, _)| topic.starts_with(name));
    Some(kind.map(|(_, kind)| (*kind, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_joined_wherever_it_breaks() {
        let mut frame = Frame::default();
        assert_eq!(frame.add("text outside"), None);
        let rule = "-".repeat(74);
        for (line, expected) in [
            (rule.as_str(), None),
            ("The retry count has been", None),
            (
                "exceeded.  \"Retry count\" is",
                Some("The retry count has been exceeded."),
            ),
            (
                "defined in i.e. the book.",
                Some("\"Retry count\" is defined in i.e. the book."),
            ),
            ("  Local host: n1", None),
            ("Another sentence", None),
            ("goes on", Some("Another sentence goes on")),
            (rule.as_str(), None),
            ("after the frame", None),
        ] {
            assert_eq!(frame.add(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn what_is_around_the_dashes_is_around_every_line_of_the_frame() {
        let rule = "-".repeat(74);
        for (before, after, other) in [
            ("[1,0]<stderr>:", "", "[1,12]<stderr>:"),
            ("0: ", "", "11: "),
            ("node-1  | ", "", "node-1   | "),
            (
                "2026-11-21T10:00:00.1Z stdout F ",
                "",
                "2026-11-21T10:00:01.123Z stdout F ",
            ),
            ("Nov 21 10:00:00 n1 job[71]: ", "", "Nov 21 10:00:59 n1 job[71]: "),
            ("{\"log\":\"", "\\n\",\"time\":\"10:00:00\"}", "{\"log\":\""),
        ] {
            let mut frame = Frame::default();
            assert_eq!(frame.add(&format!("{before}{rule}{after}")), None);
            assert!(frame.is_open(), "{before}");
            assert_eq!(
                frame.inner(&format!("{other}The retry count{after}")),
                "The retry count"
            );
        }
        let mut frame = Frame::default();
        assert_eq!(frame.add(&format!("a title {rule} b")), None);
        assert!(!frame.is_open());
    }
}
