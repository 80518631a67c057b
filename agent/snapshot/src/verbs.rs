//! The devices as libibverbs reports them, as a recorded answer.

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_kernel::recording::{Answer, Failure, Question, Recording};
use rdma_health_node::{Fact, Unread, UnreadKind, node::VerbsDevice};
use serde::Deserialize;

/// The response of libibverbs for each device; absent if it was not queried.
pub type Verbs = Fact<Arc<BTreeMap<String, VerbsDevice>>>;

/// Adds the helper's answer to a recording.
pub fn record(verbs: &Verbs, recording: &mut Recording) {
    let answer = match verbs {
        Fact::Absent => return,
        Fact::Unread { unread } => Answer::Failed(Failure::Unread(unread.clone())),
        Fact::Known(devices) => Answer::Bytes(document(devices).into()),
    };
    recording.insert(Question::VerbsDevices, answer);
}

/// The recorded answer of the helper.
pub fn replay(recording: &Recording) -> Verbs {
    let malformed = |detail: String| Unread {
        source: Question::VerbsDevices.to_string(),
        kind: UnreadKind::Malformed,
        detail,
    };
    match recording.get(&Question::VerbsDevices) {
        None => Fact::Absent,
        Some(Answer::Bytes(bytes)) => match devices(bytes) {
            Ok(devices) => Fact::Known(Arc::new(devices)),
            Err(error) => malformed(error.to_string()).into(),
        },
        Some(Answer::Failed(Failure::Unread(unread))) => Fact::from(Unread::clone(unread)),
        Some(_) => malformed("not an answer of libibverbs".into()).into(),
    }
}

/// The devices as a document.
pub(crate) fn document(devices: &BTreeMap<String, VerbsDevice>) -> Vec<u8> {
    // Fails only for maps with keys that are not text.
    serde_json::to_vec(devices).unwrap_or_default()
}

/// The devices in a document, parsed without an intermediate tree. Parsing stops at the first error.
pub(crate) fn devices(document: &[u8]) -> serde_json::Result<BTreeMap<String, VerbsDevice>> {
    serde_json::from_slice(document)
}

/// The answer in `verbs.json` of versions 1 and 2; `None` if libibverbs was not queried.
pub(crate) fn legacy_answer(document: &[u8]) -> serde_json::Result<Option<Answer>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Failed {
        unread: Unread,
    }
    if let Ok(Failed { unread }) = serde_json::from_slice(document) {
        return Ok(Some(Answer::Failed(Failure::Unread(Box::new(unread)))));
    }
    let devices: Option<BTreeMap<String, VerbsDevice>> = serde_json::from_slice(document)?;
    Ok(devices.map(|devices| Answer::Bytes(self::document(&devices).into())))
}
