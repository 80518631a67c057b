//! A job whose settings select TCP: what it then does without is its user's decision and no failure.

use super::Log;
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// The setting that the log shows and that selects TCP in place of RDMA.
fn setting(log: &Log) -> Option<&'static str> {
    let value = |name: &str| {
        log.settings
            .get(name)
            .map(|value| value.to_ascii_lowercase())
            .unwrap_or_default()
    };
    // `tcp;ofi_rxm`
    let provider = value("FI_PROVIDER");
    // What else is in such a list stays within a node.
    let over_tcp = || value("UCX_TLS").split(',').any(|name| name == "tcp") && log.without_rdma().is_some();
    if log.symptoms.iter().any(is_disabled) {
        Some("NCCL_IB_DISABLE")
    } else if value("NCCL_NET") == "socket" {
        Some("NCCL_NET")
    } else if matches!(provider.split(';').next(), Some("tcp" | "sockets")) {
        Some("FI_PROVIDER")
    } else {
        over_tcp().then_some("UCX_TLS")
    }
}

/// Whether a setting disables RDMA in NCCL.
fn is_disabled(symptom: &Symptom) -> bool {
    symptom.kind == K::RdmaDisabled && symptom.text.to_ascii_lowercase().contains("nccl_ib_disable")
}

/// Whether a log shows no second host or node.
pub(super) fn shows_one_host(log: &Log) -> bool {
    log.hosts.len() < 2 && log.nodes.is_none_or(|nodes| nodes < 2)
}

/// NCCL informs about each network that it does not find. A process that needs none, as on a workstation, has nothing else to say: it is a note until the log shows another
/// node, a failure, a setting for RDMA, or TCP in its place.
pub(super) fn settle_absent(log: &mut Log) {
    const OF_RDMA: [&str; 4] = ["NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_NET", "NCCL_NET_PLUGIN"];
    let is_information = |symptom: &Symptom| {
        symptom.kind == K::NoDevice
            && symptom.software == Some(Software::Nccl)
            && symptom.grade < Grade::Failure
    };
    let is_alone = log
        .symptoms
        .iter()
        .all(|symptom| symptom.grade <= Grade::Unrecognised || is_information(symptom));
    let asks = OF_RDMA.iter().any(|name| log.settings.contains_key(*name));
    if !is_alone || asks || !shows_one_host(log) {
        return;
    }
    for symptom in log.symptoms.iter_mut().filter(|symptom| is_information(symptom)) {
        symptom.grade = symptom.grade.min(Grade::Note);
    }
}

/// Makes notes of what a job does without that selects TCP, if it reports nothing else.
pub(super) fn settle(log: &mut Log) {
    let is_of_choice = |symptom: &Symptom| {
        is_disabled(symptom)
            || symptom.grade <= Grade::Degraded
                && matches!(
                    symptom.kind,
                    K::SocketFallback | K::NoDevice | K::NoLibrary | K::NoProvider | K::GdrDisabled
                )
    };
    let all = log
        .symptoms
        .iter()
        .all(|symptom| symptom.grade <= Grade::Note || is_of_choice(symptom));
    log.over_tcp = setting(log);
    if !all || log.over_tcp.is_none() {
        return;
    }
    for symptom in &mut log.symptoms {
        symptom.grade = symptom.grade.min(Grade::Note);
    }
}
