//! Adapters that are gone, or that never appeared.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{
    Function, Node,
    history::{Boot, Seen},
    pci::Role,
    peers::exceptions,
    words::date,
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Subject, Writer,
    domain::{logged::slot_losses, modules},
    draft::Draft,
    policy::Exception,
};

/// `device-lost`.
pub static DEVICE_LOST: Rule = Rule {
    id: "device-lost",
    domain: Domain::Modules,
    policy: Policy::of(Severities::CRITICAL).except(&[&BY_BOARD]),
    title: "An RDMA device or GPU is gone from the PCIe bus",
    explanation: "A function that left the bus still has its directory in sysfs, but every read of its registers returns ones: \
        the link width is 63. Programs that use it hang or fail. In addition, the agent remembers the physical RDMA devices of this boot and of earlier ones. A device is gone together \
        with its PCI function: it fell off the bus, its slot lost power, it did not come back after a reboot, or it was \
        removed. Or, in this boot, its driver still holds the function and its RDMA device has disappeared.",
    remedy: Remedy {
        any: "Read the kernel log of the time when the device was last present (AER, 'Device unreachable', 'health \
            compromised'), rescan the bus, and if the device does not come back, power-cycle the node. If it was removed on \
            purpose, this is reported for a week; to end it at once, delete the state file of the agent, which also forgets the rest of \
            the history.",
        host: "lspci; journalctl -k -b BOOT | grep ADDRESS; echo 1 > /sys/bus/pci/rescan",
        ..Remedy::all("")
    },
    false_alarms: "Virtual functions and software devices come and go by design. A device is not gone if the configuration \
        excludes it, if its PCI function is still present since an earlier boot, was lent (vfio-pci, a pod) or belongs to a RoCE bond that has an \
        RDMA device, if its driver holds the function and a pod may have the RDMA device (netns exclusive), or if there are as many physical \
        devices of its model as at that time, because then it moved to another slot. A device that was last seen more than a week ago is not reported.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Agent],
    judge: device_lost,
};

static BY_BOARD: Exception = Exception {
    condition: "if the hot-plug driver of the board (DGX Spark) took the adapters off the bus, because it sees no cable",
    severities: Severities::INFO,
};

/// How long a device that is gone is reported, in seconds.
const WEEK: u64 = 7 * 86_400;

fn device_lost(node: &Node, _: &Expectations) -> Vec<Draft> {
    let mut findings = unreachable(node);
    findings.extend(removed_by_board(node));
    findings.extend(gone(node));
    findings.extend(detached(node).into_iter().map(|(function, seen, boot)| {
        let message = format!(
            "{} is gone, last seen in this boot at {}; {} still holds the PCI function",
            place(function.address, seen, boot),
            date(seen.last),
            function.driver.unwrap_or("a driver")
        );
        Draft::new(&DEVICE_LOST, Subject::device(&seen.name), message)
            .remedy(DETACHED)
            .fill("ADDRESS", function.address)
            .case(FindingCase::AdapterLost)
            .evidence(
                format!("/sys/bus/pci/devices/{}/infiniband", function.address),
                "no RDMA device",
            )
            .evidence("history, last seen", date(seen.last))
    }));
    findings
}

/// The message of the driver of a board that took the adapters off the bus, if none says that it put them there again.
fn removal(node: &Node) -> Option<&str> {
    let of_driver = |line: &&String| line.contains("-hotplug ") && line.contains(": Cable ");
    let last = node.kernel_lines().iter().rev().find(of_driver)?;
    last.ends_with("Cable removal").then_some(last)
}

/// Adapters that the driver of the board took off the bus.
fn removed_by_board(node: &Node) -> Option<Draft> {
    let line = removal(node)?;
    let is_gone = node.pci.functions.known().is_some() && node.nics().next().is_none();
    let message = "the hot-plug driver of the board took the adapters off the PCIe bus: it sees no cable";
    is_gone.then(|| {
        Draft::new(&DEVICE_LOST, Subject::node(), message)
            .exception(Some(&BY_BOARD))
            .remedy(UNCABLED)
            .case(FindingCase::AdapterLost)
            .evidence("/dev/kmsg", line)
    })
}

