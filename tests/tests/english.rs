//! Keeps the worst turns of phrase out of what a person reads: documentation, alerts, comments and help.
//!
//! The list is short on purpose: each entry was common here, slows the reader down, and has few legitimate uses.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    ffi::OsStr,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rdma_health_tests::virtual_node::built;

/// Phrase, what is wrong with it, what to write instead. In a phrase, `*` is any word and `#` any number.
const PHRASES: &[(&str, &str, &str)] = &[
    ("tell", TELL, "report, show, log, expose"),
    ("tells", TELL, "reports, shows, logs, exposes"),
    ("told", TELL, "reported, shown, logged, exposed"),
    ("says so", TELL, "reports it, logs it"),
    ("lack", "reads as translated", "is missing, has no"),
    ("lacks", "reads as translated", "is missing, has no"),
    ("anew", "archaic", "again, or the plain verb: reread, regenerate"),
    ("once more", "archaic", "again"),
    (
        "beside",
        "archaic",
        "next to, in addition to, with, in the same directory",
    ),
    (
        "apart",
        "reads as translated",
        "separate, separately, distinguish",
    ),
    ("whoever", VAGUE, "the user, the caller, the process"),
    ("somebody", VAGUE, "a user, an operator, another controller"),
    ("anybody", VAGUE, "any user, anyone"),
    ("nobody", VAGUE, "no one, or name who does not"),
    ("heed", "archaic", "use, respect, apply"),
    ("heeds", "archaic", "uses, respects, applies"),
    ("heeded", "archaic", "used, respected, applied"),
    ("goes by", "reads as translated", "uses, applies"),
    ("is no *", NO, "is not a"),
    ("are no *", NO, "are not"),
    ("a * of its own", "reads as translated", "its own X, a separate X"),
    ("of ours", VAGUE, "name the owner: this agent's, of rdma-health"),
    ("not to be had", "archaic", "unavailable, not available"),
    ("cannot be had", "archaic", "unavailable, not available"),
    ("for lack of", "archaic", "because X is missing"),
    ("for want of", "archaic", "because X is missing"),
    ("for there is", BECAUSE, "because there is"),
    ("for it is", BECAUSE, "because it is"),
    ("for they are", BECAUSE, "because they are"),
    ("is asked for", "hides the subject", "is configured, is requested"),
    (
        "was asked for",
        "hides the subject",
        "was configured, was requested",
    ),
    ("in effect", "means active or configured: say which", "active"),
    ("mildest", "severities have an order", "lowest severity"),
    ("expected are", "inverted", "expected 390 Gb/s"),
    ("expected is", "inverted", "expected 3"),
    ("some #", "reads as translated before a number", "about"),
    ("the very *", "archaic emphasis", "the same, or leave it out"),
    ("mend", "homely", "fix"),
    ("mends", "homely", "fixes"),
    ("cures", "homely", "fixes"),
    ("in good order", "homely", "healthy"),
    ("in peace", "homely", "leave it out"),
    ("worth the name", "idiom", "usable"),
];

const TELL: &str = "a program does not tell";
const VAGUE: &str = "does not name the actor";
const NO: &str = "`is no X` for `is not an X` reads as translated";
const BECAUSE: &str = "`for` as because is archaic";

/// Legitimate uses of the phrases above.
const EXCEPTIONS: &[&str] = &[
    "there is no *",
    "there are no *",
    "is no longer",
    "are no longer",
    "is no more than",
    "or expected is", // in use or expected is …
    "not expected is",
    "to lack of", // quoted from the drivers
];

/// What people read, relative to the repository root.
const PLACES: &[&str] = &[
    ".ci",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "Makefile",
    "README.md",
    "agent",
    "clippy.toml",
    "dashboards",
    "deny.toml",
    "deploy",
    "docs",
    "fixtures",
    "tests",
    HELP,
];

/// Stands for the `--help` of the programs and all their commands.
const HELP: &str = "--help";

