//! Hostile frames to the helper's socket, and a proper question after each lot.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rdma_health_protocol::{Ask, KubeletMethod, Message, Request, frame};
use rdma_health_tests::virtual_node::built;

use super::{PATIENCE, Run, dice::Dice};

/// Hostile frames between two proper questions.
const LOT: usize = 20;

/// A helper that serves a socket.
#[derive(Debug)]
pub(crate) struct Helper(Child);

impl Helper {
    pub(crate) fn start(socket: &Path) -> Result<Self> {
        let child = Command::new(built("rdma-health-verbs")?)
            .args(["serve", "--socket"])
            .arg(socket)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the helper")?;
        let helper = Self(child);
        let began = Instant::now();
        while UnixStream::connect(socket).is_err() {
            ensure!(
                began.elapsed() < Duration::from_secs(10),
                "the helper does not listen"
            );
            sleep(Duration::from_millis(20));
        }
        Ok(helper)
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it has ended before.
    pub(crate) fn end(mut self) -> Result<()> {
        ensure!(
            self.0.try_wait()?.is_none(),
            "the helper ended before the run was over"
        );
        Ok(())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Attacks until the run is over; returns the number of frames.
pub(crate) fn attack(run: &Run, socket: &Path, mut dice: Dice) -> u64 {
    let mut frames = 0;
    run.repeat(|| {
        for _ in 0..LOT {
            frames += 1;
            hostile(socket, &mut dice)?;
        }
        asked(socket)
    });
    frames
}

fn hostile(socket: &Path, dice: &mut Dice) -> Result<()> {
    let ask = match dice.below(5) {
        0 => Ask::Devices,
        1 => Ask::KernelLog(u64::MAX),
        2 => Ask::Measure(7),
        3 => Ask::Kubelet(KubeletMethod::List),
        _ => Ask::PciSpaces,
    };
    let mut bytes = frame::encode(&Request { id: 1, ask })?;
    match dice.below(4) {
        0 => dice.mutate(&mut bytes),
        1 => {
            // A body that does not fit its length.
            let mut body = bytes.split_off(frame::HEADER);
            dice.mutate(&mut body);
            bytes.extend(body);
        }
        2 => {
            // The length of another body, which is valid JSON or not.
            let mut body = bytes[frame::HEADER..].to_vec();
            dice.mutate(&mut body);
            bytes = u32::try_from(body.len())?.to_le_bytes().to_vec();
            bytes.extend(body);
        }
        _ => bytes = dice.bytes(200),
    }
    let mut stream = UnixStream::connect(socket).context("the helper does not accept a connection")?;
    // The helper may close the connection at any time.
    let _ = stream.write_all(&bytes);
    sleep(Duration::from_millis(5));
    Ok(())
}

/// Asks a proper question. A new connection may have to wait for its place, as the agent's does.
fn asked(socket: &Path) -> Result<()> {
    let began = Instant::now();
    loop {
        let answer = ask(socket);
        match answer {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > 5 * PATIENCE => return Err(error),
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}

fn ask(socket: &Path) -> Result<()> {
    let mut stream = UnixStream::connect(socket).context("the helper does not accept a connection")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    frame::write(
        &mut stream,
        &Request {
            id: 4711,
            ask: Ask::Devices,
        },
    )?;
    loop {
        match frame::read(&mut stream).context("the helper does not answer a proper question")? {
            Message::Greeting(_) | Message::Event(_) => {}
            Message::Response(response) if response.id == 4711 => return Ok(()),
            Message::Response(response) => bail!("the helper answers question {}", response.id),
        }
    }
}
