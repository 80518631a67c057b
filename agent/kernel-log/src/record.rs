//! One record of the kernel log.

use crate::{denial, processes, speaker, trace};

/// Maximum length of a record's text that is looked at, in bytes. The kernel's own limit for one message is about 1 KiB.
const MAX_TEXT: usize = 2048;

/// One record, as `/dev/kmsg` and `dmesg` show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its severity (`LOGLEVEL_*`, 0 to 7); `None` if the line does not say.
    pub level: Option<u8>,
    /// When it was written, in seconds since boot; `None` if the line does not say.
    pub time: Option<u64>,
    /// Its text, at most [`MAX_TEXT`] bytes.
    pub text: &'a str,
}

impl<'a> Record<'a> {
    /// Parses `priority,sequence,microseconds,flags;text`, followed by lines of `key=value` pairs
    /// (`Documentation/ABI/testing/dev-kmsg`). A line without that prefix, from `dmesg` or the journal, is its own text, possibly after a
    /// priority and a time.
    ///
    /// `None` for a record that a process wrote: the kernel gives these a facility other than 0.
    pub fn parse(record: &'a str) -> Option<Self> {
        let first = record.lines().next().unwrap_or_default();
        if let Some((header, text)) = Header::split(first) {
            let (facility, level) = (header.priority >> 3, header.priority & 7);
            return (facility == 0).then(|| Self {
                level: u8::try_from(level).ok(),
                time: Some(header.time / 1_000_000),
                text: bounded(text),
            });
        }
        let text = speaker::without_time(first);
        let (priority, _) = speaker::without_priority(first);
        let is_of_kernel = priority.is_none_or(|priority| priority >> 3 == 0);
        is_of_kernel.then(|| Self {
            level: priority.and_then(|priority| u8::try_from(priority & 7).ok()),
            time: dmesg_time(before(first, text)),
            text: bounded(text),
        })
    }
}

/// What `/dev/kmsg` writes before a message: `priority,sequence,microseconds,flags`, and after it fields that are not used, such as the
/// number of the process that wrote it (`caller=T1234`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    priority: u32,
    sequence: u64,
    time: u64,
    /// `-`, or whether the message is a part of a line.
    flags: char,
}

impl Header {
    /// The header of a record and its text.
    fn split(line: &str) -> Option<(Self, &str)> {
        let (prefix, text) = line.split_once(';')?;
        let mut fields = prefix.split(',');
        let header = Self {
            priority: fields.next()?.parse().ok()?,
            sequence: fields.next()?.parse().ok()?,
            time: fields.next()?.parse().ok()?,
            flags: match fields.next() {
                Some("c") => 'c',
                Some("+") => '+',
                _ => '-',
            },
        };
        Some((header, text))
    }
}

impl std::fmt::Display for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            priority,
            sequence,
            time,
            flags,
        } = self;
        write!(f, "{priority},{sequence},{time},{flags};")
    }
}

/// The lines of a message that a driver wrote as one record, with what is before each of them; the kernel writes line breaks as `\x0a`:
/// `NVRM: … is invalid:\x0aNVRM: BAR1 is 0M @ 0x0`. Empty if the record is one line. Each line begins with the name of the same driver, because a
/// text that a user chose may have line breaks, too.
pub fn lines_of(record: &str) -> Vec<String> {
    const BREAK: &str = "\\x0a";
    let first = record.lines().next().unwrap_or_default();
    if !first.contains(BREAK) {
        return Vec::new();
    }
    let (header, text) = split(first);
    let text = bounded(text);
    let lines: Vec<&str> = text.split(BREAK).map(str::trim_start).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let driver = text
        .split_once(": ")
        .map(|(driver, _)| driver)
        .unwrap_or_default();
    let is_said = |line: &&str| {
        line.strip_prefix(driver)
            .is_some_and(|rest| rest.starts_with(": "))
    };
    if driver.is_empty() || !speaker::is_known(text) || !lines.iter().all(is_said) {
        return Vec::new();
    }
    // What was left of the priority and time of the record.
    let whole = record.split_once(';').filter(|_| Header::split(first).is_some());
    let before = whole.map_or(header, |(before, _)| format!("{before};"));
    lines.into_iter().map(|line| format!("{before}{line}")).collect()
}

