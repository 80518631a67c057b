//! GIDs in every form in which programs print them.

use std::net::Ipv6Addr;

use super::entity::is_rdma_name;

/// The GID that a word in lower case is: `fe80::526b:4bff:fecb:bece`, Mooncake's `fe:80:00:…` in hexadecimal, perftest's `254:128:00:…` in
/// decimal, NCCL's `80fe/1a8a41feff21a75e`, whose halves have their bytes in reverse order.
pub(super) fn parse(word: &str) -> Option<Ipv6Addr> {
    if let Ok(gid) = word.parse() {
        return Some(gid);
    }
    if let Some((prefix, id)) = word.split_once('/') {
        let half = |text| u64::from_str_radix(text, 16).ok().map(u64::swap_bytes);
        let (prefix, id) = (half(prefix)?, half(id)?);
        return Some(Ipv6Addr::from(u128::from(prefix) << 64 | u128::from(id)));
    }
    let parts: Vec<&str> = word.split(':').take(17).collect();
    let bytes = |radix| -> Option<[u8; 16]> {
        let bytes: Option<Vec<u8>> = parts
            .iter()
            .map(|part| u8::from_str_radix(part, radix).ok().filter(|_| part.len() >= 2))
            .collect();
        bytes?.try_into().ok()
    };
    // Only in decimal does a part have three digits.
    let is_decimal = parts.iter().any(|part| part.len() == 3);
    Some(bytes(if is_decimal { 10 } else { 16 })?.into())
}

/// Whether a GID is the link-local one of an Ethernet port, which contains its MAC address (RFC 4291, appendix A). That of an InfiniBand
/// port has the same prefix and the port's GUID.
pub(crate) fn is_of_mac(gid: Ipv6Addr) -> bool {
    gid.is_unicast_link_local() && gid.octets()[11..13] == [0xff, 0xfe]
}

/// How a link-local GID begins in each form.
pub(super) const LINK_LOCAL: [&str; 4] = ["fe80:", "fe:80:", "254:128:", "80fe/"];

/// The first link-local GID of an Ethernet port that a line in lower case shows in use. Tables of all GIDs of a port have one, too.
pub(super) fn link_local(lower: &str) -> Option<Ipv6Addr> {
    const TABLES: [&str; 3] = ["gid[", "gids/", "show_gids"];
    const AROUND: [char; 12] = [' ', '\t', ',', ';', '[', ']', '(', ')', '=', '"', '\'', '|'];
    if !lower.contains("gid") || TABLES.iter().any(|words| lower.contains(words)) {
        return None;
    }
    let begins = |word: &&str| LINK_LOCAL.iter().any(|beginning| word.starts_with(beginning));
    let mut words = lower.split(AROUND).filter(begins);
    words.find_map(|word| parse(word.trim_end_matches(['.', ':'])).filter(|gid| is_of_mac(*gid)))
}

/// How `show_gids` begins the GID of an IPv4 address.
pub(super) const IPV4: &str = "0000:0000:0000:0000:0000:ffff:";

/// The index in a row of `show_gids` in lower case with the RoCE v2 GID of an IPv4 address and its network device, which is then visible where the
/// tool runs: `mlx5_0 1 7 0000:…:ffff:0a98:000c 10.152.0.12 v2 net1`.
pub(super) fn listed(lower: &str) -> Option<u32> {
    let (index, gid) = row(lower)?;
    let mut last = lower.split_whitespace().rev();
    let (netdev, version) = (last.next()?, last.next()?);
    (gid.to_ipv4_mapped().is_some() && version == "v2" && netdev != "v2").then_some(index)
}

/// A row of a table of the GIDs of a port, in lower case: its index and the GID. `GID[  0]: fe80::…, RoCE v1` of `ibv_devinfo -v`,
/// `mlx5_0  1  0  fe80:… v1 eth0` of `show_gids`, `…/ports/1/gids/0:fe80:…` of `grep`.
pub(super) fn row(lower: &str) -> Option<(u32, Ipv6Addr)> {
    let of_list = || {
        let (index, rest) = lower.trim_start().strip_prefix("gid[")?.split_once(']')?;
        Some((index, rest.trim_start_matches(':').split_whitespace().next()?))
    };
    let of_columns = || {
        let mut words = lower.split_whitespace();
        let _port = words.next().filter(|name| is_rdma_name(name)).and(words.next())?;
        Some((words.next()?, words.next()?))
    };
    let of_files = || lower.split_once("/gids/")?.1.split_once(':');
    let (index, gid) = of_list().or_else(of_columns).or_else(of_files)?;
    let index = index.trim().parse().ok()?;
    Some((index, parse(gid.trim().trim_end_matches([',', '.']))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_gid_is_read_in_every_form() {
        for (line, expected) in [
            (
                "vendor err 129 (recv) localgid fe80::5aa2:e1ff:fe1c:2f0a remotegids fe80::1",
                Some("fe80::5aa2:e1ff:fe1c:2f0a"),
            ),
            (
                " gid: 254:128:00:00:00:00:00:00:90:60:193:255:254:74:02:17",
                Some("fe80::5a3c:c1ff:fe4a:211"),
            ),
            (
                "gid_index 1 gid fe:80:00:00:00:00:00:00:9e:63:c0:ff:fe:65:ab:90",
                Some("fe80::9e63:c0ff:fe65:ab90"),
            ),
            (
                "nccl dev 3 ibdev 3 port 1 qpn 1047 mtu 5 gid 0 (80fe/1a8a41feff21a75e)",
                Some("fe80::5ea7:21ff:fe41:8a1a"),
            ),
            (
                "dlid=0 dgid=fe80::526b:4bff:fecb:bece flow_label=0xffffffff sgid_index=0",
                Some("fe80::526b:4bff:fecb:bece"),
            ),
            (" gid: 00:00:00:00:00:00:00:00:00:00:255:255:10:01:01:02", None),
            ("local gid fe80::e41d:2d03:00f2:a3b0", None),
            ("gid[  0]: fe80::5aa2:e1ff:fe1c:2f0a", None),
            ("inet6 fe80::5aa2:e1ff:fe1c:2f0a/64 scope link", None),
            ("gid fe80", None),
        ] {
            let found = link_local(line).map(|gid| gid.to_string());
            assert_eq!(found.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_row_of_a_table_is_read_in_every_form() {
        for (line, expected) in [
            ("\t\tgid[  0]:\t\tfe80::5aa2:e1ff:fe1c:2f0a, roce v1", Some(0)),
            ("gid[1]: ::ffff:192.168.64.4,       roce v2", Some(1)),
            (
                "mlx5_0  1     3       0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1  v2  ens1f0",
                Some(3),
            ),
            (
                "/sys/class/infiniband/rocep1s0/ports/1/gids/0:fe80:0000:0000:0000:5aa2:e1ff:fe1c:2f0a",
                Some(0),
            ),
            ("mlx5_0 1 2 active", None),
            ("gid[0] of the peer", None),
        ] {
            assert_eq!(row(line).map(|(index, _)| index), expected, "{line}");
        }
    }
}
