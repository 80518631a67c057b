//! Hides the processes that a line of the kernel log names: their numbers, and their names, which are up to their owners.
//!
//! Drivers write them in many forms. The rules are general and rather hide a word too many: a number after a word such as
//! `pid`; a name after a word such as `process`; a name with a number in brackets (`python3[4711]`); a number with a name in
//! brackets (`4711 (python3)`).

use std::ops::Range;

use crate::speaker::MAX_COMM;

/// Replaces what a line says of a process.
const HIDDEN: &str = "<hidden>";
/// Words before the number of a process or user.
const NUMBERS: [&str; 5] = ["pid", "tgid", "tid", "ppid", "uid"];
/// Words before the name of a process, after `=` or `:`, or in quotes.
const NAMES: [&str; 8] = [
    "name", "comm", "process", "thread", "task", "exe", "command", "client",
];
/// Those words of [`NAMES`] that a name follows without `=` or `:`, too.
const SPOKEN: [&str; 4] = ["comm", "process", "thread", "task"];
/// How often a text is looked through at most.
const PASSES: usize = 16;
/// What a driver counts: `total 32768 (slots)`.
const UNITS: [&str; 12] = [
    "slots", "bytes", "pages", "entries", "blocks", "sectors", "frames", "packets", "kb", "ms", "msec",
    "usec",
];
/// What a driver does in steps that it calls a process.
const STEPS: [&str; 4] = ["in reset ", "in init ", "in recovery ", "in uninit "];
/// Processes with lower numbers are threads of the kernel.
const FIRST_USER: u64 = 100;
/// A number in parentheses up to this may be an error number (`MAX_ERRNO`).
const MAX_ERRNO: u64 = 4095;

/// The text with the number and name of each process hidden: `(pid 4711)`, `pid=4711, name=python3`, `process python3 did`.
/// It is idempotent.
pub(super) fn without_processes(text: &str) -> String {
    let mut hidden = text.to_owned();
    // What was hidden may end a word that precedes a name: `pid 0Process:0`. Most lines need one pass, and none more than a few.
    for _ in 0..PASSES {
        let again = hidden_once(&hidden);
        if again == hidden {
            break;
        }
        hidden = again;
    }
    hidden
}

fn hidden_once(text: &str) -> String {
    let mut spans = Vec::new();
    for word in words(text) {
        let after = word.end;
        let lower = text[word].to_ascii_lowercase();
        if NUMBERS.contains(&lower.as_str()) {
            spans.extend(number(text, after));
        }
        if NAMES.contains(&lower.as_str()) {
            spans.extend(name(text, after, &lower));
        }
    }
    for (at, _) in text.match_indices(['[', '(']) {
        spans.extend(in_brackets(text, at));
    }
    spans.sort_unstable_by_key(|span| span.start);
    let mut out = String::with_capacity(text.len());
    let mut shown = 0;
    for span in spans {
        if span.end <= shown {
            continue;
        }
        let between = text.get(shown..span.start).unwrap_or_default();
        out.push_str(between);
        // Two that touch are one.
        if between.trim().is_empty() && out.trim_end().ends_with(HIDDEN) {
            out.truncate(out.trim_end().len());
        } else {
            out.push_str(HIDDEN);
        }
        shown = span.end;
    }
    out.push_str(&text[shown..]);
    out
}

/// The places of the words and numbers of a text.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let start = from + text[from..].find(is_part)?;
        let end = text[start..]
            .find(|c| !is_part(c))
            .map_or(text.len(), |n| start + n);
        from = end;
        Some(start..end)
    })
}

/// The number after a word at `after`, with something between them.
fn number(text: &str, after: usize) -> Option<Range<usize>> {
    let rest = text[after..].trim_start_matches([' ', '=', ':', '#', '\'', '"']);
    let start = text.len() - rest.len();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (start > after && digits > 0).then(|| start..start + digits)
}

