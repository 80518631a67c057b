//! Who wrote a message of the kernel log, and about which device: the grammar of `dev_printk`, `netdev_printk`,
//! `ibdev_printk` and of the few messages that do not use them.
//!
//! The driver must be at the start of the message: the names of processes, USB devices and the like, which a user of the
//! machine chooses, follow the prefix of the driver that prints them.

use crate::{event::Device, gpu};

/// Drivers of RDMA adapters, and of the network functions below them, as they name themselves in messages.
const ADAPTERS: [&str; 47] = [
    "cxi_core",
    "cxi_ss1",
    "mlx5_core",
    "mlx5_ib",
    "mlx5e",
    "mlx4_core",
    "mlx4_en",
    "mlx4_ib",
    "bnxt_en",
    "bnxt_re",
    "irdma",
    "ice",
    "idpf",
    "i40e",
    "i40iw",
    "efa",
    "hfi1",
    "qib",
    "hns3",
    "hns_roce",
    "hns-roce",
    "hclge",
    "qede",
    "qedr",
    "qed",
    "cxgb4",
    "iw_cxgb4",
    "mana",
    "mana_ib",
    "ionic",
    "ionic_rdma",
    "erdma",
    "ocrdma",
    "be2net",
    "vmw_pvrdma",
    "usnic_verbs",
    "ib_core",
    "hns",
    "ib_ipoib",
    "cxi",
    "infinipath",
    "ib_qib",
    "hclgevf",
    "cxgb4vf",
    "iw_nes",
    "ib_mthca",
    // Gaudi: accelerators whose own ports are the adapters.
    "habanalabs",
];

/// What else begins messages that [`Message::parse`] takes, in lower case.
const OTHERS: [&str; 21] = [
    "eeh",
    "kernel:",
    "netdev watchdog",
    "dmar",
    "amd-vi",
    "arm-smmu",
    "arm-smmu-v3",
    "pcieport",
    "pci",
    "infiniband",
    "nvidia-peermem",
    "nvidia_peermem",
    "nv_mem",
    "nv_peer_mem",
    "nvrm",
    "nvidia-nvswitch",
    "nvidia",
    "amdgpu",
    "mlx4",
    "mlx5",
    "ib",
];

/// The words with which messages begin that [`judge`](crate::judge) may know, in lower case. A message may have a number or `_` after
/// them, and text before them.
pub fn writers() -> impl Iterator<Item = &'static str> {
    ADAPTERS.into_iter().chain(OTHERS)
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// A driver of RDMA adapters.
    Adapter,
    /// The PCI core or the driver of a PCIe port, or another driver about its PCI function.
    Pci,
    /// An IOMMU driver.
    Iommu,
    /// The driver of a GPU or `NVSwitch`.
    Gpu,
    /// The module that gives RDMA drivers access to GPU memory.
    PeerMemory,
}

/// A message and the parts of its prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) writer: Writer,
    /// The driver as it calls itself.
    pub(super) driver: &'a str,
    /// The device of the prefix.
    pub(super) device: Option<Device>,
    /// The message after the prefix.
    pub(super) text: &'a str,
}

impl<'a> Message<'a> {
    /// Splits the prefix into its parts; `None` for messages that cannot be about an RDMA adapter.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        watchdog(text)
            .or_else(|| of_iommu(text))
            .or_else(|| of_peer_memory(text))
            .or_else(|| gpu::message(text))
            .or_else(|| of_eeh(text))
            .or_else(|| of_device(text))
            .or_else(|| of_ipoib(text))
            .or_else(|| of_queue_pair(text))
            .or_else(|| of_function(text))
            .or_else(|| of_module(text))
            .or_else(|| of_driver(text))
    }
}

/// `NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 5 timed out` (`net/sched/sch_generic.c`).
fn watchdog(text: &str) -> Option<Message<'_>> {
    let rest = text.strip_prefix("NETDEV WATCHDOG: ")?;
    let (name, rest) = rest.split_once(" (")?;
    let (driver, message) = rest.split_once("): ")?;
    is_adapter(driver).then(|| Message {
        writer: Writer::Adapter,
        driver,
        device: named(name),
        text: message,
    })
}

