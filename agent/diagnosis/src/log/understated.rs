//! Failures that a program reports at a level of information: UCX's `DIAG`, NCCL's `INFO`, libfabric's `<info>`.
//!
//! These libraries try many things while they start, and say there what does not work. Such a line counts only where no later one shows that the
//! work goes on and the log shows no other failure: then it is the only trace of the reason.

use super::{Log, grade::Level, line::Lower, others, recognise};
use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// The most different failures that are shown.
const MOST: usize = 3;

/// A level of information of a library, and the level at which it reports the same as a failure.
const LEVELS: [(&str, &str); 3] = [
    (" UCX  DIAG ", " UCX  ERROR"),
    ("NCCL INFO ", "NCCL WARN "),
    ("<info>", "<warn>"),
];

/// The parts of libfabric's providers that work, in lower case. The others look for what there is.
const AT_WORK: [&str; 6] = [":cq:", ":eq:", ":ep_ctrl:", ":ep_data:", ":mr:", "efa_hmem_"];

/// What shows that a library tries again, takes another protocol, or reports the way back from its functions, in lower case.
const PASSING: [&str; 7] = [
    "for eager",
    "retrying",
    "trying again",
    " -> ",
    "will retry",
    "try next",
    "skip",
];

/// The failures since the last line that shows that the work goes on.
#[derive(Debug, Default)]
pub(super) struct Understated {
    found: Vec<Symptom>,
}

impl Understated {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &Lower<'_>, number: u64) {
        if self.found.len() >= MOST {
            return;
        }
        let lower = line.lower.as_str();
        let Some((level, failed)) = level_of(line.text) else {
            return;
        };
        let grade = line.grade();
        if !grade.failing || grade.harmless || grade.quoted {
            return;
        }
        let text = line.text.replacen(level, failed, 1);
        let is_of_search = lower.contains("libfabric:") && !AT_WORK.iter().any(|part| lower.contains(part));
        if is_of_search || PASSING.iter().any(|words| lower.contains(words)) || others::works(lower) {
            return;
        }
        let line = Lower::of(&text);
        if line.grade().level.is_none_or(|level| level == Level::Info) {
            return;
        }
        let Some(mut symptom) = recognise::reported(&line, number) else {
            return;
        };
        symptom.known = false;
        symptom.text = symptom.text.replacen(failed.trim_end(), level.trim_end(), 1);
        symptom.grade = graded(symptom.kind);
        let is_repeated = |known: &Symptom| known.kind == symptom.kind && known.text == symptom.text;
        if symptom.grade > Grade::Note && !self.found.iter().any(is_repeated) {
            self.found.push(symptom);
        }
    }

    /// Forgets what came before a line that shows that the work goes on, or that NCCL found a network.
    pub(super) fn went_on(&mut self, text: &str) {
        if !self.found.is_empty() && (others::works(text) || text.contains("NCCL INFO Using network ")) {
            self.found.clear();
        }
    }

    /// Reports them if the log shows no other failure.
    pub(super) fn settle(self, log: &mut Log) {
        let is_other = |symptom: &Symptom| symptom.grade > Grade::Note || symptom.kind.is_of_other();
        if log.document || log.marks.went_on || log.others > 0 || log.symptoms.iter().any(is_other) {
            return;
        }
        log.symptoms.extend(self.found);
    }
}

/// The level of a text, and the one at which its library reports the same as a failure; `None` if it is of no such level.
fn level_of(text: &str) -> Option<(&'static str, &'static str)> {
    LEVELS.into_iter().find(|(level, _)| text.contains(level))
}

/// What a failure of this kind counts: one of a connection or a transfer that was begun keeps its grade, because nothing is sent while a library looks for
/// its devices. Of another one it is not known whether it matters.
fn graded(kind: K) -> Grade {
    match kind {
        K::Completion(_)
        | K::AddressUnresolved
        | K::RouteUnresolved
        | K::ConnectRefused
        | K::ConnectTimedOut
        | K::ConnectUnreachable
        | K::NoListener
        | K::PeerUnreachable
        | K::QueueAccess
        | K::NotPermitted => kind.grade(),
        kind if kind.grade() == Grade::Note => Grade::Note,
        _ => Grade::Unrecognised,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogReader;

    fn shown(log: &str) -> Vec<(K, Grade)> {
        let mut reader = LogReader::default();
        reader.feed(log.as_bytes());
        let symptoms = reader.finish().symptoms.into_iter();
        let grave = symptoms.filter(|symptom| symptom.grade > Grade::Note);
        grave.map(|symptom| (symptom.kind, symptom.grade)).collect()
    }

    const UCX: &str = "[1795862591.482913] [node07:41237:0]   rdmacm_cm.c:383  UCX  DIAG  client (ep=0x55d0, cm_id=0x55d1): rdma_resolve_route failed: \
        Connection timed out\n";
    const PROBE: &str = "[1795862591.482913] [node07:41237:0]   cuda_md.c:35   UCX  DIAG  failed to open mlx5_3 for CUDA: Not implemented\n";
    const GAVE_UP: &str = "node07:41237:41302 [3] NCCL INFO NET/IB: Recovery for device 1 failed due to max attempts reached (send comm=0x7f)\n";
    const SEARCH: &str = "libfabric:41237:1795862591::core:core:ofi_getinfo():12<info> provider verbs failed: No such device\n";

    #[test]
    fn a_failure_at_a_low_level_counts_where_nothing_else_does() {
        assert_eq!(shown(UCX).len(), 1);
        assert_eq!(shown(UCX)[0].1, Grade::Failure);
        assert_eq!(shown(PROBE), [(K::Unrecognised, Grade::Unrecognised)]);
        assert_eq!(shown(GAVE_UP).len(), 1);
        assert_eq!(shown(SEARCH), []);
    }

    #[test]
    fn it_does_not_count_where_the_work_goes_on_or_another_failure_stands() {
        assert_eq!(
            shown(&format!("{UCX}{PROBE}step 100 throughput 12.3 samples/s\n")),
            []
        );
        assert_eq!(
            shown(&format!(
                "{PROBE}node07:1:1 [0] NCCL INFO comm 0x1 Init COMPLETE\n"
            )),
            []
        );
        let other = "[1795862591.4] [node07:41237:0]  ib_mlx5_log.c:171  UCX  ERROR Transport retry count exceeded on mlx5_0:1/RoCE\n";
        let found = shown(&format!("{PROBE}{other}"));
        assert!(
            found.iter().all(|(kind, _)| *kind != K::Unrecognised),
            "{found:?}"
        );
        let retries = "node07:1:2 [3] NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out, retrying 1/35 after 100 msec\n";
        assert_eq!(shown(retries), []);
    }
}
