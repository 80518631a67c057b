//! A fault of this end that comes before what it looks like from the other end.

use rdma_health_protocol::{Errno, WcStatus};

use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// The adapter refused a request of the program and gave up the queue pair: from then on its peer gets no response. What one end reports of its own
/// comes before what another one misses, if it came first.
pub(super) fn blame_own_request(symptoms: &mut [Symptom]) {
    let is_own = |symptom: &&Symptom| {
        let of_request = matches!(
            symptom.kind,
            K::Completion(
                WcStatus::LocQpOpErr | WcStatus::LocLenErr | WcStatus::LocEecOpErr | WcStatus::MwBindErr
            )
        );
        of_request && symptom.grade == Grade::Failure
    };
    let first = symptoms
        .iter()
        .filter(is_own)
        .filter_map(|symptom| symptom.line)
        .min();
    let Some(first) = first else { return };
    let missed = |symptom: &&mut Symptom| {
        symptom.kind == K::Completion(WcStatus::RetryExcErr) && symptom.line > Some(first)
    };
    for symptom in symptoms.iter_mut().filter(missed) {
        symptom.follows_another();
    }
}

/// Neither the files of devices nor that of `rdma_cm` are there: the process was given none of them, and no module is missing.
pub(super) fn without_files(symptoms: &mut [Symptom]) {
    let is_absent = |symptom: &Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.kind == K::DeviceAbsent
            && symptom.named.errno == Some(Errno::ENOENT)
            && text.contains("open_device")
    };
    if !symptoms.iter().any(is_absent) {
        return;
    }
    let of_manager = |symptom: &&mut Symptom| {
        symptom.kind == K::CmUnavailable && symptom.named.errno == Some(Errno::ENOENT)
    };
    for symptom in symptoms.iter_mut().filter(of_manager) {
        symptom.follows_another();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogReader;

    fn failures(log: &str) -> Vec<K> {
        let mut reader = LogReader::default();
        reader.feed(log.as_bytes());
        let symptoms = reader.finish().symptoms.into_iter();
        let grave = symptoms.filter(|symptom| symptom.grade == Grade::Failure);
        grave.map(|symptom| symptom.kind).collect()
    }

    const OWN: &str = "[1467152031.9] [n2:2132 :0] rc_verbs_iface.c:47   UCX  ERROR Send completion with error: local QP operation error\n";
    const MISSED: &str = "[1467152048.4] [n3:3087 :0] rc_verbs_iface.c:47   UCX  ERROR Send completion with error: transport retry counter exceeded\n";

    #[test]
    fn an_own_request_that_was_refused_comes_before_the_response_that_the_peer_misses() {
        assert_eq!(
            failures(&format!("{OWN}{MISSED}")),
            [K::Completion(WcStatus::LocQpOpErr)]
        );
        let both = failures(&format!("{MISSED}{OWN}"));
        assert!(both.contains(&K::Completion(WcStatus::RetryExcErr)), "{both:?}");
    }

    #[test]
    fn without_any_file_of_rdma_no_module_is_missing() {
        const DEVICE: &str = "[1612871744.8] [n1:17357:0]  ib_md.c:1700 UCX  ERROR ibv_open_device(mlx5_0) failed: No such file or directory\n";
        const MANAGER: &str = "[1612871744.8] [n1:17357:0]  rdmacm_cm.c:686 UCX  ERROR rdma_create_event_channel failed: No such file or directory\n";
        assert_eq!(failures(&format!("{DEVICE}{MANAGER}")), [K::DeviceAbsent]);
        assert_eq!(failures(MANAGER), [K::CmUnavailable]);
    }
}
