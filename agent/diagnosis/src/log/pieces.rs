//! Lines within a line: what a program wrote in several lines and another one keeps in one, such as a message in JSON or the last lines of
//! NCCL's log in an error of JAX.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// What precedes the last line of NCCL's log where a program repeats it: all begin alike.
const LAST_LINES: [&[u8]; 2] = [b"Last NCCL warning(error) log entry", b"Last error:"];
static LAST: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"Last "));

/// Maximum number of lines that are distinguished in one.
const MOST: usize = 64;

/// The lines in a line, in order; a line that is only one, whole.
pub(super) fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while pieces.len() + 1 < MOST
        && let Some((end, next)) = first_end(rest)
    {
        pieces.push(&rest[..end]);
        rest = &rest[next..];
    }
    pieces.push(rest);
    pieces
}

/// Where the first of the lines ends, and where the next one begins.
fn first_end(bytes: &[u8]) -> Option<(usize, usize)> {
    let escaped = escaped_end(bytes);
    let repeated = LAST
        .find_iter(bytes)
        .find(|at| *at > 0 && LAST_LINES.iter().any(|words| bytes[*at..].starts_with(words)))
        .map(|at| (at, at));
    match (escaped, repeated) {
        (Some(escaped), Some(repeated)) => Some(escaped.min(repeated)),
        (escaped, repeated) => escaped.or(repeated),
    }
}

/// The first `\n` written as two characters, or as more in a quotation within a quotation. At the end of a quotation it ends nothing.
fn escaped_end(bytes: &[u8]) -> Option<(usize, usize)> {
    memchr::memchr_iter(b'\\', bytes).find_map(|at| {
        let next = bytes.get(at + 1..)?;
        let ends = next.first() == Some(&b'n')
            && next
                .get(1)
                .is_some_and(|byte| !matches!(byte, b'"' | b'\'' | b'\\'));
        let begun = bytes[..at]
            .iter()
            .rposition(|byte| *byte != b'\\')
            .map_or(0, |last| last + 1);
        ends.then_some((begun, at + 2))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<String> {
        let texts = pieces(line.as_bytes()).into_iter();
        texts
            .map(|piece| String::from_utf8_lossy(piece).into_owned())
            .collect()
    }

    #[test]
    fn a_message_of_several_lines_in_one_is_read_line_by_line() {
        assert_eq!(of("plain"), ["plain"]);
        assert_eq!(of(r"a\nb\\nc"), ["a", "b", "c"]);
        assert_eq!(
            of(r#"{"log":"ibv_open_device failed\n","stream":"stderr"}"#).len(),
            1
        );
        assert_eq!(
            of("unhandled system error. Last NCCL warning(error) log entry 'Call to ibv_modify_qp failed'")
                .len(),
            2
        );
        assert_eq!(of(r"C:\temp\"), [r"C:\temp\"]);
    }

    #[test]
    fn the_words_at_the_beginning_of_a_line_do_not_end_it() {
        assert_eq!(of("Last error: 2").len(), 1);
        assert_eq!(of("failed. Last error: 2"), ["failed. ", "Last error: 2"]);
        assert_eq!(of(r"\nfirst"), ["", "first"]);
    }
}
