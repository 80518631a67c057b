//! Text that may come from anywhere, made fit for a terminal, a log and a metric.

/// The text without anything that a terminal obeys or that hides what it says: control characters, line ends, characters
/// that reverse the direction of writing and invisible ones are escaped (`\\u{1b}`).
pub fn printable(text: &str) -> String {
    escaped(text.chars())
}

/// [`printable`] of the first `most` characters, with an ellipsis where there are more.
pub fn excerpt(text: &str, most: usize) -> String {
    let mut characters = text.chars();
    let mut shown = escaped(characters.by_ref().take(most));
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

fn escaped(characters: impl Iterator<Item = char>) -> String {
    let mut shown = String::new();
    for character in characters {
        match character {
            // They are harmless, and messages are full of them.
            '"' | '\'' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_hides_is_escaped() {
        assert_eq!(
            printable("\u{1b}[31m\r\n\u{202e}ä \"x\""),
            "\\u{1b}[31m\\r\\n\\u{202e}ä \"x\""
        );
    }

    #[test]
    fn an_excerpt_ends_in_an_ellipsis_only_where_something_is_missing() {
        assert_eq!(excerpt("ééé", 3), "ééé");
        assert_eq!(excerpt("éééé", 3), "ééé…");
        assert_eq!(excerpt(&"x".repeat(1 << 20), 400).chars().count(), 401);
    }
}
