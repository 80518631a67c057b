//! What tools report in several lines, each of which shows nothing alone: the resources of a node, the paths of GPUDirect Storage, the interfaces of
//! IP over InfiniBand, the update of firmware.

use super::{cluster::is_of_rdma, grade::is_ipoib, line::excerpt};
use crate::symptom::SymptomKind::{self as K};

/// A line and its number.
type Line = (String, u64);

/// What the lines so far show.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was seen so far, each independent of the others"
)]
pub(super) struct Reports {
    /// The first resource of RDMA of which a node offers none.
    zero: Option<Line>,
    /// A node offers some of a resource of RDMA.
    offers: bool,
    /// The first path of GPUDirect Storage that is not supported.
    unsupported: Option<Line>,
    /// Any of them is.
    supported: bool,
    /// The first interface of IP over InfiniBand that was not brought up.
    unset: Option<Line>,
    /// Any of them is up.
    set: bool,
    /// A tool was to update the firmware.
    updates: bool,
    /// The tool found no image for an adapter.
    imageless: Option<Line>,
}

impl Reports {
    /// Adds a line.
    pub(super) fn add(&mut self, text: &str, number: u64) {
        let row = text.trim();
        // Each of these is short.
        if row.len() > 300 {
            return;
        }
        let line = || (excerpt(row, 0), number);
        if let Some(count) = resource(row) {
            if count == 0 {
                self.zero.get_or_insert_with(line);
            } else {
                self.offers = true;
            }
        } else if let Some(is_supported) = path(row) {
            if is_supported {
                self.supported = true;
            } else {
                self.unsupported.get_or_insert_with(line);
            }
        } else if let Some(is_up) = interface(row) {
            if is_up {
                self.set = true;
            } else {
                self.unset.get_or_insert_with(line);
            }
        }
        self.updates = self.updates || is_update(row);
        if row.eq_ignore_ascii_case("status: no matching image found") {
            self.imageless.get_or_insert_with(line);
        }
    }

    /// What these lines show together.
    pub(super) fn shown(&self) -> impl Iterator<Item = (K, &str, u64)> {
        let zero = self.zero.as_ref().filter(|_| !self.offers);
        // Most nodes have some of these paths only. Without any, GPUDirect Storage cannot be used.
        let without = self.unsupported.as_ref().filter(|_| !self.supported);
        let unset = self.unset.as_ref().filter(|_| !self.set);
        let imageless = self.imageless.as_ref().filter(|_| self.updates);
        [
            (K::ResourceUnavailable, zero),
            (K::GdrDisabled, without),
            (K::PortNotActive, unset),
            (K::FirmwareRefused, imageless),
        ]
        .into_iter()
        .filter_map(|(kind, line)| line.map(|(text, number)| (kind, text.as_str(), *number)))
    }
}

/// How much a node has of a resource of RDMA: `"rdma/hca": "0"`, `rdma/hca:  0`.
fn resource(row: &str) -> Option<u64> {
    let (name, count) = row.trim_end_matches(',').rsplit_once(':')?;
    let (name, count) = (name.trim().trim_matches('"'), count.trim().trim_matches('"'));
    let (domain, resource) = name.split_once('/')?;
    let is_name = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
    };
    let is_domain = domain == "rdma" || domain.contains('.') && is_of_rdma(&name.to_ascii_lowercase());
    if !(is_domain && is_name(domain) && is_name(resource)) {
        return None;
    }
    let is_counted = count.ends_with('k') && count.len() > 1;
    count
        .trim_end_matches('k')
        .parse()
        .ok()
        .map(|n: u64| if is_counted { n.max(1) } else { n })
}

/// Whether gdscheck lists a path as supported: `NVMe : Unsupported`.
fn path(row: &str) -> Option<bool> {
    const PATHS: [&str; 14] = [
        "NVMe P2PDMA",
        "NVMe",
        "NVMeOF",
        "SCSI",
        "ScaleFlux CSD",
        "NVMesh",
        "DDN EXAScaler",
        "IBM Spectrum Scale",
        "NFS",
        "BeeGFS",
        "ScaTeFS",
        "WekaFS",
        "Userspace RDMA",
        "VirtioFS",
    ];
    let (name, state) = row.split_once(':')?;
    if !PATHS.contains(&name.trim()) {
        return None;
    }
    match state.trim() {
        "Supported" => Some(true),
        "Unsupported" => Some(false),
        _ => None,
    }
}

/// Whether an interface of IP over InfiniBand in the list of `ip link` is up: `4: ibp5s0: <BROADCAST,MULTICAST> mtu 4092 qdisc noop state DOWN …`.
fn interface(row: &str) -> Option<bool> {
    let (index, rest) = row.split_once(": ")?;
    let (name, rest) = rest.split_once(": <")?;
    let (flags, rest) = rest.split_once('>')?;
    let is_one = index.bytes().all(|byte| byte.is_ascii_digit()) && rest.starts_with(" mtu ");
    let name = name.split('@').next().unwrap_or(name);
    (is_one && is_ipoib(name)).then(|| flags.split(',').any(|flag| flag == "UP"))
}

/// Whether a command updates the firmware of adapters from the vendor's images: `mlxup -online`, `mlxfwmanager --online -u`.
fn is_update(row: &str) -> bool {
    let mut words = row.split_whitespace();
    let is_tool = |word: &str| matches!(word.rsplit('/').next(), Some("mlxup" | "mlxfwmanager"));
    words.by_ref().take(8).any(is_tool)
        && words.any(|word| word.trim_start_matches('-') == "online" || matches!(word, "-u" | "--update"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(K, u64)> {
        let mut reports = Reports::default();
        for (number, line) in (1..).zip(text.lines()) {
            reports.add(line, number);
        }
        reports.shown().map(|(kind, _, number)| (kind, number)).collect()
    }

    #[test]
    fn what_all_rows_miss_is_shown_and_what_some_have_is_not() {
        for (text, expected) in [
            (
                "\"pods\": \"110\",\n  \"rdma/rdma_shared_device_a\": \"0\"\n",
                Some((K::ResourceUnavailable, 2)),
            ),
            ("  rdma/hca: 0\n", Some((K::ResourceUnavailable, 1))),
            ("  mellanox.com/mlnx_rdma: \"0\"\n  rdma/hca: \"63\"\n", None),
            ("  rdma/hca: 1k\n", None),
            ("  nvidia.com/gpu: 0\n", None),
            (
                "NVMe : Unsupported\nNFS : Unsupported\n",
                Some((K::GdrDisabled, 1)),
            ),
            ("NVMe : Supported\nNFS : Unsupported\n", None),
            (
                "4: ibp5s0: <BROADCAST,MULTICAST> mtu 4092 qdisc noop state DOWN mode DEFAULT\n",
                Some((K::PortNotActive, 1)),
            ),
            (
                "4: ib0: <BROADCAST,MULTICAST> mtu 4092 qdisc noop state DOWN\n5: ib1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 4092 qdisc mq state UP\n",
                None,
            ),
            (
                "4: eth1: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN\n",
                None,
            ),
            (
                "./mlxup -online\nStatus: No matching image found\n",
                Some((K::FirmwareRefused, 2)),
            ),
            ("mlxfwmanager --query\nStatus: No matching image found\n", None),
        ] {
            assert_eq!(shown(text), Vec::from_iter(expected), "{text}");
        }
    }
}