/// What to do about adapters that their board took off the bus. A rescan by hand can hang the machine.
const UNCABLED: Remedy = Remedy {
    any: "Plug the cable in at both ends and restart the machine; the adapter is not faulty. Do not rescan the bus by hand, which can hang the machine. If the cable was plugged in when the \
        adapters were removed, delete /etc/nvidia/cx7-hotplug-enabled and restart.",
    host: "journalctl -k -b | grep -i -e hotplug -e mlx5",
    ..Remedy::all("")
};

/// What to do about an adapter whose slot reports that its card or its link is gone.
const OF_SLOT: Remedy = Remedy {
    any: "The slot of the adapter reported that the card or its link is gone. If the card was removed or switched off on purpose, nothing is wrong. Otherwise drain the node, switch it \
        off, reseat the card, its riser and its cables, and start the node again; if it happens again, replace the part. A rescan of the bus brings back no card that the slot does not see.",
    host: "lspci; journalctl -k -b BOOT | grep -e pciehp -e ADDRESS; grep . /sys/bus/pci/slots/*/power",
    ..Remedy::all("")
};

/// Devices that the agent saw before and that have no PCI function any more.
pub(super) fn gone(node: &Node) -> Vec<Draft> {
    let (Some(functions), Some(history)) = (node.pci.functions.known(), &node.history) else {
        return Vec::new();
    };
    if node.hcas.unread().is_some() {
        return Vec::new();
    }
    let present: BTreeSet<&str> = node.hcas().map(|hca| hca.identity()).collect();
    // A device that moved to another slot is still of its kind.
    let is_replaced = |lost: &Seen, boot: &Boot| {
        let then = boot
            .hcas
            .values()
            .filter(|seen| is_physical(seen) && seen.is_like(lost));
        let now = node.hcas().filter(|hca| {
            let is_physical = !hca.is_software() && !hca.is_virtual();
            is_physical && Seen::of(node, hca).is_like(lost)
        });
        now.count() >= then.count()
    };
    let mut lost: BTreeMap<&str, (&Seen, &Boot)> = BTreeMap::new();
    for boot in history.boots.iter().rev() {
        let is_this_boot = Some(&boot.id) == node.host.boot_id.known();
        for (identity, seen) in boot.hcas.iter().filter(|(_, seen)| is_physical(seen)) {
            let is_gone = !present.contains(identity.as_str())
                && !functions.contains_key(identity)
                && !node.pci.left_out.contains(identity)
                && node.time.saturating_sub(seen.last) <= WEEK
                && (is_this_boot || !is_replaced(seen, boot));
            if is_gone {
                lost.entry(identity).or_insert((seen, boot));
            }
        }
    }
    let found = lost.into_iter().map(|(identity, (seen, boot))| {
        let (when, journal) = if Some(&boot.id) == node.host.boot_id.known() {
            ("in this boot", "0")
        } else {
            ("in an earlier boot", "-1")
        };
        let message = format!(
            "{} is gone, last seen {when} at {}",
            place(identity, seen, boot),
            date(seen.last)
        );
        let finding = Draft::new(&DEVICE_LOST, Subject::device(&seen.name), message);
        let finding = match (removal(node), slot_losses(node).next_back()) {
            (Some(line), _) => finding
                .exception(Some(&BY_BOARD))
                .remedy(UNCABLED)
                .evidence("/dev/kmsg", line),
            (None, Some(line)) => finding.remedy(OF_SLOT).evidence("/dev/kmsg", line),
            (None, None) => finding,
        };
        finding
            .fill("ADDRESS", identity)
            .fill("BOOT", journal)
            .case(FindingCase::AdapterLost)
            .evidence(format!("/sys/bus/pci/devices/{identity}"), "no such function")
            .evidence("history, last seen", date(seen.last))
    });
    found.collect()
}

