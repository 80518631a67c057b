//! One port of an RDMA device, and its network device.

use rdma_health_protocol::{Gid, LinkLayer};
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
    /// Its link layer.
    pub link_layer: Fact<LinkLayer>,
    /// Logical state: `4: ACTIVE`. INIT on InfiniBand means that no subnet manager has configured it.
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
    /// The GID table entries in use, in order of index; libibverbs also reports their network devices.
    #[serde(default)]
    pub gids: Fact<Vec<Gid>>,
    /// The partition keys in use, in order of index; absent on Ethernet, where every port has only the default one.
    #[serde(default)]
    pub partition_keys: Fact<Vec<u16>>,
}

impl Port {
    /// Whether the port can carry traffic; `None` if its state is unread.
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
            partition_keys,
        } = self;
        *link_layer == other.link_layer
            && *state == other.state
            && *phys_state == other.phys_state
            && *rate == other.rate
            && *lid == other.lid
            && *sm_lid == other.sm_lid
            && *netdev == other.netdev
            && *gids == other.gids
            && *partition_keys == other.partition_keys
    }
}

/// A state in the kernel's format: a code and its name, `4: ACTIVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCode {
    /// The number of the InfiniBand specification.
    pub code: u8,
    /// The kernel's name for it.
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

/// A rate in the kernel's format: `400 Gb/sec (4X NDR)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Bits per second.
    pub bits_per_second: u64,
    /// Number of lanes (`4`); `None` if the kernel does not report it.
    pub lanes: Option<u32>,
    /// Name of the speed of one lane (`NDR`).
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
    /// Whether the administrator has enabled it (`IFF_UP`).
    pub admin_up: Fact<bool>,
    /// Number of carrier gains since it was created (`carrier_up_count`).
    pub carrier_ups: Fact<u64>,
    /// Number of carrier losses since it was created (`carrier_down_count`).
    #[serde(default)]
    pub carrier_downs: Fact<u64>,
    /// Its hardware address (`aa:bb:cc:dd:ee:ff`; 20 bytes on InfiniBand).
    #[serde(default)]
    pub address: Fact<String>,
}

/// Reads a port's network device repeatedly.
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

/// Enabled by the administrator (`include/uapi/linux/if.h`).
const IFF_UP: u32 = 1;

