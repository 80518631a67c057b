//! The role of a PCI function for RDMA.

use serde::{Deserialize, Serialize};

use super::{DEVICES, hexadecimal};
use crate::root::Scope;

/// The role of a PCI function for RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An RDMA device, or the network device of a software RDMA device.
    Rdma,
    /// A GPU or another accelerator.
    Gpu,
    /// A bridge above one of them.
    Bridge,
    /// A network function whose hardware supports RDMA, but without an RDMA device.
    Capable,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Rdma, Self::Gpu, Self::Bridge, Self::Capable];

    /// The names of [`Role::ALL`].
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Its name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::Gpu => "gpu",
            Self::Bridge => "bridge",
            Self::Capable => "capable",
        }
    }
}

/// GPUs and accelerators: NVIDIA display and 3D controllers, AMD Instinct, and the processing-accelerator class, but not
/// the display adapter of a server's management controller.
pub(super) fn is_gpu(scope: &Scope<'_>, address: &str) -> bool {
    const NVIDIA: u32 = 0x10de;
    const AMD: u32 = 0x1002;
    let read = |name: &str| {
        let path = format!("{DEVICES}/{address}/{name}");
        scope
            .parsed(&path, "a hexadecimal id", hexadecimal::<u32>)
            .known()
            .copied()
    };
    let (Some(class), Some(vendor)) = (read("class"), read("vendor")) else {
        return false;
    };
    match (class >> 16, (class >> 8) & 0xff) {
        (0x03, _) => vendor == NVIDIA || (vendor == AMD && matches!(class >> 8, 0x0302 | 0x0380)),
        (0x12, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_one_name_in_json_and_metrics() {
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
    }
}
