//! Replaces the host name and all addresses, on request.
//!
//! Findings stay the same, except for the addresses in them. `docs/snapshots.md` lists what is replaced and what is not.

mod answers;
mod content;
mod log;
mod pseudonym;
mod text;

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_kernel::recording::Recording;
use rdma_health_node::history::History;
use rdma_health_protocol::{Gid, Path, Peer};
use serde_json::Value;

use crate::Snapshot;
use pseudonym::Pseudonyms;

/// Replaces the host name and all addresses consistently.
pub fn anonymize(snapshot: &mut Snapshot) {
    let pseudonyms = pseudonyms(&snapshot.recording);
    snapshot.anonymized = true;
    snapshot.recording = answers::recording(&pseudonyms, &snapshot.recording);
    for probe in &mut snapshot.probes {
        let report = &mut Arc::make_mut(probe).report;
        path(&pseudonyms, &mut report.path);
        if let Some(used) = &mut report.gid {
            gid(&pseudonyms, used);
        }
    }
    if let Some(history) = &mut snapshot.history {
        past(&pseudonyms, Arc::make_mut(history));
    }
    if let Some(expectations) = &mut snapshot.expectations {
        value(&pseudonyms, expectations);
    }
}

/// Pseudonyms that know the name of the host, unless a file or device has the same name.
fn pseudonyms(recording: &Recording) -> Pseudonyms {
    let Some(name) = recording.file("/proc/sys/kernel/hostname") else {
        return Pseudonyms::default();
    };
    let name = String::from_utf8_lossy(name);
    Pseudonyms::of_host(&name, |name| {
        let mut paths = recording.iter().filter_map(|(question, _)| question.path());
        paths.any(|path| path.split('/').any(|part| part.eq_ignore_ascii_case(name)))
    })
}

fn path(pseudonyms: &Pseudonyms, path: &mut Path) {
    path.from.device = pseudonyms.words(&path.from.device, false);
    peer(pseudonyms, &mut path.to);
}

fn peer(pseudonyms: &Pseudonyms, peer: &mut Peer) {
    if let Peer::Remote(remote) = peer {
        remote.node = node_name(pseudonyms, &remote.node);
        remote.port.device = pseudonyms.words(&remote.port.device, false);
    }
}

fn node_name(pseudonyms: &Pseudonyms, name: &str) -> String {
    pseudonyms.name("node", name.trim())
}

fn gid(pseudonyms: &Pseudonyms, gid: &mut Gid) {
    gid.gid = pseudonyms.gid(gid.gid);
}

/// The history: names and boot ids get the same pseudonyms as in the facts, so that past and present still match.
fn past(pseudonyms: &Pseudonyms, history: &mut History) {
    let words = |text: &str| pseudonyms.words(text, false);
    if let Some(clock) = &mut history.clock {
        clock.boot = boot_name(pseudonyms, &clock.boot);
    }
    for boot in &mut history.boots {
        boot.id = boot_name(pseudonyms, &boot.id);
        // As in the facts, where it is the content of a file.
        boot.kernel = boot.kernel.take().map(|release| words(&release));
        for argument in &mut boot.arguments {
            *argument = words(argument);
        }
        boot.domains = keyed(&mut boot.domains, words);
        boot.hcas = keyed(&mut boot.hcas, words);
        for seen in boot.hcas.values_mut() {
            seen.name = words(&seen.name);
            seen.netdev = seen.netdev.take().map(|name| words(&name));
        }
    }
    if let Some(observed) = &mut history.observed {
        observed.problems = keyed(&mut observed.problems, words);
    }
    history.functions = keyed(&mut history.functions, words);
    history.ports = keyed(&mut history.ports, |key| match key.rsplit_once(':') {
        Some((identity, port)) => format!("{}:{port}", words(identity)),
        None => words(key),
    });
    for open in &mut history.changes.open {
        open.subject = words(&open.subject);
    }
    for event in &mut history.changes.events {
        event.subject = words(&event.subject);
        // It may name other nodes, which are not known here. The rule and the subject stay.
        event.message.clear();
    }
    for measured in history.ports.values_mut().flat_map(|port| &mut port.measured) {
        peer(pseudonyms, &mut measured.to);
    }
}

fn keyed<T>(map: &mut BTreeMap<String, T>, name: impl Fn(&str) -> String) -> BTreeMap<String, T> {
    std::mem::take(map)
        .into_iter()
        .map(|(key, value)| (name(&key), value))
        .collect()
}

fn boot_name(pseudonyms: &Pseudonyms, id: &str) -> String {
    pseudonyms.name("boot", id.trim())
}

fn value(pseudonyms: &Pseudonyms, found: &mut Value) {
    match found {
        Value::String(text) => *text = pseudonyms.words(text, true),
        Value::Array(all) => all.iter_mut().for_each(|one| value(pseudonyms, one)),
        Value::Object(all) => all.values_mut().for_each(|one| value(pseudonyms, one)),
        _ => {}
    }
}
