//! Hostile snapshots: changed archives, and changed files in archives that are otherwise whole.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rdma_health_tests::virtual_node::built;
use ruzstd::{
    decoding::StreamingDecoder,
    encoding::{CompressionLevel, compress_to_vec},
};

use super::{Run, dice::Dice};

/// Within which one must be checked.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most that `check` prints of one, in bytes.
const MOST: usize = 4 << 20;
/// Between two of them, so that the other attackers get the processor, too.
const PAUSE: Duration = Duration::from_millis(150);

/// Writes a snapshot of a tree; returns the file's content without its compression.
pub(crate) fn record(root: &Path, folder: &Path) -> Result<Vec<u8>> {
    let file = folder.join("node.tar.zst");
    let status = Command::new(built("rdma-health")?)
        .args(["snapshot", "--root"])
        .arg(root)
        .arg("--out")
        .arg(&file)
        .status()?;
    ensure!(status.success(), "no snapshot: {status}");
    let mut archive = Vec::new();
    StreamingDecoder::new(fs::File::open(file)?)?.read_to_end(&mut archive)?;
    Ok(archive)
}

/// Attacks until the run is over; returns the number of snapshots.
pub(crate) fn attack(run: &Run, recorded: &[u8], folder: &Path, mut dice: Dice) -> u64 {
    let file = folder.join("hostile.tar.zst");
    run.repeat(|| {
        sleep(PAUSE);
        let mut archive = recorded.to_vec();
        let bytes = if dice.below(4) == 0 {
            let mut bytes = compress_to_vec(archive.as_slice(), CompressionLevel::Fastest);
            dice.mutate(&mut bytes);
            bytes
        } else {
            dice.mutate(&mut archive);
            compress_to_vec(archive.as_slice(), CompressionLevel::Fastest)
        };
        fs::write(&file, bytes)?;
        check(&file).inspect_err(|_| {
            let kept = PathBuf::from("soak-snapshot.tar.zst");
            if fs::copy(&file, &kept).is_ok() {
                eprintln!("the snapshot is kept as {}", kept.display());
            }
        })
    })
}

/// Every snapshot has a verdict or an error, in time and of bounded length.
fn check(file: &Path) -> Result<()> {
    let began = Instant::now();
    let output = Command::new(built("rdma-health")?)
        .args(["check", "--verbose", "--snapshot"])
        .arg(file)
        .output()?;
    let code = output.status.code().context("check was killed by a signal")?;
    ensure!((0..=3).contains(&code), "check ended with status {code}");
    ensure!(began.elapsed() < PATIENCE, "check took {:?}", began.elapsed());
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(!error.contains("panicked"), "check panicked: {error}");
    ensure!(
        output.stdout.len() < MOST,
        "check printed {} bytes",
        output.stdout.len()
    );
    ensure!(
        !output.stdout.contains(&0x1b),
        "check printed an escape character of the snapshot"
    );
    Ok(())
}
