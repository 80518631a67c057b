//! PCI functions that are relevant to RDMA, with their users and their IOMMU mode.

use std::collections::BTreeMap;

use rdma_health_kernel::{
    cmdline,
    infiniband::Hca,
    iommu::{DomainType, Group},
    netlink::{devlink::Device, rdma::Namespaces},
    pci::{self, Role},
};
use serde::Serialize;

use crate::{Node, history::Boot, model};

/// One PCI function: of an RDMA device, of a GPU, or one that affects them.
#[derive(Debug, Clone, Serialize)]
pub struct Function<'a> {
    /// PCI address (`0000:41:00.0`).
    pub address: &'a str,
    /// What it is to RDMA.
    pub role: Role,
    /// Its RDMA devices, in order of name; empty unless the role is [`Role::Rdma`].
    pub names: Vec<&'a str>,
    /// The RDMA device that it had earlier in this boot and no longer has.
    #[serde(skip)]
    pub before: Option<&'a str>,
    /// Whether only software devices (`rdma_rxe`) use it, so that it is not RDMA hardware.
    pub is_software: bool,
    /// The bound kernel driver.
    pub driver: Option<&'a str>,
    /// Who uses it instead of the host.
    pub lent_to: Option<Borrower>,
    /// The number of its IOMMU group; `None` without an IOMMU.
    pub group: Option<u32>,
    /// Its IOMMU mode; `None` without an IOMMU, or if the kernel does not report it.
    pub dma: Option<&'a DomainType>,
    /// Its PCI facts; `None` if PCI functions could not be read.
    #[serde(skip)]
    pub pci: Option<&'a pci::Function>,
}

/// Who uses a function instead of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Borrower {
    /// A virtual machine or a user-space driver, through `vfio-pci`. Its DMA addresses must be translated.
    Vfio,
}

/// The IOMMU mode of all RDMA functions and GPUs that the host uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DmaMode {
    /// No IOMMU is active.
    NoIommu,
    /// All of them are in passthrough mode.
    Passthrough,
    /// At least one is translated.
    Translated,
    /// None is translated, but at least one is in another mode, for example blocked.
    Other,
}

impl DmaMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::NoIommu, Self::Passthrough, Self::Translated, Self::Other];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoIommu => "no_iommu",
            Self::Passthrough => "passthrough",
            Self::Translated => "translated",
            Self::Other => "other",
        }
    }

    /// The mode of functions with these types of IOMMU groups; `None` of none.
    fn of<'a>(domains: impl IntoIterator<Item = &'a DomainType>) -> Option<Self> {
        let mut modes = domains.into_iter().map(|domain| match domain {
            domain if domain.is_translated() => Self::Translated,
            DomainType::Identity => Self::Passthrough,
            _ => Self::Other,
        });
        let first = modes.next()?;
        Some(modes.fold(first, |all, mode| match (all, mode) {
            (Self::Translated, _) | (_, Self::Translated) => Self::Translated,
            (Self::Passthrough, Self::Passthrough) => Self::Passthrough,
            _ => Self::Other,
        }))
    }
}

impl Boot {
    /// The IOMMU mode of the RDMA functions and GPUs in that boot; `None` if it was not known, or if no IOMMU was active.
    pub fn dma_mode(&self) -> Option<DmaMode> {
        DmaMode::of(self.domains.values())
    }
}

impl<'a> Function<'a> {
    /// Whether its DMA addresses are translated.
    pub fn is_translated(&self) -> bool {
        self.dma.is_some_and(DomainType::is_translated)
    }

    /// Its name in messages: its RDMA devices and address, `GPU` and address, or only the address.
    pub fn title(&self) -> String {
        let address = self.address;
        match (self.names.as_slice(), self.role) {
            ([_, ..], _) => format!("{} ({address})", self.names.join(", ")),
            ([], Role::Gpu) => format!("GPU {address}"),
            ([], Role::Bridge) => format!("PCIe port {address}"),
            ([], Role::Rdma | Role::Capable) => match self.before {
                Some(name) => format!("{address} (was {name})"),
                None => address.to_owned(),
            },
        }
    }