/// `DMAR: …`, `AMD-Vi: …`, `arm-smmu-v3 arm-smmu-v3.0.auto: …`, `mlx5_core 0000:41:00.0: AMD-Vi: …`.
fn of_iommu(text: &str) -> Option<Message<'_>> {
    let by = |driver, device, text| {
        Some(Message {
            writer: Writer::Iommu,
            driver,
            device,
            text,
        })
    };
    for driver in ["DMAR", "AMD-Vi"] {
        if let Some(rest) = text.strip_prefix(driver).and_then(|rest| rest.strip_prefix(": ")) {
            return by(driver, None, rest);
        }
    }
    let (driver, rest) = text.split_once(' ')?;
    let (device, rest) = rest.split_once(": ").or_else(|| rest.split_once(":\t"))?;
    if driver.starts_with("arm-smmu") {
        return by(driver, None, rest);
    }
    let rest = rest
        .strip_prefix("AMD-Vi: ")
        .or_else(|| rest.strip_prefix("DMAR: "))?;
    by(driver, Some(full_address(device)?), rest)
}

/// `nvidia-peermem nv_get_p2p_free_callback:127 ERROR …`.
fn of_peer_memory(text: &str) -> Option<Message<'_>> {
    let end = text.find([' ', ':'])?;
    let (driver, rest) = text.split_at(end);
    matches!(
        driver,
        "nvidia-peermem" | "nvidia_peermem" | "nv_mem" | "nv_peer_mem"
    )
    .then(|| Message {
        writer: Writer::PeerMemory,
        driver,
        device: Some(Device::Driver(driver.to_owned())),
        text: rest.trim_start_matches([':', ' ']),
    })
}

/// `PCI 0040:01:00.0#10000: EEH: Invoking mlx5_core->…`, before Linux 5.4 `EEH: PE#800000 (PCI 0384:80:00.0): Invoking …`: what Power does
/// about a PCIe error (Enhanced Error Handling, `arch/powerpc/kernel/eeh_driver.c`).
fn of_eeh(text: &str) -> Option<Message<'_>> {
    let by = |device, text| {
        Some(Message {
            writer: Writer::Pci,
            driver: "EEH",
            device: Some(device),
            text,
        })
    };
    if let Some((address, rest)) = text
        .strip_prefix("EEH: PE#")
        .and_then(|rest| rest.split_once(" (PCI ")?.1.split_once("): "))
    {
        return by(full_address(address)?, rest);
    }
    if let Some(rest) = text.strip_prefix("EEH: ") {
        return by(of_bridge(rest)?, rest);
    }
    let (address, rest) = text.strip_prefix("PCI ")?.split_once('#')?;
    by(full_address(address)?, rest.split_once(": EEH: ")?.1)
}

/// What Power isolates, a host bridge (PHB) or a part below it (PE): `Frozen PHB#28-PE#10000 detected`, `Frozen PE#fd on PHB#1 detected`, `Fenced
/// PHB#2 detected`. The number of the bridge is the PCI domain. Below a hypervisor, that of the part is the address of its function: bus, slot and
/// function in 8, 5 and 3 bits above a byte. Otherwise only the bridge is known, whose port is the first function of the domain.
fn of_bridge(text: &str) -> Option<Device> {
    let number = |label: &str| {
        let (_, rest) = text.split_once(label)?;
        let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        u32::from_str_radix(&rest[..end], 16).ok()
    };
    let domain = number("PHB#")?;
    let part = number("PE#").filter(|part| *part > 0xffff).unwrap_or(0) >> 8;
    let (bus, slot, function) = (part >> 8 & 0xff, part >> 3 & 0x1f, part & 7);
    full_address(&format!("{domain:04x}:{bus:02x}:{slot:02x}.{function}"))
}

/// `driver device: …`, `driver address netdev: …`, `infiniband mlx5_0: …`.
fn of_device(text: &str) -> Option<Message<'_>> {
    // The names of PCI functions contain a colon, but no colon with a space after it.
    let (prefix, rest) = text.split_once(": ")?;
    let mut words = prefix.split(' ');
    let (driver, device) = (words.next()?, words.next()?);
    let name = words.next();
    if let Some(device) = full_address(device) {
        // After the address: the network or RDMA device, and its state: `(unnamed net_device) (uninitialized)`.
        return Some(Message {
            writer: if is_adapter(driver) {
                Writer::Adapter
            } else {
                Writer::Pci
            },
            driver,
            device: Some(device),
            text: rest,
        });
    }
    // The parts of a function on the auxiliary bus are named after the driver: `mlx5_core.rdma mlx5_core.rdma.0`.
    let is_adapter = driver == "infiniband" || is_adapter(driver);
    // Before the device is registered it has no name.
    let device = match device {
        "(null)" => Some(Device::Driver(driver.to_owned())),
        device => named(device),
    };
    (is_adapter && name.is_none()).then_some(Message {
        writer: Writer::Adapter,
        driver,
        device,
        text: rest,
    })
}

