//! Transceivers: heat, and light at the edge of what they can receive.

use rdma_health_node::{
    Cable, Node, Port,
    transceiver::{Lane, Measure, Module},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

/// The limit of a module that reports none, in thousandths of a degree: the critical one of sichek for the ports of jobs.
const HOT: i64 = 75_000;
/// The lowest alarm that a module can mean, in thousandths of a degree: in a switch or server, every module is warmer than 25 °C.
const LEAST_ALARM: i64 = 45_000;
/// A received power at which nothing sends to the lane, in nanowatts: -30 dBm.
const DARK: i64 = 1_000;

/// `module-hot`.
pub static MODULE_HOT: Rule = Rule {
    id: "module-hot",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)).except(&[&LIMIT_UNREAD]),
    title: "A transceiver is too hot",
    explanation: "The transceiver has reached its own high-temperature alarm, or 75 °C if it reports none of 45 °C or more (75 °C is the critical \
        limit that sichek uses for ports of jobs). Bit errors rise with temperature. At its shutdown limit the module turns off its lasers and the \
        link goes down.",
    remedy: Remedy {
        any: "Check fans, air flow and blanking panels at this module, compare it with its neighbours, and clean and reseat it.",
        host: "ethtool -m NETDEV",
        ..Remedy::all("")
    },
    false_alarms: "Only modules that measure their temperature are judged. Readings outside -60 to 150 °C and pages with a wrong checksum \
        are not used. The agent reads a module every five minutes, and again at the next reading (once a minute) after its link went down or came up: \
        values are at most so old.",
    inputs: &[Writer::Hardware],
    judge: module_hot,
};

static LIMIT_UNREAD: Exception = Exception {
    condition: "if the module has limits of its own that could not be read: they may be higher",
    severities: Severities::INFO,
};

/// Every cable with its network device and transceiver.
fn modules(node: &Node) -> impl Iterator<Item = (Cable<'_>, &str, &Module)> {
    node.cables().into_iter().filter_map(|cable| {
        let netdev = cable.netdev?;
        Some((cable, netdev, node.module_of_netdev(netdev)?))
    })
}

fn module_hot(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = modules(node).filter_map(|(cable, netdev, module)| {
        let Measure { value, high, .. } = module.temperature?;
        let high = high.filter(|high| *high >= LEAST_ALARM);
        let limit = high.unwrap_or(HOT);
        if value < limit {
            return None;
        }
        let subject = Subject::of_port(&cable.port);
        let message = format!(
            "the {} of {netdev} ({subject}) has {}, expected less than {}",
            module.form,
            degrees(value),
            degrees(limit)
        );
        let limits_unread = module.limits_unread().filter(|_| high.is_none());
        let finding = Draft::new(&MODULE_HOT, subject, message)
            .exception(limits_unread.map(|_| &LIMIT_UNREAD))
            .fill("NETDEV", netdev)
            .evidence(format!("ethtool -m {netdev}: temperature"), degrees(value));
        let whose = match (high, limits_unread) {
            (Some(_), _) => "high alarm of the module".to_owned(),
            (None, Some(unread)) => format!("limit, that of the module could not be read ({unread})"),
            (None, None) => "limit, the module has no plausible one".to_owned(),
        };
        Some(identified(finding, module).evidence(whose, degrees(limit)))
    });
    found.collect()
}

/// Adds vendor and part number.
fn identified(finding: Draft, module: &Module) -> Draft {
    let words: Vec<&str> = [&module.vendor, &module.part]
        .into_iter()
        .filter_map(Option::as_deref)
        .collect();
    if words.is_empty() {
        finding
    } else {
        finding.evidence("module", words.join(" "))
    }
}

fn degrees(thousandths: i64) -> String {
    // A temperature has few digits.
    #[expect(clippy::cast_precision_loss)]
    let degrees = thousandths as f64 / 1000.0;
    format!("{degrees:.1} °C")
}

/// `module-light-low`.
pub static MODULE_LIGHT_LOW: Rule = Rule {
    id: "module-light-low",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)).except(&[&NEAR_THE_LIMIT]),
    title: "A transceiver receives or sends too little light",
    explanation: "The power of a lane is below the low alarm of the transceiver. The link is up, but bit errors rise, and forward error \
        correction has no reserve: the link flaps or loses packets as the fibre ages. A low received power comes from a dirty or bent fibre \
        or the other end's laser; a low sent power from this module.",
    remedy: Remedy {
        any: "Clean both ends of the fibre, check its bends, and reseat the module. If the received power stays low, exchange the module at \
            the other end; if the sent power is low, exchange this one.",
        host: "ethtool -m NETDEV",
        ..Remedy::all("")
    },
    false_alarms: "Only lanes of ACTIVE ports and of members of their bonds with a link, whose module measures light and has limits of its own are \
        judged: a spare port without a fibre is dark, and so are the lanes that an Ethernet link of fewer lanes does not use. A module that shows less than -30 dBm \
        on every lane of a link that is up does not measure light. Copper cables measure nothing. As for module-hot, values are up to five minutes old, but not older than the last time that the link went down or \
        came up.",
    inputs: &[Writer::Hardware, Writer::Fabric],
    judge: module_light_low,
};

static NEAR_THE_LIMIT: Exception = Exception {
    condition: "if the power is less than 1 dB above the low alarm (the margin that sichek requires for ports of jobs)",
    severities: Severities::INFO,
};

