//! What drivers report of the health and the firmware of their devices.

use rdma_health_node::{
    Node,
    devlink::{Device, Reporter},
    words::{count, count_of, date, duration},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

/// `health-reporter-error`.
pub static HEALTH_REPORTER_ERROR: Rule = Rule {
    id: "health-reporter-error",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)).except(&[&WITHOUT_RECOVERY]),
    title: "The driver reports that a part of the device is in error",
    explanation: "Drivers watch the firmware, the queues and other parts of a device with devlink health reporters. A \
        reporter is in the state error from the fault until the driver has recovered from it. A device whose firmware \
        reporter (fw_fatal) stays in error answers no commands: connections over it fail or hang. Some reporters have no recovery \
        (fw and vnic of mlx5, mdd, tx_hang, fw and port of ice): from their first error on they stay in the state error until the driver is loaded again, \
        even if the part works. Of these the number of errors is judged.",
    remedy: Remedy {
        any: "Read what the reporter recorded: devlink health diagnose pci/ADDRESS reporter NAME. Recover it with devlink \
            health recover pci/ADDRESS reporter NAME. If the error comes back, drain the node and reset the adapter or \
            power-cycle the node.",
        ..Remedy::all("")
    },
    false_alarms: "Of reporters with recovery, only the present state is judged. Errors that the driver recovered from are counted in \
        rdma_devlink_health_reporter_errors_total. One without recovery is a warning for an hour after an error, if the agent watched. The kernel \
        reports a graceful period and automatic recovery only of reporters with recovery.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Job],
    judge: health_reporter_error,
};

static WITHOUT_RECOVERY: Exception = Exception {
    condition: "if the driver has no recovery for the reporter, and no error is known of the last hour",
    severities: Severities::INFO,
};

/// What to do about a part that the driver cannot recover.
const ONCE: Remedy = Remedy {
    any: "Read what the reporter recorded: devlink health diagnose pci/ADDRESS reporter NAME, devlink health dump show pci/ADDRESS reporter NAME, and \
        journalctl -k. The driver has no recovery for it. If the number of errors does not rise, nothing else is needed: the state error ends when the \
        function is reset (devlink dev reload pci/ADDRESS), when the driver is loaded again, or with a reboot of the node. If it rises, drain \
        the node and reset the adapter.",
    ..Remedy::all("")
};

/// The same for a part of a subfunction.
const ONCE_OF_SUBFUNCTION: Remedy = Remedy {
    any: "Read what the reporter recorded: devlink health diagnose auxiliary/ADDRESS reporter NAME, devlink health dump show auxiliary/ADDRESS reporter NAME, and \
        journalctl -k. The driver has no recovery for it. If the number of errors does not rise, nothing else is needed: the state error ends when the \
        function is reset (devlink dev reload auxiliary/ADDRESS), when the driver is loaded again, or with a reboot of the node. If it rises, drain \
        the node and remove the subfunction and create it again.",
    ..Remedy::all("")
};

/// What to do about a part of a subfunction.
const OF_SUBFUNCTION: Remedy = Remedy {
    any: "Read what the reporter recorded: devlink health diagnose auxiliary/ADDRESS reporter NAME. Recover it with devlink \
        health recover auxiliary/ADDRESS reporter NAME. If the error comes back, remove the subfunction and create it again, then drain the node \
        and reset the adapter.",
    ..Remedy::all("")
};

/// The name that devlink has for what a reporter watches.
fn handle(address: &str, reporter: &Reporter) -> String {
    let of_function = || format!("pci/{address}");
    reporter.subfunction.clone().unwrap_or_else(of_function)
}

