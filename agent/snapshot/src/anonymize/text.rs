//! Finds addresses in text.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::pseudonym::{Pseudonyms, halves, joined};

impl Pseudonyms {
    /// The text with the name of the host and every address replaced: MAC addresses, GUIDs, GIDs, IPv6 addresses, device names that contain an
    /// address (`enx5254001234ab`), and, if `ipv4` is set, IPv4 addresses.
    pub(super) fn words(&self, text: &str, ipv4: bool) -> String {
        let mut out = String::with_capacity(text.len());
        let text = self.without_host(text);
        let mut rest = &*text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            // Punctuation at the end of a sentence or before a value.
            let bare = if word.ends_with("::") {
                word
            } else {
                word.trim_end_matches([':', '.'])
            };
            match self.word(bare, ipv4, &out) {
                Some(replaced) => out.push_str(&replaced),
                None => out.push_str(bare),
            }
            out.push_str(&word[bare.len()..]);
            let next = after.find(is_word).unwrap_or(after.len());
            out.push_str(&after[..next]);
            rest = &after[next..];
        }
        out
    }

    fn word(&self, word: &str, ipv4: bool, before: &str) -> Option<String> {
        let groups = |length: usize| -> Option<Vec<u64>> {
            let hex = |group: &str| {
                let all = group.len() == length && group.bytes().all(|b| b.is_ascii_hexdigit());
                all.then(|| u64::from_str_radix(group, 16).ok()).flatten()
            };
            word.split(':').map(hex).collect()
        };
        let number =
            |groups: &[u64], bits: u32| groups.iter().fold(0, |number, group| number << bits | group);
        if word.len() == 17
            && let Some(bytes) = groups(2)
        {
            return Some(bytes_of(self.mac(number(&bytes, 8)), 6));
        }
        // The hardware address of IPoIB: four bytes, then a GID.
        if word.len() == 59
            && let Some(bytes) = groups(2)
        {
            let high = number(bytes.get(4..12)?, 8);
            let low = number(bytes.get(12..20)?, 8);
            let (high, low) = halves(self.gid(joined(high, low)));
            return Some(format!(
                "{}:{}:{}",
                &word[..11],
                bytes_of(high, 8),
                bytes_of(low, 8)
            ));
        }
        if word.len() == 19
            && let Some(parts) = groups(4)
        {
            return Some(parts_of(self.guid(number(&parts, 16))));
        }
        if word.len() == 39 && groups(4).is_some() {
            let (high, low) = halves(self.gid(word.parse().ok()?));
            return Some(format!("{}:{}", parts_of(high), parts_of(low)));
        }
        if word.matches(':').count() >= 2
            && let Ok(address) = word.parse::<Ipv6Addr>()
        {
            return Some(self.gid(address).to_string());
        }
        if ipv4 {
            let (address, port) = word
                .split_once(':')
                .map_or((word, None), |(address, port)| (address, Some(port)));
            if let Ok(address) = address.parse::<Ipv4Addr>() {
                let address = self.ipv4(address);
                return Some(port.map_or(address.to_string(), |port| format!("{address}:{port}")));
            }
        }
        if let Some(digits) = word.strip_prefix("0x")
            && digits.len() == 16
            && ends_with_guid(before)
        {
            return Some(format!(
                "0x{:016x}",
                self.guid(u64::from_str_radix(digits, 16).ok()?)
            ));
        }
        self.device_name(word)
    }

    /// The text with every absolute path hidden, except those of the system, which name no user.
    pub(super) fn without_paths(text: &str) -> String {
        const SYSTEM: [&str; 6] = ["/sys/", "/proc/", "/dev/", "/usr/", "/run/", "/etc/"];
        let is_hidden =
            |word: &str| word.contains('/') && !SYSTEM.iter().any(|system| word.starts_with(system));
        let words = text.split_inclusive([' ', '"', '\'', '(', ')', ',', ':']);
        words
            .map(|word| {
                let bare = word.trim_end_matches([' ', '"', '\'', '(', ')', ',', ':']);
                if is_hidden(bare) && !bare.is_empty() {
                    format!("<hidden>{}", &word[bare.len()..])
                } else {
                    word.to_owned()
                }
            })
            .collect()
    }

    /// The name of a device that contains its address: `enx` (Ethernet), `ibx`, `rocex`, … and the address.
    fn device_name(&self, word: &str) -> Option<String> {
        const KINDS: [&str; 6] = ["enx", "wlx", "ibx", "rocex", "iwx", "opax"];
        let kind = KINDS.iter().find(|kind| word.starts_with(**kind))?;
        let digits = &word[kind.len()..];
        let length = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        let (address, rest) = digits.split_at(length);
        let number = u64::from_str_radix(address, 16).ok()?;
        match length {
            12 => Some(format!("{kind}{:012x}{rest}", self.mac(number))),
            16 => Some(format!("{kind}{:016x}{rest}", self.guid(number))),
            _ => None,
        }
    }

    /// A routing table in the format of `/proc/net/route`: addresses are numbers in native byte order.
    pub(super) fn routes(&self, table: &str) -> String {
        let mut out = String::with_capacity(table.len());
        for line in table.lines() {
            let mut columns: Vec<String> = line.split('\t').map(str::to_owned).collect();
            let number = |column: Option<&String>| u32::from_str_radix(column?.trim(), 16).ok();
            let mask = number(columns.get(7));
            if let (Some(destination), Some(gateway), Some(mask)) =
                (number(columns.get(1)), number(columns.get(2)), mask)
            {
                let replaced = |address: u32| {
                    let address = Ipv4Addr::from_bits(address.swap_bytes());
                    self.ipv4(address).to_bits().swap_bytes()
                };
                // Only the network part; the rest is zero.
                columns[1] = format!("{:08X}", replaced(destination) & mask);
                columns[2] = format!("{:08X}", replaced(gateway));
            }
            if let Some(netdev) = columns.first_mut() {
                *netdev = self.words(netdev, false);
            }
            out.push_str(&columns.join("\t"));
            out.push('\n');
        }
        out
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ':' | '.')
}

