//! Standard output of commands whose exit status is an answer.

use std::io::{self, ErrorKind, StdoutLock, Write};

use anstream::AutoStream;

/// Standard output until its reader closes it, as `head` does when it has seen enough. What is written after that is dropped, so
/// that the command ends with the status of what it found.
pub(super) struct Output(Option<AutoStream<StdoutLock<'static>>>);

/// Locks standard output.
pub(super) fn stdout() -> Output {
    Output(Some(anstream::stdout().lock()))
}

impl Output {
    /// Does something with the output, if there still is a reader.
    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut AutoStream<StdoutLock<'static>>) -> io::Result<T>,
        closed: T,
    ) -> io::Result<T> {
        let Some(out) = &mut self.0 else {
            return Ok(closed);
        };
        match act(out) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.0 = None;
                Ok(closed)
            }
            result => result,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|out| out.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(Write::flush, ())
    }
}
