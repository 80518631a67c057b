//! The NVIDIA driver and the path between GPU memory and NICs.
//!
//! Source: `/proc/driver/nvidia/version`, whose first line names the flavour: `NVIDIA UNIX Open Kernel Module for …`
//! for the open kernel module, `NVIDIA UNIX x86_64 Kernel Module …` for the proprietary one.

use serde::{Deserialize, Serialize};

use crate::{fact::Fact, modules::Modules, root::Scope};

/// The NVIDIA driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvidiaDriver {
    /// Its version (`570.124.06`).
    pub version: String,
    /// Whether it is the open kernel module, which exports GPU memory as DMA-BUF.
    pub open: bool,
}

/// How a NIC can access GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerMemory {
    /// Module `nvidia_peermem`.
    NvidiaPeermem,
    /// Module `nv_peer_mem`, its predecessor.
    NvPeerMem,
    /// Module `efa_nv_peermem`, with which Elastic Fabric Adapters access GPU memory.
    EfaNvPeermem,
    /// DMA-BUF: the open GPU kernel module on Linux 5.12 or later.
    DmaBuf,
    /// None of them.
    None,
}

impl NvidiaDriver {
    /// Reads the driver's version file; absent if no NVIDIA driver is loaded.
    pub(crate) fn read(scope: &Scope<'_>) -> Fact<Self> {
        scope.parsed(
            "/proc/driver/nvidia/version",
            "the NVIDIA driver's version",
            Self::parse,
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.contains("Kernel Module"))?;
        let dotted = |word: &&str| {
            word.contains('.')
                && word
                    .split('.')
                    .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        };
        let version = line.split_whitespace().find(dotted)?;
        Some(Self {
            version: version.to_owned(),
            open: line.contains("Open Kernel Module"),
        })
    }
}

/// The path between GPU memory and NICs. The modules are checked first, because every NCCL supports them and DMA-BUF needs a
/// recent version. A `nvidia_peermem` that did not register with `ib_core` does not count. Unread only if neither check has a result.
pub fn peer_memory(
    modules: &Modules,
    driver: &Fact<NvidiaDriver>,
    release: &Fact<String>,
) -> Fact<PeerMemory> {
    for (module, path) in [
        ("nvidia_peermem", PeerMemory::NvidiaPeermem),
        ("nv_peer_mem", PeerMemory::NvPeerMem),
        ("efa_nv_peermem", PeerMemory::EfaNvPeermem),
    ] {
        let refused = module == "nvidia_peermem" && modules.peermem_registered() == Some(false);
        if modules.has(module) == Some(true) && !refused {
            return Fact::Known(path);
        }
    }
    if driver.known().is_some_and(|driver| driver.open)
        && release
            .known()
            .and_then(|release| version(release))
            .is_some_and(|version| version >= (5, 12))
    {
        return Fact::Known(PeerMemory::DmaBuf);
    }
    let unread = [modules.loaded.unread(), driver.unread(), release.unread()];
    match unread.into_iter().flatten().next() {
        Some(unread) => unread.clone().into(),
        None => Fact::Known(PeerMemory::None),
    }
}

/// Major and minor number of a kernel release (`6.1.0-37-amd64`).
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_and_the_proprietary_module_are_distinguished() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder@U22)\nGCC version:  gcc version 12.3.0\n";
        assert_eq!(
            NvidiaDriver::parse(open),
            Some(NvidiaDriver {
                version: "570.124.06".into(),
                open: true
            })
        );
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n";
        assert_eq!(
            NvidiaDriver::parse(closed),
            Some(NvidiaDriver {
                version: "535.183.01".into(),
                open: false
            })
        );
        assert_eq!(NvidiaDriver::parse("garbage"), None);
    }

    #[test]
    fn each_module_is_a_separate_path() {
        let path = |module: Option<&str>| {
            let one = module.map(|name| {
                let module = crate::modules::Module {
                    version: Fact::Absent,
                    users: Vec::new(),
                };
                (name.to_owned(), module)
            });
            let modules = Modules {
                loaded: Fact::Known(one.into_iter().collect()),
                ..Modules::default()
            };
            peer_memory(&modules, &Fact::Absent, &Fact::Absent)
        };
        for (module, expected) in [
            (Some("nvidia_peermem"), PeerMemory::NvidiaPeermem),
            (Some("nv_peer_mem"), PeerMemory::NvPeerMem),
            (Some("efa_nv_peermem"), PeerMemory::EfaNvPeermem),
            (Some("nvidia"), PeerMemory::None),
            (None, PeerMemory::None),
        ] {
            assert_eq!(path(module), Fact::Known(expected), "{module:?}");
        }
    }

    #[test]
    fn releases_compare_by_number() {
        assert_eq!(version("6.1.0-37-amd64"), Some((6, 1)));
        assert_eq!(version("5.14.0-427.13.1.el9_4.x86_64"), Some((5, 14)));
        assert_eq!(version(""), None);
        assert_eq!(version("99999999999.1"), None);
    }
}
