//! What drivers report of the health and the firmware of their devices.

use rdma_health_node::{
    Node,
    devlink::Reporter,
    words::{count, date},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
};

/// `health-reporter-error`.
pub static HEALTH_REPORTER_ERROR: Rule = Rule {
    id: "health-reporter-error",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "The driver reports that a part of the device is in error",
    explanation: "Drivers watch the firmware, the queues and other parts of a device with devlink health reporters. A \
        reporter is in the state error from the fault until the driver has recovered from it. A device whose firmware \
        reporter (fw, fw_fatal) stays in error answers no commands: connections over it fail or hang.",
    remedy: Remedy {
        any: "Read what the reporter recorded: devlink health diagnose pci/ADDRESS reporter NAME. Recover it with devlink \
            health recover pci/ADDRESS reporter NAME. If the error comes back, drain the node and reset the adapter or \
            power-cycle the node.",
        ..Remedy::all("")
    },
    false_alarms: "Only the present state is judged. Errors that the driver recovered from are counted in \
        rdma_devlink_health_reporter_errors_total.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Job],
    judge: health_reporter_error,
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
        let broken: Vec<&Reporter> = device
            .reporters
            .iter()
            .filter(|reporter| reporter.in_error)
            .collect();
        let first = broken.first()?;
        let subject = Subject::device(node.name_of_function(address));
        let others = match broken.len() - 1 {
            0 => String::new(),
            others => format!(" and {} more", count(others, "reporter")),
        };
        let subfunction = first
            .subfunction
            .as_ref()
            .map_or(String::new(), |name| format!(", {name}"));
        let message = format!(
            "the health reporter {} of {subject} ({address}{subfunction}) is in error{others}, expected healthy",
            first.name
        );
        // A bond has several functions.
        let finding = Draft::new(&HEALTH_REPORTER_ERROR, subject, message);
        let finding = match first
            .subfunction
            .as_deref()
            .and_then(|name| name.strip_prefix("auxiliary/"))
        {
            Some(name) => finding.remedy(OF_SUBFUNCTION).fill("ADDRESS", name),
            None => finding.fill("ADDRESS", address),
        };
        Some(broken.iter().take(8).fold(finding, |finding, reporter| {
            let port = reporter.port.map_or(String::new(), |port| format!("/{port}"));
            let device = handle(address, reporter);
            let source = format!("devlink health show {device}{port} reporter {}", reporter.name);
            let (errors, recoveries) = (reporter.errors, reporter.recoveries);
            let dump = reporter
                .last_dump
                .map_or(String::new(), |time| format!(", last dump {}", date(time)));
            finding.evidence(
                source,
                format!("state error, {errors} errors, {recoveries} recovered{dump}"),
            )
        }))
    });
    found.collect()
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
