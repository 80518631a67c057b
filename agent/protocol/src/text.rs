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

/// JSON for a terminal: what [`printable`] escapes is escaped as JSON does (`\\u202e`), and the value is the same.
pub fn printable_json(json: String) -> String {
    let obeyed = |character: char| {
        character != '\n' && !printable(character.encode_utf8(&mut [0; 4])).starts_with(character)
    };
    // JSON has only the last of the ASCII control characters.
    if json.is_ascii() && !json.contains('\u{7f}') {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if obeyed(character) {
            let units = character.encode_utf16(&mut [0; 2]).to_vec();
            text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            text.push(character);
        }
    }
    text
}

/// A value as JSON for people, with a line end; see [`printable_json`].
///
/// # Errors
/// If the value has no form in JSON, or writing fails.
pub fn write_json(out: &mut impl std::io::Write, value: &impl serde::Serialize) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{}", printable_json(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_value_and_has_nothing_that_a_terminal_obeys() {
        let names = [
            "a\u{202e}b",
            "\u{1b}[31m\n",
            "\u{e0001}",
            "ä\\\"",
            "\u{feff}",
            "\u{7f}",
        ];
        let value = serde_json::json!({ "names": names });
        let mut out = Vec::new();
        write_json(&mut out, &value).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert!(text.lines().all(|line| printable(line) == line), "{text}");
        assert!(text.contains("ä"));
    }

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