/// How the records of a file begin. Only the kernel writes the beginning of a record. The text of a record may contain a
/// line break that a process chose, so a line without the beginning that the others have is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As in `/dev/kmsg`.
    Record,
    /// With a time, as `dmesg` and the journal write them, or a priority.
    Stamped,
    /// Without either.
    Plain,
}

impl Form {
    /// How many lines of a file are looked at. The first ones may be the rest of a record that was cut.
    const LINES: usize = 16;

    /// The form of a file that begins with this text.
    pub fn of_file(head: &str) -> Self {
        let mut forms = head.lines().take(Self::LINES).map(Self::of);
        forms.find(|form| *form != Self::Plain).unwrap_or(Self::Plain)
    }

    fn of(line: &str) -> Self {
        if Header::split(line).is_some() {
            Self::Record
        } else if !line.starts_with(char::is_whitespace)
            && !matches!(before(line, speaker::without_time(line)), "" | "kernel: ")
        {
            Self::Stamped
        } else {
            Self::Plain
        }
    }

    /// Whether the line is the beginning of a record of such a file.
    pub fn has(self, line: &str) -> bool {
        self == Self::Plain || self == Self::of(line)
    }
}

/// The part of the line before its text.
fn before<'a>(line: &'a str, text: &str) -> &'a str {
    &line[..line.len() - text.len()]
}

/// The time in brackets in what `dmesg` writes before a message, in seconds.
fn dmesg_time(header: &str) -> Option<u64> {
    let (seconds, fraction) = time_of(header)?.split_once('.')?;
    let digits = fraction.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| seconds.parse().ok())?
}

/// The first brackets of what `dmesg` writes before a message: time or date. The second ones contain the number of a process.
fn time_of(header: &str) -> Option<&str> {
    let (time, _) = header.split_once('[')?.1.split_once(']')?;
    Some(time.trim())
}

