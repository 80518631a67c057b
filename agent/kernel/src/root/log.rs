//! A kernel log, of which only the relevant records are kept and recorded.

use std::os::fd::{AsFd, OwnedFd};

use rdma_health_protocol::{LogPart, MAX_LOG_RECORDS};
use rustix::{
    fs::{FileType, OFlags, fstat},
    io::Errno,
};

use super::{Ask, MAX_FILE, Root, directory::read_again};
use crate::{
    fact::{Unread, UnreadKind},
    kmsg,
    recording::{Answer, Failure, Question},
};

/// A record of `/dev/kmsg` is at most this long (`CONSOLE_EXT_LOG_MAX`), in bytes.
const MAX_RECORD: usize = 8192;
/// Maximum number of records that are read. The buffer of a kernel holds about 100,000; a kernel that logs faster than it
/// is read must not block the reader.
const MAX_RECORDS: usize = 200_000;

/// Maximum number of bytes of a file that are read: the last ones, because new messages are at the end. The largest buffer that a
/// kernel is built with has half of that.
const MAX_LOG: u64 = 64 << 20;

/// The records of a log that are kept, in bounded memory.
pub(crate) trait Records: Default {
    /// The records come from a file that begins with this text.
    fn begin(&mut self, head: &str);

    /// The next record of the device, or the next line of a file.
    fn add(&mut self, record: &str);

    /// What is kept, as a file that gives the same again.
    fn saved(&self) -> String;
}

/// Reads the records of the device at `path` one by one, without waiting for more; of a regular file line by line.
pub(crate) struct ReadLog<'a, R> {
    pub(crate) path: &'a str,
    pub(crate) records: std::marker::PhantomData<R>,
}

/// The records of a text.
fn lines<R: Records>(bytes: &[u8]) -> R {
    let mut records = R::default();
    let text = String::from_utf8_lossy(bytes);
    records.begin(&text);
    text.lines().for_each(|line| records.add(line));
    records
}

/// The records in the last `limit` bytes of a file. Only one line at a time is in memory.
fn last_lines<R: Records>(file: impl AsFd, size: u64, limit: u64) -> Result<R, Failure> {
    let mut records = R::default();
    let mut chunk = vec![0; MAX_RECORD];
    let n = read_at(&file, &mut chunk, 0)?;
    records.begin(&String::from_utf8_lossy(&chunk[..n]));
    let start = size.saturating_sub(limit);
    let mut line = Vec::new();
    // The first line may not be complete.
    let mut skip = start > 0;
    let mut add = |line: &mut Vec<u8>, skip: &mut bool| {
        if !std::mem::take(skip) {
            let text = String::from_utf8_lossy(line);
            records.add(text.strip_suffix('\r').unwrap_or(&text));
        }
        line.clear();
    };
    let mut at = start;
    // A file that grows while it is read must not keep the reader.
    while at < start.saturating_add(limit) {
        let n = read_at(&file, &mut chunk, at)?;
        if n == 0 {
            break;
        }
        at += n as u64;
        for piece in chunk[..n].split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = MAX_RECORD.saturating_sub(line.len());
            line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < piece.len() {
                add(&mut line, &mut skip);
            }
        }
    }
    if !line.is_empty() {
        add(&mut line, &mut skip);
    }
    Ok(records)
}