/// `mlx5_core: probe of 0000:14:00.0 failed …`, and the form of old drivers, `mlx5_0:dump_cqe:276:(pid 0): …`.
fn of_driver(text: &str) -> Option<Message<'_>> {
    let (driver, rest) = text.split_once(':')?;
    // `ocrdma0: …` names the device after its driver, and `ocrdma_mbx_cmd() …` the function.
    if let Some((call, rest)) = text.split_once("() ").filter(|(call, _)| is_function(call)) {
        let driver = call.split('_').next().unwrap_or_default();
        return Some(Message {
            writer: Writer::Adapter,
            driver,
            device: Some(Device::Driver(driver.to_owned())),
            text: rest,
        });
    }
    let stem = driver.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() < driver.len() && is_adapter(stem) && !is_adapter(driver) {
        return Some(Message {
            writer: Writer::Adapter,
            driver: stem,
            device: named(driver),
            text: rest.trim_start(),
        });
    }
    if is_adapter(driver) {
        return Some(Message {
            writer: Writer::Adapter,
            driver,
            device: Some(Device::Driver(driver.to_owned())),
            text: rest.trim_start(),
        });
    }
    let is_old_form = rest.contains(":(pid ") && driver.starts_with("mlx");
    is_old_form.then(|| Message {
        writer: Writer::Adapter,
        driver,
        device: named(driver),
        text: rest,
    })
}

/// Whether a word is the name of a function of an adapter's driver: `ocrdma_mbx_cmd`.
fn is_function(name: &str) -> bool {
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name && name.split_once('_').is_some_and(|(driver, _)| is_adapter(driver))
}

/// `ib0: multicast join failed for …`, `ib0.8001: …`: IP over InfiniBand names its interface only.
fn of_ipoib(text: &str) -> Option<Message<'_>> {
    let (name, rest) = text.split_once(": ")?;
    let number = name.strip_prefix("ib")?.split('.').next()?;
    let is_interface = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_interface.then(|| Message {
        writer: Writer::Adapter,
        driver: "ib_ipoib",
        device: named(name),
        text: rest,
    })
}

/// `mlx5_bond_0/1: QP 51291 error: local length error (0x8e 0x0 0x0)`: mlx5 names device and port, as they are called by now (`mlx5_ib_qp_event`).
fn of_queue_pair(text: &str) -> Option<Message<'_>> {
    let (name, rest) = text.split_once(": ")?;
    let (device, port) = name.split_once('/')?;
    let (number, _) = rest.strip_prefix("QP ")?.split_once(" error: ")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(port) && is_number(number)).then(|| Message {
        writer: Writer::Adapter,
        driver: "mlx5_ib",
        device: named(device),
        text: rest,
    })
}

/// `[qed_mcp_cmd_and_union:560(qed0)]The MFW failed …`: function, line and device (`qed.h`, `qedr.h`).
fn of_function(text: &str) -> Option<Message<'_>> {
    let (prefix, rest) = text.strip_prefix('[')?.split_once(")]")?;
    let (function, device) = prefix.split_once('(')?;
    let driver = function.trim_start_matches('_').split(['_', ':']).next()?;
    is_adapter(driver).then(|| Message {
        writer: Writer::Adapter,
        driver,
        device: named(device).or_else(|| Some(Device::Driver(driver.to_owned()))),
        text: rest,
    })
}

/// `<mlx4_ib> create_pv_resources: Couldn't create tunnel CQ (-12)`: mlx4 and mthca name module and function (`mlx4_ib.h`).
fn of_module(text: &str) -> Option<Message<'_>> {
    let (driver, rest) = text.strip_prefix('<')?.split_once("> ")?;
    let (function, rest) = rest.split_once(": ")?;
    let is_name = function
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_adapter(driver) && is_name).then(|| Message {
        writer: Writer::Adapter,
        driver,
        device: Some(Device::Driver(driver.to_owned())),
        text: rest,
    })
}

/// Whether a driver is one of RDMA adapters. Its parts on the auxiliary bus are named `mlx5_core.rdma`, its modules
/// `hns_roce_hw_v2`.
pub fn is_adapter(driver: &str) -> bool {
    let driver = driver.split('.').next().unwrap_or_default();
    let driver = driver.strip_suffix("_hw_v2").unwrap_or(driver);
    ADAPTERS.contains(&driver)
}

