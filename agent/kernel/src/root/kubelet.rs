//! What the verbs helper asked the kubelet for this process.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use rdma_health_protocol::{KubeletAnswer, KubeletFailure, KubeletMethod, KubeletTrouble};
use rustix::io::Errno;

use crate::{
    fact::{Unread, UnreadKind, errno},
    recording::{Failure, Question},
};

/// The kubelet's last answers; shared by the reader and by what asks the helper. A failure replaces an earlier answer: pods come
/// and go, and an old list would name pods that no longer exist.
#[derive(Debug, Default)]
pub struct KubeletAnswers(Mutex<BTreeMap<KubeletMethod, Result<Vec<u8>, Failure>>>);

impl KubeletAnswers {
    /// Takes an answer, or why the helper gave none. Returns whether it differs from the last one.
    pub fn set(&self, method: KubeletMethod, answer: Result<KubeletAnswer, Unread>) -> bool {
        let unread = |unread| Err(Failure::Unread(Box::new(unread)));
        let source = || {
            let method = method.name().to_owned();
            Question::Kubelet { method }.to_string()
        };
        // Serialisation fails only for maps with keys that are not text.
        let answer = match (method, answer) {
            (_, Ok(KubeletAnswer::Absent)) => Err(Failure::Errno(Errno::NOENT)),
            (KubeletMethod::List, Ok(KubeletAnswer::List(list))) => {
                Ok(serde_json::to_vec(&list).unwrap_or_default())
            }
            (KubeletMethod::GetAllocatableResources, Ok(KubeletAnswer::Allocatable(found))) => {
                Ok(serde_json::to_vec(&found).unwrap_or_default())
            }
            (_, Ok(KubeletAnswer::Failed(failure))) => unread(Unread {
                source: source(),
                kind: kind(&failure),
                detail: failure.detail,
            }),
            (_, Ok(KubeletAnswer::List(_) | KubeletAnswer::Allocatable(_))) => unread(Unread {
                source: source(),
                kind: UnreadKind::Malformed,
                detail: "the verbs helper answered another question".into(),
            }),
            (_, Err(failed)) => unread(Unread {
                source: source(),
                ..failed
            }),
        };
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.get(&method) == Some(&answer) {
            return false;
        }
        answers.insert(method, answer);
        true
    }

    /// The last answer as a JSON document.
    pub(super) fn get(&self, method: KubeletMethod) -> Result<Vec<u8>, Failure> {
        // Each change leaves whole answers, also after a panic elsewhere.
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(&method).cloned().unwrap_or_else(|| {
            Err(Failure::Unread(Box::new(Unread {
                source: format!("kubelet {}", method.name()),
                kind: UnreadKind::NotCollected,
                detail: "the verbs helper, which may ask it, has not answered yet".into(),
            })))
        })
    }
}

fn kind(failure: &KubeletFailure) -> UnreadKind {
    match failure.kind {
        KubeletTrouble::Errno(number) => {
            errno(number).map_or(UnreadKind::Other("errno".into()), UnreadKind::Errno)
        }
        KubeletTrouble::Hung => UnreadKind::Hung,
        KubeletTrouble::Malformed => UnreadKind::Malformed,
        KubeletTrouble::TooLong => UnreadKind::TooLong,
        KubeletTrouble::Refused => UnreadKind::Refused,
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use rdma_health_protocol::{AllocatableResources, ListPodResources, PodResources};

    use super::*;
    use crate::{
        Fact, Root,
        kubelet::Kubelet,
        root::Scope,
        source::{Known, Source},
    };

    fn read(answers: &Arc<KubeletAnswers>) -> Kubelet {
        let root = Root::open(Path::new("/"))
            .unwrap()
            .with_kubelet(Arc::clone(answers));
        Kubelet::read(&Scope::new(&root), &Known::default())
    }

    #[test]
    fn the_last_answer_counts_and_a_failure_has_its_reason() {
        let answers = Arc::new(KubeletAnswers::default());
        assert_eq!(
            read(&answers).pods.unread().unwrap().kind,
            UnreadKind::NotCollected
        );
        let pod = PodResources {
            name: "train-0".into(),
            ..PodResources::default()
        };
        let list = || {
            Ok(KubeletAnswer::List(ListPodResources {
                pod_resources: vec![pod.clone()],
            }))
        };
        assert!(answers.set(KubeletMethod::List, list()) && !answers.set(KubeletMethod::List, list()));
        assert!(answers.set(KubeletMethod::GetAllocatableResources, Ok(KubeletAnswer::Absent)));
        let found = read(&answers);
        assert_eq!(
            (found.pods, found.allocatable),
            (Fact::Known(vec![pod.clone()]), Fact::Absent)
        );
        let failure = KubeletFailure::new(KubeletTrouble::Hung, "the kubelet did not answer within 2s");
        assert!(answers.set(KubeletMethod::List, Ok(KubeletAnswer::Failed(failure))));
        assert_eq!(
            read(&answers).pods.unread().unwrap().to_string(),
            "kubelet List: the kubelet did not answer within 2s (hung)"
        );
        let other = KubeletAnswer::Allocatable(AllocatableResources::default());
        answers.set(KubeletMethod::List, Ok(other));
        assert_eq!(read(&answers).pods.unread().unwrap().kind, UnreadKind::Malformed);
    }

    #[test]
    fn a_tree_of_files_and_a_machine_without_a_helper_have_no_kubelet() {
        let tree = tempfile::tempdir().unwrap();
        for path in [tree.path(), Path::new("/")] {
            let root = Root::open(path).unwrap();
            let scope = Scope::new(&root);
            assert_eq!(Kubelet::read(&scope, &Known::default()), Kubelet::default());
        }
    }
}