/// Functions that their driver holds and whose RDMA device was there in this boot, with what the agent saw of it.
pub(super) fn detached(node: &Node) -> Vec<(Function<'_>, &Seen, &Boot)> {
    // Without the list of devices, it is not known which are gone.
    if node.hcas.unread().is_some() {
        return Vec::new();
    }
    let Some(boot) = node.this_boot() else {
        return Vec::new();
    };
    let functions = node.functions().into_iter();
    let lost = functions.filter_map(|function| {
        let seen = boot.hcas.get(function.address).filter(|seen| is_physical(seen))?;
        let is_loaded = function
            .driver
            .and_then(modules::module_of)
            .is_some_and(|module| node.modules.has(module) == Some(true));
        let is_lost = function.role == Role::Capable
            && function.lent_to.is_none()
            && is_loaded
            && !node.shares_rdma_device(function.address)
            && !modules::may_be_elsewhere(node, &function);
        is_lost.then_some((function, seen, boot))
    });
    lost.collect()
}

/// What to do about an RDMA device that disappeared while its function stayed.
const DETACHED: Remedy = Remedy {
    any: "Read what the driver logged when the device disappeared. If it was not removed on purpose (devlink dev param show: enable_rdma), \
        let the driver probe the function again, which also restarts its network device.",
    host: "journalctl -k -b | grep ADDRESS; devlink dev reload pci/ADDRESS",
    ..Remedy::all("")
};

/// Whether a device was neither a virtual function nor in software.
fn is_physical(seen: &Seen) -> bool {
    let driver = seen.driver.as_deref();
    !seen.is_virtual && driver.is_some_and(|driver| !matches!(driver, "rdma_rxe" | "siw"))
}

/// A device that was seen before: name, address, network device, rail and slot.
fn place(identity: &str, seen: &Seen, boot: &Boot) -> String {
    let mut place = vec![identity.to_owned()];
    place.extend(
        seen.netdev
            .iter()
            .map(|netdev| format!("network device {netdev}")),
    );
    place.extend(rail(boot, identity).map(|rail| format!("rail {rail}")));
    place.extend(seen.slot.iter().map(|slot| format!("slot {slot}")));
    format!("{} ({})", seen.name, place.join(", "))
}

/// Functions whose registers read as ones.
fn unreachable(node: &Node) -> Vec<Draft> {
    /// All six bits of the field Negotiated Link Width in the Link Status register (PCI Express Base Specification).
    const ALL_ONES: u32 = 63;
    let functions = node.functions().into_iter();
    let judged = functions.filter(|function| function.is_dma_of_host() || node.carries_rdma(function));
    let gone = judged.filter(|function| {
        let link = function.pci.map(|pci| &pci.link);
        link.is_some_and(|link| link.width.known() == Some(&ALL_ONES) && link.speed.known().is_none())
    });
    let found = gone.map(|function| {
        let message = format!(
            "{} does not answer on the PCIe bus: its registers read as ones",
            function.title()
        );
        Draft::new(&DEVICE_LOST, Subject::device(function.subject()), message)
            .remedy(UNREACHABLE)
            .case(match function.role {
                Role::Gpu => FindingCase::GpuLost,
                Role::Rdma | Role::Bridge | Role::Capable => FindingCase::AdapterLost,
            })
            .evidence(
                format!("/sys/bus/pci/devices/{}/current_link_width", function.address),
                ALL_ONES,
            )
    });
    found.collect()
}

/// What to do about a function that does not answer.
const UNREACHABLE: Remedy = Remedy {
    any: "Read what happened to it (AER, 'Device unreachable', Xid 79): journalctl -k -b | grep -e ADDRESS -e Xid. Drain the node \
        and power-cycle it. If it happens again, reseat or replace the card, its riser or cable.",
    ..Remedy::all("")
};

