//! The link types of the ports of ConnectX-3 and older (`mlx4_core`): the actual ones and those that are configured.
//!
//! Source: `/sys/bus/pci/devices/ADDRESS/mlx4_portN` (`show_port_type` in drivers/net/ethernet/mellanox/mlx4/main.c); `/etc/rdma/mlx4.conf` of
//! rdma-core and `/etc/infiniband/connectx.conf` of MLNX_OFED, each with lines `ADDRESS TYPE [TYPE]`. In a container the configuration is that of its
//! image; only that of the host counts, where its root is mounted at `/host`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    pci::is_address,
    root::Scope,
    source::{After, Known, Source},
};

const FILES: [&str; 2] = ["/etc/rdma/mlx4.conf", "/etc/infiniband/connectx.conf"];
const MOUNTED: &str = "/host";
/// The most bytes of a file of the configuration, and the most functions.
const MAX_BYTES: usize = 16 << 10;
const MAX_FUNCTIONS: usize = 32;

/// The adapters of `mlx4_core`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mlx4 {
    /// Ports by the address of the function, those of one function in order; absent without such an adapter.
    pub ports: Fact<BTreeMap<String, Vec<PortType>>>,
}

/// The link type of a port: `ib`, `eth` or `auto`, as the driver writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortType {
    /// What it is.
    pub actual: String,
    /// What the configuration wants, with the file.
    pub configured: Option<(String, String)>,
}

impl Source for Mlx4 {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        let mut ports = BTreeMap::new();
        for address in known.functions.iter().take(MAX_FUNCTIONS) {
            let file = |number: u8| format!("/sys/bus/pci/devices/{address}/mlx4_port{number}");
            let actual = (1..=2).map_while(|number| {
                let text = scope.collected(&file(number)).known().cloned()?;
                actual(&text).map(str::to_owned)
            });
            let actual: Vec<_> = actual.collect();
            if !actual.is_empty() {
                ports.insert(address.clone(), actual);
            }
        }
        if ports.is_empty() {
            return Self::default();
        }
        let prefix = if scope.root().is_of_container() {
            MOUNTED
        } else {
            ""
        };
        let mut wanted = Vec::new();
        for file in FILES {
            if let Some(text) = scope.collected_up_to(&format!("{prefix}{file}"), MAX_BYTES) {
                wanted.push((file, configured(&text)));
            }
        }
        let port = |address: &str, at: usize, actual: String| {
            let mut all = wanted.iter();
            let configured = all.find_map(|(file, types)| {
                let kind = types.get(address)?.get(at)?;
                Some((kind.clone(), (*file).to_owned()))
            });
            PortType { actual, configured }
        };
        let of_function = |(address, types): (String, Vec<String>)| {
            let types = types.into_iter().enumerate();
            let types = types.map(|(at, actual)| port(&address, at, actual)).collect();
            (address, types)
        };
        Self {
            ports: Fact::Known(ports.into_iter().map(of_function).collect()),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            ports: why.clone().into(),
        }
    }
}

/// The actual type: `auto (ib)` is a port that senses its type, and is InfiniBand now.
fn actual(text: &str) -> Option<&str> {
    let text = text.trim();
    let sensed = text
        .strip_prefix("auto (")
        .and_then(|rest| rest.strip_suffix(')'));
    Some(sensed.unwrap_or(text)).filter(|kind| is_type(kind))
}

fn is_type(kind: &str) -> bool {
    matches!(kind, "ib" | "eth" | "auto")
}

/// The types in a configuration, by the address of the function.
fn configured(text: &str) -> BTreeMap<String, Vec<String>> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|address| is_address(address))?;
        let types: Vec<_> = words
            .take_while(|word| is_type(word))
            .map(str::to_owned)
            .collect();
        Some((address.to_owned(), types))
    });
    lines.take(MAX_FUNCTIONS).collect()
}

/// What is used of a file of this configuration.
pub fn used(path: &str, text: &str) -> Option<String> {
    let path = path.strip_prefix(MOUNTED).unwrap_or(path);
    FILES.contains(&path).then(|| {
        let lines = configured(text).into_iter();
        let lines = lines.map(|(address, types)| format!("{address} {}\n", types.join(" ")));
        lines.collect::<Vec<_>>().concat()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_the_driver() {
        assert_eq!(actual("ib\n"), Some("ib"));
        assert_eq!(actual("auto (eth)\n"), Some("eth"));
        assert_eq!(actual("<html>"), None);
        let text = "# Format:\n# <pci_device_of_card> <port1_type> [port2_type]\n0000:41:00.0 ib eth # a\nnode7 ib\n";
        let found = configured(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found["0000:41:00.0"], ["ib", "eth"]);
        let kept = used("/etc/rdma/mlx4.conf", text).unwrap();
        assert_eq!(kept, "0000:41:00.0 ib eth\n");
        assert_eq!(configured(&kept), found);
    }
}
