//! The answers of a recording with names and addresses replaced.

use std::collections::BTreeSet;

use rdma_health_kernel::{
    kmsg,
    recording::{Answer, Failure, Question, Recording, Target},
};
use rdma_health_node::{node::VerbsDevice, transceiver};
use serde_json::Value;

use super::{content::content, gid, log, pseudonym::Pseudonyms};
use crate::verbs;

/// The recording with every question and answer replaced.
pub(super) fn recording(pseudonyms: &Pseudonyms, original: &Recording) -> Recording {
    let words = |text: &str| pseudonyms.words(text, false);
    let mut replaced = Recording::default();
    let names = device_names(original);
    for (question, found) in original.iter() {
        let found = match (question, found) {
            (Question::Read(path), Answer::Bytes(bytes)) if path == "/dev/kmsg" || kmsg::is_saved(path) => {
                Answer::Bytes(kernel_log(pseudonyms, &names, bytes).into())
            }
            _ => answer(pseudonyms, question, found.clone()),
        };
        replaced.insert(question.map(words), found);
    }
    let hung = original.hung.iter();
    replaced.hung = hung.map(|(source, seconds)| (words(source), *seconds)).collect();
    replaced
}

/// The names of network and RDMA devices, which are not words but may occur in the kernel log.
fn device_names(recording: &Recording) -> BTreeSet<String> {
    let classes = ["/sys/class/net", "/sys/class/infiniband"];
    let lists = classes.map(|class| recording.get(&Question::List(class.to_owned())));
    let listed = lists.into_iter().flatten().filter_map(|answer| match answer {
        Answer::Names(names) => Some(names.text.clone()),
        _ => None,
    });
    // Readers ask about the network devices of RDMA ports by name.
    let asked = recording.iter().filter_map(|(question, _)| {
        let rest = classes
            .iter()
            .find_map(|class| question.path()?.strip_prefix(class))?;
        rest.split('/').nth(1).map(str::to_owned)
    });
    listed.flatten().chain(asked).collect()
}

fn kernel_log(pseudonyms: &Pseudonyms, names: &BTreeSet<String>, bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(|line| log::line(pseudonyms, names, line) + "\n");
    lines.collect::<String>().into_bytes()
}

fn answer(pseudonyms: &Pseudonyms, question: &Question, mut answer: Answer) -> Answer {
    let words = |text: &mut String| *text = pseudonyms.words(text, false);
    match &mut answer {
        Answer::Bytes(bytes) => {
            let replaced = match question {
                Question::VerbsDevices => devices(pseudonyms, bytes),
                Question::Runtimes => Some(bytes.to_vec()),
                Question::Netlink { command, .. } if command == "module-eeprom-get" => {
                    transceiver::used_pages(bytes)
                }
                Question::Netlink { family, .. } if family == "devlink" => {
                    document(bytes, |key, text| devlink(pseudonyms, key, text))
                }
                Question::Netlink { .. } | Question::DriverStatistics => {
                    document(bytes, |_, text| pseudonyms.words(text, true))
                }
                Question::Kubelet { .. } => document(bytes, |key, text| kubelet(pseudonyms, key, text)),
                Question::Read(path) => Some(content(pseudonyms, path, bytes)),
                // No such question is answered with bytes.
                Question::List(_) | Question::Link(_) | Question::RealPath(_) => None,
            };
            // Unparsed content could contain anything.
            return replaced.map_or(Answer::Failed(Failure::NotCollected), |bytes| {
                Answer::Bytes(bytes.into())
            });
        }
        Answer::Names(names) => {
            names.text.iter_mut().for_each(words);
            names.text.sort();
            let name = |text: &mut String| *text = pseudonyms.name("name", text);
            names.not_text.iter_mut().for_each(name);
        }
        Answer::Target(Target::Text(target)) => words(target),
        Answer::RealPath(path) => words(path),
        Answer::Failed(Failure::Unread(unread)) => {
            words(&mut unread.source);
            unread.detail = Pseudonyms::without_paths(&pseudonyms.words(&unread.detail, true));
        }
        Answer::Target(Target::NotText(target)) => *target = pseudonyms.name("name", target),
        Answer::Failed(_) => {}
    }
    answer
}

/// A text of devlink's answer: serial numbers are replaced. Readers do not ask for them, but another tool's answer may have them.
fn devlink(pseudonyms: &Pseudonyms, key: &str, text: &str) -> String {
    if key.contains("serial") {
        pseudonyms.name("serial", text)
    } else {
        pseudonyms.words(text, false)
    }
}

/// A text of the kubelet's answer: names that users chose are replaced, and ids of devices unless they are PCI addresses or names of
/// devices, which the kernel's files have, too. Equal names stay equal, and keys stay.
fn kubelet(pseudonyms: &Pseudonyms, key: &str, text: &str) -> String {
    let is_address = |text: &str| {
        let symbols = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '-');
        text.len() <= 24 && text.contains([':', '-']) && text.trim_start_matches("pci-").chars().all(symbols)
    };
    let is_device_name =
        |text: &str| text.len() <= 15 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match key {
        "name" | "namespace" => pseudonyms.name(key, text),
        "claimName" | "claimNamespace" | "poolName" => pseudonyms.name("name", text),
        // Serial numbers, in the ids of other plugins.
        "deviceIds" if !is_address(text) && !is_device_name(text) => pseudonyms.name("id", text),
        _ => pseudonyms.words(text, true),
    }
}

/// The answer of libibverbs with names and addresses replaced.
fn devices(pseudonyms: &Pseudonyms, bytes: &[u8]) -> Option<Vec<u8>> {
    let devices = verbs::devices(bytes).ok()?.into_iter();
    let replaced =
        devices.map(|(name, device)| (pseudonyms.words(&name, false), device_of(pseudonyms, device)));
    Some(verbs::document(&replaced.collect()))
}

fn device_of(pseudonyms: &Pseudonyms, mut device: VerbsDevice) -> VerbsDevice {
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

/// A JSON document with every text replaced; `replace` gets the key and the text.
fn document(bytes: &[u8], replace: impl Fn(&str, &str) -> String) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(bytes).ok()?;
    texts(&mut document, "", &replace);
    serde_json::to_vec(&document).ok()
}

fn texts(value: &mut Value, key: &str, replace: &impl Fn(&str, &str) -> String) {
    match value {
        Value::String(text) => *text = replace(key, text),
        Value::Array(all) => all.iter_mut().for_each(|one| texts(one, key, replace)),
        Value::Object(all) => {
            // A key may be a device's name.
            let fields = std::mem::take(all).into_iter().map(|(key, mut value)| {
                texts(&mut value, &key, replace);
                (replace("", &key), value)
            });
            *all = fields.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
