//! What a tool or a person adds around a line: quotes of a mail, columns of a viewer, headings and bold of Markdown, HTML.
//!
//! A decoration says nothing about its line. It is removed where the rest is by itself a line of a program; a comment or a row of a
//! table in a text keeps it.

use std::borrow::Cow;

use super::{
    families,
    grade::{Grade, Level, level},
    line::Lower,
    operation::operation,
    origin, status,
};

/// The most decorations of one line: `> > - **…**`.
const MOST: usize = 6;
/// Names of the tags that editors and trackers put around and into lines.
const TAGS: [&str; 22] = [
    "p",
    "br",
    "br/",
    "pre",
    "code",
    "span",
    "div",
    "li",
    "ul",
    "ol",
    "td",
    "tr",
    "th",
    "b",
    "i",
    "strong",
    "em",
    "tt",
    "font",
    "blockquote",
    "samp",
    "kbd",
];
/// Characters that HTML writes by name or by number.
const ENTITIES: [(&str, &str); 9] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#34;", "\""),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&apos;", "'"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
];

/// The line of a program in a decorated line. A line without a decoration, and one that is of no program, stays as it is.
pub(super) fn undecorated(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let begins = bytes.trim_ascii_start().first();
    let is_decorated = matches!(
        begins,
        Some(b'>' | b'|' | b'+' | b'/' | b'#' | b'*' | b'<' | b'`')
    ) || memchr::memchr2(b'&', b'|', &bytes).is_some()
        || matches!(bytes.trim_ascii_end().last(), Some(b'>'));
    if !is_decorated {
        return bytes;
    }
    let text = String::from_utf8_lossy(&bytes);
    let plain = bare(&text);
    if plain == text || !is_of_program(&text, &plain) {
        return bytes;
    }
    Cow::Owned(plain.into_owned().into_bytes())
}

/// Whether the rest of a decorated line shows that a program wrote it. Lines of a patch, of a page and of source code name levels, too, but
/// do not begin with one.
fn is_of_program(decorated: &str, rest: &str) -> bool {
    /// A level within so many letters begins a line.
    const BEGINNING: usize = 16;
    // What is quoted as in a mail is read as it is without the mark; that of a prompt that goes on is not.
    if decorated.trim_start().starts_with("> ") && (has_place(rest) || rest.starts_with("*** ")) {
        return true;
    }
    // A test harness marks what a program printed: `## n05.36041hfi_userinit_internal: assign_context command failed: …`.
    let is_comment = is_comment(decorated);
    let is_output = ["#", ">", "|", "`"]
        .iter()
        .any(|mark| decorated.trim_start().starts_with(mark))
        && !is_comment;
    // A page names the signs of a line that it shows.
    let is_shown = || ENTITIES.iter().any(|(name, _)| decorated.contains(name));
    if (is_output || is_shown()) && is_message(rest) {
        return true;
    }
    let is_foreign_text = ["+", "/", "<"]
        .iter()
        .any(|mark| decorated.trim_start().starts_with(mark));
    let head = match rest.char_indices().nth(BEGINNING) {
        Some((end, _)) if is_foreign_text || is_comment => &rest[..end],
        _ => rest,
    };
    origin::has(rest) || level(head) >= Some(Level::Warning)
}

/// Whether a line is a comment of a script that names an error, and why it does: `# OLCFDEV-1597: OFI Poll Failed`, `# avoids: …`. What a
/// program printed begins with its own name, its function or the message.
fn is_comment(decorated: &str) -> bool {
    const REASONS: [&str; 9] = [
        "avoid",
        "prevent",
        "fix",
        "work",
        "issue",
        "bug",
        "because",
        "otherwise",
        "todo",
    ];
    let Some(rest) = decorated.trim_start().strip_prefix("# ") else {
        return false;
    };
    let first = rest.split(' ').next().unwrap_or_default();
    // A program prints codes: Redis and Valkey mark what they warn of with `#`.
    let is_label = first.ends_with(':') && !first.contains('_') && !rest.contains("0x");
    let lower = rest.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    is_label || words.any(|word| REASONS.iter().any(|reason| word.starts_with(reason)))
}

/// Whether a text is a message that a program of RDMA prints. A comment, a heading and a row of a table advise or explain.
fn is_message(text: &str) -> bool {
    const ADVICE: [&str; 13] = [
        "if", "should", "when", "may", "can", "must", "raise", "check", "use", "set", "try", "grep", "see",
    ];
    let lower = text.to_ascii_lowercase();
    // `can't` is not advice.
    let mut words = lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '\''));
    let is_prose = words.any(|word| ADVICE.contains(&word)) || lower.contains(" | ") || lower.contains('`');
    // What the program names itself, and then says: `hfi_userinit_internal: …`, `Transport retry count exceeded on mlx5_0:1`.
    let fails = || Grade::of(&Lower::of(text)).is_failure() && operation(&lower).is_some();
    !is_prose && (families::find(&lower).is_some() || status::status_in(&lower).is_some() || fails())
}

