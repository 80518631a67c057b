//! PCIe links of RDMA functions and GPUs.

use rdma_health_node::{
    Node,
    pci::{Aer, AerCount, Function, PortType, Role},
};

use super::common::{ago, gigabits, in_virtual_machine, severity};
use crate::{Domain, Expectations, Finding, Remedy, Rule, Severity, Subject};

const DEVICES: &str = "/sys/bus/pci/devices";

/// What a person calls a function: its RDMA device, `GPU`, or nothing but the address.
fn called(node: &Node, address: &str, function: &Function) -> String {
    let hca = node
        .hcas()
        .find(|hca| hca.pci_address.known().is_some_and(|of| of == address));
    match (hca, function.role) {
        (Some(hca), _) => format!("{} ({address})", hca.name),
        (None, Role::Gpu) => format!("GPU {address}"),
        (None, Role::Bridge) => format!("PCIe port {address}"),
        (None, _) => address.to_owned(),
    }
}

/// The RDMA device of a function where it has one, else its address.
pub(super) fn subject(node: &Node, address: &str) -> Subject {
    let mut hcas = node.hcas();
    let hca = hcas.find(|hca| hca.pci_address.known().is_some_and(|of| of == address));
    Subject::device(hca.map_or(address, |hca| &hca.name))
}

/// Whether a function is the network card below a software device: no RDMA hardware.
pub(super) fn below_software(node: &Node, address: &str) -> bool {
    node.hcas()
        .any(|hca| hca.is_software() && hca.pci_address.known().is_some_and(|of| of == address))
}

/// `pci-link-degraded`.
pub(crate) static LINK_DEGRADED: Rule = Rule {
    id: "pci-link-degraded",
    domain: Domain::Pci,
    severity: Severity::Warning,
    title: "A PCIe link runs slower or narrower than both of its ends can",
    explanation: "The link of an RDMA function, of a GPU, or of a switch above one trained to fewer lanes or a lower speed \
        than the device and the port above it could do together. A 400 Gb/s port needs 16 lanes of 32 GT/s; at half of either \
        the port is limited to half, whatever its own link says.",
    remedy: Remedy {
        any: "Reseat the card and its riser, look at the slot's settings in the firmware (speed, bifurcation) and at \
            pci-aer-errors, then reboot: links train anew. If it stays, the card, riser or slot is bad.",
        host: "lspci -vv -s ADDRESS shows LnkCap and LnkSta of both ends.",
        ..Remedy::all("")
    },
    false_alarms: "A link is compared with what both ends can do: a Gen5 card in a Gen4 slot is at its best. Only the width of a \
        GPU is judged, since it lowers its speed while idle. Virtual functions have no link of their own. In a virtual machine \
        it is for information: the port above is not the real one.",
    judge: link_degraded,
};

fn link_degraded(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let auto = if in_virtual_machine(node) {
        Severity::Info
    } else {
        Severity::Warning
    };
    let Some(severity) = severity(expectations, auto, auto) else {
        return Vec::new();
    };
    let above_nics: Vec<&String> = node
        .pci
        .with_role(Role::Rdma)
        .filter(|(address, _)| !below_software(node, address))
        .flat_map(|(_, function)| &function.bridges)
        .collect();
    let mut findings = Vec::new();
    for (address, function) in node.pci.functions.known().into_iter().flatten() {
        let port = function.capabilities.known().and_then(|found| found.port_type);
        let judges_speed = match function.role {
            Role::Rdma => !below_software(node, address),
            Role::Gpu => false,
            // Only the lower end of a link is compared with the port above it.
            Role::Bridge if port == Some(PortType::Upstream) => above_nics.contains(&address),
            Role::Bridge | Role::Capable => continue,
        };
        if function.physical_function.known().is_some() || (function.role == Role::Rdma && !judges_speed) {
            continue;
        }
        let (best_speed, best_width) = node.pci.best_link(function);
        let link = &function.link;
        let below =
            |now: Option<&u32>, best: Option<u32>| Some((*now?, best?)).filter(|(now, best)| now < best);
        let slow = below(link.speed.known(), best_speed).filter(|_| judges_speed);
        let narrow = below(link.width.known(), best_width);
        let mut what = Vec::new();
        if let Some((now, best)) = slow {
            what.push(format!("{} GT/s of {}", transfers(now), transfers(best)));
        }
        if let Some((now, best)) = narrow {
            what.push(format!("{now} of {best} lanes"));
        }
        if what.is_empty() {
            continue;
        }
        let message = format!(
            "the PCIe link of {} runs at {}",
            called(node, address, function),
            what.join(" and ")
        );
        let mut finding = Finding::new(&LINK_DEGRADED, subject(node, address), message).severity(severity);
        let (speed, width) = (
            link.speed
                .known()
                .map_or("unknown".into(), |speed| format!("{} GT/s", transfers(*speed))),
            link.width
                .known()
                .map_or("unknown".into(), |width| format!("x{width}")),
        );
        finding = finding
            .evidence(format!("{DEVICES}/{address}/current_link_speed"), speed)
            .evidence(format!("{DEVICES}/{address}/current_link_width"), width);
        if let Some(bridge) = function.bridges.last() {
            let best = format!(
                "both ends can do {} and x{}",
                best_speed.map_or("?".into(), |speed| format!("{} GT/s", transfers(speed))),
                best_width.map_or("?".into(), |width| width.to_string())
            );
            finding = finding.evidence(format!("{DEVICES}/{bridge}/max_link_{{speed,width}}"), best);
        }
        findings.push(finding);
    }
    findings
}

