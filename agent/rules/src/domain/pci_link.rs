//! PCIe links of RDMA functions and GPUs.

use rdma_health_node::{
    Fact, Function, Node,
    pci::{self, AerCount, PortType, Role},
    words::{duration, gigabits},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer, domain::trend::far_above,
    draft::Draft, policy::Exception,
};

const DEVICES: &str = "/sys/bus/pci/devices";

/// `pci-link-degraded`.
pub static LINK_DEGRADED: Rule = Rule {
    id: "pci-link-degraded",
    domain: Domain::Pci,
    policy: Policy::of(Severities::WARNING).except(&[&IN_A_VIRTUAL_MACHINE]),
    title: "A PCIe link runs below its full speed or width",
    explanation: "The PCIe link of an RDMA device, of a GPU, or of a switch above an RDMA device trained to fewer \
        lanes or a lower speed than both of its ends support. A 400 Gb/s port needs 16 lanes at 32 GT/s; with half \
        the lanes or half the speed it is limited to half its rate.",
    remedy: Remedy {
        any: "Reseat the card and its riser, check the slot settings in the firmware setup (speed, bifurcation) and \
            pci-aer-errors, then reboot, because links train at boot. If the link stays degraded, the card, riser or \
            slot is defective.",
        host: "Compare LnkCap and LnkSta of both ends: lspci -vv -s ADDRESS | grep -e LnkCap: -e LnkSta:",
        ..Remedy::all("")
    },
    false_alarms: "A link is compared with what both of its ends support: a Gen5 card in a Gen4 slot is not \
        reported. Of a GPU only the width is judged, because an idle GPU lowers the speed of its link. Virtual \
        functions do not have their own link.",
    inputs: &[Writer::Hardware],
    judge: link_degraded,
};

/// What to do where the adapter is part of the board.
const SOLDERED: Remedy = Remedy {
    any: "The adapter is part of the board. Update the firmware of the machine (fwupdmgr refresh; fwupdmgr update), shut it down, unplug it for a \
        minute, and start it again, because links train at boot. If the link stays degraded, have the machine replaced.",
    host: "lspci -vv -s ADDRESS | grep -e LnkCap: -e LnkSta:",
    ..Remedy::all("")
};

static IN_A_VIRTUAL_MACHINE: Exception = Exception {
    condition: "in a virtual machine, which does not see the real port above the device",
    severities: Severities::INFO,
};

fn link_degraded(node: &Node, _: &Expectations) -> Vec<Draft> {
    let functions = node.functions();
    let rdma = functions.iter().filter(|function| node.carries_rdma(function));
    let above_nics: Vec<&String> = rdma.flat_map(Function::bridges).collect();
    let found = functions.iter().filter_map(|function| {
        let pci = function.pci.filter(|_| !function.is_virtual())?;
        let port = pci.capabilities.known().and_then(|found| found.port_type);
        let is_above_nic = above_nics.iter().any(|above| *above == function.address);
        let judges_speed = match function.role {
            Role::Rdma | Role::Capable if node.carries_rdma(function) => true,
            // An idle GPU lowers the speed of its link.
            Role::Gpu => false,
            // Only the lower end of a link is compared with the port above it.
            Role::Bridge if port == Some(PortType::Upstream) && is_above_nic => true,
            _ => return None,
        };
        slow_or_narrow(node, function, pci, judges_speed)
    });
    found.collect()
}

/// A link that is slower, where that is judged, or narrower than both of its ends support.
fn slow_or_narrow(
    node: &Node,
    function: &Function<'_>,
    pci: &pci::Function,
    judges_speed: bool,
) -> Option<Draft> {
    let (speed, width) = (pci.link.speed.known().copied(), pci.link.width.known().copied());
    let (best_speed, best_width) = node.pci.best_link(pci);
    let below = |now: Option<u32>, best: Option<u32>| Some((now?, best?)).filter(|(now, best)| now < best);
    let slow = below(speed, best_speed).filter(|_| judges_speed);
    let slow = slow.map(|(now, best)| format!("at {} instead of {}", transfers(now), transfers(best)));
    let narrow = below(width, best_width);
    let narrow = narrow.map(|(now, best)| format!("with {now} instead of {best} lanes"));
    let faults: Vec<_> = [slow, narrow].into_iter().flatten().collect();
    if faults.is_empty() {
        return None;
    }
    let title = function.title();
    let message = format!("the PCIe link of {title} runs {}", faults.join(" and "));
    let directory = format!("{DEVICES}/{}", function.address);
    let lanes = |width: u32| format!("x{width}");
    let mut finding = Draft::new(&LINK_DEGRADED, Subject::device(function.subject()), message)
        .exception(node.is_virtual_machine().then_some(&IN_A_VIRTUAL_MACHINE))
        .remedy(if node.is_gb10() && function.role == Role::Rdma {
            SOLDERED
        } else {
            LINK_DEGRADED.remedy
        })
        .evidence(
            format!("{directory}/current_link_speed"),
            speed.map_or("unknown".into(), transfers),
        )
        .evidence(
            format!("{directory}/current_link_width"),
            width.map_or("unknown".into(), lanes),
        );
    if let Some(bridge) = pci.bridges.last() {
        let best = format!(
            "both ends support {} and {}",
            best_speed.map_or("an unknown speed".into(), transfers),
            best_width.map_or("an unknown width".into(), lanes)
        );
        finding = finding.evidence(format!("{DEVICES}/{bridge}/max_link_{{speed,width}}"), best);
    }
    Some(finding)
}

