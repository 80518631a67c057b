//! Families of adapters: each has tools, settings and faults that the others do not have.

use serde::Serialize;

/// A family of adapters other than NVIDIA's, which most texts are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// The network ports of Intel's Gaudi, which HCL uses through `hbl` (libibverbs provider `hbldv`).
    Gaudi,
    /// The network ports of Huawei's Ascend, which HCCL uses.
    Ascend,
    /// Amazon's Elastic Fabric Adapter.
    Efa,
    /// AMD's Pensando (`ionic`).
    Ionic,
    /// Broadcom's `NetXtreme` (`bnxt_re`).
    Broadcom,
}

/// The beginnings of the names of a family's devices and drivers.
const NAMES: &[(&str, Family)] = &[
    ("hbl", Family::Gaudi),
    ("habanalabs", Family::Gaudi),
    ("efa", Family::Efa),
    ("rdmap", Family::Efa),
    ("ionic", Family::Ionic),
    ("bnxt", Family::Broadcom),
];

impl Family {
    /// The family of a device or of a driver by its name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let row = NAMES.iter().find(|(beginning, _)| name.starts_with(beginning));
        row.map(|(_, family)| *family)
    }
}
