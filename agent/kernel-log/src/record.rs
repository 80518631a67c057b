//! One record of the kernel log.

use crate::speaker;

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
    /// (`Documentation/ABI/testing/dev-kmsg`). A line without that prefix, from `dmesg`, is its own text, possibly after a time.
    ///
    /// `None` for a record that a process wrote: the kernel gives these a facility other than 0.
    pub fn parse(record: &'a str) -> Option<Self> {
        let first = record.lines().next().unwrap_or_default();
        if let Some((prefix, text)) = first.split_once(';')
            && let Some((priority, time)) = prefix_of(prefix)
        {
            let (facility, level) = (priority >> 3, priority & 7);
            return (facility == 0).then(|| Self {
                level: u8::try_from(level).ok(),
                time: Some(time / 1_000_000),
                text: bounded(text),
            });
        }
        Some(Self {
            level: None,
            time: dmesg_time(first),
            text: bounded(speaker::without_time(first)),
        })
    }
}

/// Priority and time of a record's prefix.
fn prefix_of(prefix: &str) -> Option<(u32, u64)> {
    let mut fields = prefix.split(',');
    let priority = fields.next()?.parse().ok()?;
    let _sequence: u64 = fields.next()?.parse().ok()?;
    Some((priority, fields.next()?.parse().ok()?))
}

/// The time in brackets with which `dmesg` starts a line, in seconds.
fn dmesg_time(line: &str) -> Option<u64> {
    let (time, _) = line.strip_prefix('[')?.split_once(']')?;
    let (seconds, fraction) = time.trim_start().split_once('.')?;
    let digits = fraction.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| seconds.parse().ok())?
}

/// The first [`MAX_TEXT`] bytes.
fn bounded(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The first line of a record for keeping: bounded, and without what drivers say of processes.
pub fn kept(record: &str) -> String {
    speaker::without_processes(bounded(record.lines().next().unwrap_or_default()))
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
        assert!(kept(&long).len() <= MAX_TEXT);
    }
}
