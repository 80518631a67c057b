//! One port of an RDMA device, and the network device that belongs to it.

use rdma_health_protocol::Gid;
use serde::{Deserialize, Serialize};

use super::{
    CLASS, Hca,
    attribute::{Attribute, Outcome},
    counters::{Counter, CounterReader},
    gid,
};
use crate::{fact::Fact, root::Scope};

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: Fact<String>,
    /// Logical state: `4: ACTIVE`. INIT on InfiniBand means that no subnet manager configured it.
    pub state: Fact<PortCode>,
    /// Physical state: `5: LinkUp`.
    pub phys_state: Fact<PortCode>,
    /// Signalling rate.
    pub rate: Fact<Rate>,
    /// Local identifier; absent on Ethernet.
    pub lid: Fact<u32>,
    /// Local identifier of the subnet manager; absent on Ethernet.
    pub sm_lid: Fact<u32>,
    /// The network device; absent on InfiniBand without IPoIB.
    pub netdev: Fact<Netdev>,
    /// The files of `counters/`; `port_rcv_data` and `port_xmit_data` count 4-byte words.
    pub counters: Vec<Counter>,
    /// The files of `hw_counters/`.
    pub hw_counters: Vec<Counter>,
    /// The entries in use of the GID table, in order of index; libibverbs tells them with their network device.
    #[serde(default)]
    pub gids: Fact<Vec<Gid>>,
}

impl Port {
    /// Whether the port can carry traffic; `None` where its state is unread.
    pub fn is_active(&self) -> Option<bool> {
        self.state.known().map(|state| state.code == PortCode::ACTIVE)
    }

    pub(super) fn differs_in_counters_only(&self, other: &Self) -> bool {
        let Self {
            link_layer,
            state,
            phys_state,
            rate,
            lid,
            sm_lid,
            netdev,
            counters: _,
            hw_counters: _,
            gids,
        } = self;
        *link_layer == other.link_layer
            && *state == other.state
            && *phys_state == other.phys_state
            && *rate == other.rate
            && *lid == other.lid
            && *sm_lid == other.sm_lid
            && *netdev == other.netdev
            && *gids == other.gids
    }
}

/// A state as the kernel writes it: a code and its name, `4: ACTIVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCode {
    /// The number of the InfiniBand specification.
    pub code: u8,
    /// The kernel's word for it.
    pub name: String,
}

impl PortCode {
    /// Logical state ACTIVE.
    pub const ACTIVE: u8 = 4;
    /// Physical state `LinkUp`.
    pub const LINK_UP: u8 = 5;

    fn parse(text: &str) -> Option<Self> {
        let (code, name) = text.split_once(':')?;
        let name = name.trim();
        let plain = name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        plain.then_some(Self {
            code: code.trim().parse().ok()?,
            name: name.to_owned(),
        })
    }
}

impl std::fmt::Display for PortCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.name)
    }
}

/// A rate as the kernel writes it: `400 Gb/sec (4X NDR)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Bits per second.
    pub bits_per_second: u64,
    /// Lanes (`4`); `None` where the kernel names none.
    pub lanes: Option<u32>,
    /// Speed of one lane by its name (`NDR`).
    pub speed: Option<String>,
}

impl Rate {
    fn parse(text: &str) -> Option<Self> {
        let (number, rest) = text.split_once(" Gb/sec")?;
        let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
        let tenth: u64 = if tenth.len() == 1 {
            tenth.parse().ok()?
        } else {
            return None;
        };
        let bits = whole
            .parse::<u64>()
            .ok()?
            .checked_mul(1_000_000_000)?
            .checked_add(tenth * 100_000_000)?;
        let inner = rest
            .trim()
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'));
        let mut words = inner.unwrap_or_default().split_whitespace();
        let lanes = words.next().and_then(|word| word.strip_suffix('X')?.parse().ok());
        let speed = words.next().filter(|word| word.len() <= 8).map(str::to_owned);
        Some(Self {
            bits_per_second: bits,
            lanes,
            speed,
        })
    }
}

/// The network device of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Netdev {
    /// Its name.
    pub name: String,
    /// Interface index.
    pub index: Fact<u32>,
    /// MTU in bytes.
    pub mtu: Fact<u32>,
    /// Operational state (`up`, `down`, `dormant`, `unknown`), RFC 2863.
    pub operstate: Fact<String>,
    /// Whether it is switched on by the administrator (`IFF_UP`).
    pub admin_up: Fact<bool>,
    /// How often it got a carrier since it was created (`carrier_up_count`).
    pub carrier_ups: Fact<u64>,
    /// How often it lost its carrier since it was created (`carrier_down_count`).
    #[serde(default)]
    pub carrier_downs: Fact<u64>,
    /// Its hardware address (`aa:bb:cc:dd:ee:ff`; 20 bytes on InfiniBand).
    #[serde(default)]
    pub address: Fact<String>,
}

