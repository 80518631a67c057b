//! Which RDMA device belongs to a device that the pod was given, and which of these are not for RDMA at all.

use rdma_health_node::{
    Fact, Node, Port,
    access::{Access, GivenFunction},
    infiniband::Hca,
    pci::Role,
};
use rdma_health_protocol::text::excerpt;

use crate::given::{Grant, Prospect, QUOTED, sriov_driver};

/// Base class of network controllers, and the class of InfiniBand controllers on a serial bus.
const NETWORK: u32 = 0x02;
const INFINIBAND: u32 = 0x0c06;
/// Drivers that give a function to user space or to a virtual machine.
const USER_SPACE: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// What a device that the pod was given is on this node.
pub(super) enum Named<'a> {
    /// RDMA devices, and what is odd about the way they are named.
    Devices(Vec<&'a Hca>, Option<String>),
    /// Not found, or not for RDMA: the reason, and whether this can change.
    Nothing(String, Prospect),
    /// A GPU, a crypto or other accelerator, a disk: not a network device.
    OtherKind,
}

/// Finds it. The PCI address decides: a name can be that of an older moment.
pub(super) fn find<'a>(node: &'a Node, access: &Access, grant: &Grant) -> Named<'a> {
    let hcas = || node.hcas().map(|hca| &**hca);
    let by_name = hcas().find(|hca| {
        let node = access.uverbs.known().and_then(|nodes| nodes.get(&hca.name));
        grant.device.as_ref() == Some(&hca.name)
            || grant.device.is_none() && node.is_some() && node == grant.uverbs.as_ref()
    });
    let at =
        |hca: &&Hca| grant.pci_address.is_some() && hca.pci_address.known() == grant.pci_address.as_ref();
    let there: Vec<&Hca> = hcas().filter(at).collect();
    match (by_name, &grant.pci_address) {
        (Some(hca), Some(address)) if hca.pci_address.known().is_some_and(|own| own != address) => {
            elsewhere(hca, address, there, grant)
        }
        (Some(hca), _) => Named::Devices(vec![hca], None),
        (None, Some(address)) if !there.is_empty() => {
            let odd = grant.device.as_ref().zip(there.first()).map(|(named, right)| {
                format!(
                    "{} names {} for {address}, which does not exist here; {} is the RDMA device of that function and is used",
                    grant.source,
                    excerpt(named, QUOTED),
                    right.name
                )
            });
            Named::Devices(there, odd)
        }
        (None, None) if grant.device.is_none() && grant.netdev.is_some() => {
            let netdev = |port: &Port<'_>| port.netdev.known().map(|netdev| netdev.name.clone());
            let with_it = |hca: &&Hca| node.ports_of(hca).any(|port| netdev(&port) == grant.netdev);
            let found: Vec<_> = hcas().filter(with_it).collect();
            if found.is_empty() {
                nothing(node, access, grant)
            } else {
                Named::Devices(found, None)
            }
        }
        _ => nothing(node, access, grant),
    }
}

/// The name and the PCI address lead to different devices.
fn elsewhere<'a>(hca: &'a Hca, address: &str, there: Vec<&'a Hca>, grant: &Grant) -> Named<'a> {
    let name = &hca.name;
    let own = hca.pci_address.known().map_or("", String::as_str);
    if let Some(right) = there.first() {
        let right = &right.name;
        let odd = format!(
            "{} names {name} for {address}, but {right} is the RDMA device of that function and is used; {name} belongs to {own}",
            grant.source
        );
        return Named::Devices(there, Some(odd));
    }
    // The device of a bond belongs to one of the functions of the adapter and stands for all.
    let slot = |address: &str| address.rsplit_once('.').map(|(slot, _)| slot.to_owned());
    if slot(own) == slot(address) {
        return Named::Devices(vec![hca], None);
    }
    let why = format!(
        "no RDMA device belongs to it; {name}, which {} names for it, belongs to {own}",
        grant.source
    );
    Named::Nothing(why, Prospect::Later)
}