fn health_reporter_error(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = node.devlink_devices().filter_map(|(address, device)| {
        let broken = Broken::of(node, address, device)?;
        let first = broken.reporters[0];
        let subject = Subject::device(node.name_of_function(address));
        let others = match broken.reporters.len() - 1 {
            0 => String::new(),
            others => format!(" and {} more", count(others, "reporter")),
        };
        let subfunction = first
            .subfunction
            .as_ref()
            .map_or(String::new(), |name| format!(", {name}"));
        let whose = format!(
            "the health reporter {} of {subject} ({address}{subfunction})",
            first.name
        );
        let message = match broken.kind {
            Kind::Unrecovered => format!("{whose} is in error{others}, expected healthy"),
            Kind::Rising(errors, seconds) => format!(
                "{whose} reported {} within {}{others}, expected none",
                count_of(errors, "error"),
                duration(seconds)
            ),
            Kind::Once => format!(
                "{whose} reported {} since the driver was loaded{others}; the driver has no recovery for it",
                count_of(first.errors, "error")
            ),
        };
        // A bond has several functions.
        let finding = Draft::new(&HEALTH_REPORTER_ERROR, subject, message);
        let name_of_subfunction = first
            .subfunction
            .as_deref()
            .and_then(|name| name.strip_prefix("auxiliary/"));
        let finding = match (broken.kind, name_of_subfunction) {
            (Kind::Unrecovered, Some(name)) => finding.remedy(OF_SUBFUNCTION).fill("ADDRESS", name),
            (Kind::Unrecovered, None) => finding.fill("ADDRESS", address),
            (_, Some(name)) => finding.remedy(ONCE_OF_SUBFUNCTION).fill("ADDRESS", name),
            (_, None) => finding.remedy(ONCE).fill("ADDRESS", address),
        };
        let finding = finding
            .exception(matches!(broken.kind, Kind::Once).then_some(&WITHOUT_RECOVERY))
            .fill("NAME", &first.name);
        Some(
            broken
                .reporters
                .iter()
                .take(8)
                .fold(finding, |finding, reporter| {
                    let port = reporter.port.map_or(String::new(), |port| format!("/{port}"));
                    let device = handle(address, reporter);
                    let source = format!("devlink health show {device}{port} reporter {}", reporter.name);
                    let (errors, recoveries) = (reporter.errors, reporter.recoveries);
                    let recovered = if reporter.has_recovery {
                        format!("{recoveries} recovered")
                    } else {
                        "no recovery".to_owned()
                    };
                    let dump = reporter
                        .last_dump
                        .map_or(String::new(), |time| format!(", last dump {}", date(time)));
                    finding.evidence(
                        source,
                        format!("state error, {}, {recovered}{dump}", count_of(errors, "error")),
                    )
                }),
        )
    });
    found.collect()
}

/// The reporters of a function that are in error for the same reason: at least one.
struct Broken<'a> {
    kind: Kind,
    reporters: Vec<&'a Reporter>,
}

/// What the state error means.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// The driver has not recovered from the error.
    Unrecovered,
    /// Without a recovery: the errors that came, and in how many seconds.
    Rising(u64, u64),
    /// Without a recovery, and without an error that is known to be new.
    Once,
}

impl<'a> Broken<'a> {
    /// The worst of what is in error.
    fn of(node: &Node, address: &str, device: &'a Device) -> Option<Self> {
        let in_error = || device.reporters.iter().filter(|reporter| reporter.in_error);
        let unrecovered: Vec<_> = in_error().filter(|reporter| reporter.has_recovery).collect();
        if !unrecovered.is_empty() {
            return Some(Self {
                kind: Kind::Unrecovered,
                reporters: unrecovered,
            });
        }
        let past = node.history.as_ref();
        let rise = |reporter: &Reporter| past?.reported(address, reporter, node.time);
        let rising: Vec<_> = in_error()
            .filter_map(|reporter| Some((reporter, rise(reporter).filter(|(rise, _)| *rise > 0)?)))
            .collect();
        if let Some((_, (rise, seconds))) = rising.first() {
            return Some(Self {
                kind: Kind::Rising(*rise, *seconds),
                reporters: rising.iter().map(|(reporter, _)| *reporter).collect(),
            });
        }
        let once: Vec<_> = in_error().collect();
        (!once.is_empty()).then_some(Self {
            kind: Kind::Once,
            reporters: once,
        })
    }
}

/// `firmware-pending`.
pub static FIRMWARE_PENDING: Rule = Rule {
    id: "firmware-pending",
    domain: Domain::Modules,
    policy: Policy::of(Severities::INFO),
    title: "The adapter will start another firmware at its next reset",
    explanation: "The firmware that is stored on the adapter differs from the one that runs. An update waits for a reset, or \
        the reset after an update failed. The next reset or power cycle changes the firmware, perhaps of this node only and in \
        the middle of other work.",
    remedy: Remedy::all(
        "Drain the node and reset the adapter (devlink dev reload pci/ADDRESS action fw_activate, mlxfwreset, or a power \
        cycle), so that it runs the firmware that was installed.",
    ),
    false_alarms: "Only versions that the driver reports both as running and as stored are compared. An adapter whose driver \
        does not report them is not judged. Virtual functions are not.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: firmware_pending,
};

fn firmware_pending(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = node.physical_devlink_devices().filter_map(|(address, device)| {
        let pending: Vec<_> = device.firmware.known()?.pending().collect();
        let (name, running, stored) = pending.first()?;
        let subject = Subject::device(node.name_of_function(address));
        let what = if matches!(*name, "fw" | "fw.version") {
            "firmware".to_owned()
        } else {
            format!("firmware of {name}")
        };
        let message = format!("{subject} ({address}) runs {what} {running}; the next reset starts {stored}");
        let finding = Draft::new(&FIRMWARE_PENDING, subject, message).fill("ADDRESS", address);
        Some(
            pending
                .iter()
                .take(8)
                .fold(finding, |finding, (name, running, stored)| {
                    let source = format!("devlink dev info pci/{address}: {name}");
                    finding.evidence(source, format!("running {running}, stored {stored}"))
                }),
        )
    });
    found.collect()
}
