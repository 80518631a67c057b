//! A fake kubelet: its pod-resources service, served by gRPC's own library (`tests/fake-kubelet`). The real kubelet needs cgroups
//! and a container runtime; its messages and its protocol are these.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::running::Running;

/// A fake kubelet that serves until it is dropped.
#[derive(Debug)]
pub struct FakeKubelet {
    _program: Running,
    socket: PathBuf,
    answers: PathBuf,
}

impl FakeKubelet {
    /// Starts it with its socket in `directory`. `answers` has the answer of each method in the JSON form of protobuf, or
    /// `{"code": …, "error": …}`; a method that is missing is unimplemented.
    ///
    /// # Errors
    /// If it cannot be started, for example because `python3-grpcio` is not installed (`make setup`).
    pub fn start(directory: &Path, answers: &Value) -> Result<Self> {
        let socket = directory.join("kubelet.sock");
        let file = directory.join("answers.json");
        fs::write(&file, answers.to_string())?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fake-kubelet");
        let mut command = Command::new(&script);
        command
            .args([&socket, &file])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut program = Running::start(&mut command).with_context(|| script.display().to_string())?;
        let output = program.output().context("its output is not connected")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(
            line == "serving\n",
            "the fake kubelet does not serve; run `make setup`"
        );
        Ok(Self {
            _program: program,
            socket,
            answers: file,
        })
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Changes what it answers from now on.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn answer(&self, answers: &Value) -> Result<()> {
        // Replaced as a whole, because it is read at any time.
        let new = self.answers.with_extension("new");
        fs::write(&new, answers.to_string())?;
        fs::rename(new, &self.answers)?;
        Ok(())
    }
}