fn read_at(file: impl AsFd, buffer: &mut [u8], at: u64) -> Result<usize, Failure> {
    loop {
        match rustix::io::pread(&file, &mut *buffer, at) {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

impl<R: Records> Ask for ReadLog<'_, R> {
    type Found = R;

    fn question(&self) -> Question {
        Question::Read(self.path.to_owned())
    }

    fn ask(&mut self, root: &Root) -> Result<Self::Found, Failure> {
        let file = match root.directory()?.open_at(self.path, OFlags::RDONLY) {
            Ok(file) => file,
            Err(errno) => return self.not_opened(root, errno),
        };
        let found = fstat(&file)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::CharacterDevice => {}
            FileType::RegularFile => {
                let size = u64::try_from(found.st_size).unwrap_or_default();
                return last_lines(&file, size, MAX_LOG);
            }
            other => return Err(Failure::NotAFile(other.into())),
        }
        let mut records = R::default();
        let mut buffer = [0; MAX_RECORD];
        for _ in 0..MAX_RECORDS {
            match next_record(&file, &mut buffer)? {
                Some(record) => records.add(&String::from_utf8_lossy(record)),
                None => break,
            }
        }
        Ok(records)
    }

    fn replay(&mut self, answer: &Answer) -> Result<Self::Found, Failure> {
        match answer {
            Answer::Bytes(bytes) => Ok(lines(bytes)),
            _ => Err(Failure::NotCollected),
        }
    }

    fn answer(&self, found: &Self::Found) -> Answer {
        Answer::Bytes(found.saved().into_bytes().into())
    }
}

impl<R: Records> ReadLog<'_, R> {
    /// The log as a privileged helper has read it. A running machine has a log: where it has no file, this process does not
    /// see it.
    fn not_opened(&self, root: &Root, errno: Errno) -> Result<R, Failure> {
        if let Some(helper) = &root.privileged {
            return Ok(lines(helper.log(self.path)?.as_bytes()));
        }
        let failure = Failure::from(errno);
        if root.is_live() && failure.is_missing() {
            return Err(Failure::Unread(Box::new(Unread {
                source: self.path.to_owned(),
                kind: UnreadKind::NotCollected,
                detail: "this container does not see the kernel log".into(),
            })));
        }
        Err(failure)
    }
}

