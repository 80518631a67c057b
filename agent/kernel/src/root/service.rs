//! Questions that no file answers: netlink, the verbs helper, the kubelet.

use std::sync::Arc;

use super::{Ask, Root};
use crate::recording::{Answer, Failure, Question};

/// A question that a service of the running machine answers with a JSON document.
pub(super) struct AskService<F> {
    pub(super) question: Question,
    /// Asks it.
    pub(super) live: F,
}

impl<F: FnMut() -> Result<Vec<u8>, Failure>> Ask for AskService<F> {
    type Found = Arc<[u8]>;

    fn question(&self) -> Question {
        self.question.clone()
    }

    fn ask(&mut self, root: &Root) -> Result<Self::Found, Failure> {
        // A tree of files has no services, and those of this machine are not the tree's.
        if root.is_live() && root.directory.is_some() {
            Ok((self.live)()?.into())
        } else {
            Err(Failure::NotCollected)
        }
    }

    fn replay(&mut self, answer: &Answer) -> Result<Self::Found, Failure> {
        match answer {
            Answer::Bytes(bytes) => Ok(Arc::clone(bytes)),
            _ => Err(Failure::NotCollected),
        }
    }

    fn answer(&self, found: &Self::Found) -> Answer {
        Answer::Bytes(Arc::clone(found))
    }
}
