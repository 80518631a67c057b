//! Lines that quote something: source code, documentation, advice, patterns.

use super::{
    super::{
        grammar,
        line::{Lower, is_word},
        origin,
        phrases::Occurrence,
    },
    level::Level,
    words::{CODE, LISTS},
};

/// Whether a line that begins with `#` is a message: mercury begins its lines with `# [` or, in DAOS, with a function, `# na_ofi_msg_send(): …`.
fn is_message_after_hash(trimmed: &str) -> bool {
    trimmed.strip_prefix("# ").is_some_and(|rest| {
        let end = rest.find("(): ").unwrap_or_default();
        rest.starts_with('[') || end > 0 && rest.bytes().take(end).all(is_word) || is_labelled_code(rest)
    })
}

/// Whether a text has a component and a code, which no comment has: `RDMA: … error status: retry exceeded[0xc], opcode : 0x0` of Valkey.
fn is_labelled_code(text: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_word);
    let labelled = text.split_once(": ").is_some_and(|(name, _)| is_name(name));
    labelled && text.contains("[0x")
}

/// Whether the line is a comment, a command, a part of a patch or source code, whatever level it quotes.
fn is_source(lower: &str) -> bool {
    const BEGINNINGS: [&str; 8] = ["#", "//", "```", "export ", "$ ", "+ ", "-  ", "| "];
    const ENDS: [&str; 5] = [");", "{", "};", "?;", "\\n\","];
    let trimmed = lower.trim();
    let begins = BEGINNINGS.iter().any(|beginning| trimmed.starts_with(beginning));
    begins && !is_message_after_hash(trimmed)
        || ENDS.iter().any(|end| trimmed.ends_with(end))
        || has_conversion(trimmed)
        || is_pattern(trimmed)
        || is_markup(trimmed)
        || is_command(trimmed)
        || is_of_build(trimmed)
}

/// Whether a line is of HTML: `<li>Replace the cable.</li>`.
fn is_markup(trimmed: &str) -> bool {
    let is_tag = |text: &str| {
        text.split_once('>').is_some_and(|(name, _)| {
            let name = name.split(' ').next().unwrap_or_default().trim_start_matches('/');
            (1..=10).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
                && name.starts_with(|c: char| c.is_ascii_lowercase())
        })
    };
    let begins = trimmed.strip_prefix('<').is_some_and(is_tag);
    begins && trimmed.rsplit_once('<').is_some_and(|(_, last)| is_tag(last)) && trimmed.contains("</")
}

/// Whether a line is of the configuration of a build, which looks for what it may use: `-- Could NOT find ibverbs`, `checking for ibv_reg_mr
/// in -libverbs... no`, `configure: WARNING: RDMA CM headers not found`.
fn is_of_build(trimmed: &str) -> bool {
    const BEGINNINGS: [&str; 5] = [
        "-- could not find",
        "-- performing test",
        "-- looking for",
        "-- checking for",
        "configure: warning:",
    ];
    let checks = trimmed.starts_with("checking ")
        && ["... no", "... yes", "(cached) no"]
            .iter()
            .any(|end| trimmed.ends_with(end));
    checks || BEGINNINGS.iter().any(|beginning| trimmed.starts_with(beginning))
}

/// Whether a line is a command in a manifest or a script: `command: ["sh", "-c", "ib_write_bw || echo failed"]`.
fn is_command(trimmed: &str) -> bool {
    let trimmed = trimmed.trim_start_matches("- ");
    ["command: [", "args: [", "command: \"", "run: "]
        .iter()
        .any(|key| trimmed.starts_with(key))
}

/// Whether a line has a conversion of `printf`, `%s` or `%08lx`: a program replaces it before it prints the message.
pub(in crate::log) fn has_conversion(lower: &str) -> bool {
    memchr::memchr_iter(b'%', lower.as_bytes()).take(64).any(|at| {
        // `50%s` is a number, `%%` a percent sign.
        let follows =
            at > 0 && (lower.as_bytes()[at - 1].is_ascii_digit() || lower.as_bytes()[at - 1] == b'%');
        let rest = lower[at + 1..]
            .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '#' | '*'));
        let rest = rest.trim_start_matches(['l', 'h', 'z', 'j', 't']);
        let mut bytes = rest.bytes();
        let converts = matches!(
            bytes.next(),
            Some(b'd' | b's' | b'u' | b'x' | b'p' | b'i' | b'm' | b'f')
        );
        // The kernel's `%pI4`, `%pM`, `%pe` go on with letters; a path of a URL such as `%dfoo` does not occur.
        let ends = bytes.next().is_none_or(|byte| !is_word(byte)) || rest.starts_with('p');
        !follows && converts && ends
    })
}

