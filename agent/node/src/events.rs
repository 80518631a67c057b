//! What the kernel logged about the adapters and GPUs of the node.

use rdma_health_kernel::{
    kmsg::{Device, Event, EventClass, EventKind, is_adapter, is_rdma_consumer, is_software_rdma},
    pci::Role,
};

use crate::{Function, Node};

/// Drivers of RDMA devices only. Other drivers of RDMA adapters also drive plain network functions.
const RDMA_ONLY: [&str; 18] = [
    "mlx5",
    "mlx4",
    "bnxt_re",
    "irdma",
    "i40iw",
    "efa",
    "hfi1",
    "qib",
    "infiniband",
    "hns_roce",
    "hns-roce",
    "qedr",
    "iw_cxgb4",
    "mana_ib",
    "erdma",
    "ocrdma",
    "habanalabs",
    // Slingshot, whose adapters have devices of their own class.
    "cxi",
];

/// What the RDMA core calls itself in messages about a device.
const CORE: &str = "infiniband";
/// How RDMA devices are called before they are renamed (`rdma_rename` of rdma-core).
const FIRST_NAMES: [&str; 15] = [
    "mlx5_", "mlx4_", "bnxt_re", "irdma", "i40iw", "efa_", "hfi1_", "qib", "hns_", "qedr", "cxgb4_", "mana_",
    "erdma_", "ocrdma", "ionic_",
];
/// How long after a message another one is about the same event, in seconds.
const JUST_BEFORE: u64 = 10;

/// An event of the kernel log with the function that it is about.
#[derive(Debug, Clone)]
pub struct DeviceEvent<'a> {
    /// The event.
    pub event: &'a Event,
    /// The function that its device is, or that is behind the PCIe port that it names. `None` if the node has none such
    /// now.
    pub function: Option<Function<'a>>,
    /// The name of the RDMA device that was at its address, if neither the device nor its function is there now.
    pub before: Option<&'a str>,
    /// Whether the event names a PCIe port above the function.
    pub is_above: bool,
    /// Whether the driver reported later that the device works again.
    pub is_over: bool,
}

/// The module of a service of the kernel that uses RDMA (`nvme_rdma`, `rpcrdma`), or of RDMA in software, if it wrote the message.
fn service(event: &Event) -> Option<&str> {
    match &event.device {
        Device::Driver(module) if is_rdma_consumer(module) || is_software_rdma(module) => Some(module),
        _ => None,
    }
}

impl DeviceEvent<'_> {
    /// The module that it is about, if that is a service of the kernel that uses RDMA (`nvme_rdma`, `rpcrdma`) or RDMA in software, and no
    /// adapter.
    pub fn service(&self) -> Option<&str> {
        service(self.event)
    }

    /// The name of its device in findings: that of the function, otherwise the one that the kernel used.
    pub fn subject(&self) -> String {
        match &self.function {
            Some(function) => function.subject().to_owned(),
            None => self
                .before
                .map_or_else(|| self.event.device.to_string(), str::to_owned),
        }
    }

    /// Whether it is about a GPU or `NVSwitch`, and not about an adapter.
    pub fn is_of_gpu(&self) -> bool {
        let is_gpu = self
            .function
            .as_ref()
            .is_some_and(|function| function.role == Role::Gpu && !self.is_above);
        let kind = self.event.kind;
        is_gpu
            || matches!(
                kind,
                EventKind::GpuFailed | EventKind::GpuLinkError | EventKind::GpuError
            )
    }

    /// The same in sentences.
    pub fn title(&self) -> String {
        match &self.function {
            Some(function) if self.is_above => {
                format!("PCIe port {} above {}", self.event.device, function.title())
            }
            Some(function) => function.title(),
            None if self.is_above => format!("PCIe port {}", self.event.device),
            None if self.event.kind == EventKind::GpuFailed
                && matches!(self.event.device, Device::Driver(_)) =>
            {
                format!("a GPU of the driver {}", self.event.device)
            }
            None => match self.before {
                Some(name) => format!("{} (was {name})", self.event.device),
                None => self.event.device.to_string(),
            },
        }
    }
}

impl Node {
    /// The kept lines of the kernel log, oldest first; empty if it could not be read.
    pub fn kernel_lines(&self) -> &[String] {
        self.kernel_log.known().map_or(&[], |log| &log.lines)
    }

