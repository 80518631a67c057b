//! The content of files with names and addresses replaced.
//!
//! Of a file that is a document, only what the readers use is kept. A value that is not what the kernel writes into such a file
//! could be anything.

use rdma_health_kernel::{boot, mlx4, modprobe, os_release};
use rdma_health_node::lldp;

use super::{boot_name, node_name, pseudonym::Pseudonyms};

/// Replaces a value that is not of the form that the kernel writes.
const HIDDEN: &str = "<hidden>\n";
/// Replaces a content that is not text.
const NOT_TEXT: &[u8] = b"\xff\n";

/// The content of a file with names and addresses replaced.
pub(super) fn content(pseudonyms: &Pseudonyms, path: &str, bytes: &[u8]) -> Vec<u8> {
    let file = path.rsplit('/').next().unwrap_or_default();
    if path.starts_with(lldp::DIRECTORY) {
        let named = lldp::replaced(bytes, |name| pseudonyms.name("name", name));
        return named.unwrap_or_else(|| NOT_TEXT.to_vec());
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return if file == "config" {
            without_serial_number(bytes)
        } else {
            NOT_TEXT.to_vec()
        };
    };
    if let Some(used) =
        modprobe::used(path, text).or_else(|| boot::used(path, text).or_else(|| mlx4::used(path, text)))
    {
        // The name of a file may be that of the node.
        return pseudonyms.words(&used, false).into_bytes();
    }
    match path {
        "/proc/sys/kernel/hostname" => (node_name(pseudonyms, text) + "\n").into_bytes(),
        "/proc/sys/kernel/random/boot_id" => (boot_name(pseudonyms, text) + "\n").into_bytes(),
        _ if file == "config" => without_serial_number(bytes),
        "/proc/cpuinfo" => lines(text, |line| line.starts_with("flags").then(|| line.to_owned())),
        "/proc/driver/nvidia/version" => lines(text, nvidia),
        "/proc/modules" => lines(text, |line| Some(module(line))),
        _ if path.ends_with("/limits") || path.ends_with("/status") || path.ends_with("/cgroup") => {
            bytes.to_vec()
        }
        _ if os_release::is_release(path) => os_release::used_lines(text).into_bytes(),
        _ if is_counter(path) && !is_count(text) => HIDDEN.as_bytes().to_vec(),
        _ if is_state(file) => state(text).into_bytes(),
        _ if path.ends_with("/net/route") => pseudonyms.routes(text).into_bytes(),
        _ => {
            // In these files, four numbers separated by dots are a version.
            let is_version = matches!(file, "fw_ver" | "version" | "srcversion" | "osrelease" | "hw_rev");
            let is_sysfs = path.starts_with("/sys/");
            pseudonyms.words(text, is_sysfs && !is_version).into_bytes()
        }
    }
}

/// The lines that `kept` returns.
fn lines(text: &str, kept: impl Fn(&str) -> Option<String>) -> Vec<u8> {
    let kept = text.lines().filter_map(kept).map(|line| line + "\n");
    kept.collect::<String>().into_bytes()
}

/// Flavour and version of the NVIDIA driver, without the user and the machine that built it.
fn nvidia(line: &str) -> Option<String> {
    let words = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64 aarch64";
    let is_version = |word: &str| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_known = |word: &&str| is_version(word) || words.split(' ').any(|known| known == *word);
    let kept: Vec<_> = line.split_whitespace().take_while(is_known).collect();
    line.contains("Kernel Module").then(|| kept.join(" "))
}

/// A line of the list of modules without the address of the module.
fn module(line: &str) -> String {
    let mut words: Vec<_> = line.split(' ').collect();
    if let Some(address) = words.get_mut(5).filter(|word| word.starts_with("0x")) {
        *address = "0x0000000000000000";
    }
    words.join(" ")
}

/// Whether the file is a counter of a port or device.
fn is_counter(path: &str) -> bool {
    ["/counters/", "/hw_counters/", "/statistics/"]
        .iter()
        .any(|part| path.contains(part))
}

/// What the kernel writes into a counter.
fn is_count(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.starts_with("N/A") && text.len() <= 16 || text.parse::<u64>().is_ok()
}

/// Whether the file is the state of a port.
fn is_state(file: &str) -> bool {
    matches!(file, "state" | "phys_state")
}

/// The state of a port: its number, and its name (`4: ACTIVE`) if the InfiniBand core writes such a name.
fn state(text: &str) -> String {
    const NAMES: &str = "NOP DOWN INIT ARMED ACTIVE ACTIVE_DEFER Sleep Polling Disabled PortConfigurationTraining LinkUp \
        LinkErrorRecovery Phy Test <unknown>";
    let known = |word: &str| {
        NAMES
            .split_whitespace()
            .any(|known| known.eq_ignore_ascii_case(word))
    };
    match text.trim().split_once(':') {
        Some((number, name)) if number.parse::<u8>().is_ok() => {
            if name.split_whitespace().all(known) {
                text.to_owned()
            } else {
                format!("{number}: {HIDDEN}")
            }
        }
        _ if text.split_whitespace().all(known) => text.to_owned(),
        _ => HIDDEN.to_owned(),
    }
}

/// A PCI configuration space with an empty Device Serial Number capability, which contains the MAC address of a NIC.
fn without_serial_number(space: &[u8]) -> Vec<u8> {
    const SERIAL_NUMBER: u32 = 0x03;
    let mut space = space.to_vec();
    let mut offset = 0x100;
    // The number of entries is bounded, so a cyclic list ends.
    for _ in 0..480 {
        let Some(header) = space
            .get(offset..offset + 4)
            .and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)))
        else {
            break;
        };
        if header & 0xffff == SERIAL_NUMBER
            && let Some(number) = space.get_mut(offset + 4..offset + 12)
        {
            number.fill(0);
        }
        offset = (header >> 20) as usize & !0b11;
        if offset < 0x100 {
            break;
        }
    }
    space
}
