//! What leaves the node only where somebody wants it to: the host's name and all addresses.
//!
//! Findings stay the same but for the addresses that they name. See `docs/snapshots.md` for what is replaced and what not.

mod pseudonym;
mod text;

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_node::{
    fact::Fact,
    history::History,
    node::VerbsDevice,
    recording::{Answers, Recording, Target},
};
use rdma_health_protocol::Gid;
use serde_json::Value;

use crate::Snapshot;
use pseudonym::Pseudonyms;

/// Replaces the host's name and all addresses, each by the same one everywhere.
pub fn anonymize(snapshot: &mut Snapshot) {
    let pseudonyms = Pseudonyms::default();
    snapshot.anonymized = true;
    snapshot.recording = recording(&pseudonyms, &snapshot.recording);
    snapshot.hung = std::mem::take(&mut snapshot.hung)
        .into_iter()
        .map(|(source, seconds)| (pseudonyms.words(&source, false), seconds))
        .collect();
    if let Fact::Known(devices) = &mut snapshot.verbs {
        *devices = Arc::new(
            devices
                .iter()
                .map(|(name, device)| (pseudonyms.words(name, false), verbs(&pseudonyms, device.clone())))
                .collect(),
        );
    }
    for probe in &mut snapshot.probes {
        let report = &mut Arc::make_mut(probe).report;
        report.device = pseudonyms.words(&report.device, false);
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

fn gid(pseudonyms: &Pseudonyms, gid: &mut Gid) {
    gid.gid = pseudonyms.gid(gid.gid);
}

fn verbs(pseudonyms: &Pseudonyms, mut device: VerbsDevice) -> VerbsDevice {
    match &mut device {
        VerbsDevice::Device(device) => {
            device.name = pseudonyms.words(&device.name, false);
            device.node_guid = pseudonyms.guid(device.node_guid);
            let gids = device.ports.iter_mut().flat_map(|port| &mut port.gids);
            gids.for_each(|found| gid(pseudonyms, found));
        }
        VerbsDevice::Error(error) => {
            error.device = error.device.take().map(|name| pseudonyms.words(&name, false));
        }
    }
    device
}

/// What was remembered: names and boots become what they become elsewhere, so that past and present belong together.
fn past(pseudonyms: &Pseudonyms, history: &mut History) {
    let words = |text: &str| pseudonyms.words(text, false);
    for boot in &mut history.boots {
        boot.id = boot_name(pseudonyms, &boot.id);
        boot.domains = keyed(&mut boot.domains, words);
        boot.hcas = keyed(&mut boot.hcas, words);
        for seen in boot.hcas.values_mut() {
            seen.name = words(&seen.name);
        }
    }
    history.functions = keyed(&mut history.functions, words);
    history.ports = keyed(&mut history.ports, |key| match key.rsplit_once(':') {
        Some((identity, port)) => format!("{}:{port}", words(identity)),
        None => words(key),
    });
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

fn recording(pseudonyms: &Pseudonyms, original: &Recording) -> Recording {
    let mut replaced = Recording::default();
    for (path, answers) in original.iter() {
        let words = |text: &String| pseudonyms.words(text, false);
        let mut answers: Answers = answers.clone();
        if let Some(Ok(bytes)) = &mut answers.read {
            *bytes = content(pseudonyms, path, bytes).into();
        }
        if let Some(Ok(names)) = &mut answers.list {
            names.text = names.text.iter().map(words).collect();
            names.text.sort();
        }
        if let Some(Ok(Target::Text(target))) = &mut answers.link {
            *target = words(target);
        }
        if let Some(Ok(target)) = &mut answers.real_path {
            *target = words(target);
        }
        *replaced.entry(&pseudonyms.words(path, false)) = answers;
    }
    replaced
}

/// What a file holds, replaced.
fn content(pseudonyms: &Pseudonyms, path: &str, bytes: &[u8]) -> Vec<u8> {
    let file = path.rsplit('/').next().unwrap_or_default();
    let Ok(text) = std::str::from_utf8(bytes) else {
        return if file == "config" {
            without_serial_number(bytes)
        } else {
            bytes.to_vec()
        };
    };
    match path {
        "/proc/sys/kernel/hostname" => (pseudonyms.name("node", text.trim()) + "\n").into_bytes(),
        "/proc/sys/kernel/random/boot_id" => (boot_name(pseudonyms, text) + "\n").into_bytes(),
        _ if file == "config" => without_serial_number(bytes),
        _ if path.ends_with("/net/route") => pseudonyms.routes(text).into_bytes(),
        // Elsewhere four numbers with dots between them are a version.
        _ => {
            let addresses = path == "/dev/kmsg" || path.contains("/gids/");
            pseudonyms.words(text, addresses).into_bytes()
        }
    }
}

/// A PCI configuration space with an empty Device Serial Number capability: NICs keep their MAC address there.
fn without_serial_number(space: &[u8]) -> Vec<u8> {
    const SERIAL_NUMBER: u32 = 0x03;
    let mut space = space.to_vec();
    let mut offset = 0x100;
    // As many as there is room for, so that a list that loops ends.
    for _ in 0..480 {
        let Some(header) = space
            .get(offset..offset + 4)
            .and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)))
        else {
            break;
        };
        if header & 0xffff == SERIAL_NUMBER
            && let Some(number) = space.get_mut(offset + 4..offset + 12)
        {
            number.fill(0);
        }
        offset = (header >> 20) as usize & !0b11;
        if offset < 0x100 {
            break;
        }
    }
    space
}
