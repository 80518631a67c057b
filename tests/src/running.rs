//! Programs that run for as long as a test.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::{Child, ChildStdout, Command},
};

/// A program that is killed when this is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Its standard output, if that is piped; only once.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address of the loopback interface on which no program listens.
///
/// # Errors
/// If the kernel has none left.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
