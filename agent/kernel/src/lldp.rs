//! The switch and switch port that a network device is connected to, as LLDP announced them (IEEE 802.1AB).
//!
//! Source: `/run/systemd/netif/lldp/IFINDEX`, which systemd-networkd writes for every user to read (`networkctl lldp`): for each neighbour
//! the length of a frame in eight bytes, the lowest first, and the frame. Other daemons keep no file: lldpd has its neighbours in its own
//! memory and answers only root, on a socket. Without such a file, the neighbour is absent. A container has no such directory; there, a
//! privileged helper answers for it.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

use rdma_health_protocol::text::excerpt;
use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread, UnreadKind},
    root::Scope,
    source::{After, Known, Source},
};

/// Where systemd-networkd keeps the frames.
pub const DIRECTORY: &str = "/run/systemd/netif/lldp";
/// Maximum length of a frame, as systemd has it.
const MAX_FRAME: usize = 4096;
/// Maximum number of neighbours of a network device that are read. systemd-networkd keeps at most 128.
const MAX_NEIGHBOURS: usize = 16;
/// Maximum number of characters of a name. A neighbour may announce 255.
const MAX_NAME: usize = 80;
/// Maximum number of network devices.
const MAX_NETDEVS: usize = 256;
/// The first bytes of a damaged file: enough to see that it is one.
const DAMAGED: usize = 16;

/// Neighbours by network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lldp {
    /// The network devices of RDMA ports that have one; absent if no daemon saves them.
    pub netdevs: Fact<BTreeMap<String, Neighbour>>,
}

/// What is at the other end of a link. Its words are those of the neighbour, which may be wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The name of the switch, or else its chassis id.
    pub switch: String,
    /// Its port.
    pub port: String,
    /// What an administrator wrote about the port; `None` if it announces nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Number of other neighbours on the same link: a switch that passes the announcements of others on, or a hub. At most 15, more are
    /// not counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: usize,
    /// Whether it is no longer announced: the link is down, or the announcement has expired.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_past: bool,
}

/// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl fmt::Display for Neighbour {
    /// `port Ethernet12/1 of leaf-3`, and how many others there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} of {}", self.port, self.switch)?;
        match self.others {
            0 => Ok(()),
            1 => f.write_str(" (and 1 other LLDP neighbour)"),
            others => {
                let more = if others + 1 >= MAX_NEIGHBOURS {
                    " or more"
                } else {
                    ""
                };
                write!(f, " (and {others}{more} other LLDP neighbours)")
            }
        }
    }
}

impl Source for Lldp {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        // An older snapshot did not ask.
        let aside = Scope::new(scope.root());
        let names = match aside.entries(DIRECTORY) {
            Fact::Known(names) => names,
            Fact::Unread { unread } if unread.kind != UnreadKind::NotCollected => {
                return Self {
                    netdevs: scope.fail(*unread),
                };
            }
            Fact::Absent | Fact::Unread { .. } => return Self::default(),
        };
        let mut netdevs = BTreeMap::new();
        for netdev in known.netdevs.iter().take(MAX_NETDEVS) {
            let index = scope.optional(&format!("/sys/class/net/{netdev}/ifindex"));
            let Some(index) = index.known().filter(|index| names.contains(*index)) else {
                continue;
            };
            let path = format!("{DIRECTORY}/{index}");
            let bytes = scope.optional_bytes(&path);
            let Some(bytes) = bytes.known() else { continue };
            match frames(bytes).map(|frames| first(&frames)) {
                Some(Some(neighbour)) => {
                    netdevs.insert(netdev.clone(), neighbour);
                }
                None if !bytes.is_empty() => {
                    let _: Fact<()> = scope.fail(Unread {
                        source: path,
                        kind: UnreadKind::Malformed,
                        detail: "it does not consist of LLDP frames".into(),
                    });
                }
                // No neighbour, or none that names a port.
                None | Some(None) => {}
            }
        }
        Self {
            netdevs: Fact::Known(netdevs),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            netdevs: why.clone().into(),
        }
    }

    /// A link that is down has no neighbour, and then it matters which one it had.
    fn completed(mut self, earlier: &Self) -> Self {
        if let (Fact::Known(now), Some(earlier)) = (&mut self.netdevs, earlier.netdevs.known()) {
            for (netdev, neighbour) in earlier.iter().take(MAX_NETDEVS) {
                now.entry(netdev.clone()).or_insert_with(|| Neighbour {
                    is_past: true,
                    ..neighbour.clone()
                });
            }
        }
        self
    }
}

/// The indexes of the network devices of which the daemon keeps neighbours; absent if no daemon saves them.
pub fn saved(scope: &Scope<'_>) -> Fact<Vec<u32>> {
    scope.entries(DIRECTORY).map(|names| {
        let indexes = names.iter().filter_map(|name| name.parse().ok());
        indexes.take(MAX_NETDEVS).collect()
    })
}

