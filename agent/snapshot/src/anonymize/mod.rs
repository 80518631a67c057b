//! Replaces the host name and all addresses, on request.
//!
//! Findings stay the same, except for the addresses in them. `docs/snapshots.md` lists what is replaced and what is not.

mod answers;
mod content;
mod log;
mod pseudonym;
mod text;

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_kernel::os_release;
use rdma_health_kernel::recording::{Answer, Question, Recording, Target};
use rdma_health_node::history::History;
use rdma_health_protocol::{Gid, Path, Peer};
use serde_json::Value;

use crate::Snapshot;
use pseudonym::Pseudonyms;

const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// Names of processes that the rules look for.
const DAEMONS: [&str; 5] = ["containerd", "crio", "docker", "dockerd", "kubelet"];

/// Replaces the host name and all addresses consistently. Returns whether the name of the host stays in other texts, because
/// the kernel or its drivers use the same word.
pub fn anonymize(snapshot: &mut Snapshot) -> bool {
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
    pseudonyms.host_stays
}

/// Pseudonyms that know the name of the host, unless the kernel or its drivers use the same word, and the GIDs of its ports.
fn pseudonyms(recording: &Recording) -> Pseudonyms {
    let mut pseudonyms = match recording.file(HOST_NAME) {
        Some(name) => Pseudonyms::of_host(&String::from_utf8_lossy(name), |name| {
            log::is_word(name) || DAEMONS.contains(&name) || recording.iter().any(|answer| uses(answer, name))
        }),
        None => Pseudonyms::default(),
    };
    pseudonyms.keep_order(recording.iter().filter_map(|(question, answer)| {
        let (Question::Read(path), Answer::Bytes(gid)) = (question, answer) else {
            return None;
        };
        let is_gid = path.contains("/ports/") && path.rsplit('/').nth(1) == Some("gids");
        let gid = is_gid.then(|| std::str::from_utf8(gid).ok())??;
        gid.trim().parse().ok()
    }));
    pseudonyms
}

/// Whether a question or answer contains the word `name` other than as the name of a host: replacing it would change the
/// meaning.
fn uses((question, answer): (&Question, &Answer), name: &str) -> bool {
    let in_text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
        pseudonym::places(&text, name).next().is_some()
    };
    // The name of a file of the kernel may contain it (`fw_ver`), that of another one must be it.
    let is_kernel = question.path().is_some_and(is_of_kernel);
    let is = |text: &str| text.eq_ignore_ascii_case(name) || is_kernel && in_text(text.as_bytes());
    let in_path = |path: &str| path.split('/').any(is);
    question.path().is_some_and(in_path)
        || match answer {
            Answer::Bytes(bytes) => match question {
                // The name of the distribution stays, too.
                Question::Read(path) => {
                    (is_of_kernel(path) || os_release::is_release(path)) && in_text(bytes)
                }
                Question::Netlink { .. } | Question::VerbsDevices => in_text(bytes),
                _ => false,
            },
            Answer::Names(names) => names.text.iter().any(|name| is(name)),
            Answer::Target(Target::Text(path)) | Answer::RealPath(path) => in_path(path),
            _ => false,
        }
}

/// Whether the kernel chooses the words in the file. In others, the name of the host is what it names.
fn is_of_kernel(path: &str) -> bool {
    (path.starts_with("/sys/") || path.starts_with("/proc/"))
        && path != HOST_NAME
        && !["/node_desc", "/ifalias", "/cgroup", "/comm"]
            .iter()
            .any(|file| path.ends_with(file))
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
    // The facts have the kernel log, without what must not leave the node.
    history.logged = None;
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
    // The counters of the members of a bond: `fec_uncorrectable ens9f1np1`.
    let counter = |key: &str| match key.split_once(' ') {
        Some((counter, member)) => format!("{counter} {}", words(member)),
        None => key.to_owned(),
    };
    for port in history.ports.values_mut() {
        port.links = keyed(&mut port.links, words);
        for sample in &mut port.counters.samples {
            sample.values = keyed(&mut sample.values, counter);
        }
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