/// The next record of the device; `None` if there is none yet.
fn next_record<'a>(file: &OwnedFd, buffer: &'a mut [u8; MAX_RECORD]) -> Result<Option<&'a [u8]>, Errno> {
    loop {
        match rustix::io::read(file, &mut buffer[..]) {
            Ok(0) | Err(Errno::AGAIN) => return Ok(None),
            Ok(n) => return Ok(Some(&buffer[..n])),
            // EPIPE: records were overwritten before they were read; the next read continues after the gap.
            Err(Errno::PIPE | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Reads the kernel log of this machine in parts, for a process that may not.
#[derive(Debug, Default)]
pub struct LogFollower {
    /// The open device, and the number of the record that it shows next.
    open: Option<(OwnedFd, u64)>,
}

impl LogFollower {
    /// The records from number `from` on that readers keep, as many as fit into one part. It does not wait for more.
    ///
    /// # Errors
    /// If the log cannot be opened or read.
    pub fn read(&mut self, root: &Root, from: u64) -> Result<LogPart, Errno> {
        let (file, mut next) = match self.open.take() {
            Some((file, next)) if next == from => (file, next),
            _ => {
                let directory = root.directory().map_err(|_| Errno::NOENT)?;
                (directory.open_at(kmsg::KMSG, OFlags::RDONLY)?, 0)
            }
        };
        let mut part = LogPart {
            next: from,
            ..LogPart::default()
        };
        let mut add = |number: u64, record: &[u8]| {
            let record = String::from_utf8_lossy(record);
            if number >= from
                && let Some(kept) = kmsg::relevant(&record)
            {
                part.records.push(kept);
            }
            part.next = part.next.max(number.saturating_add(1));
            part.records.len() < MAX_LOG_RECORDS
        };
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            let mut bytes = Vec::new();
            read_again(&file, &mut bytes, MAX_FILE).map_err(|_| Errno::FBIG)?;
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            // Without the device's numbers, a line's place is its number.
            part.more = (0..).zip(lines).any(|(number, line)| !add(number, line));
            return Ok(part);
        }
        let mut buffer = [0; MAX_RECORD];
        for _ in 0..MAX_RECORDS {
            let Some(record) = next_record(&file, &mut buffer)? else {
                self.open = Some((file, part.next));
                return Ok(part);
            };
            next = number_of(record).unwrap_or(next);
            if !add(next, record) {
                break;
            }
            next = next.saturating_add(1);
        }
        part.more = true;
        self.open = Some((file, part.next));
        Ok(part)
    }
}

/// The sequence number of a record: the second field of its prefix.
fn number_of(record: &[u8]) -> Option<u64> {
    let field = record.split(|byte| *byte == b',').nth(1)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use std::{fs, io::Write};

    use super::*;

    #[derive(Default)]
    struct All(String, Vec<String>);

    impl Records for All {
        fn begin(&mut self, head: &str) {
            self.0 = head.lines().next().unwrap_or_default().to_owned();
        }

        fn add(&mut self, record: &str) {
            self.1.push(record.to_owned());
        }

        fn saved(&self) -> String {
            self.1.join("\n")
        }
    }

    fn read(content: &[u8], limit: u64) -> All {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        last_lines(&file, content.len() as u64, limit).unwrap()
    }

    #[test]
    fn a_short_file_is_read_as_the_text_is() {
        for text in ["", "a", "a\nb", "a\r\n\nb\n", "\n\n", "ä\n\u{202e}b"] {
            assert_eq!(
                read(text.as_bytes(), MAX_LOG).1,
                lines::<All>(text.as_bytes()).1,
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_long_file_is_read_at_its_end_and_its_form_is_that_of_its_beginning() {
        #[allow(clippy::format_collect)] // a short text
        let text: String = (0..5000).map(|n| format!("line {n}\n")).collect();
        let found = read(text.as_bytes(), 1000);
        assert_eq!(found.0, "line 0");
        assert_eq!(found.1.last().unwrap(), "line 4999");
        let expected: Vec<_> = text.lines().skip(5000 - found.1.len()).collect();
        assert_eq!(found.1, expected);
        assert!((90..=100).contains(&found.1.len()), "{}", found.1.len());
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let found = read(&vec![b'x'; 100_000], MAX_LOG);
        assert_eq!(found.1[0].len(), MAX_RECORD);
    }

    #[test]
    fn a_log_is_followed_in_bounded_parts_and_without_what_is_not_about_devices() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("dev")).unwrap();
        let root = Root::open(tree.path()).unwrap();
        let mut follower = LogFollower::default();
        assert_eq!(follower.read(&root, 0), Err(Errno::NOENT));
        let line = |n: usize| match n % 2 {
            0 => format!("3,{n},{n},-;mlx5_core 0000:14:00.0: cmd timed out {n}\n"),
            _ => format!("6,{n},{n},-;systemd[1]: password=hunter2\n"),
        };
        let write = |lines: std::ops::Range<usize>| {
            fs::write(tree.path().join("dev/kmsg"), lines.map(line).collect::<String>()).unwrap();
        };
        write(0..3000);
        let (mut from, mut seen) = (0, Vec::new());
        loop {
            let part = follower.read(&root, from).unwrap();
            assert!(
                part.records.len() <= MAX_LOG_RECORDS && part.next > from,
                "{from}"
            );
            (from, seen) = (part.next, [seen, part.records].concat());
            if !part.more {
                break;
            }
        }
        assert_eq!((from, seen.len()), (3000, 1500));
        assert!(seen.iter().all(|record| record.contains("timed out")));
        assert_eq!(
            follower.read(&root, from).unwrap(),
            LogPart {
                next: 3000,
                ..LogPart::default()
            }
        );
        write(0..3003);
        let part = follower.read(&root, from).unwrap();
        assert_eq!((part.records.len(), part.next, part.more), (2, 3003, false));
    }

    #[test]
    fn a_record_names_its_number() {
        assert_eq!(number_of(b"6,339,5140900,-;text, more"), Some(339));
        assert_eq!(number_of(b"text"), None);
        assert_eq!(number_of(b"6,x,1,-;"), None);
    }
}