/// The name after the word `key`, which ends at `after`.
fn name(text: &str, after: usize, key: &str) -> Option<Range<usize>> {
    let rest = text[after..].trim_start_matches([' ', '=', ':']);
    let start = text.len() - rest.len();
    let between = &text[after..start];
    // `Failed to process command REG_MR`, `In reset process RoCE reinit failed`.
    let before = text[..after - key.len()].to_ascii_lowercase();
    if before.ends_with("to ") || key == "process" && STEPS.iter().any(|step| before.ends_with(step)) {
        return None;
    }
    // Hidden before, or a heading (`Process information:`).
    if between.is_empty() || rest.is_empty() || rest.starts_with(HIDDEN) || rest.starts_with("information") {
        return None;
    }
    if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let end = rest[1..]
            .find(quote)
            .map_or(text.len(), |length| start + length + 2);
        return Some(start..end);
    }
    if key != "client" && between.contains(['=', ':']) {
        // It may contain spaces and ends with the field.
        let end = rest
            .find([',', ')', ';'])
            .map_or(text.len(), |length| start + length);
        return Some(start..end);
    }
    SPOKEN.contains(&key).then(|| start..spoken(text, start))
}

/// The end of a name that begins at `start`, of which no sign marks the end: all words that begin within the length of a name,
/// up to another word that precedes a name or number. A number may stand before the name.
fn spoken(text: &str, start: usize) -> usize {
    let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
    let last = start + digits + MAX_COMM;
    let (mut from, mut end) = (start, start);
    while let Some(found) = text[from..].find(|c: char| !c.is_whitespace()) {
        let begin = from + found;
        from = text[begin..]
            .find(char::is_whitespace)
            .map_or(text.len(), |n| begin + n);
        let word = text[begin..from].to_ascii_lowercase();
        let word = word
            .split(|c: char| !c.is_ascii_alphanumeric())
            .find(|part| !part.is_empty());
        let is_key = word.is_some_and(|word| NUMBERS.contains(&word) || NAMES.contains(&word));
        if begin >= last || end > start && is_key {
            break;
        }
        end = from;
    }
    start
        + text[start..end]
            .trim_end_matches([',', ';', ':', '.', '\'', '"'])
            .len()
}

/// The name and number of a process of which one is in brackets, which open at `at`.
fn in_brackets(text: &str, at: usize) -> Option<Range<usize>> {
    let round = text[at..].starts_with('(');
    let inner = &text[at + 1..];
    let length = inner.find(if round { ')' } else { ']' })?;
    let (inner, end) = (&inner[..length], at + 1 + length + 1);
    let before = text[..at].trim_end_matches(|c| round && c == ' ');
    if let Ok(number) = inner.parse::<u64>() {
        let least = if round { MAX_ERRNO + 1 } else { FIRST_USER };
        return (number >= least).then(|| begin_of_name(before)..end);
    }
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    let start = before.len() - digits;
    let is_word = !before[..start].ends_with(|c: char| c.is_alphanumeric() || c == '.');
    let number = before[start..].parse::<u64>().ok()?;
    let is_name = !UNITS.contains(&inner.to_ascii_lowercase().as_str());
    (round && is_word && is_name && number > MAX_ERRNO && length <= MAX_COMM).then_some(start..end)
}