/// Reads a port's network device again and again.
#[derive(Debug)]
struct NetdevReader {
    name: String,
    index: Fact<u32>,
    mtu: Attribute,
    operstate: Attribute,
    flags: Attribute,
    carrier_ups: Attribute,
    carrier_downs: Attribute,
    address: Fact<String>,
}

impl NetdevReader {
    fn new(scope: &Scope<'_>, name: String) -> Self {
        let file = |attribute: &str| format!("/sys/class/net/{name}/{attribute}");
        Self {
            index: scope.number(&file("ifindex")),
            mtu: Attribute::new(file("mtu")),
            operstate: Attribute::new(file("operstate")),
            flags: Attribute::new(file("flags")),
            carrier_ups: Attribute::new(file("carrier_up_count")),
            carrier_downs: Attribute::new(file("carrier_down_count")),
            address: scope.parsed(&file("address"), "a hardware address", hardware_address),
            name,
        }
    }

    fn read(&mut self, scope: &Scope<'_>, buffer: &mut Vec<u8>) -> Netdev {
        let word = |text: &str| {
            (text.len() <= 32 && text.chars().all(|c| c.is_ascii_graphic())).then(|| text.to_owned())
        };
        Netdev {
            name: self.name.clone(),
            index: self.index.clone(),
            mtu: parsed(scope, &mut self.mtu, buffer, "an MTU in bytes", |text| {
                text.parse().ok()
            }),
            operstate: parsed(scope, &mut self.operstate, buffer, "an operational state", word),
            admin_up: parsed(scope, &mut self.flags, buffer, "interface flags", |text| {
                Some(hexadecimal(text)? & IFF_UP != 0)
            }),
            carrier_ups: parsed(scope, &mut self.carrier_ups, buffer, "a number", |text| {
                text.parse().ok()
            }),
            carrier_downs: parsed(scope, &mut self.carrier_downs, buffer, "a number", |text| {
                text.parse().ok()
            }),
            address: self.address.clone(),
        }
    }
}

/// Switched on by the administrator (`include/uapi/linux/if.h`).
const IFF_UP: u32 = 1;

/// Reads one port again and again.
#[derive(Debug)]
pub(super) struct PortReader {
    link_layer: Fact<String>,
    lid: Attribute,
    sm_lid: Attribute,
    state: Attribute,
    phys_state: Attribute,
    rate: Attribute,
    netdev: Fact<NetdevReader>,
    counters: CounterReader,
    hw_counters: CounterReader,
    gids: Fact<Vec<Gid>>,
}

impl PortReader {
    pub(super) fn new(scope: &Scope<'_>, hca: &Hca, number: u8) -> Self {
        let path = format!("{CLASS}/{}/ports/{number}", hca.name);
        let attribute = |name: &str| Attribute::new(format!("{path}/{name}"));
        let mut reader = Self {
            link_layer: Fact::Absent,
            lid: attribute("lid"),
            sm_lid: attribute("sm_lid"),
            state: attribute("state"),
            phys_state: attribute("phys_state"),
            rate: attribute("rate"),
            netdev: Fact::Absent,
            counters: CounterReader::default(),
            hw_counters: CounterReader::default(),
            gids: Fact::Absent,
        };
        reader.identify(scope, hca, number);
        reader
    }

    /// Reads again what seldom changes, and which counters there are.
    pub(super) fn identify(&mut self, scope: &Scope<'_>, hca: &Hca, number: u8) {
        let path = format!("{CLASS}/{}/ports/{number}", hca.name);
        self.link_layer = scope.optional(&format!("{path}/link_layer"));
        self.netdev = netdev_of(scope, hca, number, &path).map(|name| NetdevReader::new(scope, name));
        self.counters.list(scope, &format!("{path}/counters"));
        self.hw_counters.list(scope, &format!("{path}/hw_counters"));
        self.gids = gid::table(scope, &path, self.link_layer.known().map(String::as_str));
    }

    /// The port without what changes all the time, for [`PortReader::read`] to fill in.
    pub(super) fn blank(&self) -> Port {
        Port {
            link_layer: self.link_layer.clone(),
            state: Fact::Absent,
            phys_state: Fact::Absent,
            rate: Fact::Absent,
            lid: Fact::Absent,
            sm_lid: Fact::Absent,
            netdev: Fact::Absent,
            counters: Vec::new(),
            hw_counters: Vec::new(),
            gids: self.gids.clone(),
        }
    }