fn ends_with_guid(before: &str) -> bool {
    let tail = before.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    tail.len() >= 4 && {
        let bytes = tail.as_bytes();
        bytes[bytes.len() - 4..].eq_ignore_ascii_case(b"guid")
    }
}

/// The last `count` bytes of the number, separated by colons.
fn bytes_of(number: u64, count: usize) -> String {
    let bytes = number.to_be_bytes();
    let shown: Vec<_> = bytes[8 - count..]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    shown.join(":")
}

/// The number in the kernel's format of a GUID.
fn parts_of(number: u64) -> String {
    let [a, b, c, d] = [48, 32, 16, 0].map(|shift| number >> shift & 0xffff);
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_found_and_nothing_else() {
        let pseudonyms = Pseudonyms::default();
        for same in [
            "",
            "mlx5_core 0000:41:00.0: firmware version: 28.41.1000",
            "../../devices/pci0000:00/0000:00:03.0/virtio1/net/eth0",
            "229.2.52.0",
            "4: ACTIVE",
            "400 Gb/sec (4X NDR)",
            "0000:0000:0000:0000",
            "0000:0000:0000:0000:0000:0000:0000:0000",
            "::",
            "ff:ff:ff:ff:ff:ff",
            "DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0x00000000fee00000",
            "enx",
            "ö:ü",
        ] {
            assert_eq!(pseudonyms.words(same, false), same);
        }
        for (before, kept) in [
            ("eth0: 52:54:00:12:34:56, up", "eth0: 52:54:00:"),
            ("a088:c203:0012:3456", "a088:c203:00"),
            ("node guid 0xa088c20300123456.", "node guid 0xa088c20300"),
            (
                "fe80:0000:0000:0000:5054:00ff:fe12:3456",
                "fe80:0000:0000:0000:5054:00ff:fe",
            ),
            ("fe80::5054:ff:fe12:3456", "fe80::5054:ff:fe"),
            ("enx525400123456", "enx525400"),
            ("/sys/class/net/enx525400123456/mtu", "/sys/class/net/enx525400"),
            ("to 10.1.2.3:4791 now", "to 10."),
            (
                "00:00:10:49:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:12:34:56",
                "00:00:10:49:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:",
            ),
        ] {
            let after = pseudonyms.words(before, true);
            assert!(after.starts_with(kept), "{before}: {after}");
            assert!(
                !after.contains("12:3456") && !after.contains("12:34:56"),
                "{after}"
            );
            assert!(
                !after.contains("123456") && !after.contains("10.1.2.3"),
                "{after}"
            );
        }
    }

    #[test]
    fn networks_stay_networks() {
        let pseudonyms = Pseudonyms::default();
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0100640A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t0000640A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let replaced = pseudonyms.routes(table);
        let lines: Vec<Vec<&str>> = replaced.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines[0].join("\t"), table.lines().next().unwrap());
        assert_eq!(lines[1][1], "00000000");
        assert!(
            lines[2][1].starts_with("00") && lines[2][1].ends_with("0A"),
            "{replaced}"
        );
        // The gateway is still in the network.
        assert_eq!(lines[1][2][2..], lines[2][1][2..], "{replaced}");
    }

    proptest! {
        #[test]
        fn an_address_in_any_text_is_replaced_and_what_is_around_it_stays_the_same(
            before in "\\PC{0,30}|([0-9a-f:.]{0,6}|enx|::|0x){0,12}",
            after in "\\PC{0,30}|([0-9a-f:.]{0,6}|enx|::|0x){0,12}",
            (mac, ip, end) in (0_u64..1 << 48, any::<u32>(), "|[,;/) ]"),
        ) {
            let pseudonyms = Pseudonyms::default();
            let words = |text: &str| pseudonyms.words(text, true);
            let ip = Ipv4Addr::from_bits(ip);
            for (address, replaced) in [
                (bytes_of(mac, 6), bytes_of(pseudonyms.mac(mac), 6)),
                (format!("enx{mac:012x}"), format!("enx{:012x}", pseudonyms.mac(mac))),
                (ip.to_string(), pseudonyms.ipv4(ip).to_string()),
            ] {
                let text = words(&format!("{before} {address}{end} {after}"));
                prop_assert_eq!(text, format!("{} {replaced}{end} {}", words(&before), words(&after)));
            }
        }

        #[test]
        fn only_words_are_replaced(text in "\\PC{0,80}|([0-9a-f:.]{0,6}|enx|::|0x| ){0,12}") {
            let between = |text: &str| text.replace(is_word, "");
            prop_assert_eq!(between(&Pseudonyms::default().words(&text, true)), between(&text));
        }

        #[test]
        fn a_routing_table_keeps_its_shape(
            lines in proptest::collection::vec("\\PC{0,40}|eth0(\t[0-9A-F]{8}){2}\t0003(\t0){3}\t[0-9A-F]{8}(\t0?){0,4}", 0..5),
        ) {
            let columns = |table: &str| table.lines().map(|line| line.split('\t').count()).collect::<Vec<_>>();
            let table = lines.join("\n") + "\n";
            prop_assert_eq!(columns(&Pseudonyms::default().routes(&table)), columns(&table));
        }
    }
}
