//! The limits of runtimes as the verbs helper reports them, as a recorded answer.

use std::sync::Arc;

use rdma_health_kernel::{
    Root,
    limits::{self, MAX_RUNTIMES, Runtime},
    recording::{Answer, Failure, Question, Recording},
    root::Scope,
};
use rdma_health_node::{Fact, Unread, UnreadKind};

/// Adds the runtimes of a node to a recording, unless its files already show the same: then the helper was not asked.
pub fn record(runtimes: &Fact<Vec<Runtime>>, recording: &mut Recording) {
    let root = Root::replay(Arc::new(recording.clone()), false);
    if *runtimes == limits::runtimes(&Scope::new(&root)) {
        return;
    }
    let answer = match runtimes {
        Fact::Absent => return,
        Fact::Unread { unread } => Answer::Failed(Failure::Unread(unread.clone())),
        // Fails only for maps with keys that are not text.
        Fact::Known(runtimes) => Answer::Bytes(serde_json::to_vec(runtimes).unwrap_or_default().into()),
    };
    recording.insert(Question::Runtimes, answer);
}

/// The recorded answer of the helper; `None` if it was not asked.
pub fn replay(recording: &Recording) -> Option<Fact<Vec<Runtime>>> {
    let malformed = |detail: String| {
        Fact::from(Unread {
            source: Question::Runtimes.to_string(),
            kind: UnreadKind::Malformed,
            detail,
        })
    };
    Some(match recording.get(&Question::Runtimes)? {
        Answer::Bytes(bytes) => match runtimes(bytes) {
            Ok(runtimes) => Fact::Known(runtimes),
            Err(error) => malformed(error),
        },
        Answer::Failed(Failure::Unread(unread)) => Fact::from(Unread::clone(unread)),
        _ => malformed("not an answer of the verbs helper".into()),
    })
}

/// The runtimes in a document.
pub(crate) fn runtimes(document: &[u8]) -> Result<Vec<Runtime>, String> {
    let runtimes: Vec<Runtime> = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    if runtimes.len() > MAX_RUNTIMES {
        return Err(format!(
            "it has {} runtimes, at most {MAX_RUNTIMES} are allowed",
            runtimes.len()
        ));
    }
    Ok(runtimes)
}