/// Whether a line is a regular expression, as monitors of logs have them, or a pattern in their configuration.
fn is_pattern(lower: &str) -> bool {
    const PARTS: [&str; 8] = [".*", ".+", "\\d", "\\s", "\\w", "[0-9]+", "(?i)", "(?:"];
    PARTS.iter().any(|part| lower.contains(part)) && !origin::has(lower)
}

/// Whether a line is a part of a text about errors: several sentences with a condition or advice, and no sign of a program that ran.
fn is_prose(text: &str) -> bool {
    /// The fewest words of two sentences in one line. Programs wrap their own help at less.
    const WORDS: usize = 20;
    const ADVICE: [&str; 12] = [
        "if", "should", "may", "can", "could", "when", "would", "must", "such", "you", "default", "value",
    ];
    let words = || text.split_whitespace();
    let sentences =
        words().filter(|word| word.ends_with('.')).count() + usize::from(text.trim_end().ends_with(':'));
    // `Error from server (Forbidden): …`: a program names itself or the kind of its message first.
    let is_labelled = words().take(6).any(|word| word.ends_with(':'));
    let advises = words()
        .filter(|word| ADVICE.contains(&word.to_ascii_lowercase().trim_end_matches(',')))
        .count();
    let begins = text.trim_start().starts_with(|c: char| c.is_ascii_uppercase());
    begins && !is_labelled && sentences >= 2 && advises >= 2 && words().count() >= WORDS && !origin::has(text)
}

/// Whether a line is of a list of changes: `- Fixed an issue where …`.
fn is_release_note(lower: &str) -> bool {
    let text = lower.trim_start().trim_start_matches(['-', '*', ' ']);
    ["fixed an issue", "fixed a bug", "fixed the issue", "fixed issue"]
        .iter()
        .any(|beginning| text.starts_with(beginning))
}

/// Whether a sentence gives a message as an instance of a kind, compares it, or advises against it: ``error messages like `UCX ERROR …` ``, `a
/// clearer message than "No IB devices found"`, ``to avoid potential `failed: Cannot allocate memory` ``.
fn is_instance(lower: &str) -> bool {
    let ends = |before: &str, words: &[&str]| words.iter().any(|word| before.trim_end().ends_with(word));
    let is_compared = lower
        .split_once('"')
        .is_some_and(|(before, rest)| rest.contains('"') && ends(before, &[" than", " instead of"]));
    // Every second part is between backticks.
    let parts: Vec<&str> = lower.split('`').collect();
    let outside = parts.iter().take(parts.len() - 1).step_by(2);
    // A setting has one word: ``such as `allow_hybrid_mode=0` ``.
    let is_message = |text: &&str| text.trim().contains(' ');
    // `to avoid the potential`.
    let avoids = |before: &str| {
        let mut words = before.split_whitespace().rev().take(3);
        words.any(|word| matches!(word, "avoid" | "avoids" | "prevent" | "prevents"))
    };
    let is_one = |before: &str| ends(before, &[" like", " such as", " e.g."]) || avoids(before);
    let mut quotes = outside.zip(parts.iter().skip(1).step_by(2));
    is_compared || parts.len() > 2 && quotes.any(|(before, text)| is_one(before) && is_message(text))
}

/// Whether a sentence says of a message in backquotes that it has no consequence: ``The `UCX ERROR` lines are a known issue``. A name has one
/// word.
fn is_mention(lower: &str) -> bool {
    const HARMLESS: [&str; 8] = [
        "known issue",
        "known bug",
        "harmless",
        "benign",
        "expected",
        "ignored",
        "safe to ignore",
        "no effect",
    ];
    let parts: Vec<&str> = lower.split('`').take(32).collect();
    let message = |text: &&str| text.trim().contains(' ');
    if parts.len() < 3 || parts.len().is_multiple_of(2) || !parts.iter().skip(1).step_by(2).any(message) {
        return false;
    }
    let outside = parts.iter().step_by(2).copied().collect::<Vec<_>>().join(" ");
    let fails = LISTS
        .failures
        .find(&outside)
        .any(|found| found.begins(&outside) && found.ends(&outside));
    !fails && HARMLESS.iter().any(|words| outside.contains(words))
}

