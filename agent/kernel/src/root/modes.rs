//! The modes of device nodes.

use std::fmt::Write;

use rustix::{
    fs::{FileType, OFlags, fstat},
    io::Errno,
};

use super::{Ask, Root};
use crate::recording::{Answer, Failure, Question};

/// The mode and the group of each of these device nodes that is a character device: `PATH MODE GROUP` on each line. Asked like a file of this name, which does
/// not exist.
pub(crate) struct ReadModes<'a> {
    pub(crate) name: &'a str,
    pub(crate) paths: &'a [String],
}

impl Ask for ReadModes<'_> {
    type Found = String;

    fn question(&self) -> Question {
        Question::Read(self.name.to_owned())
    }

    fn ask(&mut self, root: &Root) -> Result<String, Failure> {
        let directory = root.directory()?;
        let mut lines = String::new();
        for path in self.paths {
            let found = directory.open_at(path, OFlags::PATH).and_then(fstat);
            let Ok(found) = found else { continue };
            // Copies of a tree often have regular files in their place, with any mode.
            if FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice {
                let _ = writeln!(lines, "{path} {:o} {}", found.st_mode & 0o777, found.st_gid);
            }
        }
        if lines.is_empty() {
            return Err(Errno::NOENT.into());
        }
        Ok(lines)
    }

    fn replay(&mut self, answer: &Answer) -> Result<String, Failure> {
        match answer {
            Answer::Bytes(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            _ => Err(Failure::NotCollected),
        }
    }

    fn answer(&self, found: &String) -> Answer {
        Answer::Bytes(found.as_bytes().into())
    }
}
