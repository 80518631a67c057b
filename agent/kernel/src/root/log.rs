//! A kernel log, of which only the relevant records are kept and recorded.

use std::os::fd::AsFd;

use rustix::{
    fs::{FileType, OFlags, fstat},
    io::Errno,
};

use super::{Ask, Root};
use crate::recording::{Answer, Failure, Question};

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
        let file = root.directory()?.open_at(self.path, OFlags::RDONLY)?;
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
        let mut record = [0; MAX_RECORD];
        for _ in 0..MAX_RECORDS {
            match rustix::io::read(&file, &mut record[..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(n) => records.add(&String::from_utf8_lossy(&record[..n])),
                // EPIPE: records were overwritten before they were read; the next read continues after the gap.
                Err(Errno::PIPE | Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use std::io::Write;

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
}