/// Never checked: this list itself.
const SELF: &str = "tests/tests/english.rs";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn texts_are_free_of_the_worst_phrases() {
    let mut report = String::new();
    for (name, text) in PLACES.iter().flat_map(|place| texts(place)) {
        for hit in hits(&text) {
            writeln!(report, "{name}:{hit}").unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn phrases_are_found_in_prose_and_not_in_code() {
    let found = |text: &str| {
        hits(&prose("x.md", text))
            .iter()
            .map(|hit| hit.split(';').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("It\ntells. A port that\nis no\nport."),
        [
            "2: \"tells\": a program does not tell",
            "3: \"is no *\": `is no X` for `is not an X` reads as translated"
        ]
    );
    assert_eq!(
        found("| Some 35 |"),
        ["1: \"some #\": reads as translated before a number"]
    );
    assert_eq!(found("```yaml\nanew: 1 # anew\n```"), ["2: \"anew\": archaic"]);
    for clean in [
        "There is no port, and it is no longer up.",
        "What it is. No port is up.",
        "It prints `somebody`.",
        "```text\nsomebody\n```\n",
        "some ports; somewhat beside-the-point",
    ] {
        assert!(found(clean).is_empty(), "{clean}");
    }
}

/// The prose at a place: of one file, of all files below a directory, or of the programs' help.
fn texts(place: &str) -> Vec<(String, String)> {
    if place == HELP {
        return help();
    }
    let path = root().join(place);
    if path.is_dir() {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| !entry.file_type().unwrap().is_symlink())
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| !["target", "corpus", "artifacts", "coverage"].contains(&name.as_str()))
            .collect();
        names.sort();
        return names
            .iter()
            .flat_map(|name| texts(&format!("{place}/{name}")))
            .collect();
    }
    let Ok(text) = fs::read_to_string(&path) else {
        return Vec::new(); // binary
    };
    if place == SELF {
        return Vec::new();
    }
    vec![(place.to_owned(), prose(place, &text))]
}

/// `--help` of both programs and of every command of `rdma-health`; the helper's one page covers its commands.
fn help() -> Vec<(String, String)> {
    let of = |command: &[&str]| {
        let (program, arguments) = command.split_first().unwrap();
        let output = Command::new(built(program).unwrap())
            .args(arguments)
            .arg(HELP)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Usage:"), "{command:?} --help: {text}");
        (format!("{} {HELP}", command.join(" ")), text)
    };
    let main = of(&["rdma-health"]);
    let commands = main.1.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty()).filter_map(|line| {
        // A description that continues on the next line is indented further.
        let command = line.strip_prefix("  ")?.split(' ').next()?;
        (!command.is_empty() && command != "help").then_some(command)
    });
    let mut all: Vec<_> = commands.map(|command| of(&["rdma-health", command])).collect();
    assert!(all.len() > 5, "commands not found: {}", main.1);
    all.extend([main, of(&["rdma-health-verbs"])]);
    all
}

/// The text with what is not prose left out; lines stay lines. In Markdown that is code, but for the comments in it; in
/// captured trees everything but the comment at the top.
fn prose(name: &str, text: &str) -> String {
    let kind = Path::new(name).extension().and_then(OsStr::to_str);
    let mut fence: Option<&str> = None;
    let lines: Vec<&str> = text
        .lines()
        .map(|line| match kind {
            Some("tree") if !line.starts_with("# ") => "",
            Some("md") => match line.trim_start().strip_prefix("```") {
                Some(language) => {
                    fence = if fence.is_some() { None } else { Some(language) };
                    ""
                }
                None => match fence {
                    None => line,
                    Some("yaml" | "sh") => line.find("# ").map_or("", |comment| &line[comment..]),
                    Some(_) => "",
                },
            },
            _ => line,
        })
        .collect();
    // Inline code becomes one word; it does not cross a blank line.
    let mut result = String::new();
    for paragraph in lines.join("\n").split("\n\n") {
        for (index, part) in paragraph.split('`').enumerate() {
            if index % 2 == 0 {
                result.push_str(part);
            } else {
                result.push_str("code");
                result.extend(part.chars().filter(|c| *c == '\n'));
            }
        }
        result.push_str("\n\n");
    }
    result
}

/// A line for each phrase that the prose has: its line, the phrase, and the advice.
fn hits(prose: &str) -> Vec<String> {
    let words = words(prose);
    let phrases: Vec<(Vec<&str>, _)> = PHRASES
        .iter()
        .map(|phrase| (phrase.0.split(' ').collect(), phrase))
        .collect();
    let exceptions: Vec<Vec<&str>> = EXCEPTIONS
        .iter()
        .map(|phrase| phrase.split(' ').collect())
        .collect();
    let matches = |phrase: &[&str], at: usize| {
        let here = words.get(at..at + phrase.len());
        here.is_some_and(|here| {
            here.iter()
                .zip(phrase)
                .all(|((_, word), pattern)| match *pattern {
                    "*" => !word.is_empty(),
                    "#" => word.starts_with(|c: char| c.is_ascii_digit()),
                    pattern => word == pattern,
                })
        })
    };
    let excused =
        |at: usize| (at.saturating_sub(1)..=at).any(|at| exceptions.iter().any(|phrase| matches(phrase, at)));
    (0..words.len())
        .filter(|at| !excused(*at))
        .flat_map(|at| {
            phrases
                .iter()
                .filter(move |(phrase, _)| matches(phrase, at))
                .map(move |(_, phrase)| (at, *phrase))
        })
        .map(|(at, (phrase, why, instead))| format!("{}: \"{phrase}\": {why}; write: {instead}", words[at].0))
        .collect()
}

/// The words in lower case, with their lines. Punctuation that ends a clause is an empty word, which no pattern matches.
fn words(prose: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (index, line) in prose.lines().enumerate() {
        let is_word = |c: char| c.is_alphanumeric() || "-_'/".contains(c);
        for part in line.split_inclusive(|c: char| !is_word(c)) {
            let word = part.trim_end_matches(|c: char| !is_word(c));
            if !word.is_empty() {
                words.push((index + 1, word.to_lowercase()));
            }
            if part.ends_with(|c: char| ".,;:|!?()[]{}".contains(c)) {
                words.push((index + 1, String::new()));
            }
        }
        if line.trim().is_empty() {
            words.push((index + 1, String::new()));
        }
    }
    words
}
