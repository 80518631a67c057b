//! Devices, ports and GIDs, as libibverbs reports them.

use std::{collections::BTreeMap, net::Ipv6Addr, path::Path};

use rdma_health_protocol::{Device, Gid, GidType, HelperError, Port};

use crate::{
    nodes,
    sys::{self, Context, DeviceList, GidEntry, PortAttributes},
};

/// Maximum number of entries of a device's GID table: no hardware has 256 ports with a full table, and a driver that reports
/// more must not use more memory.
const MAX_GIDS: usize = 1 << 16;

/// Every device, in order of name. A device that fails has its error in the list and does not affect the others. So does
/// a device that the kernel has but libibverbs does not list: `ENOENT` or `EACCES` for its node, `ENOPKG` if no provider
/// is installed.
///
/// # Errors
/// If there is no device list: `ENOSYS` without `ib_uverbs`.
pub fn all() -> Result<Vec<Result<Device, HelperError>>, HelperError> {
    let list = DeviceList::read().map_err(|error| helper_error(None, error))?;
    let mut devices: BTreeMap<String, Result<Device, sys::Error>> = BTreeMap::new();
    for (name, node) in nodes::list(Path::new(nodes::CLASS)) {
        if list.find(&name).is_none() {
            let error = sys::Error {
                call: "ibv_get_device_list",
                errno: nodes::why_unlisted(&node.uverbs),
            };
            devices.insert(name, Err(error));
        }
    }
    for device in list.iter() {
        let name = device.name();
        let facts = device.open().and_then(|context| facts(&name, &context));
        devices.insert(name, facts);
    }
    let result = |(name, facts): (String, Result<Device, sys::Error>)| {
        facts.map_err(|error| helper_error(Some(&name), error))
    };
    Ok(devices.into_iter().map(result).collect())
}

fn facts(name: &str, context: &Context) -> Result<Device, sys::Error> {
    let attributes = context.attributes()?;
    let ports = (1..=attributes.ports).map(|number| Ok((number, context.port(number)?)));
    let ports = ports.collect::<Result<Vec<_>, sys::Error>>()?;
    let gids = gid_table(context, ports.iter().map(|(_, port)| port))?;
    Ok(Device {
        name: name.to_owned(),
        node_guid: attributes.node_guid,
        firmware: attributes.firmware,
        vendor_id: attributes.vendor_id,
        vendor_part_id: attributes.vendor_part_id,
        max_mr_size: attributes.max_mr_size,
        ports: ports
            .into_iter()
            .map(|(number, port)| port_facts(number, &port, &gids))
            .collect(),
    })
}

/// The GID entries in use of all ports, in one call.
///
/// # Errors
/// That of `_ibv_query_gid_table`.
fn gid_table<'a>(
    context: &Context,
    ports: impl Iterator<Item = &'a PortAttributes>,
) -> Result<Vec<GidEntry>, sys::Error> {
    let room: usize = ports.map(|port| port.gid_table_len as usize).sum();
    match room.min(MAX_GIDS) {
        0 => Ok(Vec::new()),
        room => context.gid_table(room),
    }
}

/// The GIDs of one port, in ascending order of index.
///
/// # Errors
/// Those of the queries for attributes and table: `EINVAL` if the port does not exist, `EIO` or `ENODEV` if the device has
/// disappeared.
pub fn gids(context: &Context, port: u8) -> Result<Vec<Gid>, sys::Error> {
    let attributes = context.attributes()?;
    let ports = (1..=attributes.ports).map(|number| context.port(number));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    Ok(port_gids(port, &gid_table(context, ports.iter())?))
}

fn port_facts(number: u8, port: &PortAttributes, gids: &[GidEntry]) -> Port {
    Port {
        number,
        state: u8::try_from(port.state).unwrap_or(u8::MAX),
        phys_state: port.phys_state,
        // Drivers older than this field leave it unspecified; they are InfiniBand drivers.
        link_layer: port.link_layer,
        active_mtu: mtu_bytes(port.active_mtu),
        max_mtu: mtu_bytes(port.max_mtu),
        lid: port.lid,
        sm_lid: port.sm_lid,
        gid_table_len: port.gid_table_len,
        gids: port_gids(number, gids),
    }
}

/// The entries of one port with a known type, in ascending order of index.
fn port_gids(number: u8, entries: &[GidEntry]) -> Vec<Gid> {
    let of_port = entries.iter().filter(|entry| entry.port == u32::from(number));
    let mut gids: Vec<_> = of_port.filter_map(gid).collect();
    gids.sort_by_key(|gid| gid.index);
    gids
}

fn gid(entry: &GidEntry) -> Option<Gid> {
    let kind = match entry.kind {
        0 => GidType::Ib,
        1 => GidType::RoceV1,
        2 => GidType::RoceV2,
        _ => return None,
    };
    Some(Gid {
        index: entry.index,
        gid: Ipv6Addr::from(entry.gid),
        kind,
        netdev_index: (entry.netdev_index != 0).then_some(entry.netdev_index),
        netdev: None,
    })
}

/// The size in bytes of an `ibv_mtu` code; 0 for an unknown code.
pub(crate) fn mtu_bytes(code: u32) -> u32 {
    match code {
        1..=5 => 128 << code,
        _ => 0,
    }
}

/// The `ibv_mtu` code of a number of bytes; `None` where there is none.
pub(crate) fn mtu_code(bytes: u32) -> Option<u32> {
    (1..=5).find(|&code| mtu_bytes(code) == bytes)
}

fn helper_error(device: Option<&str>, error: sys::Error) -> HelperError {
    HelperError {
        device: device.map(str::to_owned),
        call: error.call.to_owned(),
        errno: error.errno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_codes_are_powers_of_two() {
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6, u32::MAX].map(mtu_bytes),
            [0, 256, 512, 1024, 2048, 4096, 0, 0]
        );
        assert_eq!([0, 256, 1500, 4096].map(mtu_code), [None, Some(1), None, Some(5)]);
    }

    #[test]
    fn a_port_keeps_its_own_known_entries_in_order() {
        let entry = |port, index, kind| GidEntry {
            gid: [0; 16],
            index,
            port,
            kind,
            netdev_index: 0,
        };
        let table = [entry(1, 3, 2), entry(2, 0, 2), entry(1, 1, 1), entry(1, 2, 77)];
        let gids = port_gids(1, &table);
        let seen: Vec<_> = gids.iter().map(|gid| (gid.index, gid.kind)).collect();
        assert_eq!(seen, [(1, GidType::RoceV1), (3, GidType::RoceV2)]);
        assert_eq!(gids[0].netdev_index, None);
    }
}
