//! The start of `LNet`: it ends with a line about the interface, whatever the reason was.

use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// Whether a line only says that `LNet` could not use an interface: `LNetError: 105-4: Error -6 starting up LNI o2ib`.
fn is_end(symptom: &Symptom) -> bool {
    symptom.kind == K::AddressUnresolved
        && ["starting up LNI", "an't initialize device"]
            .iter()
            .any(|words| symptom.text.contains(words))
}

/// Lowers the end of a start whose reason another line of `LNet` gives.
pub(super) fn end_start(symptoms: &mut [Symptom]) {
    let is_reason = |symptom: &Symptom| {
        let of_lnet = ["o2iblnd", "kiblnd"]
            .iter()
            .any(|part| symptom.text.contains(part));
        of_lnet && symptom.grade == Grade::Failure && !is_end(symptom)
    };
    let Some(line) = symptoms
        .iter()
        .find(|symptom| is_reason(symptom))
        .and_then(|reason| reason.line)
    else {
        return;
    };
    for symptom in symptoms
        .iter_mut()
        .filter(|symptom| is_end(symptom) && symptom.line > Some(line))
    {
        symptom.follows_another();
    }
}