/// The power of a lane in one direction.
type Power = fn(&Lane) -> Option<Measure>;

fn module_light_low(node: &Node, _: &Expectations) -> Vec<Draft> {
    // A member of a bond without a link is dark, and bond-degraded reports it.
    let has_link = |cable: &Cable<'_>, netdev: &str| {
        !cable.is_member || node.member_is_up(cable.port.kernel, netdev) != Some(false)
    };
    let active = modules(node)
        .filter(|(cable, netdev, _)| cable.port.is_active() == Some(true) && has_link(cable, netdev));
    let found = active.filter_map(|(cable, netdev, module)| {
        let unused = unused_lanes(&cable.port, module);
        let lanes = module.lanes.iter().filter(|lane| !(unused && is_dark(lane)));
        // No link is up without any light: such a module does not measure it, and gives zeros.
        let has_light = |power: Power| {
            let mut powers = module.lanes.iter().filter_map(power);
            powers.any(|power| power.value > DARK)
        };
        let directions: [(&str, Power); 2] = [
            ("receives", |lane| lane.rx_power),
            ("sends", |lane| lane.tx_power),
        ];
        let judged: Vec<_> = directions
            .into_iter()
            .filter(|(_, power)| has_light(*power))
            .collect();
        let powers = lanes.flat_map(|of| {
            judged
                .iter()
                .map(|(what, power)| Some((of.number, *what, power(of)?.value, power(of)?.low?)))
        });
        // 1 dB is a factor of 1.259.
        let near = |value: i64, low: i64| value.saturating_mul(1000) < low.saturating_mul(1259);
        let mut low: Vec<(u8, _, _, _)> = powers
            .flatten()
            .filter(|(.., value, low)| near(*value, *low))
            .collect();
        low.sort_by_key(|(.., value, limit)| value - limit);
        let (lane, what, value, limit) = *low.first()?;
        let subject = Subject::of_port(&cable.port);
        let relation = if value < limit {
            "below"
        } else {
            "less than 1 dB above"
        };
        let message = format!(
            "lane {lane} of the {} of {netdev} ({subject}) {what} {}, {relation} its low alarm of {}",
            module.form,
            decibels(value),
            decibels(limit)
        );
        let finding = Draft::new(&MODULE_LIGHT_LOW, subject, message)
            .exception((value >= limit).then_some(&NEAR_THE_LIMIT))
            .fill("NETDEV", netdev);
        let finding = low
            .iter()
            .take(8)
            .fold(finding, |finding, (lane, what, value, limit)| {
                let source = format!("ethtool -m {netdev}: lane {lane} {what}");
                finding.evidence(
                    source,
                    format!("{} (low alarm {})", decibels(*value), decibels(*limit)),
                )
            });
        Some(identified(finding, module))
    });
    found.collect()
}

/// Whether the dark lanes of a module are those that the link does not use: an Ethernet port runs with as many lanes as its speed needs, on
/// a cable that is split, for example. An InfiniBand port that lost lanes runs with the rest.
fn unused_lanes(port: &Port<'_>, module: &Module) -> bool {
    let used = port.rate.known().and_then(|rate| rate.lanes);
    let dark = module.lanes.iter().filter(|lane| is_dark(lane)).count();
    port.is_ethernet() && used.is_some_and(|used| used as usize + dark == module.lanes.len())
}

fn is_dark(lane: &Lane) -> bool {
    lane.rx_power.is_some_and(|power| power.value <= DARK)
}

/// `-3.0 dBm`; `no light` for zero.
fn decibels(nanowatts: i64) -> String {
    if nanowatts <= 0 {
        return "no light".into();
    }
    // At most 6.5 milliwatts.
    #[expect(clippy::cast_precision_loss)]
    let milliwatts = nanowatts as f64 / 1e6;
    format!("{:.1} dBm", 10.0 * std::f64::consts::LOG10_2 * log2(milliwatts))
}

/// The binary logarithm of a positive number, to 20 bits after the point: squaring a number doubles its logarithm. The
/// standard library's needs libm, which nothing else does and which would add 0.3 MB to the agent's memory.
fn log2(number: f64) -> f64 {
    let (mut whole, mut rest) = (0.0, number);
    while rest >= 2.0 {
        (whole, rest) = (whole + 1.0, rest / 2.0);
    }
    while rest < 1.0 {
        (whole, rest) = (whole - 1.0, rest * 2.0);
    }
    let (mut fraction, mut bit) = (0.0, 1.0);
    for _ in 0..20 {
        (rest, bit) = (rest * rest, bit / 2.0);
        if rest >= 2.0 {
            (fraction, rest) = (fraction + bit, rest / 2.0);
        }
    }
    whole + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_shown_in_decibels_as_people_know_them() {
        for (nanowatts, expected) in [
            (-1, "no light"),
            (0, "no light"),
            (1, "-60.0 dBm"),
            (100, "-40.0 dBm"),
            (501_187, "-3.0 dBm"),
            (1_000_000, "0.0 dBm"),
            (1_258_925, "1.0 dBm"),
            (6_553_500, "8.2 dBm"),
        ] {
            assert_eq!(decibels(nanowatts), expected, "{nanowatts}");
        }
        for nanowatts in 1..100_000 {
            let exact = (f64::from(nanowatts) / 1e6).log2();
            assert!(
                (log2(f64::from(nanowatts) / 1e6) - exact).abs() < 1e-5,
                "{nanowatts}"
            );
        }
    }
}