/// Whether a line begins with the place in a source that wrote it: `mtl_ofi.h:101: Error returned …`, `ib_iface.c:746  UCX  ERROR …`.
fn has_place(text: &str) -> bool {
    let Some((file, rest)) = text.split_once(':') else {
        return false;
    };
    let is_file = [".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".py", ".rs", ".go"]
        .iter()
        .any(|end| file.ends_with(end));
    is_file && !file.contains(' ') && rest.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// A line without decorations.
pub(super) fn bare(text: &str) -> Cow<'_, str> {
    let mut plain = without_markup(text);
    for _ in 0..MOST {
        let Some(inner) = without_one(&plain) else { break };
        plain = Cow::Owned(inner);
    }
    plain
}

/// A line without its outermost decoration.
fn without_one(text: &str) -> Option<String> {
    let trimmed = text.trim();
    if let Some(quoted) = trimmed.strip_prefix('>') {
        return Some(quoted.trim_start().to_owned());
    }
    if let Some(column) = trimmed.strip_prefix("| ") {
        return Some(column.trim_end_matches('|').trim().to_owned());
    }
    // One line as code in a text.
    let code = trimmed.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    if let Some(code) = code.filter(|code| !code.contains('`')) {
        return Some(code.to_owned());
    }
    if trimmed.starts_with("**") && !trimmed.starts_with("***") {
        return Some(trimmed.replace("**", ""));
    }
    let rest = ["+ ", "// "].iter().find_map(|mark| trimmed.strip_prefix(mark));
    let heading = || {
        let rest = trimmed.trim_start_matches('#');
        // Mercury begins its own lines with `# [` and a time.
        (rest.len() < trimmed.len() && rest.starts_with(' ') && !rest.starts_with(" [")).then_some(rest)
    };
    rest.or_else(heading).map(|rest| rest.trim().to_owned())
}

/// A line without the tags and names of characters of HTML.
fn without_markup(text: &str) -> Cow<'_, str> {
    let has_tag = text.contains('<') && TAGS.iter().any(|tag| text.contains(&format!("<{tag}")));
    if !has_tag && !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tagged) = rest.split_at(at);
        plain.push_str(before);
        let end = tagged.find('>').filter(|end| is_tag(&tagged[1..*end]));
        rest = if let Some(end) = end {
            &tagged[end + 1..]
        } else {
            plain.push('<');
            &tagged[1..]
        };
    }
    plain.push_str(rest);
    for (name, character) in ENTITIES {
        if plain.contains(name) {
            plain = plain.replace(name, character);
        }
    }
    Cow::Owned(plain)
}

/// Whether what stands between `<` and `>` is a tag: `p`, `/pre`, `span class="x"`.
fn is_tag(inner: &str) -> bool {
    let name = inner
        .trim_start_matches('/')
        .split(' ')
        .next()
        .unwrap_or_default();
    TAGS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(line: &str) -> String {
        String::from_utf8_lossy(&undecorated(Cow::Borrowed(line.as_bytes()))).into_owned()
    }

    #[test]
    fn a_line_of_a_program_is_the_same_within_any_decoration() {
        let line = "n1:10:79 [0] NCCL WARN NET/IB : Got completion from peer 10.2.2.2<3> with status=12";
        let html = line.replace('<', "&lt;").replace('>', "&gt;");
        for decorated in [
            format!("> {line}"),
            format!("> > {line}"),
            format!("| {line} |"),
            format!("  | {line}"),
            format!("+ {line}"),
            format!("// {line}"),
            format!("# {line}"),
            format!("### {line}"),
            format!("**{line}**"),
            format!("`{line}`"),
            format!("> ## **{line}**"),
            format!("<p>{html}<br></p>"),
            format!("<span class=\"log\">{html}</span>"),
        ] {
            assert_eq!(plain(&decorated), line, "{decorated}");
        }
    }

    #[test]
    fn what_a_mail_quotes_of_a_source_or_a_banner_is_read() {
        for line in [
            "mtl_ofi.h:101: Error returned from fi_cq_readerr: Resource temporarily unavailable(-11).",
            "*** The Open MPI OFI MTL is aborting the MPI job (via exit(3)).",
        ] {
            assert_eq!(plain(&format!("> {line}")), line);
            assert_eq!(plain(&format!("> > {line}")), line);
        }
        for line in ["> Raise the limit if ibv_create_qp failed.", "> done"] {
            assert_eq!(plain(line), line);
        }
    }

    #[test]
    fn a_message_is_read_with_the_signs_that_a_page_names() {
        for (line, expected) in [
            (
                "PSM2 can&#x27;t open hfi unit: -1",
                "PSM2 can't open hfi unit: -1",
            ),
            ("> PSM2 can't open hfi unit: -1", "PSM2 can't open hfi unit: -1"),
            (
                "`ibv_open_device failed: Permission denied`",
                "ibv_open_device failed: Permission denied",
            ),
        ] {
            assert_eq!(plain(line), expected);
        }
    }

    #[test]
    fn a_comment_a_table_and_source_code_stay() {
        for line in [
            "# Raise the limit if ibv_create_qp failed",
            "// ibv_create_qp failed: the caller frees it",
            "+ dmesg | grep mlx5",
            "| `IBV_WC_RETRY_EXC_ERR` | The peer did not answer |",
            "<li>Replace the cable if ibv_create_qp failed.</li>",
            "# [1621424.1] mercury->fatal",
            "a & b",
        ] {
            assert_eq!(plain(line), line);
        }
    }
}