/// The position of a device among the physical devices with its driver, from 0, in order of PCI address.
fn rail(boot: &Boot, identity: &str) -> Option<usize> {
    let driver = &boot.hcas.get(identity)?.driver;
    let mut equal = boot
        .hcas
        .iter()
        .filter(|(_, seen)| is_physical(seen) && seen.driver == *driver);
    equal.position(|(other, _)| other == identity)
}

/// Functions without a driver whose equals have RDMA devices, and GPUs without the NIC that all others have.
pub(super) fn missing_by_symmetry(node: &Node) -> Vec<Draft> {
    let mut findings = abandoned(node);
    findings.extend(lent_rails(node));
    // The NIC of an empty switch may be one that was there: that is one fault.
    findings.extend(switch_without_nic(node).filter(|_| gone(node).is_empty()));
    findings
}

/// Functions that no driver holds although most equal ones have an RDMA device: the driver did not bind, or gave up.
fn abandoned(node: &Node) -> Vec<Draft> {
    let mut findings = Vec::new();
    for adapters in node.equal_adapters() {
        let all: Vec<_> = adapters.iter().collect();
        let has = |function: &Function<'_>| match (function.role, function.driver) {
            (Role::Rdma, _) => Some(true),
            (_, None) => Some(false),
            (_, Some(_)) => None,
        };
        let Some(found) = exceptions(&all, has) else {
            continue;
        };
        let share = found.share();
        for function in found.without {
            let address = function.address;
            let message = format!(
                "no driver holds {address}; {share} equal adapters have an RDMA device: its driver did not bind or gave up"
            );
            let directory = format!("/sys/bus/pci/devices/{address}");
            let mut finding = Draft::new(&modules::HCAS_MISSING, Subject::device(address), message)
                .remedy(ABANDONED)
                .evidence(format!("{directory}/driver"), "no such link");
            let lines = node.kernel_log.known().into_iter().flat_map(|log| &log.lines);
            if let Some(line) = lines.rev().find(|line| line.contains(address)) {
                finding = finding.evidence("/dev/kmsg", line);
            }
            findings.push(finding);
        }
    }
    findings
}

/// Adapters of GPUs that are set aside for a virtual machine, although most equal ones and the GPU next to them are used here.
fn lent_rails(node: &Node) -> Vec<Draft> {
    const FEWEST: usize = 3;
    let functions = node.functions();
    let groups = node.equal_adapters();
    let is_lent = |function: &&Function<'_>| {
        function.role == Role::Capable && function.lent_to.is_some() && !function.is_virtual()
    };
    let lent: Vec<_> = functions.iter().filter(is_lent).collect();
    let found = lent.iter().filter_map(|function| {
        let gpu = node.gpu_below_root_of(function)?;
        let of_its_kind = |group: &&Vec<Function<'_>>| group.iter().any(|one| one.ids() == function.ids());
        let equals = groups.iter().filter(of_its_kind).flatten();
        let with = equals.filter(|one| one.role == Role::Rdma).count();
        let aside = lent.iter().filter(|one| one.ids() == function.ids()).count();
        if with < FEWEST || with < aside * FEWEST {
            return None;
        }
        let (address, driver) = (function.address, function.driver?);
        let message = format!(
            "{address} is bound to {driver} and has no RDMA device; {with} of {} equal adapters have one, and the node itself uses GPU {} next to it",
            with + aside,
            gpu.address
        );
        let finding = Draft::new(&modules::HCAS_MISSING, Subject::device(address), message)
            .exception(&modules::SET_ASIDE)
            .remedy(SET_ASIDE)
            .evidence(format!("/sys/bus/pci/devices/{address}/driver"), driver);
        Some(finding)
    });
    found.collect()
}