    /// Reads what changes all the time into a port that was blank, or was read, since [`PortReader::identify`].
    pub(super) fn read(&mut self, scope: &Scope<'_>, port: &mut Port) {
        let mut buffer = Vec::new();
        let buffer = &mut buffer;
        // LIDs are InfiniBand's; on Ethernet the files hold zeroes.
        let lids = self.link_layer.known().is_none_or(|layer| layer != "Ethernet");
        let lid = |attribute: &mut Attribute, buffer: &mut Vec<u8>| {
            if lids {
                parsed(scope, attribute, buffer, "a hexadecimal LID", hexadecimal)
            } else {
                Fact::Absent
            }
        };
        port.lid = lid(&mut self.lid, buffer);
        port.sm_lid = lid(&mut self.sm_lid, buffer);
        port.state = parsed(scope, &mut self.state, buffer, "a port state", PortCode::parse);
        port.phys_state = parsed(
            scope,
            &mut self.phys_state,
            buffer,
            "a physical state",
            PortCode::parse,
        );
        port.rate = parsed(scope, &mut self.rate, buffer, "a rate in Gb/sec", Rate::parse);
        port.netdev = match &mut self.netdev {
            Fact::Known(reader) => Fact::Known(reader.read(scope, buffer)),
            Fact::Absent => Fact::Absent,
            Fact::Unread { unread } => Fact::Unread {
                unread: unread.clone(),
            },
        };
        self.counters.read(scope, buffer, &mut port.counters);
        self.hw_counters.read(scope, buffer, &mut port.hw_counters);
    }
}

/// Bytes in hexadecimal with colons between them.
fn hardware_address(text: &str) -> Option<String> {
    let pair = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    (text.len() <= 60 && text.split(':').all(pair)).then(|| text.to_ascii_lowercase())
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// An attribute that is always asked again: `rate` fails with EINVAL while a port is down on some drivers.
fn parsed<T>(
    scope: &Scope<'_>,
    attribute: &mut Attribute,
    buffer: &mut Vec<u8>,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Fact<T> {
    let bytes = match attribute.read(scope.root(), buffer) {
        Outcome::Read(bytes) => bytes,
        Outcome::Missing => return Fact::Absent,
        Outcome::Failed(unread) | Outcome::Remembered(unread) => return scope.fail(unread),
    };
    let text = String::from_utf8_lossy(bytes);
    match parse(text.trim()) {
        Some(value) => Fact::Known(value),
        None => scope.malformed(attribute.path(), &text, expected),
    }
}

/// The name of a port's network device. The kernel's own word is the one beside GID 0 (right for bonds, too); where
/// that is empty, the device that the PCI function holds for this port.
fn netdev_of(scope: &Scope<'_>, hca: &Hca, number: u8, port: &str) -> Fact<String> {
    if let Some(parent) = hca.parent_netdev.known() {
        return Fact::Known(parent.clone());
    }
    // An empty entry of the table fails with EINVAL, which is no failure of the node: hence a scope of its own.
    let aside = Scope::new(scope.root());
    if let Some(name) = aside
        .optional(&format!("{port}/gid_attrs/ndevs/0"))
        .known()
        .filter(|name| !name.is_empty())
    {
        return Fact::Known(name.clone());
    }
    let directory = format!("{CLASS}/{}/device/net", hca.name);
    scope.entries(&directory).and_then(|names| {
        // dev_port counts from 0. Representors of virtual functions (`pf0vf3`) share the directory.
        let is_ours = |name: &&String| {
            let file = |attribute: &str| format!("/sys/class/net/{name}/{attribute}");
            let representor = aside
                .optional(&file("phys_port_name"))
                .known()
                .is_some_and(|name| name.contains("vf"));
            let dev_port = aside.number::<u32>(&file("dev_port")).known().copied();
            !representor && dev_port.is_none_or(|port| port.checked_add(1) == Some(u32::from(number)))
        };
        match names.as_slice() {
            [only] => Fact::Known(only.clone()),
            several => Fact::from(several.iter().find(is_ours).cloned()),
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_read_as_the_kernel_writes_them() {
        let rate = |text| Rate::parse(text).map(|rate| (rate.bits_per_second, rate.lanes, rate.speed));
        assert_eq!(
            rate("400 Gb/sec (4X NDR)"),
            Some((400_000_000_000, Some(4), Some("NDR".into())))
        );
        assert_eq!(
            rate("2.5 Gb/sec (1X SDR)"),
            Some((2_500_000_000, Some(1), Some("SDR".into())))
        );
        assert_eq!(rate("40 Gb/sec (4X)"), Some((40_000_000_000, Some(4), None)));
        assert_eq!(rate("fast"), None);
        assert_eq!(rate("99999999999999999999 Gb/sec"), None);
    }

    #[test]
    fn states_keep_code_and_name() {
        assert_eq!(
            PortCode::parse("4: ACTIVE"),
            Some(PortCode {
                code: 4,
                name: "ACTIVE".into()
            })
        );
        assert_eq!(PortCode::parse("3: Disabled").unwrap().to_string(), "3: Disabled");
        assert_eq!(PortCode::parse("ACTIVE"), None);
        assert_eq!(PortCode::parse("4: \u{1b}[31m"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,64}") {
            let _ = Rate::parse(&text);
            let _ = PortCode::parse(&text);
            let _ = hexadecimal(&text);
        }
    }
}
