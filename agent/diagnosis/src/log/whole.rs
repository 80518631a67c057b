//! What a symptom means in view of the whole log: of the settings that it shows, and of what the ranks use.

use rdma_health_protocol::Errno;

use super::{Log, line::Lower, ranks::Ranks, recognise::failure};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// Changes and adds symptoms.
pub(super) fn settle(log: &mut Log, ranks: &Ranks) {
    of_packages(log);
    of_start(log);
    of_files(log);
    of_family(log, ranks);
    of_networks(log, ranks);
    of_provider(log);
    of_signals(log);
    of_signature(log);
}

/// The kernel refuses modules because of their signature and does not name them. If those of RDMA are missing, it is theirs.
fn of_signature(log: &mut Log) {
    const REFUSED: [&str; 4] = [
        "Loading of unsigned module is rejected",
        "Loading of module with unsupported crypto is rejected",
        "Loading of module with unavailable key is rejected",
        "unsigned module loading is restricted",
    ];
    let is_refused = |symptom: &Symptom| REFUSED.iter().any(|words| symptom.text.contains(words));
    let is_missing = |symptom: &Symptom| symptom.kind == K::ModuleMissing && symptom.grade == Grade::Failure;
    if !log.symptoms.iter().any(is_missing) {
        return;
    }
    let mut found = false;
    for symptom in &mut log.symptoms {
        if symptom.kind == K::Unrecognised && is_refused(symptom) {
            symptom.kind = K::ModuleUnsigned;
            symptom.grade = if found { Grade::Note } else { Grade::Failure };
            symptom.known = true;
            found = true;
        }
    }
    for symptom in &mut log.symptoms {
        if found && is_missing(symptom) {
            symptom.grade = Grade::Secondary;
        }
    }
}

/// A signal interrupted the call which opens the adapter: the device is there.
fn of_signals(log: &mut Log) {
    for symptom in &mut log.symptoms {
        let is_interrupted = symptom.kind == K::OpenFailed && symptom.named.errno == Some(Errno::EINTR);
        if is_interrupted && symptom.text.contains("hfi") {
            symptom.kind = K::BackendFailed;
        }
    }
}

/// If a program found no RDMA device and a driver asks for newer firmware, the firmware is the reason.
pub(super) fn of_firmware(log: &mut Log, symptom: Symptom) {
    let is_without = |symptom: &Symptom| {
        symptom.kind == K::NoDevice && symptom.grade == Grade::Failure && symptom.line.is_some()
    };
    let mut without = log
        .symptoms
        .iter_mut()
        .filter(|symptom| is_without(symptom))
        .peekable();
    if without.peek().is_none() {
        return;
    }
    for symptom in without {
        symptom.grade = Grade::Secondary;
    }
    log.symptoms.push(symptom);
}

/// A package of the kernel that is not there matters where the driver of the adapters is built with it.
fn of_packages(log: &mut Log) {
    for symptom in &mut log.symptoms {
        let is_of_any = ["find a match: kernel-", "Module.symvers"]
            .iter()
            .any(|words| symptom.text.contains(words));
        let is_missing = symptom.kind == K::DriverNotBuilt && is_of_any;
        if is_missing && !log.marks.ofed {
            symptom.grade = Grade::Note;
        }
    }
}

/// The links of an adapter go down and up again while its driver is loaded; a port without a cable stays down.
fn of_start(log: &mut Log) {
    let is_failed = |symptom: &Symptom| symptom.grade == Grade::Failure && symptom.kind != K::PortError;
    if !log.marks.reloads || !log.symptoms.iter().any(is_failed) {
        return;
    }
    for symptom in &mut log.symptoms {
        if symptom.kind == K::PortError && symptom.software == Some(Software::Kernel) {
            symptom.grade = symptom.grade.min(Grade::Note);
        }
    }
}

/// A file of a topology or of a graph that NCCL does not understand is a matter of the setting that names it.
fn of_files(log: &mut Log) {
    const NAMES: [&str; 2] = ["NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"];
    const FORMS: [&str; 2] = ["XML ", "Attribute "];
    if !NAMES.iter().any(|name| log.settings.contains_key(*name)) {
        return;
    }
    for symptom in &mut log.symptoms {
        if matches!(symptom.kind, K::ComputeError | K::BackendFailed)
            && FORMS.iter().any(|form| symptom.text.contains(form))
        {
            symptom.kind = K::SettingUnmatched;
            symptom.grade = symptom.kind.grade();
        }
    }
}

/// The address that another rank sent has another form: that rank has another version of NCCL, or another network. What this rank has is not in it.
fn of_family(log: &mut Log, ranks: &Ranks) {
    let is_sent = |text: &str| text.contains("connecting to address") && text.contains("family");
    let is_mixed = ranks.versions().len() > 1;
    // A rank whose interface has no address sends none. Where a setting selects the interface, that comes first.
    let is_selected = log
        .settings
        .get("NCCL_SOCKET_IFNAME")
        .is_some_and(|name| !name.starts_with('^'));
    for symptom in &mut log.symptoms {
        if symptom.kind == K::NoSocketInterface && is_sent(&symptom.text) && (is_mixed || !is_selected) {
            symptom.kind = K::PeerDiffers;
            symptom.grade = symptom.kind.grade();
        }
    }
    if !is_mixed {
        return;
    }
    let versions = ranks.versions().iter().take(4);
    let versions: Vec<_> = versions.map(|(a, b, c)| format!("{a}.{b}.{c}")).collect();
    let versions = versions.join(" and ");
    for symptom in log
        .symptoms
        .iter_mut()
        .filter(|symptom| symptom.kind == K::PeerDiffers)
    {
        symptom.text = format!("{} (the log has NCCL {versions})", symptom.text);
    }
}

/// libfabric's provider verbs, where a tool asks for it, finds a port only by an IP address: on InfiniBand that of IP over InfiniBand.
fn of_provider(log: &mut Log) {
    if !log.marks.provider_verbs {
        return;
    }
    for symptom in &mut log.symptoms {
        let is_asked = symptom.named.errno == Some(Errno::ENODATA) && symptom.text.contains("fi_getinfo");
        if symptom.kind == K::NoDevice && is_asked && symptom.software != Some(Software::Mpi) {
            symptom.kind = K::AddressUnresolved;
        }
    }
}

/// A provider of libfabric that finds nothing where another one lists a device is the wrong one for this adapter.
pub(super) fn of_other_provider(log: &mut Log, is_listed: bool) {
    if !is_listed {
        return;
    }
    for symptom in &mut log.symptoms {
        let is_asked = symptom.named.errno == Some(Errno::ENODATA) && symptom.text.contains("fi_getinfo");
        if symptom.kind == K::NoDevice && is_asked {
            symptom.kind = K::UnsupportedAdapter;
        }
    }
}

/// Ranks that use different networks do not reach each other, and wait.
fn of_networks(log: &mut Log, ranks: &Ranks) {
    let Some([(host, network), (other, its)]) = ranks.differing() else {
        return;
    };
    let text = format!("NCCL uses network {network} on {host}, {its} on {other}");
    let mut found = failure(&Lower::of(&text), K::PeerDiffers, log.lines);
    found.software = Some(Software::Nccl);
    log.symptoms.push(found);
}