    /// Its name in findings and metrics: its first RDMA device, also one that is gone since this boot, otherwise its address.
    pub fn subject(&self) -> &'a str {
        let name = self.names.first().copied().or(self.before);
        name.unwrap_or(self.address)
    }

    /// The bridges above it, from the root port down; empty if they are not known.
    pub fn bridges(&self) -> &'a [String] {
        self.pci.map_or(&[], |pci| &pci.bridges)
    }

    /// Whether it is an NVIDIA GPU that offers no GPUDirect RDMA: a `GeForce`, or the GPU of a GB10, whose memory is that of the processor. NVIDIA
    /// numbers the chips of graphics cards in blocks of 128, with `GeForce` before 0x30 and professional cards after it (PCI ID Repository).
    pub fn is_without_gpudirect(&self) -> bool {
        const VGA: u32 = 0x0300;
        let Some(pci) = self.pci.filter(|_| self.role == Role::Gpu) else {
            return false;
        };
        let is_graphics_card = pci.class.known().is_some_and(|class| class >> 8 == VGA);
        let is_geforce = pci
            .device
            .known()
            .is_some_and(|device| *device >= 0x1b00 && device & 0x7f < 0x30);
        pci.vendor.known() == Some(&model::NVIDIA) && is_graphics_card && is_geforce
    }

    /// Vendor and device number, which equal cards share.
    pub fn ids(&self) -> Option<(u16, u16)> {
        let pci = self.pci?;
        Some((*pci.vendor.known()?, *pci.device.known()?))
    }

    /// Its NUMA node, if the firmware reports one.
    pub fn numa_node(&self) -> Option<u32> {
        self.pci?.numa_node.known().copied()
    }

    /// Whether it is an RDMA function or a GPU whose DMA the host itself relies on: what is lent to a virtual machine needs
    /// translation and is not.
    pub fn is_dma_of_host(&self) -> bool {
        let is_used = matches!(self.role, Role::Rdma | Role::Gpu) || self.is_gaudi();
        is_used && self.lent_to.is_none()
    }

    /// Whether it is a Gaudi, an accelerator whose own ports are an RDMA device.
    pub fn is_gaudi(&self) -> bool {
        self.pci.is_some_and(is_of_habana)
    }

    /// Whether it is an SR-IOV virtual function.
    pub fn is_virtual(&self) -> bool {
        self.pci
            .is_some_and(|pci| pci.physical_function.known().is_some())
    }

    /// For a virtual function, the address of its physical function.
    pub fn physical_function(&self) -> Option<&'a str> {
        self.pci?.physical_function.known().map(String::as_str)
    }

    /// Whether it is a virtual function of an adapter that the host uses.
    pub fn is_virtual_nic(&self) -> bool {
        self.role == Role::Rdma && !self.is_software && self.is_virtual()
    }

    /// Whether it is a port of an adapter, and not a GPU, a bridge, a virtual function or the card of a software device.
    pub fn is_nic(&self) -> bool {
        self.role == Role::Rdma && !self.is_software && !self.is_virtual()
    }
}

fn is_of_habana(pci: &pci::Function) -> bool {
    pci.vendor.known() == Some(&model::HABANA)
}

/// Whether a kernel driver hands its function to a virtual machine or to user space: `vfio-pci`, its variants for one vendor
/// (`mlx5_vfio_pci`, `nvgrace-gpu-vfio-pci`), and those that hold a function for a hypervisor.
fn lends(driver: &str) -> bool {
    driver.contains("vfio") || matches!(driver, "pci-stub" | "pciback" | "xen-pciback")
}

impl Node {
    /// What devlink reports of functions, in order of address.
    pub fn devlink_devices(&self) -> impl Iterator<Item = (&str, &Device)> {
        let devices = self.devlink.devices.known().into_iter().flatten();
        devices.map(|(address, device)| (address.as_str(), device))
    }

    /// What devlink reports of the functions that are not virtual, in order of address.
    pub fn physical_devlink_devices(&self) -> impl Iterator<Item = (&str, &Device)> {
        let is_virtual = |address: &str| {
            let functions = self.pci.functions.known();
            let function = functions.and_then(|functions| functions.get(address));
            function.is_some_and(|function| function.physical_function.known().is_some())
        };
        self.devlink_devices()
            .filter(move |(address, _)| !is_virtual(address))
    }

    /// The name of a function in findings: its first RDMA device, that of the bond of which its network device is a member, the one that
    /// it had earlier in this boot, otherwise its address.
    pub fn name_of_function<'a>(&'a self, address: &'a str) -> &'a str {
        let mut hcas = self.hcas();
        let hca = hcas.find(|hca| hca.pci_address.known().is_some_and(|own| own == address));
        let of_bond = || {
            let function = self.pci.functions.known()?.get(address)?;
            let netdevs = function.netdevs.known().filter(|netdevs| !netdevs.is_empty())?;
            let is_ours = |port: &rdma_health_kernel::infiniband::Port| {
                let members = self.members(port);
                netdevs.iter().any(|netdev| members.contains(&netdev.as_str()))
            };
            self.hcas()
                .find(|hca| hca.ports.values().any(|port| is_ours(port)))
        };
        let now = hca.or_else(of_bond).map(|hca| &*hca.name);
        now.or_else(|| self.name_before(address)).unwrap_or(address)
    }

