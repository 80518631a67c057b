//! What is changed in the healthy node of [`super::field`]: one file for each subject, and which changes are also made together or
//! with a profile.

use super::{Change, symmetry};
use crate::fault_bench::{Fault, How};

mod iommu;
mod logged;
mod network;
mod pci;
mod ports;
mod software;
mod virtual_functions;

pub(super) use self::ports::{infiniband, lose_adapter, port_down};

/// Every change of the healthy node.
pub(super) fn changes() -> impl Iterator<Item = &'static Change> {
    let subjects = [
        iommu::CHANGES,
        logged::CHANGES,
        pci::CHANGES,
        software::CHANGES,
        ports::CHANGES,
        network::CHANGES,
        virtual_functions::CHANGES,
        symmetry::CHANGES,
    ];
    subjects.into_iter().flatten()
}

/// A fault in a tree.
pub(super) const fn tree(
    id: &'static str,
    what: &'static str,
    expected: &'static str,
    explains: &'static [&'static str],
) -> Fault {
    Fault::new(How::Tree, id, what, expected, explains)
}

/// A state of a tree that is not a fault.
pub(super) const fn harmless(id: &'static str, what: &'static str) -> Fault {
    Fault::harmless(How::Tree, id, what)
}

/// Faults that are reported as information by default, and the `expect.profile` with which they must be named.
pub(super) const WITH_PROFILE: &[(&str, &str)] = &[
    ("t-far-gpu", "gpudirect"),
    ("t-no-mlx5-ib", "rdma"),
    ("t-firmware", "rdma"),
];

/// Which changes are made together.
pub(super) const PAIRS: &[(&str, &str)] = &[
    ("t-translated", "t-no-peermem"),
    ("t-translated", "t-memlock"),
    ("t-acs", "t-port-down"),
    ("t-peermem-order", "t-acs"),
    ("t-link-degraded", "t-firmware"),
    ("t-no-gid", "t-vf-guid"),
    ("t-memlock", "t-mtu"),
    ("t-no-sm", "t-memlock"),
];
