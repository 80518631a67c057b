//! The kernel's log.
//!
//! Source: `/dev/kmsg` (`Documentation/ABI/testing/dev-kmsg`) on a running machine; in a captured tree the same records
//! as a regular file. Only lines about IOMMU, RDMA and the GPU driver are kept.

use std::collections::VecDeque;

use rustix::io::Errno;

use crate::{
    cmdline,
    fact::Fact,
    root::{Log, ReadError, Scope},
};

const KMSG: &str = "/dev/kmsg";
/// The most lines that are kept; the newest win.
const MAX_LINES: usize = 512;
/// A record of `/dev/kmsg` is at most this long (`CONSOLE_EXT_LOG_MAX`), in bytes.
const MAX_RECORD: usize = 8192;

/// Words that make a line worth keeping.
const TOPICS: [&str; 20] = [
    "iommu",
    "DMAR",
    "AMD-Vi",
    "arm-smmu",
    "mlx5",
    "mlx4",
    "infiniband",
    "ib_register_peer_memory_client",
    "nvidia",
    "nv_peer_mem",
    "rdma_rxe",
    "AER:",
    "irdma",
    "bnxt_re",
    "Memory Encryption",
    "peermem",
    "PCIe Bus Error",
    "efa ",
    "hfi1",
    "ib_uverbs",
];

/// Reads the lines that matter, oldest first, without the record prefix.
pub fn read(scope: &Scope<'_>) -> Fact<Vec<String>> {
    let records = records(scope);
    let noted = records.as_ref().map(|all| all.iter().map(String::as_str));
    scope.root().note_log(KMSG, noted);
    let texts = records.map(|all| all.iter().map(|record| message(record).to_owned()).collect());
    scope.settle(KMSG, texts, true)
}

/// The first lines of the records that matter, as the kernel wrote them but for secrets.
fn records(scope: &Scope<'_>) -> Result<VecDeque<String>, ReadError> {
    let mut kept = VecDeque::new();
    let mut keep = |record: &str| {
        let text = message(record);
        if TOPICS.iter().any(|topic| text.contains(topic)) {
            if kept.len() == MAX_LINES {
                kept.pop_front();
            }
            kept.push_back(without_secrets(record.lines().next().unwrap_or_default()));
        }
    };
    match scope.root().open_log(KMSG)? {
        Log::Device(device) => {
            let mut record = [0; MAX_RECORD];
            // The buffer of a kernel holds some 100,000 records; one that logs faster than we read must not hold us.
            for _ in 0..200_000 {
                match rustix::io::read(&device, &mut record[..]) {
                    Ok(0) | Err(Errno::AGAIN) => break,
                    Ok(n) => keep(&String::from_utf8_lossy(&record[..n])),
                    // EPIPE: records were overwritten before we read them; the next read goes on after the gap.
                    Err(Errno::PIPE | Errno::INTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Log::Lines(bytes) => String::from_utf8_lossy(&bytes).lines().for_each(keep),
    }
    Ok(kept)
}

/// The line in which the kernel repeats its command line, with the same arguments hidden as in the command line itself.
fn without_secrets(line: &str) -> String {
    const INTRODUCTION: &str = "ommand line: ";
    match line.find(INTRODUCTION) {
        Some(at) => {
            let (introduction, arguments) = line.split_at(at + INTRODUCTION.len());
            format!("{introduction}{}", cmdline::without_secrets(arguments))
        }
        None => line.to_owned(),
    }
}

/// The text of a record: `priority,sequence,microseconds,flags;text`, followed by lines of key=value pairs.
/// A line without that prefix (from `dmesg`) is its own text.
fn message(record: &str) -> &str {
    let first = record.lines().next().unwrap_or_default();
    match first.split_once(';') {
        Some((prefix, text)) if prefix.starts_with(|c: char| c.is_ascii_digit()) => text,
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_and_the_dictionary_of_a_record_are_not_its_text() {
        assert_eq!(
            message("6,339,5140900,-;mlx5_core: up\n SUBSYSTEM=pci\n DEVICE=+pci:0"),
            "mlx5_core: up"
        );
        assert_eq!(message("[    0.3] DMAR: fault; x"), "[    0.3] DMAR: fault; x");
        assert_eq!(message(""), "");
    }
}