/// The first [`MAX_TEXT`] bytes.
fn bounded(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The first line of a record for keeping: bounded, and without what the kernel and its drivers say of processes.
pub fn kept(record: &str) -> String {
    let first = record.lines().next().unwrap_or_default();
    let (header, text) = split(first);
    let text = bounded(text);
    match denial::shortened(text).or_else(|| trace::shortened(text)) {
        Some(short) => header + &short,
        None => header + &processes::without_processes(text),
    }
}

/// What a line has before its message, as the reader writes it, and the message. Only the message contains what a driver
/// or a user chose.
pub fn split(line: &str) -> (String, &str) {
    if let Some((header, text)) = Header::split(line) {
        return (header.to_string(), text);
    }
    let text = speaker::without_time(line);
    let priority = speaker::without_priority(line).0;
    let priority = priority.map_or_else(String::new, |priority| format!("<{priority}>"));
    let time = time_of(before(line, text)).map(|time| format!("[{time}] "));
    (priority + &time.unwrap_or_default(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(record: &str) -> Option<&str> {
        Record::parse(record).map(|record| record.text)
    }

    #[test]
    fn the_prefix_and_the_dictionary_of_a_record_are_not_its_text() {
        let record = Record::parse("3,339,5140900,-;mlx5_core: up\n SUBSYSTEM=pci\n DEVICE=+pci:0");
        let expected = Record {
            level: Some(3),
            time: Some(5),
            text: "mlx5_core: up",
        };
        assert_eq!(record, Some(expected));
        assert_eq!(text(""), Some(""));
        assert_eq!(text("6,x;y"), Some("6,x;y"));
    }

    #[test]
    fn a_record_that_a_process_wrote_does_not_count() {
        // systemd writes with facility 3 (daemon), a shell with facility 1 (user).
        for priority in ["30", "12", "8", "4294967295"] {
            assert_eq!(text(&format!("{priority},1,1,-;mlx5_core 0000:14:00.0: x")), None);
        }
    }

    #[test]
    fn a_priority_shows_severity_and_writer() {
        let level = |line: &str| Record::parse(line).map(|record| record.level);
        assert_eq!(level("<3>[    1.0] DMAR: x"), Some(Some(3)));
        assert_eq!(level("[    1.0] DMAR: x"), Some(None));
        assert_eq!(level("<30>[    1.0] systemd[1]: x"), None);
    }

    #[test]
    fn the_number_of_a_process_is_not_kept() {
        for (line, shown) in [
            ("3,900,9000,-,caller=T1234;DMAR: x", "3,900,9000,-;DMAR: x"),
            ("3,900,9000,c,caller=C0,more=1;DMAR: x", "3,900,9000,c;DMAR: x"),
            ("[   12.345678][T1234] DMAR: x", "[12.345678] DMAR: x"),
            ("kern  :err   : [   12.3] DMAR: x", "[12.3] DMAR: x"),
            (
                "[Thu Sep 19 02:29:46 2024] DMAR: x",
                "[Thu Sep 19 02:29:46 2024] DMAR: x",
            ),
            ("DMAR: x", "DMAR: x"),
            ("<3>[   12.3] DMAR: x", "<3>[12.3] DMAR: x"),
            ("[   12.3] gpu-01 kernel: DMAR: x", "[12.3] DMAR: x"),
            ("Nov 27 20:10:05 gpu-01 kernel: DMAR: x", "DMAR: x"),
        ] {
            assert_eq!(kept(line), shown);
            assert_eq!(kept(shown), shown);
            assert_eq!(Record::parse(&kept(line)), Record::parse(line), "{line}");
        }
    }

    #[test]
    fn a_record_may_have_several_lines_of_one_driver() {
        let record = r"3,9,5000,-;NVRM: This region is invalid:\x0aNVRM: BAR1 is 0M @ 0x0 (PCI:0000:14:00.0)";
        assert_eq!(
            lines_of(record),
            [
                "3,9,5000,-;NVRM: This region is invalid:",
                "3,9,5000,-;NVRM: BAR1 is 0M @ 0x0 (PCI:0000:14:00.0)"
            ]
        );
        for record in [
            "3,9,5000,-;NVRM: loading",
            r"3,9,5000,-;usb 1-1: Product: x\x0aNVRM: BAR1 is 0M @ 0x0 (PCI:0000:14:00.0)",
            r"3,9,5000,-;NVRM: x\x0amlx5_core 0000:14:00.0: device's health compromised",
        ] {
            assert!(lines_of(record).is_empty(), "{record}");
        }
    }

    #[test]
    fn the_first_lines_of_a_file_show_the_form_of_all() {
        for (head, form) in [
            ("3,1,1,-;x\n[ 1.0] x", Form::Record),
            (" SUBSYSTEM=pci\n3,1,1,-;x", Form::Record),
            ("[    1.0] x\n3,1,1,-;x", Form::Stamped),
            ("kern  :err   : [    1.0] x", Form::Stamped),
            ("[Thu Sep 19 02:29:46 2024] x", Form::Stamped),
            ("  [    1.0] the rest of a message\nx", Form::Plain),
            ("<3>[    1.0] x", Form::Stamped),
            ("Nov 27 20:10:05 gpu-01 kernel: x", Form::Stamped),
            ("2026-11-27T20:10:05,123456+00:00 x", Form::Stamped),
            ("mlx5_core: x\n", Form::Plain),
            ("kernel: mlx5_core: x\n", Form::Plain),
            ("", Form::Plain),
        ] {
            assert_eq!(Form::of_file(head), form, "{head}");
        }
    }

    #[test]
    fn a_line_of_dmesg_may_have_a_time() {
        let record = Record::parse("[   12.345678] DMAR: fault; x");
        assert_eq!(
            record.map(|r| (r.time, r.text)),
            Some((Some(12), "DMAR: fault; x"))
        );
        let record = Record::parse("[Thu Sep 19 02:29:46 2024] DMAR: x");
        assert_eq!(record.map(|r| r.time), Some(None));
    }

    #[test]
    fn a_record_without_end_is_cut() {
        let long = format!("3,1,1,-;{}", "ä".repeat(1 << 20));
        assert_eq!(text(&long).map(str::len), Some(MAX_TEXT));
        assert!(kept(&long).len() <= MAX_TEXT + 16);
    }
}
