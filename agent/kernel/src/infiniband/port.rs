//! One port of an RDMA device.

use rdma_health_protocol::{Gid, LinkLayer};
use serde::{Deserialize, Serialize};

use super::{
    CLASS, Hca,
    attribute::{Attribute, parsed},
    counters::{Counter, CounterReader},
    gid,
    netdev::{Netdev, NetdevReader, netdev_of},
    state::{PortCode, Rate},
};
use crate::{fact::Fact, pci::hexadecimal, root::Scope};

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
        self.gids = gid::table(scope, &path, self.link_layer.known());
        let gids = self.gids.known().map_or(&[][..], Vec::as_slice);
        let netdev = netdev_of(scope, hca, number, &path, gids);
        self.netdev = netdev.map(|name| NetdevReader::new(scope, name));
        self.counters.list(scope, &format!("{path}/counters"));
        self.hw_counters.list(scope, &format!("{path}/hw_counters"));
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
            scope
                .parsed(
                    &format!("{directory}/{index}"),
                    "a hexadecimal partition key",
                    hexadecimal::<u16>,
                )
                .known()
                .copied()
                .filter(|key| *key != 0)
        };
        indices.into_iter().take(MAX_ENTRIES).filter_map(key).collect()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_lid_is_read_as_the_kernel_writes_it(number: u32, text in ".{0,12}") {
            prop_assert_eq!(hexadecimal::<u32>(&format!("{number:#x}")), Some(number));
            prop_assume!(!text.starts_with("0x"));
            prop_assert_eq!(hexadecimal::<u32>(&text), None);
        }
    }
}