/// A link speed, from megatransfers per second: `16 GT/s`.
fn transfers(mega: u32) -> String {
    match mega % 1000 / 100 {
        0 => format!("{} GT/s", mega / 1000),
        tenth => format!("{}.{tenth} GT/s", mega / 1000),
    }
}

/// `pci-aer-errors`.
pub static AER_ERRORS: Rule = Rule {
    id: "pci-aer-errors",
    domain: Domain::Pci,
    policy: Policy::of(Severities::WARNING).except(&[&ONLY_UNSUPPORTED]),
    title: "PCIe errors on an RDMA device, a GPU or a port above one",
    explanation: "The device reported errors through Advanced Error Reporting (AER). Fatal: the link failed. \
        Non-fatal: data was lost. Correctable: the hardware repeated the transfer. A few correctable errors are \
        harmless; many point to a bad slot, riser or card and reduce bandwidth. Errors are counted since boot. With \
        earlier readings, only errors of the last day count, and correctable errors are judged by their rate \
        (expect.thresholds.pcie_corrected_per_hour). Without them, correctable errors are judged from 10000 on: by ten times that rate \
        since the boot, and against equal devices.",
    remedy: Remedy::all(
        "Read the kernel log: journalctl -k | grep -e AER: -e 'PCIe Bus Error'. Reseat card and riser, and update \
        the firmware of card and switch. If errors continue, replace the part.",
    ),
    false_alarms: "Without earlier readings, correctable errors that are fewer than 10000, or rarer than the limit and not 100 times the \
        median of three equal devices or more, are not reported.",
    inputs: &[Writer::Hardware],
    judge: aer_errors,
};

static ONLY_UNSUPPORTED: Exception = Exception {
    condition: "if all errors are UnsupReq, which some devices report when the firmware scans the bus",
    severities: Severities::INFO,
};

/// How far back errors count, in seconds.
const DAY: u64 = 86_400;

/// Errors of one kind that count.
struct Errors {
    /// What was counted: `2 non-fatal`.
    words: String,
    /// The name of the file with the counters.
    file: &'static str,
    /// Each counter that is not zero.
    kinds: String,
    /// Whether all of them are unsupported requests.
    only_unsupported: bool,
}

fn aer_errors(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let per_hour = expectations.thresholds.pcie_corrected_per_hour;
    let functions = node.functions();
    let judged = functions.iter().filter(|function| match function.role {
        Role::Rdma | Role::Capable => node.carries_rdma(function),
        Role::Gpu | Role::Bridge => !function.is_software,
    });
    let found = judged.filter_map(|function| {
        let address = function.address;
        let aer = function.pci?.aer.known()?;
        let errors: Vec<_> = [
            uncorrected(node, address, "fatal", "aer_dev_fatal", &aer.fatal),
            uncorrected(node, address, "non-fatal", "aer_dev_nonfatal", &aer.nonfatal),
            corrected(node, function, &functions, &aer.correctable, per_hour),
        ]
        .into_iter()
        .flatten()
        .collect();
        if errors.is_empty() {
            return None;
        }
        let words: Vec<_> = errors.iter().map(|errors| errors.words.as_str()).collect();
        let message = format!("{} reported PCIe errors: {}", function.title(), words.join(", "));
        let only_unsupported = errors.iter().all(|errors| errors.only_unsupported);
        let mut finding = Draft::new(&AER_ERRORS, Subject::device(function.subject()), message)
            .exception(only_unsupported.then_some(&ONLY_UNSUPPORTED));
        for errors in &errors {
            finding = finding.evidence(format!("{DEVICES}/{address}/{}", errors.file), &errors.kinds);
        }
        Some(finding)
    });
    found.collect()
}

/// Errors of this kind, unless the history shows that the last day brought no new one.
fn uncorrected(
    node: &Node,
    address: &str,
    kind: &str,
    file: &'static str,
    errors: &Fact<AerCount>,
) -> Option<Errors> {
    let errors = errors.known().filter(|errors| errors.total > 0)?;
    let past = node
        .history
        .as_ref()
        .and_then(|history| history.functions.get(address));
    let key = kind.replace('-', "");
    let rise = past.and_then(|past| past.rise(&key, errors.total, node.time, 1800, DAY + 7200));
    let is_old = rise.is_some_and(|(rise, seconds)| rise == 0 && seconds > DAY / 2);
    (!is_old).then(|| Errors {
        words: format!("{} {kind}", errors.total),
        file,
        kinds: kinds(errors),
        only_unsupported: only_unsupported(errors),
    })
}