/// The PCI function of a prefix, in which the kernel writes the whole address. A name of a process is too short to have a
/// driver and an address.
fn full_address(address: &str) -> Option<Device> {
    is_address(address).then(|| Device::Pci(address.to_ascii_lowercase()))
}

/// The PCI function with this address, with the domain 0000 if it is not given.
pub(super) fn pci(address: &str) -> Option<Device> {
    // Some kernels write `[0x18:0x00.0]`.
    let address = address.replace("0x", "");
    let full = match address.matches(':').count() {
        1 => format!("0000:{address}"),
        _ => address,
    };
    is_address(&full).then(|| Device::Pci(full.to_ascii_lowercase()))
}

/// Whether a name is a PCI address: `0000:41:00.0`.
pub fn is_address(name: &str) -> bool {
    let hex = |part: &str, length: std::ops::RangeInclusive<usize>| {
        length.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let mut parts = name.split([':', '.']);
    let shape = (
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
    );
    let (Some(domain), Some(bus), Some(slot), Some(function), None) = shape else {
        return false;
    };
    // Virtual hosts use domains with up to eight digits.
    hex(domain, 4..=8)
        && hex(bus, 2..=2)
        && hex(slot, 2..=2)
        && hex(function, 1..=1)
        && name.is_ascii()
        && name.len() <= 32
}

/// The device with this name; `None` if it cannot be one (`IFNAMSIZ` is 16, `IB_DEVICE_NAME_MAX` 64).
pub(super) fn named(name: &str) -> Option<Device> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@');
    let is_name = !name.is_empty() && name.len() < 64 && name.bytes().all(plain);
    is_name.then(|| Device::Named(name.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use super::*;

    fn taken(text: &str) -> Option<(&str, Option<String>, &str)> {
        let message = Message::parse(text)?;
        Some((
            message.driver,
            message.device.map(|device| device.to_string()),
            message.text,
        ))
    }

    #[test]
    fn the_prefix_names_driver_and_device() {
        for (text, driver, device, rest) in [
            (
                "ib0: multicast join failed",
                "ib_ipoib",
                "ib0",
                "multicast join failed",
            ),
            ("[qed_mcp_cmd:560(qed0)]The MFW", "qed", "qed0", "The MFW"),
            (
                "mlx5_bond_0/1: QP 7 error: local length error (0x8e 0x0 0x0)",
                "mlx5_ib",
                "mlx5_bond_0",
                "QP 7 error: local length error (0x8e 0x0 0x0)",
            ),
            (
                "mlx5_core 0000:14:00.0: x: y",
                "mlx5_core",
                "0000:14:00.0",
                "x: y",
            ),
            (
                "mlx5_core 0000:14:00.0 rdma0: TX",
                "mlx5_core",
                "0000:14:00.0",
                "TX",
            ),
            (
                "bnxt_en 0000:26:00.0 (unnamed net_device) (uninitialized): hwrm",
                "bnxt_en",
                "0000:26:00.0",
                "hwrm",
            ),
            ("infiniband rdmap0s6: Admin", "infiniband", "rdmap0s6", "Admin"),
            (
                "mlx5_core.rdma mlx5_core.rdma.0: x",
                "mlx5_core.rdma",
                "mlx5_core.rdma.0",
                "x",
            ),
            (
                "NETDEV WATCHDOG: ib0 (mlx5_core): transmit",
                "mlx5_core",
                "ib0",
                "transmit",
            ),
            (
                "pcieport 10000:12:00.0: AER: x",
                "pcieport",
                "10000:12:00.0",
                "AER: x",
            ),
            (
                "mlx5_0:dump_cqe:276:(pid 0): dump",
                "mlx5_0",
                "mlx5_0",
                "dump_cqe:276:(pid 0): dump",
            ),
        ] {
            assert_eq!(
                taken(text),
                Some((driver, Some(device.to_owned()), rest)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_name_that_a_user_chose_is_not_a_driver() {
        for text in [
            "usb 1-1: Product: mlx5_core 0000:14:00.0: health compromised",
            "mlx5_core[123]: segfault at 0 ip 0",
            "Out of memory: Killed process 7 (mlx5_core 0000:)",
            "traps: mlx5_core 0000: trap",
            "audit: type=1400 mlx5_core 0000:14:00.0: x",
            "NETDEV WATCHDOG: veth0 (veth): transmit queue 0 timed out",
            "evil\" (mlx5_core): x",
            "",
        ] {
            assert_eq!(taken(text), None, "{text}");
        }
    }
}
