//! What lines show besides a failure: GUIDs of zeros that the tools of RDMA print (a virtual function without an own GUID cannot be used),
//! link-local GIDs, and GPUs.

use std::sync::LazyLock;

use super::{
    entity::device,
    gid,
    line::{after, excerpt},
    phrases::Phrases,
};
use crate::symptom::Family;

/// A GUID of zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZeroGuid {
    /// The number of its line.
    pub line: u64,
    /// The device, if this or an earlier line names it.
    pub device: Option<String>,
    /// The line.
    pub text: String,
}

/// What lines so far show.
#[derive(Debug, Default)]
pub(super) struct Shown {
    device: Option<String>,
    /// The first GUID of zeros.
    pub(super) zero: Option<ZeroGuid>,
    /// The first link-local GID of an Ethernet port, and the number of its line.
    pub(super) link_local: Option<(u64, String)>,
    /// Whether a line names a GPU, or a library for GPUs.
    pub(super) gpu: bool,
}

static GPU: LazyLock<Phrases> = LazyLock::new(|| {
    Phrases::new([
        "gpu", "cuda", "nccl", "nvidia", "nvshmem", "rocm", "hip", "xpu", "hbm", "hmem", "peermem", "torch",
        "dmabuf", "dma-buf", "nixl", "mooncake", "deepep",
    ])
});

/// What a line has that names a device or shows a GUID, or a link-local GID.
static WORTH: LazyLock<Phrases> = LazyLock::new(|| {
    let of_devices = ["ca '", "hca_id:", "ibstat", "ibv_devinfo", "guid:"];
    Phrases::new(of_devices.into_iter().chain(gid::LINK_LOCAL))
});

impl Shown {
    /// Adds a line. Most lines of a log show none of this, so each is searched before it is read.
    pub(super) fn add(&mut self, text: &str, number: u64) {
        self.gpu = self.gpu || GPU.occur(text);
        if !WORTH.occur(text) {
            return;
        }
        let lower = text.to_ascii_lowercase();
        if self.link_local.is_none() {
            self.link_local = gid::link_local(&lower).map(|gid| (number, gid.to_string()));
        }
        if self.zero.is_some() {
            return;
        }
        if names_device(&lower)
            && let Some((name, _)) = device(text)
        {
            self.device = Some(name);
        }
        let of_efa = || self.device.as_deref().and_then(Family::of) == Some(Family::Efa);
        // An EFA has no GUID.
        if is_zero(&lower) && !of_efa() {
            self.zero = Some(ZeroGuid {
                line: number,
                device: self.device.clone(),
                text: excerpt(text.trim(), 0),
            });
        }
    }
}

/// Whether the tools print GUIDs of the device in this line: `CA 'mlx5_7'`, `hca_id: mlx5_7`, `$ ibstat mlx5_7`.
fn names_device(lower: &str) -> bool {
    let trimmed = lower.trim_start();
    trimmed.starts_with("ca '")
        || trimmed.starts_with("hca_id:")
        || lower.contains("ibstat")
        || lower.contains("ibv_devinfo")
}

/// Whether a line in lower case shows a GUID of zeros: `Node GUID: 0x0000000000000000`, `node_guid:  0000:0000:0000:0000`.
fn is_zero(lower: &str) -> bool {
    const LABELS: [&str; 4] = ["node guid:", "node_guid:", "port guid:", "port_guid:"];
    const DIGITS: usize = 16;
    LABELS.iter().any(|label| {
        after(lower, label).is_some_and(|value| {
            let value = value.trim();
            let value = value.strip_prefix("0x").unwrap_or(value);
            let zeros = value.bytes().filter(|byte| *byte == b'0').count();
            zeros == DIGITS && value.bytes().all(|byte| matches!(byte, b'0' | b':'))
        })
    })
}