/// Correctable errors that came faster than the limit: in the last hours, or without a history since the boot.
fn corrected(
    node: &Node,
    function: &Function<'_>,
    functions: &[Function<'_>],
    errors: &Fact<AerCount>,
    per_hour: u32,
) -> Option<Errors> {
    let errors = errors.known()?;
    let words = match &node.history {
        Some(history) => {
            let past = history.functions.get(function.address)?;
            let (rise, seconds) = past.rise("correctable", errors.total, node.time, 1800, 3 * 3600)?;
            let is_fast = rise.saturating_mul(3600) > u64::from(per_hour).saturating_mul(seconds);
            is_fast.then(|| {
                format!(
                    "{rise} correctable in {} (limit {per_hour} an hour)",
                    duration(seconds)
                )
            })?
        }
        None => corrected_since_boot(node, function, functions, errors.total, per_hour)?,
    };
    Some(Errors {
        words,
        file: "aer_dev_correctable",
        kinds: kinds(errors),
        only_unsupported: false,
    })
}

/// So many correctable errors since the boot, in words, if they are unusual: more per hour than ten times the limit, or 100 times
/// the median of the equal functions.
fn corrected_since_boot(
    node: &Node,
    function: &Function<'_>,
    functions: &[Function<'_>],
    total: u64,
    per_hour: u32,
) -> Option<String> {
    const LEAST: u64 = 10_000;
    if total < LEAST {
        return None;
    }
    let model = |function: &Function<'_>| {
        let ids = function.ids().filter(|_| !function.is_virtual())?;
        Some((function.role, ids))
    };
    let own = model(function)?;
    let equals = functions
        .iter()
        .filter(|other| other.address != function.address && model(other) == Some(own))
        .filter_map(|other| Some(other.pci?.aer.known()?.correctable.known()?.total));
    if let Some(usual) = far_above(total, equals) {
        return Some(format!(
            "{total} correctable since the boot (median of equal devices {usual})"
        ));
    }
    let uptime = *node.host.uptime.known()?;
    let limit = u64::from(per_hour) * 10;
    (total.saturating_mul(3600) > limit.saturating_mul(uptime.max(3600))).then(|| {
        format!(
            "{total} correctable since the boot {} ago (limit {limit} an hour)",
            duration(uptime)
        )
    })
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
pub static MAX_READ_REQUEST: Rule = Rule {
    id: "pci-max-read-request",
    domain: Domain::Pci,
    policy: Policy::of(Severities::WARNING).except(&[&BELOW_RECOMMENDED]),
    title: "PCIe read requests of an adapter are too small for its rate",
    explanation: "The maximum read request size (MaxReadReq in the PCIe Device Control register) limits how much \
        memory a NIC fetches with one request. Below 512 bytes, a port of 100 Gb/s or more cannot send at its full \
        rate. For 200 Gb/s or more, vendors recommend 4096 bytes.",
    remedy: Remedy {
        any: "Raise PCIe Max Read Request Size in the firmware setup of the machine, so that it survives a reboot.",
        host: "Until the next boot: setpci -s ADDRESS CAP_EXP+8.w=5000:7000 sets 4096 bytes (bits 14:12 are the \
            size, 5 is 4096). Show the register first: setpci -s ADDRESS CAP_EXP+8.w",
        ..Remedy::all("")
    },
    false_alarms: "Virtual functions have no such setting (it reads as 128), and in a virtual machine they look like \
        physical functions: neither is judged. Slower ports do not need larger requests.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: max_read_request,
};

static BELOW_RECOMMENDED: Exception = Exception {
    condition: "if the size is 512 bytes or more (and below the 4096 recommended for 200 Gb/s or more)",
    severities: Severities::INFO,
};

fn max_read_request(node: &Node, _: &Expectations) -> Vec<Draft> {
    const GIGA: u64 = 1_000_000_000;
    if node.is_virtual_machine() {
        return Vec::new();
    }
    let found = node.nics().filter_map(|nic| {
        let size = nic.pci?.capabilities.known()?.max_read_request?;
        let rate = node
            .active_ports()
            .filter(|port| nic.names.contains(&port.hca.name.as_str()))
            .filter_map(|port| Some(port.rate.known()?.bits_per_second))
            .max()?;
        let expected = if rate >= 200 * GIGA { 4096 } else { 512 };
        if rate < 100 * GIGA || size >= expected {
            return None;
        }
        let exception = (size >= 512).then_some(&BELOW_RECOMMENDED);
        let message = format!(
            "{} reads at most {size} bytes per PCIe request for a port of {}, expected {expected}",
            nic.title(),
            gigabits(rate)
        );
        Some(
            Draft::new(&MAX_READ_REQUEST, Subject::device(nic.subject()), message)
                .exception(exception)
                .evidence(
                    format!("{DEVICES}/{}/config", nic.address),
                    format!("MaxReadReq {size} bytes"),
                ),
        )
    });
    found.collect()
}