    /// What the kernel logged about RDMA adapters and GPUs, in the order of the last message.
    pub fn device_events(&self) -> Vec<DeviceEvent<'_>> {
        let is_empty = self.kernel_log.known().is_none_or(|log| log.events.is_empty());
        if is_empty {
            return Vec::new();
        }
        self.device_events_of(&self.functions())
    }

    /// The same with the node's [functions](Node::functions), if the caller has them.
    pub fn device_events_of<'a>(&'a self, functions: &[Function<'a>]) -> Vec<DeviceEvent<'a>> {
        let Some(log) = self.kernel_log.known() else {
            return Vec::new();
        };
        let mut found: Vec<DeviceEvent<'_>> = log
            .events
            .iter()
            .filter_map(|event| self.device_event(event, functions))
            .collect();
        let ends: Vec<_> = found
            .iter()
            .filter(|end| end.event.kind.class() == EventClass::Recovery)
            .map(|end| (end.subject(), end.event))
            .collect();
        for fault in &mut found {
            let subject = fault.subject();
            // A module that was loaded later, when it fitted.
            let is_loaded =
                fault.event.kind == EventKind::ModuleMismatch && self.modules.has(&subject) == Some(true);
            fault.is_over = is_loaded
                || ends
                    .iter()
                    .any(|(device, end)| *device == subject && is_after(end, fault.event));
        }
        found
    }

    /// Joins an event with its function; `None` if it is about something else than an adapter or a GPU.
    fn device_event<'a>(&'a self, event: &'a Event, functions: &[Function<'a>]) -> Option<DeviceEvent<'a>> {
        // Of the adapter below a software RDMA device only what ends its transfers: its driver knows no RDMA.
        let of_any_adapter = event.kind == EventKind::IommuFault;
        let is_of_interest = |function: &&Function<'_>| match function.role {
            Role::Rdma => !function.is_software || of_any_adapter,
            Role::Capable | Role::Gpu => true,
            Role::Bridge => false,
        };
        let all = || functions.iter().filter(is_of_interest);
        let joined = |function: Option<&Function<'a>>, is_above| DeviceEvent {
            event,
            function: function.cloned(),
            before: match &event.device {
                Device::Pci(address) if function.is_none() => self.name_before(address),
                _ => None,
            },
            is_above,
            is_over: false,
        };
        let own = match &event.device {
            Device::Pci(address) => all().find(|function| function.address == address),
            Device::Named(name) => self
                .address_of(name)
                .or_else(|| self.parent_of(event, name, functions))
                .and_then(|address| all().find(|function| function.address == address)),
            Device::Stream(id) => {
                let mut matching = all().filter(|function| requester(function.address) == Some(id & 0xffff));
                // Each SMMU numbers its streams by itself: two functions with the same number cannot be distinguished.
                matching.next().filter(|_| matching.next().is_none())
            }
            Device::Driver(_) => None,
        };
        if own.is_some() {
            return Some(joined(own, false));
        }
        if let Device::Pci(address) = &event.device {
            let behind: Vec<_> = all()
                .filter(|function| function.role == Role::Rdma && function.bridges().contains(address))
                .collect();
            if !behind.is_empty() {
                return Some(joined(self.concerned(event, &behind), true));
            }
            if self.pci.left_out.contains(address) {
                return None;
            }
        }
        let is_rdma =
            RDMA_ONLY.iter().any(|driver| event.driver.starts_with(driver)) && !is_of_software(event);
        let of_gpu = matches!(
            event.kind,
            EventKind::PeerMemory | EventKind::GpuFailed | EventKind::GpuLinkError | EventKind::GpuError
        );
        let of_node = match event.kind {
            EventKind::AccessDenied => true,
            // A service of the kernel, or RDMA in software.
            EventKind::DriverError | EventKind::Started => service(event).is_some(),
            EventKind::ModuleMismatch | EventKind::ModuleCrashed | EventKind::ModuleHung => {
                !is_adapter(&event.driver)
                    || functions
                        .iter()
                        .any(|function| is_of_interest(&function) && function.driver == Some(&*event.driver))
            }
            _ => false,
        };
        (is_rdma || of_gpu || of_node).then(|| joined(None, false))
    }

    /// The function that a message about the PCIe port above all of these is about: of the only card, or of the only one that has its own failure.
    fn concerned<'a, 'b>(&self, event: &Event, behind: &[&'b Function<'a>]) -> Option<&'b Function<'a>> {
        let events = self.kernel_log.known().map_or(&[][..], |log| &log.events);
        let has_failed = |function: &&&Function<'_>| {
            events.iter().any(|other| {
                other.order != event.order
                    && other.kind.class() == EventClass::Fault
                    && matches!(&other.device, Device::Pci(address) if address == function.address)
            })
        };
        let only = |functions: Vec<&'b Function<'a>>| {
            let first = functions.first().copied()?;
            let is_same = |other: &&Function<'_>| card(other.address) == card(first.address);
            functions.iter().all(is_same).then_some(first)
        };
        only(behind.to_vec()).or_else(|| only(behind.iter().filter(has_failed).copied().collect()))
    }

    /// The address of the function that has a part on the auxiliary bus (`mlx5_core.rdma.3`), which the kernel names after the driver and a
    /// number: the one that the driver wrote about just before, or the only one with this driver and without an RDMA device.
    fn parent_of<'a>(&'a self, event: &Event, part: &str, functions: &[Function<'a>]) -> Option<&'a str> {
        if event.driver == CORE {
            // The device may have another name by now.
            let is_concerned = event.kind == EventKind::ProbeFailed && !is_of_software(event);
            let before = self.spoken_of_before(event, |other| is_adapter(&other.driver));
            return before.filter(|_| is_concerned);
        }
        let (driver, rest) = part.split_once('.')?;
        if !rest.contains('.') {
            return None;
        }
        if let Some(address) = self.spoken_of_before(event, |other| other.driver == driver) {
            return Some(address);
        }
        let mut without = functions
            .iter()
            .filter(|function| function.role == Role::Capable && function.driver == Some(driver));
        let only = without.next()?;
        without.next().is_none().then_some(only.address)
    }

    /// The function about which such a message was just before this one.
    fn spoken_of_before(&self, event: &Event, is_of: impl Fn(&Event) -> bool) -> Option<&str> {
        let is_near = |other: &&Event| match (other.last, event.first) {
            (Some(before), Some(at)) => before <= at && at - before <= JUST_BEFORE,
            _ => true,
        };
        let events = &self.kernel_log.known()?.events;
        let before = events
            .iter()
            .filter(|other| {
                other.order < event.order && is_of(other) && matches!(other.device, Device::Pci(_))
            })
            .filter(is_near)
            .filter(|other| other.kind.class() != EventClass::Recovery)
            .max_by_key(|other| other.order)?;
        match &before.device {
            Device::Pci(address) => Some(address),
            _ => None,
        }
    }

    /// The address of the function behind an RDMA or network device.
    fn address_of(&self, name: &str) -> Option<&str> {
        let has_netdev = |hca: &rdma_health_kernel::infiniband::Hca| {
            let mut netdevs = hca.ports.values().filter_map(|port| port.netdev.known());
            netdevs.any(|netdev| netdev.name == name)
        };
        let hca = self.hcas().find(|hca| hca.name == name || has_netdev(hca))?;
        hca.pci_address.known().map(String::as_str)
    }
}