/// Why no RDMA device belongs to it.
fn nothing<'a>(node: &'a Node, access: &Access, grant: &Grant) -> Named<'a> {
    if let Some(unread) = node.hcas.unread() {
        return Named::Nothing(
            format!("RDMA devices could not be read: {unread}"),
            Prospect::Later,
        );
    }
    let function = grant
        .pci_address
        .as_ref()
        .and_then(|address| access.functions.get(address));
    let driver = function.and_then(|function| function.known()?.driver.known());
    let of_user_space = driver.filter(|driver| USER_SPACE.contains(&driver.as_str()));
    if grant.for_rdma == Some(false) {
        let why = if let Some(driver) = of_user_space {
            format!("it is bound to {driver}, for DPDK or a virtual machine, and not for RDMA")
        } else if grant.source.starts_with('/') || grant.source.starts_with(sriov_driver::PREFIX) {
            "it has no RDMA device, and its driver says that it is not for RDMA".into()
        } else {
            "it has no RDMA device, and its resource has no isRdma in the device plugin's configuration"
                .into()
        };
        return Named::Nothing(why, Prospect::NotNeeded);
    }
    if is_other_kind(node, access, grant) {
        return Named::OtherKind;
    }
    if let Some(driver) = of_user_space {
        // Given on purpose, for DPDK next to RDMA, unless its allocator says that it is for RDMA.
        let prospect = if grant.for_rdma == Some(true) {
            Prospect::Later
        } else {
            Prospect::NotNeeded
        };
        return Named::Nothing(
            format!(
                "it has no RDMA device, because it is bound to {driver}, for virtual machines and DPDK: for RDMA, offer it with its network \
                 driver (SriovNetworkNodePolicy: deviceType: netdevice, isRdma: true)"
            ),
            prospect,
        );
    }
    Named::Nothing(why_nothing(function), Prospect::Later)
}

/// Why a device that is for RDMA, as far as is known, has no RDMA device.
fn why_nothing(function: Option<&Fact<GivenFunction>>) -> String {
    let Some(function) = function else {
        return "no RDMA device on this node belongs to it: it does not exist, or is in another network namespace".into();
    };
    let driver = match function {
        Fact::Absent => {
            return "this node has no PCI function at this address: it was removed, or the address is that of another node"
                .into();
        }
        Fact::Unread { unread } => {
            return format!(
                "no RDMA device on this node belongs to it, and the PCI function could not be read: {unread}"
            );
        }
        Fact::Known(function) => &function.driver,
    };
    match driver {
        Fact::Absent => "it has no RDMA device, because no driver is bound to it".into(),
        Fact::Known(driver) => format!(
            "its driver {driver} has no RDMA device for it here: the RDMA module of the driver is not loaded, RDMA is off for this \
             function, or its RDMA device is in another network namespace"
        ),
        Fact::Unread { unread } => {
            format!("no RDMA device on this node belongs to it, and its driver could not be read: {unread}")
        }
    }
}

/// Whether a function without an RDMA device is something other than a network controller. Allocators of other devices use the same variables and files.
fn is_other_kind(node: &Node, access: &Access, grant: &Grant) -> bool {
    let Some(address) = &grant.pci_address else {
        return false;
    };
    let functions = node.pci.functions.known();
    let function = functions.and_then(|functions| functions.get(address));
    let class = access
        .functions
        .get(address)
        .and_then(|function| function.known()?.class.known());
    function.is_some_and(|function| function.role == Role::Gpu)
        || class.is_some_and(|class| class >> 16 != NETWORK && class >> 8 != INFINIBAND)
}

/// The name of a given device. The address comes first: it decides which device this is.
pub(super) fn name(grant: &Grant) -> &str {
    let names = [&grant.pci_address, &grant.device, &grant.uverbs, &grant.netdev];
    names.into_iter().flatten().next().map_or("", String::as_str)
}
