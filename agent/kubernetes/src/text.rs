//! Text for the API: one line of bounded length, without control characters.

use rdma_health_node::words::printable;

/// The text with control characters and runs of white space replaced by one space. Characters that change the direction of text, and
/// others that do not show, are escaped.
pub(super) fn single_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(1024));
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    printable(&line)
}

/// A remedy in one line. Its lines are sentences or commands; a semicolon ends a command, so that the line can be pasted.
pub(super) fn remedy_in_line(remedy: &str) -> String {
    let mut line = String::new();
    for step in remedy.lines().map(single_line).filter(|step| !step.is_empty()) {
        if !line.is_empty() {
            line.push_str(if line.ends_with(['.', ':', ';']) {
                " "
            } else {
                "; "
            });
        }
        line.push_str(&step);
    }
    line
}

/// The text with at most `most` characters; a longer text is cut after a word and gets an ellipsis.
pub(super) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let end = text
        .char_indices()
        .nth(most.saturating_sub(1))
        .map_or(text.len(), |(at, _)| at);
    let head = &text[..end];
    // Do not cut within a word, unless the text is one word.
    let whole = head.rfind(' ').filter(|at| *at > 0).unwrap_or(head.len());
    let mut short = head[..whole]
        .trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '('))
        .to_owned();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_text_is_cut_after_a_word() {
        assert_eq!(shorten("one two three", 13), "one two three");
        assert_eq!(shorten("one two three", 12), "one two…");
        assert_eq!(shorten("one, two", 6), "one…");
        assert_eq!(shorten("ununterbrochen", 5), "unun…");
        assert_eq!(shorten("äöü äöü äöü", 9), "äöü äöü…");
    }

    #[test]
    fn control_characters_become_spaces() {
        assert_eq!(single_line(" a\u{1b}[31m\nb\t\u{7} c"), "a [31m b c");
        assert_eq!(single_line("a\u{202e}b"), r"a\u{202e}b");
    }

    #[test]
    fn commands_of_a_remedy_do_not_run_into_each_other() {
        assert_eq!(
            remedy_in_line("Boot with iommu=pt:\n  grubby --args=iommu=pt\nkubectl drain a"),
            "Boot with iommu=pt: grubby --args=iommu=pt; kubectl drain a"
        );
        assert_eq!(remedy_in_line("Load it.\n\nmodprobe a"), "Load it. modprobe a");
    }

    proptest! {
        #[test]
        fn never_longer_than_allowed(text in "\\PC{0,400}", most in 1_usize..300) {
            prop_assert!(shorten(&text, most).chars().count() <= most);
        }
    }
}