/// Whether a person reports a message in backquotes, and does not say when it may come: ``the job fails at its start with `ibv_modify_qp failed
/// with 110 (Connection timed out)` ``, `` `ibv_devinfo` in the container prints `No IB devices found` ``.
fn is_reported(lower: &str) -> bool {
    const ENDED: [&str; 14] = [
        "fails", "failed", "failing", "died", "dies", "crashed", "crashes", "aborted", "aborts", "stopped",
        "stops", "ended", "exited", "exits",
    ];
    const SHOWN: [&str; 10] = [
        "prints", "printed", "shows", "showed", "says", "said", "gives", "gave", "logs", "logged",
    ];
    // Of what may happen, of what happens no longer, of what a test provokes or an answer explains.
    const OTHERWISE: [&str; 32] = [
        "if", "when", "whenever", "may", "might", "can", "could", "should", "would", "must", "usually",
        "often", "example", "unless", "no", "not", "never", "longer", "check", "checks", "test", "tests",
        "fix", "fixed", "fixes", "q", "known", "expected", "harmless", "benign", "each", "any",
    ];
    let has = |text: &str, list: &[&str]| {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| list.contains(&word))
    };
    // Every second part is between backquotes.
    let parts: Vec<&str> = lower.split('`').take(32).collect();
    let outside = |until: usize| parts.iter().take(until).step_by(2);
    let is_message = |text: &str| {
        let fails = || {
            LISTS
                .failures
                .find(text)
                .any(|found| found.begins(text) && found.ends(text))
        };
        text.contains(' ') && (text.starts_with("no ") || fails())
    };
    let is_one = |at: usize, message: &str| {
        let before = parts[at - 1].trim_end();
        let follows = before.ends_with(" with") || before.ends_with(':');
        let is_shown = SHOWN.iter().any(|verb| before.ends_with(verb));
        is_message(message) && (is_shown || follows && outside(at).any(|text| has(text, &ENDED)))
    };
    let is_any = parts
        .iter()
        .enumerate()
        .skip(1)
        .step_by(2)
        .any(|(at, message)| is_one(at, message));
    is_any && !outside(parts.len()).any(|text| has(text, &OTHERWISE))
}

/// Whether a person asks. A program asks otherwise: `Cannot list devices, is ib_uverbs loaded?`.
pub(in crate::log) fn is_question(lower: &str) -> bool {
    /// The fewest words of a sentence before a request for help.
    const REPORTED: usize = 6;
    const WORDS: [&str; 8] = ["why", "how", "what", "anyone", "you", "i", "my", "we"];
    // `udaddy throws RDMA_CM_EVENT_ADDR_ERROR, error -19, could you please help me?` reports before it asks.
    let only_asks = || {
        let (before, request) = lower.rsplit_once([',', '.', ';', '!']).unwrap_or_default();
        before.split_whitespace().count() < REPORTED || !request.contains(" help")
    };
    lower.trim_end().ends_with('?')
        && only_asks()
        && lower.split_whitespace().any(|word| WORDS.contains(&word))
}

/// Whether the line quotes documentation, advice or source code.
pub(super) fn is_quoted(line: &Lower<'_>, level: Option<Level>, failure: Option<usize>) -> bool {
    /// A hint follows NCCL's prefix.
    const NEAR: usize = 120;
    let lower = line.lower.as_str();
    if lower.find("hint:").is_some_and(|at| at < NEAR)
        || is_source(lower)
        || grammar::is_search(lower)
        || is_prose(line.text)
        || is_release_note(lower)
        || is_instance(lower)
        || is_mention(lower)
    {
        return true;
    }
    if level >= Some(Level::Warning) {
        return false;
    }
    let failure = failure.unwrap_or(lower.len());
    // `Module x is used and will fail driver reload, aborting execution`: what will happen is why the program ends now.
    let ends = ["aborting", "giving up", "terminating"]
        .iter()
        .any(|word| lower.contains(word));
    let advice = || {
        let mut found = LISTS.quotes.find(lower);
        found.any(|found| found.start < failure && found.begins(lower)) && !ends
    };
    // A driver remarks on its own message: `Post send on QP 12 failed (this error appears only once)`.
    let is_remark = |found: &Occurrence| lower[..found.start].ends_with('(');
    let about = || level.is_none() && LISTS.about_errors.find(lower).any(|found| !is_remark(&found));
    let trimmed = lower.trim_start();
    let asks = || level.is_none() && !origin::has(line.text) && is_question(lower);
    // perftest: `Function rdma_connect failed`.
    let is_code = |beginning: &&str| {
        trimmed.starts_with(*beginning) && (**beginning != *"function " || trimmed.contains('('))
    };
    // `ncclSystemError: System call (e.g. socket, malloc) or external library call failed`.
    let is_error = trimmed
        .split_whitespace()
        .next()
        .is_some_and(|word| word.len() > "error:".len() && word.ends_with("error:"));
    let code = CODE.iter().any(is_code) && !is_message_after_hash(trimmed);
    // A status in backquotes is a name in a text.
    let named = || lower.contains("`ibv_") && !lower.contains("assertion `") && !is_reported(lower);
    code || !is_error && advice() || about() || named() || asks()
}