/// The file about the network device with an index, with no more than the reader uses: the names of the first neighbour, and how many
/// others there are. Of a damaged file, the beginning.
pub fn nearest(scope: &Scope<'_>, index: u32) -> Fact<Vec<u8>> {
    let bytes = scope.optional_bytes(&format!("{DIRECTORY}/{index}"));
    bytes.map(|bytes| match frames(&bytes) {
        Some(frames) => {
            let Some(first) = first(&frames) else {
                return Vec::new();
            };
            // The others are only counted.
            let other = saved_as(&first, |_| "-".to_owned()).repeat(first.others);
            [saved_as(&first, str::to_owned), other].concat()
        }
        None => bytes.into_iter().take(DAMAGED).collect(),
    })
}

/// The first neighbour, with the number of others.
fn first(frames: &[&[u8]]) -> Option<Neighbour> {
    let mut neighbours = frames.iter().filter_map(|frame| neighbour(frame));
    let first = neighbours.next()?;
    Some(Neighbour {
        others: neighbours.count(),
        ..first
    })
}

/// The first frames of a file, at most [`MAX_NEIGHBOURS`]; `None` if it is cut off or no such file.
fn frames(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        if length >= MAX_FRAME {
            return None;
        }
        let (frame, rest) = rest.split_at_checked(length)?;
        if found.len() < MAX_NEIGHBOURS {
            found.push(frame);
        }
        bytes = rest;
    }
    (bytes.is_empty() && !found.is_empty()).then_some(found)
}

/// The length of the header of Ethernet, which ends with the number of the protocol.
const HEADER: usize = 14;
const ETHERTYPE: [u8; 2] = [0x88, 0xcc];
/// The parts of a frame that are used, by their types.
const CHASSIS: u16 = 1;
const PORT: u16 = 2;
const DESCRIPTION: u16 = 4;
const SYSTEM: u16 = 5;
/// The subtype of an id that is any text.
const LOCAL: u8 = 7;

/// What a frame announces; `None` if it is not one of LLDP, or names no port.
fn neighbour(frame: &[u8]) -> Option<Neighbour> {
    let (header, mut rest) = frame.split_at_checked(HEADER)?;
    if !header.ends_with(&ETHERTYPE) {
        return None;
    }
    let [mut chassis, mut port, mut description, mut system] = [const { None }; 4];
    while let Some((head, after)) = rest.split_first_chunk() {
        let head = u16::from_be_bytes(*head);
        let (kind, length) = (head >> 9, usize::from(head & 0x1ff));
        if kind == 0 {
            break;
        }
        let (value, after) = after.split_at_checked(length)?;
        match kind {
            // The subtypes of a MAC address and of a network address.
            CHASSIS => chassis = id(value, 4, 5),
            PORT => port = id(value, 3, 4),
            DESCRIPTION => description = text(value),
            SYSTEM => system = text(value),
            _ => {}
        }
        rest = after;
    }
    Some(Neighbour {
        switch: system.or(chassis)?,
        port: port?,
        description,
        others: 0,
        is_past: false,
    })
}

/// An id: a subtype, and a text or an address.
fn id(value: &[u8], mac: u8, network: u8) -> Option<String> {
    let (subtype, value) = value.split_first()?;
    if *subtype == mac {
        return (value.len() == 6).then(|| digits(value));
    }
    if *subtype == network {
        return network_address(value);
    }
    text(value)
}

/// A network address: the number of its family (IANA address family numbers), and its bytes.
fn network_address(value: &[u8]) -> Option<String> {
    let (family, bytes) = value.split_first()?;
    match family {
        1 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string()),
        2 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
        _ => (!bytes.is_empty()).then(|| excerpt(&digits(bytes), MAX_NAME)),
    }
}

fn digits(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(":")
}

fn text(value: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(value);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    (!text.is_empty()).then(|| excerpt(text, MAX_NAME))
}

/// The content of a file with every name replaced and everything else left out; `None` if it is another kind of file.
pub fn replaced(bytes: &[u8], name: impl Fn(&str) -> String) -> Option<Vec<u8>> {
    let neighbours = frames(bytes)?.into_iter().filter_map(neighbour);
    let files = neighbours.map(|neighbour| saved_as(&neighbour, &name));
    Some(files.collect::<Vec<_>>().concat())
}

/// A neighbour as the daemon saves it, with other names.
fn saved_as(neighbour: &Neighbour, name: impl Fn(&str) -> String) -> Vec<u8> {
    let mut frame = [[0; HEADER - 2].as_slice(), &ETHERTYPE].concat();
    let mut put = |kind: u16, prefix: &[u8], text: &str| {
        let value: Vec<u8> = prefix.iter().chain(text.as_bytes()).copied().take(255).collect();
        let length = u16::try_from(value.len()).unwrap_or_default();
        frame.extend((kind << 9 | length).to_be_bytes());
        frame.extend(value);
    };
    let switch = name(&neighbour.switch);
    put(CHASSIS, &[LOCAL], &switch);
    put(PORT, &[LOCAL], &name(&neighbour.port));
    if let Some(description) = &neighbour.description {
        put(DESCRIPTION, &[], &name(description));
    }
    put(SYSTEM, &[], &switch);
    put(0, &[], "");
    let mut file = (frame.len() as u64).to_le_bytes().to_vec();
    file.extend(frame);
    file
}

#[cfg(test)]
#[path = "lldp_tests.rs"]
mod tests;
