//! Text from the helper, which is untrusted and goes into logs, facts and metrics.

use std::fmt;

use rdma_health_protocol::text::excerpt;

/// Maximum number of characters, enough for the exit status and the last output of a helper.
const ROOM: usize = 400;

/// A text of bounded length with control characters escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct Words(String);

impl<T: AsRef<str>> From<T> for Words {
    fn from(text: T) -> Self {
        Self(excerpt(text.as_ref(), ROOM))
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
    fn a_long_text_is_cut_and_control_characters_are_escaped() {
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
