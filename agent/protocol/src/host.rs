//! What a helper reads of the host for an agent that may not or cannot: PCI configuration spaces, the kernel log, the memory of
//! transceivers, the statistics of network drivers, and files that a container does not have.

use serde::{Deserialize, Serialize};

use crate::bounded;

/// The most PCI functions of an answer.
pub const MAX_SPACES: usize = 2048;
/// The most records of the kernel log in one answer.
pub const MAX_LOG_RECORDS: usize = 1024;
/// Maximum length of a PCI address in bytes (`10000:e1:00.1`).
const MAX_ADDRESS: usize = 16;
/// Maximum length of an excerpt of a configuration space in bytes.
pub const MAX_SPACE: usize = 512;
/// Maximum length of a record of the kernel log in bytes.
pub const MAX_RECORD: usize = 4096;

/// An excerpt of the configuration space of a PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciSpace {
    /// Its address on the node.
    #[serde(deserialize_with = "bounded::text::<_, MAX_ADDRESS>")]
    pub address: String,
    /// The standard header, and the capabilities that the agent's reader uses.
    #[serde(
        serialize_with = "hexadecimal::serialize",
        deserialize_with = "hexadecimal::deserialize::<_, MAX_SPACE>"
    )]
    pub space: Vec<u8>,
}

/// The most transceivers of an answer.
pub const MAX_MODULES: usize = 256;
/// The most parts of a transceiver's memory in an answer.
const MAX_PAGES: usize = 8;
/// Maximum length of the name of a network device in bytes (`IFNAMSIZ`).
const MAX_NETDEV: usize = 16;

/// The memory of the transceiver of a network device, as far as the agent's reader uses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleMemory {
    /// The network device.
    #[serde(deserialize_with = "bounded::text::<_, MAX_NETDEV>")]
    pub netdev: String,
    /// What could be read.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_PAGES>")]
    pub pages: Vec<ModulePage>,
    /// Why nothing could be read, as in `errno.h`; 0 if something could.
    pub errno: i32,
}

/// A part of a page of a transceiver's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModulePage {
    /// The two-wire address: 0x50, or 0x51 for the diagnostics of SFP.
    pub address: u8,
    /// The page.
    pub page: u8,
    /// The offset of the first byte.
    pub offset: u8,
    /// The bytes.
    #[serde(
        serialize_with = "hexadecimal::serialize",
        deserialize_with = "hexadecimal::deserialize::<_, MAX_SPACE>"
    )]
    pub data: Vec<u8>,
    /// Why the part could not be read, as in `errno.h`; 0 if it could.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errno: i32,
}

/// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// The most network devices whose statistics are in an answer.
pub const MAX_DRIVERS: usize = 256;
/// The most statistics of a network device in an answer.
pub const MAX_STATISTICS: usize = 64;
/// Maximum length of the name of a statistic in bytes (`ETH_GSTRING_LEN`).
const MAX_STATISTIC: usize = 32;

/// The statistics of the driver of a network device, as far as the agent's reader uses them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverStatistics {
    /// The network device.
    #[serde(deserialize_with = "bounded::text::<_, MAX_NETDEV>")]
    pub netdev: String,
    /// Those that its driver has.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_STATISTICS>")]
    pub statistics: Vec<Statistic>,
    /// Why none could be read, as in `errno.h`; 0 if they could.
    pub errno: i32,
}

/// One statistic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistic {
    /// The driver's name for it, as the program `ethtool -S` shows it.
    #[serde(deserialize_with = "bounded::text::<_, MAX_STATISTIC>")]
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// The most files of an answer.
pub const MAX_HOST_FILES: usize = 260;
/// Maximum length of an excerpt of a file in bytes.
pub const MAX_HOST_FILE: usize = 2048;

/// A file of the host that every user of it may read, and that a container does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFile {
    /// Which one.
    pub name: HostFileName,
    /// What the agent's reader uses of it.
    #[serde(
        serialize_with = "hexadecimal::serialize",
        deserialize_with = "hexadecimal::deserialize::<_, MAX_HOST_FILE>"
    )]
    pub content: Vec<u8>,
    /// Why it could not be read, as in `errno.h`; 0 if it could.
    pub errno: i32,
}

/// The files of the host that are answered, if they exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFileName {
    /// `/etc/os-release` or `/usr/lib/os-release`: the identifiers of the distribution.
    OsRelease,
    /// The files of modprobe.d(5): the lines that keep a module for RDMA from being loaded, as `FILE:NUMBER:TEXT`.
    Modprobe,
    /// The directory `/dev/infiniband`: the names of the device nodes that are missing for devices in `/sys/class/infiniband_verbs`.
    DeviceNodes,
    /// The directory `/run/systemd/netif/lldp`, without content.
    Lldp,
    /// What it has about the network device with this index: the nearest neighbour.
    Neighbour(u32),
}

/// The bytes that pairs of hexadecimal digits stand for; empty if they are not such pairs.
pub fn bytes_of_digits(digits: &str) -> Vec<u8> {
    hexadecimal::bytes(digits).unwrap_or_default()
}

/// A part of the kernel log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPart {
    /// Records about devices, as `/dev/kmsg` shows them, oldest first. All others are left out.
    #[serde(deserialize_with = "records")]
    pub records: Vec<String>,
    /// The sequence number to continue with.
    pub next: u64,
    /// Whether more records are there already.
    pub more: bool,
}

fn records<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Record(#[serde(deserialize_with = "bounded::text::<_, MAX_RECORD>")] String);
    let records = bounded::list::<_, Record, MAX_LOG_RECORDS>(deserializer)?;
    Ok(records.into_iter().map(|Record(record)| record).collect())
}

/// Bytes as two hexadecimal digits each.
mod hexadecimal {
    use std::fmt::Write;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, const MOST: usize>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() > 2 * MOST {
            return Err(D::Error::custom(format_args!("more than {MOST} bytes")));
        }
        bytes(&text).ok_or_else(|| D::Error::custom("not pairs of hexadecimal digits"))
    }

    pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
        let digit = |byte: &u8| {
            char::from(*byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        };
        text.as_bytes().chunks(2).map(byte).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn more_than_the_bounds_is_refused() {
        let part = |records: Vec<String>| {
            let part = LogPart {
                records,
                next: 1,
                more: false,
            };
            serde_json::from_str::<LogPart>(&serde_json::to_string(&part).unwrap())
        };
        assert!(part(vec!["x".repeat(MAX_RECORD); 2]).is_ok());
        assert!(part(vec!["x".repeat(MAX_RECORD + 1)]).is_err());
        assert!(part(vec![String::new(); MAX_LOG_RECORDS + 1]).is_err());
        for (address, digits) in [
            ("0".repeat(17), "00".to_owned()),
            ("0000:00:00.0".into(), "0".repeat(2 * MAX_SPACE + 2)),
            ("0000:00:00.0".into(), "0".into()),
            ("0000:00:00.0".into(), "0g".into()),
            ("0000:00:00.0".into(), "é0".into()),
        ] {
            let json = serde_json::json!({"address": address, "space": digits});
            assert!(
                serde_json::from_value::<PciSpace>(json.clone()).is_err(),
                "{json}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_space_survives_the_wire(space in proptest::collection::vec(any::<u8>(), 0..MAX_SPACE)) {
            let sent = PciSpace { address: "0000:41:00.0".into(), space };
            let json = serde_json::to_string(&sent).unwrap();
            prop_assert_eq!(serde_json::from_str::<PciSpace>(&json).unwrap(), sent);
        }
    }
}
