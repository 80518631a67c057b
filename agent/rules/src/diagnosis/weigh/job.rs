//! What a job was given, what it was told, and what it does itself; devices that fail.

use rdma_health_node::infiniband::CLASS;

use super::{Case, Scales, probes_passed};
use crate::diagnosis::symptom::SymptomKind;

pub(in crate::diagnosis) fn device_not_given(case: &Case<'_>, scales: &mut Scales) {
    if case.node.hcas.unread().is_some() {
        return scales.unseen("which RDMA devices the node has");
    }
    let active: Vec<_> = case
        .node
        .hcas()
        .filter(|hca| hca.ports.values().any(|port| port.is_active() == Some(true)))
        .map(|hca| hca.name.as_str())
        .collect();
    if active.is_empty() {
        return scales.against(CLASS, "no device with an active port on the node either");
    }
    // The job saw none of them. Where it merely fell back, it may have been told to.
    let none_seen = case.seen(&[SymptomKind::NoDevice]).next().is_some();
    let names = if active.len() > 8 {
        format!("{} and {} more", active[..8].join(", "), active.len() - 8)
    } else {
        active.join(", ")
    };
    let told = format!("active on the node: {names}");
    if none_seen {
        scales.fits(CLASS, told);
    }
    scales.unseen("what the job's container was given: ls /dev/infiniband in it");
}

pub(in crate::diagnosis) fn modules(case: &Case<'_>, scales: &mut Scales) {
    match (
        case.node.modules.has("ib_uverbs"),
        case.node.modules.loaded.unread(),
    ) {
        (Some(true), _) if !scales.supported() => scales.against("/proc/modules", "ib_uverbs is loaded"),
        (_, Some(unread)) => scales.unseen(format!("the loaded modules: {unread}")),
        _ => {}
    }
}

pub(in crate::diagnosis) fn settings(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::RdmaDisabled]).next() {
        scales.shows(&symptom.source, "NCCL_IB_DISABLE is 1");
    }
    let Some(log) = case.log else { return };
    if log
        .settings
        .get("NCCL_NET")
        .is_some_and(|net| net.eq_ignore_ascii_case("socket"))
    {
        scales.shows("NCCL_NET in the log", "Socket");
    }
    let Some(wanted) = log.settings.get("NCCL_IB_HCA") else {
        if scales.supports.is_empty() {
            scales.unseen("the job's settings: run it with NCCL_DEBUG=INFO");
        }
        return;
    };
    let names: Vec<_> = case.node.hcas().map(|hca| hca.name.as_str()).collect();
    if names.is_empty() {
        return;
    }
    let source = "NCCL_IB_HCA in the log";
    if selects(wanted, &names) {
        scales.against(source, format!("{wanted}, which names a device of this node"));
    } else {
        scales.shows(source, format!("{wanted}, but the node has {}", names.join(", ")));
    }
}

/// Whether `NCCL_IB_HCA` leaves any device: names are prefixes, exact after `=`, left out after `^`; a port may follow.
fn selects(wanted: &str, names: &[&str]) -> bool {
    let (exclude, list) = wanted
        .strip_prefix('^')
        .map_or((false, wanted), |list| (true, list));
    let (exact, list) = list.strip_prefix('=').map_or((false, list), |list| (true, list));
    let matches = |name: &str| {
        list.split(',')
            .map(|one| one.split(':').next().unwrap_or_default())
            .any(|one| !one.is_empty() && if exact { one == name } else { name.starts_with(one) })
    };
    names.iter().any(|name| matches(name) != exclude)
}

pub(in crate::diagnosis) fn no_device(case: &Case<'_>, scales: &mut Scales) {
    match (case.node.hcas().count(), case.node.hcas.unread()) {
        (_, Some(unread)) => scales.unseen(format!("which RDMA devices the node has: {unread}")),
        (0, None) => scales.shows(CLASS, "no RDMA device"),
        (count, None) => scales.against(
            CLASS,
            if count == 1 {
                "1 RDMA device".into()
            } else {
                format!("{count} RDMA devices")
            },
        ),
    }
}

pub(in crate::diagnosis) fn userspace(case: &Case<'_>, scales: &mut Scales) {
    let told = case
        .seen(&[SymptomKind::NoLibrary, SymptomKind::NoProvider])
        .next();
    match told {
        Some(symptom) => scales.fits(&symptom.source, &symptom.text),
        None => scales.unseen("the libraries in the job's image: ibv_devinfo in it"),
    }
}

pub(in crate::diagnosis) fn application(case: &Case<'_>, scales: &mut Scales) {
    let own = case.symptoms.iter().find(|symptom| {
        symptom.line.is_none()
            && matches!(
                symptom.kind,
                SymptomKind::Completion(_) | SymptomKind::RegMrFailed
            )
    });
    if let Some(symptom) = own {
        return scales.against(
            &symptom.source,
            "the probe's own memory, which it registered itself, fails too",
        );
    }
    if probes_passed(case) {
        scales.fits("probe", "registration and loopback writes on this node pass");
    } else {
        scales.unseen("whether this node works by itself: rdma-health check --probe");
    }
}

pub(in crate::diagnosis) fn peer_failed(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.symptoms.iter().find(|symptom| symptom.line.is_none()) {
        return scales.against(&symptom.source, "the probe has no peer");
    }
    scales.unseen("the logs of the other ranks");
}

pub(in crate::diagnosis) fn gpu_only(case: &Case<'_>, scales: &mut Scales) {
    if case.node.pci.functions.known().is_some() && case.gpus() == 0 {
        scales.against("/sys/bus/pci/devices", "no GPU");
    }
}

pub(in crate::diagnosis) fn device_fault(case: &Case<'_>, scales: &mut Scales) {
    const WORDS: [&str; 5] = [
        "health compromised",
        "fatal error",
        "firmware internal error",
        "synd 0x",
        "Will cause a leak",
    ];
    if let Some(symptom) = case.seen(&[SymptomKind::DeviceFatal]).next() {
        scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(line) = case.kernel_line(&WORDS) {
        scales.fits("/dev/kmsg", line);
    }
    for symptom in case.seen(&[SymptomKind::DeviceGone]) {
        let Some(device) = &symptom.named.device else {
            continue;
        };
        if case
            .node
            .hcas
            .known()
            .is_some_and(|hcas| !hcas.contains_key(device))
        {
            scales.fits(CLASS, format!("{device} is not there"));
        }
    }
    if case.node.kernel_log.unread().is_some() || case.node.kernel_log.is_absent() {
        scales.unseen("the kernel's log");
    }
}

pub(in crate::diagnosis) fn stalled(case: &Case<'_>, scales: &mut Scales) {
    let hung = case.node.unread().find(|(_, unread)| unread.kind == "hung");
    if let Some((_, unread)) = hung {
        scales.shows(&unread.source, format!("{} ({})", unread.detail, unread.kind));
    }
}
