//! Whether what was given as a log is one: compressed files and texts about errors are not.

use super::grade::level;

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
/// The fewest words of a sentence.
const WORDS: usize = 6;

/// What the lines look like.
#[derive(Debug, Default)]
pub(super) struct Style {
    /// Whether a line has a time, a level, a prompt or another mark of a program.
    of_program: bool,
    sentences: u32,
}

impl Style {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if self.of_program {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        self.of_program = is_of_program(&text);
        self.sentences += u32::from(is_sentence(&text));
    }

    pub(super) fn is_document(&self) -> bool {
        !self.of_program && self.sentences >= SENTENCES
    }
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
    trimmed.ends_with(['.', ':'])
        && trimmed.split_whitespace().count() >= WORDS
        && articles.iter().any(|word| trimmed.contains(word))
}
