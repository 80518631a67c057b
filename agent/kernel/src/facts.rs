//! All facts from the kernel of one machine as one value, and the list of their sources.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    infiniband::Hca,
    source::{Row, Source, not_read_yet},
};

/// Generates from the list of sources: [`Facts`], the last facts, and the rows for the collector.
macro_rules! sources {
    ($($(#[$attribute:meta])* $name:ident: $source:ty;)*) => {
        /// All facts from the kernel of one machine.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct Facts {
            /// When they were put together, in seconds since 1970.
            pub time: u64,
            /// Whether they are from the running machine, not from a tree.
            pub live: bool,
            $($(#[$attribute])* pub $name: Arc<$source>,)*
            /// RDMA devices by name; absent if the kernel has no RDMA support loaded.
            pub hcas: Fact<BTreeMap<Arc<str>, Arc<Hca>>>,
            /// Each part of the reading: when, how long, and what failed.
            pub sources: BTreeMap<Arc<str>, Arc<SourceStatus>>,
        }

        /// The last facts of each source; `None` before it was read.
        #[derive(Debug, Default)]
        pub(crate) struct LastRead {
            $($name: Option<Arc<$source>>,)*
        }

        impl LastRead {
            /// Every source.
            pub(crate) const SOURCES: &[Row] = &[$(Row {
                name: stringify!($name),
                after: <$source as Source>::AFTER,
                read: |scope, known| {
                    let facts = <$source as Source>::read(scope, known);
                    Box::new(move |last| {
                        let facts = match &last.$name {
                            Some(earlier) => facts.completed(earlier),
                            None => facts,
                        };
                        last.$name = Some(Arc::new(facts));
                    })
                },
            }),*];

            /// The last facts, without RDMA devices, which are not read yet.
            pub(crate) fn facts(&self, time: u64, live: bool) -> Facts {
                Facts {
                    time,
                    live,
                    $($name: self.$name.clone().unwrap_or_else(|| {
                        Arc::new(Source::not_read_yet(stringify!($name)))
                    }),)*
                    hcas: not_read_yet(DEVICES).into(),
                    sources: BTreeMap::new(),
                }
            }
        }
    };
}

sources! {
    /// The machine and its kernel.
    host: crate::host::Host;
    /// The distribution of the host.
    #[serde(default)]
    os_release: crate::os_release::OsRelease;
    /// IOMMU groups.
    iommu: crate::iommu::Iommu;
    /// Kernel modules.
    modules: crate::modules::Modules;
    /// Modules that the configuration of modprobe keeps from being loaded.
    #[serde(default)]
    modprobe: crate::modprobe::Modprobe;
    /// What is configured for the boot: IOMMU arguments, modules for RDMA.
    #[serde(default)]
    boot: crate::boot::Boot;
    /// PCI functions that are relevant to RDMA.
    pci: crate::pci::Pci;
    /// Subnets, ARP settings and flow control of the network devices of RDMA ports.
    #[serde(default)]
    network: crate::network::Network;
    /// The links of network devices of RDMA ports.
    #[serde(default)]
    links: crate::netlink::ethtool::Links;
    /// What drivers report of the health and firmware of RDMA devices.
    #[serde(default)]
    devlink: crate::netlink::devlink::Devlink;
    /// Settings of virtual functions, and bonds.
    #[serde(default)]
    interfaces: crate::netlink::interfaces::Interfaces;
    /// Priority flow control and priorities of the network devices of RDMA ports.
    #[serde(default)]
    dcb: crate::netlink::dcb::Dcb;
    /// What network drivers count by names of their own.
    #[serde(default)]
    drivers: crate::drivers::Drivers;
    /// The switches that links are connected to.
    #[serde(default)]
    lldp: crate::lldp::Lldp;
    /// Transceivers.
    #[serde(default)]
    transceivers: crate::netlink::transceiver::Transceivers;
    /// Neighbour tables.
    #[serde(default)]
    neighbours: crate::netlink::neighbours::Neighbours;
    /// The RDMA subsystem: network namespaces, numbers of objects.
    #[serde(default)]
    rdma: crate::netlink::rdma::Subsystem;
    /// Which pods were given which devices.
    #[serde(default)]
    kubelet: crate::kubelet::Kubelet;
    /// Network devices of IP over InfiniBand for partitions.
    #[serde(default)]
    ipoib: crate::ipoib::Ipoib;
    /// The link types of the ports of ConnectX-3.
    #[serde(default)]
    mlx4: crate::mlx4::Mlx4;
    /// What limits the memory and the objects of RDMA programs.
    #[serde(default)]
    objects: crate::objects::Objects;
    /// Memlock limits.
    limits: crate::limits::Limits;
    /// What the kernel logged about IOMMU, RDMA and GPU driver.
    kernel_log: crate::kmsg::KernelLog;
}

/// The source of the list of RDMA devices. Each device is a separate source below this name.
pub(crate) const DEVICES: &str = "infiniband";

/// The state of one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// When it was last read, in seconds since 1970; `None` if it never was.
    pub time: Option<u64>,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// Whether a newer reading did not finish in time, so that the facts are older than they should be.
    pub stale: bool,
    /// What could not be read.
    pub unread: Vec<Unread>,
}

impl Facts {
    /// The facts of a machine before the first reading.
    pub fn not_read_yet() -> Self {
        LastRead::default().facts(0, false)
    }

    /// RDMA devices in order of name; empty if they could not be read.
    pub fn hcas(&self) -> impl Iterator<Item = &Arc<Hca>> {
        self.hcas.known().into_iter().flat_map(BTreeMap::values)
    }

    /// Everything that could not be read, source by source.
    pub fn unread(&self) -> impl Iterator<Item = (&str, &Unread)> {
        self.sources
            .iter()
            .flat_map(|(name, status)| status.unread.iter().map(move |unread| (&**name, unread)))
    }
}
