//! What the helper says, as it may be shown: it is another process, and its words go into logs, facts and metrics.

use std::fmt;

/// The most characters that are taken over: what a helper said last fits in, with how it ended.
const ROOM: usize = 400;

/// A text of bounded length without anything that a terminal would obey.
#[derive(Clone, PartialEq, Eq)]
pub struct Words(String);

impl<T: AsRef<str>> From<T> for Words {
    fn from(text: T) -> Self {
        let mut characters = text.as_ref().chars();
        let mut plain = String::new();
        for c in characters.by_ref().take(ROOM) {
            match c {
                // They do no harm, and errors are full of them.
                '"' | '\'' | '\\' => plain.push(c),
                _ => plain.extend(c.escape_debug()),
            }
        }
        if characters.next().is_some() {
            plain.push('…');
        }
        Self(plain)
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_what_a_terminal_obeys_is_shown() {
        assert_eq!(
            Words::from("unknown field \"x\"").to_string(),
            "unknown field \"x\""
        );
        assert_eq!(
            Words::from("\u{1b}[31m\r\n\u{202e}ä").to_string(),
            "\\u{1b}[31m\\r\\n\\u{202e}ä"
        );
        let long = Words::from("x".repeat(1 << 20)).to_string();
        assert_eq!(long.chars().count(), ROOM + 1);
        assert!(long.ends_with('…'));
    }
}