/// What to do about an adapter that is bound to a driver for virtual machines.
const SET_ASIDE: Remedy = Remedy {
    any: "If no virtual machine is to have the adapter, bind it to its own driver, and find what binds it: driverctl list-overrides, vfio-pci.ids= on the \
        kernel command line, or options vfio-pci in /etc/modprobe.d.",
    host: "driverctl unset-override ADDRESS; echo > /sys/bus/pci/devices/ADDRESS/driver_override; echo ADDRESS > \
        /sys/bus/pci/drivers/vfio-pci/unbind; echo ADDRESS > /sys/bus/pci/drivers_probe",
    ..Remedy::all("")
};

/// What to do about a function that no driver holds.
const ABANDONED: Remedy = Remedy {
    any: "Read why the driver gave up, then let it probe the function again. If it fails again, reset or update the firmware \
        of the adapter; a power cycle (not a reboot) also resets it.",
    host: "journalctl -k | grep ADDRESS; echo ADDRESS > /sys/bus/pci/drivers_probe",
    ..Remedy::all("")
};

/// A PCIe switch with GPUs and without a NIC, if all others with GPUs have one and no equal NIC is elsewhere.
fn switch_without_nic(node: &Node) -> Option<Draft> {
    let place = empty_switch(node).filter(|place| place.elsewhere.is_none())?;
    let (root, of) = (place.root, place.of);
    let message = format!(
        "no adapter is below PCIe root port {root}, the switch of GPU {}; {} of {of} switches with GPUs have one",
        place.gpu,
        of - 1
    );
    Some(
        Draft::new(&modules::HCAS_MISSING, Subject::device(root), message).evidence(
            format!("/sys/bus/pci/devices below {root}"),
            "no network function that supports RDMA",
        ),
    )
}

/// The only PCIe switch with GPUs that has no NIC.
pub(super) struct EmptySwitch<'a> {
    /// The root port above it.
    pub(super) root: &'a str,
    /// A GPU below it.
    pub(super) gpu: &'a str,
    /// The number of switches with GPUs.
    pub(super) of: usize,
    /// A NIC like those of the other switches that is at none of them.
    pub(super) elsewhere: Option<&'a str>,
}

/// The switch with GPUs and without a NIC, if all others with GPUs have one.
pub(super) fn empty_switch(node: &Node) -> Option<EmptySwitch<'_>> {
    const FEWEST: usize = 3;
    // An excluded device may be the NIC.
    if node.is_virtual_machine() || !node.pci.left_out.is_empty() {
        return None;
    }
    let functions = node.functions();
    let mut switches: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
    for gpu in functions.iter().filter(|function| function.role == Role::Gpu) {
        // Below a root port alone there is no room for a NIC.
        if let [root, _, ..] = gpu.bridges() {
            switches.entry(root).or_insert((gpu.address, false));
        }
    }
    let is_adapter = |function: &Function<'_>| matches!(function.role, Role::Rdma | Role::Capable);
    for function in functions.iter().filter(|function| is_adapter(function)) {
        if let Some(root) = function.bridges().first()
            && let Some((_, has_nic)) = switches.get_mut(root.as_str())
        {
            *has_nic = true;
        }
    }
    let of = switches.len();
    let mut without = switches.iter().filter(|(_, (_, has_nic))| !has_nic);
    let (root, (gpu, _)) = without.next()?;
    if without.next().is_some() || of - 1 < FEWEST {
        return None;
    }
    let (root, gpu) = (*root, *gpu);
    let (at_switches, others): (Vec<_>, Vec<_>) = functions
        .iter()
        .filter(|function| is_adapter(function) && !function.is_virtual())
        .partition(|function| {
            function
                .bridges()
                .first()
                .is_some_and(|root| switches.contains_key(root.as_str()))
        });
    let kinds: BTreeSet<_> = at_switches.into_iter().filter_map(Function::ids).collect();
    let elsewhere = others
        .into_iter()
        .find(|function| function.ids().is_some_and(|ids| kinds.contains(&ids)))
        .map(|function| function.address);
    Some(EmptySwitch {
        root,
        gpu,
        of,
        elsewhere,
    })
}
