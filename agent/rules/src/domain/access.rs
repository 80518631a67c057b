//! Processes that may not open the device nodes of RDMA.

use std::collections::BTreeMap;

use rdma_health_node::{
    Node,
    kmsg::{Event, EventKind},
    words::{and_more, count_of},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer,
    domain::logged::{is_older, when},
    draft::Draft,
    policy::Exception,
};

/// `device-access-denied`.
pub static ACCESS_DENIED: Rule = Rule {
    id: "device-access-denied",
    domain: Domain::Limits,
    policy: Policy::of(Severities::WARNING).except(&[&LONG_AGO]),
    title: "SELinux or AppArmor denies processes the RDMA devices",
    explanation: "The kernel logged that its security module denied a process the access to a file in /dev/infiniband. Permissions of the file and the \
        device list of the container do not matter then: opening the device fails with EACCES, and libraries find no device.",
    remedy: EITHER,
    false_alarms: "Denials that are logged and not enforced (permissive=1) are not reported. A process that was not given a device can cause such \
        messages by trying to open it: then the denial is right. If the last one is more than 30 days old, it is info.",
    inputs: &[Writer::HostRoot, Writer::Process],
    judge: access_denied,
};

static LONG_AGO: Exception = Exception {
    condition: "if the last message is more than 30 days old",
    severities: Severities::INFO,
};

const EITHER: Remedy = Remedy {
    any: "Find out whether what runs in the context or profile that the finding names should have the device. If it should, change the policy: SELinux: \
        setsebool -P container_use_devices on; AppArmor: add the line /dev/infiniband/* rw, to the profile.",
    host: "ausearch -m avc -ts recent; aa-status",
    ..Remedy::all("")
};

const SELINUX: Remedy = Remedy {
    any: "If what runs in that SELinux context should have the device, let containers use devices (setsebool -P container_use_devices on) and request \
        the device from a device plugin instead of mounting /dev/infiniband, or write a policy module from the denials with audit2allow.",
    openshift: "Set the boolean on all nodes of the pool with a MachineConfig, or run the pod with a SecurityContextConstraint that allows its \
        SELinux type.",
    host: "setsebool -P container_use_devices on; ausearch -m avc -ts recent | audit2allow -w; ls -Z /dev/infiniband",
    ..Remedy::all("")
};

const APPARMOR: Remedy = Remedy {
    any: "If what runs with that AppArmor profile should have the device, add the line /dev/infiniband/* rw, to the profile and load it again, or run \
        the container with another profile.",
    kubernetes: "Set another profile in the pod: securityContext.appArmorProfile (type: Localhost, or Unconfined for a test).",
    host: "aa-status; journalctl -k | grep apparmor=; apparmor_parser -r /etc/apparmor.d/PROFILE; for Docker: --security-opt apparmor=PROFILE",
    ..Remedy::all("")
};

fn access_denied(node: &Node, _: &Expectations) -> Vec<Draft> {
    /// A setting stays as it is until an administrator changes it, and a denial comes with the next pod only.
    const MONTH: u64 = 30 * 86_400;
    let events = node.device_events();
    let mut all: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events.iter().map(|found| found.event) {
        if event.kind == EventKind::AccessDenied {
            all.entry(&event.driver).or_default().push(event);
        }
    }
    let found = all.into_iter().filter_map(|(by, denials)| {
        let last = denials.iter().max_by_key(|event| event.order)?;
        let count = denials.iter().map(|event| event.count).sum();
        let mut nodes: Vec<_> = denials.iter().map(|event| event.device.to_string()).collect();
        nodes.truncate(SHOWN);
        let message = format!(
            "{by} did not let processes open {}{} in /dev/infiniband ({})",
            nodes.join(", "),
            and_more(denials.len() - nodes.len()),
            when(&count_of(count, "message"), last),
        );
        let is_old = is_older(node, last, MONTH);
        let remedy = if by == "AppArmor" { APPARMOR } else { SELINUX };
        Some(
            Draft::new(&ACCESS_DENIED, Subject::node(), message)
                .exception(is_old.then_some(&LONG_AGO))
                .remedy(remedy)
                .evidence("/dev/kmsg", &last.message),
        )
    });
    found.collect()
}

/// The most device nodes that a finding names.
const SHOWN: usize = 8;