    /// The RDMA device that a function had earlier in this boot, if it has gone. Messages about a device go on under its name, until another
    /// device has it.
    pub fn name_before(&self, address: &str) -> Option<&str> {
        let seen = self.this_boot()?.hcas.get(address)?;
        let is_taken = self.hcas().any(|hca| *hca.name == seen.name);
        (!is_taken).then_some(&*seen.name)
    }

    /// Every relevant PCI function: those with RDMA devices, then GPUs, bridges and network functions that support RDMA,
    /// each in order of address.
    ///
    /// RDMA functions are known from their devices even if PCI could not be read.
    pub fn functions(&self) -> Vec<Function<'_>> {
        let groups = self.groups_by_address();
        let mut names: BTreeMap<&str, (Vec<&str>, bool)> = BTreeMap::new();
        for hca in self.hcas() {
            if let Some(address) = hca.pci_address.known() {
                let (names, is_software) = names.entry(address).or_insert((Vec::new(), true));
                names.push(&hca.name);
                *is_software &= hca.is_software();
            }
        }
        let known = self.pci.functions.known();
        let others = known.into_iter().flatten().filter_map(|(address, pci)| {
            let new = !names.contains_key(address.as_str());
            new.then_some((address.as_str(), pci.role))
        });
        let mut all: Vec<_> = others
            .chain(names.keys().map(|address| (*address, Role::Rdma)))
            .collect();
        // A Gaudi is an accelerator whose own ports are an RDMA device. Where others have theirs, or the modules for its ports and for programs are
        // loaded, it is an adapter without one.
        let is_gaudi = |address: &str| {
            known.and_then(|known| known.get(address)).is_some_and(|pci| {
                let driver = pci.driver.known();
                is_of_habana(pci) && driver.is_some_and(|driver| driver.starts_with("habanalabs"))
            })
        };
        let has_device = |(address, role): &(&str, Role)| *role == Role::Rdma && is_gaudi(address);
        if all.iter().any(has_device) || self.is_gaudi_without_verbs() {
            for (address, role) in &mut all {
                if *role == Role::Gpu && is_gaudi(address) {
                    *role = Role::Capable;
                }
            }
        }
        all.sort_unstable_by_key(|(address, role)| (*role, *address));
        let function = |(address, role)| {
            let pci = known.and_then(|known| known.get(address));
            let (names, is_software) = names.remove(address).unwrap_or_default();
            let driver = pci.and_then(|pci| pci.driver.known()).map(String::as_str);
            let group = groups.get(address);
            Function {
                address,
                role,
                before: names.is_empty().then(|| self.name_before(address)).flatten(),
                names,
                is_software,
                driver,
                lent_to: driver.filter(|driver| lends(driver)).map(|_| Borrower::Vfio),
                group: group.map(|(number, _)| *number),
                dma: group.and_then(|(_, group)| group.domain.known()),
                pci,
            }
        };
        all.into_iter().map(function).collect()
    }

    /// Whether the ports of Gaudi have a driver, programs can use RDMA devices, and the module that makes those of Gaudi is not loaded.
    fn is_gaudi_without_verbs(&self) -> bool {
        let has = |name| self.modules.has(name);
        has("habanalabs_cn") == Some(true)
            && has("ib_uverbs") == Some(true)
            && has("habanalabs_ib") == Some(false)
            && self.hcas().all(|hca| hca.is_software())
    }

    /// Every function with [`Function::is_dma_of_host`]. A software device transfers nothing by DMA, so how the card below it does concerns
    /// no RDMA on a physical machine. In a virtual machine, software devices stand for the adapters of a test.
    pub fn dma_functions(&self) -> impl Iterator<Item = Function<'_>> {
        let is_physical = self.host.virtual_machine.known() == Some(&false);
        let is_judged = move |function: &Function<'_>| {
            function.is_dma_of_host() && !(is_physical && function.is_software)
        };
        self.functions().into_iter().filter(is_judged)
    }

    /// The GPUs that the host itself uses, in order of address.
    pub fn gpus(&self) -> impl Iterator<Item = Function<'_>> {
        self.dma_functions().filter(|function| function.role == Role::Gpu)
    }

    /// A GPU below the same PCIe root port as a function.
    pub fn gpu_below_root_of(&self, function: &Function<'_>) -> Option<Function<'_>> {
        let root = function.bridges().first()?;
        self.gpus().find(|gpu| gpu.bridges().first() == Some(root))
    }

    /// Whether the adapters are soldered to the board of a GB10, whose firmware announces less power for them than a slot has.
    ///
    /// Without the GPU (a partial recording, a GPU without driver), its adapters show it: no card with a `ConnectX-7` has a link of only four lanes.
    pub fn is_gb10(&self) -> bool {
        const GB10: u16 = 0x2e12;
        const CONNECTX7: (u16, u16) = (0x15b3, 0x1021);
        const LANES: u32 = 4;
        let has_four = |nic: &Function<'_>| {
            nic.pci
                .is_some_and(|pci| pci.link.max_width.known() == Some(&LANES))
        };
        let is_on_board = |nic: Function<'_>| nic.ids() == Some(CONNECTX7) && has_four(&nic);
        let mut nics = self.nics().peekable();
        self.gpus().any(|gpu| {
            gpu.is_without_gpudirect() && gpu.pci.is_some_and(|pci| pci.device.known() == Some(&GB10))
        }) || !self.is_virtual_machine() && nics.peek().is_some() && nics.all(is_on_board)
    }

    /// Whether a message about low power of a slot is the usual one of a GB10. A port that was switched off because power is missing is a fault there, too.
    pub fn has_usual_power(&self, message: &str) -> bool {
        self.is_gb10() && !message.contains("powered down")
    }

    /// RDMA functions in hardware that are not virtual functions, in order of address.
    pub fn nics(&self) -> impl Iterator<Item = Function<'_>> {
        self.dma_functions().filter(Function::is_nic)
    }

    /// The IOMMU mode of the RDMA functions and GPUs that the host uses; `None` if one of them is not known, or there are
    /// none.
    pub fn dma_mode(&self) -> Option<DmaMode> {
        if self.iommu.groups.known()?.is_empty() {
            return Some(DmaMode::NoIommu);
        }
        let modes: Vec<_> = self.dma_functions().map(|function| function.dma).collect();
        if modes.iter().flatten().any(|mode| mode.is_translated()) {
            return Some(DmaMode::Translated);
        }
        let known: Option<Vec<_>> = modes.into_iter().collect();
        DmaMode::of(known?)
    }

    /// What the history has of this boot.
    pub fn this_boot(&self) -> Option<&Boot> {
        let id = self.host.boot_id.known()?;
        let mut boots = self.history.as_ref()?.boots.iter();
        boots.find(|boot| boot.id == *id)
    }

    /// The last boot before this one that the history has.
    pub fn previous_boot(&self) -> Option<&Boot> {
        let boot = self.host.boot_id.known()?;
        self.history.as_ref()?.boots_before(boot).next()
    }

    /// The IOMMU mode that the kernel command line requests; `None` if it sets none or could not be read.
    pub fn requested_dma(&self) -> Option<cmdline::Domain> {
        self.mode_of(self.host.iommu_arguments.known()?)
    }

    /// The function whose PCIe link carries a device's data, with its address. For a virtual function, which has no own
    /// link, it is the physical function.
    pub fn link_of(&self, hca: &Hca) -> Option<(&str, &pci::Function)> {
        let functions = self.pci.functions.known()?;
        let find = |address: Option<&String>| functions.get_key_value(address?);
        let found = find(hca.physical_function.known()).or_else(|| find(hca.pci_address.known()));
        found.map(|(address, function)| (address.as_str(), function))
    }

    /// Whether an RDMA device may belong to the network namespace of a pod, where this process does not see it: each namespace has its
    /// own devices (`rdma system show`: netns exclusive).
    pub fn has_exclusive_namespaces(&self) -> bool {
        self.rdma.namespaces.known() == Some(&Namespaces::Exclusive)
            || self.modules.exclusive_namespaces.known() == Some(&true)
    }

    /// Whether the node is a virtual machine.
    pub fn is_virtual_machine(&self) -> bool {
        self.host.virtual_machine.known() == Some(&true)
    }

    /// The group of each device. One pass over the groups, instead of one pass per function.
    fn groups_by_address(&self) -> BTreeMap<&str, (u32, &Group)> {
        let mut found = BTreeMap::new();
        for (number, group) in self.iommu.groups.known().into_iter().flatten() {
            for device in group.devices.known().into_iter().flatten() {
                found.insert(device.as_str(), (*number, group));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_that_hand_a_function_on_are_distinguished_from_those_of_the_host() {
        for driver in ["vfio-pci", "mlx5_vfio_pci", "nvgrace-gpu-vfio-pci", "pci-stub"] {
            assert!(lends(driver), "{driver}");
        }
        for driver in ["nvidia", "mlx5_core", "amdgpu", "pcieport"] {
            assert!(!lends(driver), "{driver}");
        }
    }
}
