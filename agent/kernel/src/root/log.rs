//! A kernel log, of which only the relevant records are kept and recorded.

use rustix::{
    fs::{FileType, OFlags, fstat},
    io::Errno,
};

use super::{Ask, MAX_FILE, Root, directory::read_again};
use crate::recording::{Answer, Failure, Question};

/// A record of `/dev/kmsg` is at most this long (`CONSOLE_EXT_LOG_MAX`), in bytes.
const MAX_RECORD: usize = 8192;
/// Maximum number of records that are read. The buffer of a kernel holds about 100,000; a kernel that logs faster than it
/// is read must not block the reader.
const MAX_RECORDS: usize = 200_000;

/// The records of a log that are kept, in bounded memory.
pub(crate) trait Records: Default {
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

fn lines<R: Records>(bytes: &[u8]) -> R {
    let mut records = R::default();
    let text = String::from_utf8_lossy(bytes);
    text.lines().for_each(|line| records.add(line));
    records
}

impl<R: Records> Ask for ReadLog<'_, R> {
    type Found = R;

    fn question(&self) -> Question {
        Question::Read(self.path.to_owned())
    }

    fn ask(&mut self, root: &Root) -> Result<Self::Found, Failure> {
        let file = root.directory()?.open_at(self.path, OFlags::RDONLY)?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::CharacterDevice => {}
            FileType::RegularFile => {
                let mut bytes = Vec::new();
                read_again(&file, &mut bytes, MAX_FILE)?;
                return Ok(lines(&bytes));
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