/// Reads one port repeatedly.
#[derive(Debug)]
pub(super) struct PortReader {
    link_layer: Fact<LinkLayer>,
    lid: Attribute,
    sm_lid: Attribute,
    state: Attribute,
    phys_state: Attribute,
    rate: Attribute,
    netdev: Fact<NetdevReader>,
    counters: CounterReader,
    hw_counters: CounterReader,
    gids: Fact<Vec<Gid>>,
    partition_keys: Fact<Vec<u16>>,
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
            partition_keys: Fact::Absent,
        };
        reader.identify(scope, hca, number);
        reader
    }

    /// Rereads facts that rarely change, and the list of counters.
    pub(super) fn identify(&mut self, scope: &Scope<'_>, hca: &Hca, number: u8) {
        let path = format!("{CLASS}/{}/ports/{number}", hca.name);
        self.link_layer = scope.optional(&format!("{path}/link_layer")).map(LinkLayer::from);
        self.netdev = netdev_of(scope, hca, number, &path).map(|name| NetdevReader::new(scope, name));
        self.counters.list(scope, &format!("{path}/counters"));
        self.hw_counters.list(scope, &format!("{path}/hw_counters"));
        self.gids = gid::table(scope, &path, self.link_layer.known());
        self.partition_keys = match self.link_layer.known() {
            Some(LinkLayer::InfiniBand) => partition_keys(scope, &path),
            _ => Fact::Absent,
        };
    }

    /// The port without the facts that change often, which [`PortReader::read`] adds.
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
            partition_keys: self.partition_keys.clone(),
        }
    }

    /// Reads the facts that change often into a port that is blank or was read since [`PortReader::identify`].
    pub(super) fn read(&mut self, scope: &Scope<'_>, port: &mut Port) {
        let mut buffer = Vec::new();
        let buffer = &mut buffer;
        // Only InfiniBand has LIDs; on Ethernet the files contain zero.
        let lids = self
            .link_layer
            .known()
            .is_none_or(|layer| *layer != LinkLayer::Ethernet);
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

/// The entries of the partition table in use. An unused entry is `0x0000`.
fn partition_keys(scope: &Scope<'_>, port: &str) -> Fact<Vec<u16>> {
    /// The usual size of the table of an adapter.
    const MAX_ENTRIES: usize = 128;
    let directory = format!("{port}/pkeys");
    scope.entries(&directory).map(|names| {
        let mut indices: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        indices.sort_unstable();
        let key = |index: u32| {
            let parse = |text: &str| u16::try_from(hexadecimal(text)?).ok();
            scope
                .parsed(
                    &format!("{directory}/{index}"),
                    "a hexadecimal partition key",
                    parse,
                )
                .known()
                .copied()
                .filter(|key| *key != 0)
        };
        indices.into_iter().take(MAX_ENTRIES).filter_map(key).collect()
    })
}

/// Hexadecimal bytes separated by colons.
fn hardware_address(text: &str) -> Option<String> {
    let pair = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    (text.len() <= 60 && text.split(':').all(pair)).then(|| text.to_ascii_lowercase())
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// An attribute that is always read again: with some drivers, `rate` fails with EINVAL while the port is down.
fn parsed<T>(
    scope: &Scope<'_>,
    attribute: &mut Attribute,
    buffer: &mut Vec<u8>,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Fact<T> {
    let bytes = match attribute.read(scope.root(), buffer) {
        Outcome::Read(bytes) => bytes,
        Outcome::Absent => return Fact::Absent,
        Outcome::Failed(unread) | Outcome::Remembered(unread) => return scope.fail(unread),
    };
    let text = String::from_utf8_lossy(bytes);
    match parse(text.trim()) {
        Some(value) => Fact::Known(value),
        None => scope.malformed(attribute.path(), &text, expected),
    }
}

/// The name of a port's network device: the kernel's entry for GID 0, which is also right for bonds; if that is empty,
/// the PCI function's network device for this port.
fn netdev_of(scope: &Scope<'_>, hca: &Hca, number: u8, port: &str) -> Fact<String> {
    if let Some(parent) = hca.parent_netdev.known() {
        return Fact::Known(parent.clone());
    }
    // An empty entry of the table fails with EINVAL, which is not a failure of the node, so use a separate scope.
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
    fn rates_have_the_kernels_format() {
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
        fn a_rate_is_read_as_the_kernel_writes_it(
            (whole, tenth) in (0..100_000_u64, 0..10_u64),
            lanes in 1..=12_u32,
            speed in "[A-Z]{2,4}",
        ) {
            let rate = Rate {
                bits_per_second: whole * 1_000_000_000 + tenth * 100_000_000,
                lanes: Some(lanes),
                speed: Some(speed.clone()),
            };
            prop_assert_eq!(Rate::parse(&format!("{whole}.{tenth} Gb/sec ({lanes}X {speed})")), Some(rate));
        }

        #[test]
        fn a_state_reads_the_same_once_it_was_shown(text in "[0-9]{0,4}:.{0,64}") {
            if let Some(state) = PortCode::parse(&text) {
                prop_assert!(text.starts_with(&state.code.to_string()) || text.starts_with('0'));
                prop_assert!(!state.name.contains(char::is_control), "{:?}", state.name);
                prop_assert_eq!(PortCode::parse(&state.to_string()), Some(state));
            }
        }

        #[test]
        fn a_lid_is_read_as_the_kernel_writes_it(number: u32, text in ".{0,12}") {
            prop_assert_eq!(hexadecimal(&format!("{number:#x}")), Some(number));
            prop_assume!(!text.starts_with("0x"));
            prop_assert_eq!(hexadecimal(&text), None);
        }
    }
}