/// Megatransfers as the kernel writes them: `2.5`, `16`.
fn transfers(mega: u32) -> String {
    match mega % 1000 / 100 {
        0 => format!("{}", mega / 1000),
        tenth => format!("{}.{tenth}", mega / 1000),
    }
}

/// `pci-aer-errors`.
pub(crate) static AER_ERRORS: Rule = Rule {
    id: "pci-aer-errors",
    domain: Domain::Pci,
    severity: Severity::Warning,
    title: "PCIe errors of an RDMA function, a GPU or a port above one",
    explanation: "The function reported errors through Advanced Error Reporting. Fatal: the link failed. Non-fatal: data was \
        lost. Correctable: the hardware repeated the transfer; one now and then is harmless, many tell of a bad slot, riser or \
        card and cost bandwidth. Counts are those since boot; where earlier readings are kept, only errors of the last day \
        count, and correctable ones by their rate (expect.thresholds.pcie_corrected_per_hour).",
    remedy: Remedy {
        any: "Look at the kernel's log for the lines around 'AER:' or 'PCIe Bus Error'. Reseat card and riser; update the \
            firmware of card and switch. If errors keep coming, replace the part.",
        ..Remedy::all("")
    },
    false_alarms: "UnsupReq alone is for information: some devices report it when the firmware scans the bus. Correctable \
        errors without earlier readings are not judged.",
    judge: aer_errors,
};

/// How far back errors count, in seconds.
const DAY: u64 = 86_400;

fn aer_errors(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (address, function) in node.pci.functions.known().into_iter().flatten() {
        let Some(aer) = function.aer.known().filter(|_| function.role != Role::Capable) else {
            continue;
        };
        if below_software(node, address) {
            continue;
        }
        let mut what = Vec::new();
        let mut worst = Severity::Info;
        for (name, file, errors) in [
            ("fatal", "aer_dev_fatal", &aer.fatal),
            ("non-fatal", "aer_dev_nonfatal", &aer.nonfatal),
        ] {
            let Some(errors) = errors.known().filter(|errors| errors.total > 0) else {
                continue;
            };
            let key = name.replace('-', "");
            let past = node
                .history
                .as_ref()
                .and_then(|history| history.functions.get(address));
            let rise = past.and_then(|past| past.rise(&key, errors.total, node.time, 1800, DAY + 7200));
            match rise {
                Some((0, seconds)) if seconds > DAY / 2 => continue,
                _ => {}
            }
            if !only_unsupported(errors) {
                worst = severity;
            }
            what.push((format!("{} {name}", errors.total), file, kinds(errors)));
        }
        if let Some((errors, rise, seconds)) = corrected(node, address, aer)
            && rise.saturating_mul(3600)
                > u64::from(expectations.thresholds.pcie_corrected_per_hour).saturating_mul(seconds)
        {
            worst = severity;
            what.push((
                format!("{rise} correctable in {}", ago(seconds)),
                "aer_dev_correctable",
                kinds(errors),
            ));
        }
        if what.is_empty() {
            continue;
        }
        let words: Vec<_> = what.iter().map(|(words, ..)| words.as_str()).collect();
        let message = format!(
            "{} reported PCIe errors: {}",
            called(node, address, function),
            words.join(", ")
        );
        let mut finding = Finding::new(&AER_ERRORS, subject(node, address), message).severity(worst);
        for (_, file, kinds) in &what {
            finding = finding.evidence(format!("{DEVICES}/{address}/{file}"), kinds);
        }
        findings.push(finding);
    }
    findings
}