/// The address of a PCI function without the number of the function.
pub(crate) fn card(address: &str) -> &str {
    address.rsplit_once('.').map_or(address, |(card, _)| card)
}

/// Whether the RDMA core speaks of a device in software, which the node need not have any more: by its name, which is not one of a driver of
/// adapters.
fn is_of_software(event: &Event) -> bool {
    let Device::Named(name) = &event.device else {
        return false;
    };
    event.driver == CORE
        && event.kind == EventKind::ProbeFailed
        && !FIRST_NAMES.iter().any(|first| name.starts_with(first))
}

/// Whether the first event ends the second one, a fault.
fn is_after(end: &Event, fault: &Event) -> bool {
    let is_later = if fault.driver == CORE {
        // The driver does not know what the core could not set up, and says in the same breath that it has started.
        let times = end.last.zip(fault.last);
        times.is_some_and(|(end, fault)| end > fault + JUST_BEFORE)
    } else {
        end.order > fault.order
    };
    is_later && is_end(end.kind, fault.kind)
}

/// Whether an event of the first kind ends a fault of the second.
fn is_end(end: EventKind, fault: EventKind) -> bool {
    match fault {
        EventKind::LinkDown => end == EventKind::LinkUp,
        EventKind::ModuleUnplugged | EventKind::ModuleFault => end == EventKind::ModulePlugged,
        EventKind::PciPower
        | EventKind::IommuFault
        | EventKind::BounceFull
        | EventKind::ModuleMismatch
        | EventKind::ModuleCrashed
        | EventKind::ModuleHung => false,
        _ => end == EventKind::Started,
    }
}

/// The requester id of a function, as an IOMMU sees it: bus, device and function (PCIe 2.2.6.2).
fn requester(address: &str) -> Option<u32> {
    let (_, rest) = address.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (slot, function) = rest.split_once('.')?;
    let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
    Some(hexadecimal(bus)? << 8 | hexadecimal(slot)? << 3 | hexadecimal(function)?)
}