/// Where the name of a process begins that ends the text: it may contain spaces, but the prefix of the message, which ends in
/// `: `, does not belong to it.
fn begin_of_name(text: &str) -> usize {
    let prefix = text.rfind(": ").map_or(0, |at| at + 2);
    let mut start = text.len();
    for (at, _) in text.match_indices(char::is_whitespace).chain([(0, "")]) {
        let word = text[at..].trim_start();
        let begin = text.len() - word.len();
        if begin >= prefix && word.len() <= MAX_COMM {
            start = start.min(begin);
        }
    }
    start.min(text.len()).max(prefix)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_driver_says_of_a_process_is_hidden() {
        for (line, shown) in [
            (
                "NVRM: Xid (PCI:0000:18:00): 31, pid=1234, name=python3, Ch 00000008",
                "NVRM: Xid (PCI:0000:18:00): 31, pid=<hidden>, name=<hidden>, Ch 00000008",
            ),
            (
                "mlx5_core 0000:41:00.0: mlx5_cmd_check:772:(pid 4711): CREATE_QP failed",
                "mlx5_core 0000:41:00.0: mlx5_cmd_check:772:(pid <hidden>): CREATE_QP failed",
            ),
            (
                "amdgpu 0000:c1:00.0: amdgpu: Process information: process alice train pid 12 thread x:cs0 pid 13",
                "amdgpu 0000:c1:00.0: amdgpu: Process information: process <hidden> pid <hidden> thread <hidden> pid <hidden>",
            ),
            ("hfi1: name=\"a, b\" ok", "hfi1: name=<hidden> ok"),
            (
                "hns3 0000:7d:00.0: In reset process RoCE reinit failed -5.",
                "hns3 0000:7d:00.0: In reset process RoCE reinit failed -5.",
            ),
            (
                "infiniband_mad umad0: process alice did not enable P_Key index support.",
                "infiniband_mad umad0: process <hidden> P_Key index support.",
            ),
            (
                "ib_uverbs_write: process 62345 (alice) changed security contexts",
                "ib_uverbs_write: process <hidden> security contexts",
            ),
            (
                "hfi1 0000:13:00.0: hfi1_0: PID 82345 comm alice: context 1",
                "hfi1 0000:13:00.0: hfi1_0: PID <hidden> comm <hidden> 1",
            ),
            ("siw: [QP 1] task alice/92345", "siw: [QP 1] task <hidden>"),
            (
                "irdma 0000:13:00.0: Task alice:11345",
                "irdma 0000:13:00.0: Task <hidden>",
            ),
            (
                "vfio-pci 0000:13:00.0: alice[12399]: Relaying device request to user (#0)",
                "vfio-pci 0000:13:00.0: <hidden>: Relaying device request to user (#0)",
            ),
            (
                "mlx5_core 0000:06:00.0: swiotlb buffer is full (sz: 65536 bytes), total 32768 (slots), used 32765 (slots)",
                "mlx5_core 0000:06:00.0: swiotlb buffer is full (sz: 65536 bytes), total 32768 (slots), used 32765 (slots)",
            ),
            ("iommu: group 3 by my job[12394]", "iommu: group <hidden>"),
            (
                "nvidia 0000:18:00.0: alice (12396): x",
                "nvidia 0000:18:00.0: <hidden>: x",
            ),
            (
                "mlx5_core: got 62346 (alice) here",
                "mlx5_core: got <hidden> here",
            ),
            (
                "NVRM: the client 'alice b' (pid 32345)",
                "NVRM: the client <hidden> (pid <hidden>)",
            ),
            (
                "nvidia_peermem: process 'alice' pid: 12393",
                "nvidia_peermem: process <hidden> pid: <hidden>",
            ),
            (
                "mlx5_core: command: /home/alice/run --pw x",
                "mlx5_core: command: <hidden>",
            ),
            (
                "nvidia: exe=\"/usr/bin/alice\" pid=12391",
                "nvidia: exe=<hidden> pid=<hidden>",
            ),
        ] {
            assert_eq!(without_processes(line), shown);
        }
        assert_eq!(
            without_processes("pid 0Process:0"),
            "pid <hidden>Process:<hidden>"
        );
        for line in [
            "iommu: Default domain type: Passthrough ",
            "arm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: 0000:41:00.0 sid: 0x4100",
            "mlx5_core 0000:41:00.0: wait_func:1107: CREATE_QP(0x500) timeout. Will cause a leak of a command resource",
            "mlx5_core 0000:41:00.0: assert_var[0] 0x00000000",
            "bnxt_en 0000:41:00.0: command timed out (110), err [-12]",
            "mlx5_core 0000:41:00.0 ens1f0np0: Link down",
        ] {
            assert_eq!(without_processes(line), line);
        }
    }

    proptest! {
        #[test]
        fn a_name_that_was_hidden_stays_hidden_and_nothing_else_is(
            line in "([Pp]rocess|task|pid|comm|name|client|[ :=,()\\[\\]\"']|[0-9]{1,6}|\\PC|[a-z]{1,16}|<hidden>){0,16}",
        ) {
            let hidden = without_processes(&line);
            prop_assert_eq!(without_processes(&hidden), hidden);
        }
    }
}