/// How many correctable errors came within the last hours.
fn corrected<'a>(node: &Node, address: &str, aer: &'a Aer) -> Option<(&'a AerCount, u64, u64)> {
    let errors = aer.correctable.known()?;
    let past = node.history.as_ref()?.functions.get(address)?;
    let (rise, seconds) = past.rise("correctable", errors.total, node.time, 1800, 3 * 3600)?;
    Some((errors, rise, seconds))
}

fn only_unsupported(errors: &AerCount) -> bool {
    !errors.kinds.is_empty() && errors.kinds.iter().all(|(kind, _)| kind == "UnsupReq")
}

fn kinds(errors: &AerCount) -> String {
    let kinds: Vec<_> = errors
        .kinds
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    if kinds.is_empty() {
        errors.total.to_string()
    } else {
        kinds.join(", ")
    }
}

/// `pci-max-read-request`.
pub(crate) static MAX_READ_REQUEST: Rule = Rule {
    id: "pci-max-read-request",
    domain: Domain::Pci,
    severity: Severity::Warning,
    title: "An adapter may ask for little memory at a time",
    explanation: "The largest read request (MaxReadReq of the PCIe Device Control register) bounds how much a NIC fetches from \
        memory with one request. Below 512 bytes a fast port starves while it sends; at 200 Gb/s and above, vendors recommend \
        4096. A warning below 512 at 100 Gb/s and above; for information below 4096 at 200 Gb/s and above.",
    remedy: Remedy {
        any: "Set it in the firmware setup of the machine (PCIe Max Read Request Size), so that it survives a reboot.",
        host: "Until the next boot: setpci -s ADDRESS CAP_EXP+8.w shows the register; bits 14:12 are the size (5 is 4096), so \
            setpci -s ADDRESS CAP_EXP+8.w=5000:7000.",
        ..Remedy::all("")
    },
    false_alarms: "Virtual functions have no such setting (theirs reads as 128), and inside a virtual machine one cannot be told \
        from a physical function: neither is judged. Slower ports do not need it.",
    judge: max_read_request,
};

fn max_read_request(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    const GIGA: u64 = 1_000_000_000;
    if in_virtual_machine(node) {
        return Vec::new();
    }
    let functions = node.pci.with_role(Role::Rdma).filter(|(address, function)| {
        function.physical_function.known().is_none() && !below_software(node, address)
    });
    let found = functions.filter_map(|(address, function)| {
        let size = function.capabilities.known()?.max_read_request?;
        let rate = node
            .hcas()
            .filter(|hca| hca.pci_address.known() == Some(address))
            .flat_map(|hca| hca.ports.values())
            .filter(|port| port.is_active() == Some(true))
            .filter_map(|port| Some(port.rate.known()?.bits_per_second))
            .max()?;
        let auto = match size {
            0..512 if rate >= 100 * GIGA => Severity::Warning,
            0..4096 if rate >= 200 * GIGA => Severity::Info,
            _ => return None,
        };
        let severity = severity(expectations, auto, auto)?;
        let message = format!(
            "{} reads at most {size} bytes at a time, at a port of {}",
            called(node, address, function),
            gigabits(rate)
        );
        Some(
            Finding::new(&MAX_READ_REQUEST, subject(node, address), message)
                .severity(severity)
                .evidence(
                    format!("{DEVICES}/{address}/config"),
                    format!("MaxReadReq {size} bytes"),
                ),
        )
    });
    found.collect()
}
