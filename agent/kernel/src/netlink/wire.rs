//! Netlink on the wire: requests, and replies as JSON documents with the names of the kernel's netlink specifications.
//!
//! Format: `Documentation/userspace-api/netlink/intro.rst`; names: `Documentation/netlink/specs`. A [`Schema`] lists the attributes that
//! are used. All others are skipped, whatever they hold, so a reply cannot nest deeper than its schema.

use std::fmt::Write;

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NetlinkBuffer, NlasIterator};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

pub(super) use super::layout::{Field, Layout};
use super::{
    kept::is_malformed,
    layout::{fields, unsigned},
};
use crate::{
    fact::{self, Unread, UnreadKind},
    recording::Failure,
};

/// The attributes that are used of a message or nest: number, name, content.
pub(super) type Schema = &'static [(u16, &'static str, Kind)];

/// The content of an attribute.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// An unsigned number of 1, 2, 4 or 8 bytes.
    Number,
    /// Numbers of 8 bytes.
    Numbers,
    /// A text that ends in a zero.
    Text,
    /// Attributes.
    Nest(Schema),
    /// Attributes, repeated for each entry of a list.
    List(Schema),
    /// Nests of attributes, which the numbers of their own attributes count: a list.
    Entries(Schema),
    /// A structure of C.
    Struct(Layout),
    /// The same, repeated for each entry of a list.
    Structs(Layout),
    /// Nests of one number each, repeated: the numbers by the number of their attribute.
    Counts,
    /// Bytes as hexadecimal digits.
    Bytes,
    /// A number of 1, 2, 4 or 8 bytes, repeated for each entry of a list.
    Each,
}

/// In a document: why a part of it could not be read. What else was read is kept, so that the part can be named.
pub(super) const MALFORMED: &str = "malformed";

/// Maximum size of a reply in bytes, of all its messages together.
const MAX_REPLY: usize = 4 << 20;

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// In a reply: what is listed changed meanwhile.
const NLM_F_DUMP_INTR: u16 = 0x10;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    /// The type of its message: for generic netlink, the number of the family.
    pub(super) kind: u16,
    /// What stands before the attributes.
    pub(super) header: Vec<u8>,
    /// Whether it asks for all objects.
    pub(super) dump: bool,
    /// Its attributes.
    pub(super) attributes: Vec<DefaultNla>,
}

impl Request {
    /// Its bytes.
    pub(super) fn bytes(&self, sequence: u32) -> Vec<u8> {
        let attributes = self.attributes.as_slice();
        let header = 16 + self.header.len();
        let mut bytes = vec![0; header + attributes.buffer_len()];
        bytes[16..header].copy_from_slice(&self.header);
        attributes.emit(&mut bytes[header..]);
        // A request has a few hundred bytes.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut buffer = NetlinkBuffer::new(&mut bytes);
        buffer.set_length(length);
        buffer.set_message_type(self.kind);
        buffer.set_flags(NLM_F_REQUEST | if self.dump { NLM_F_DUMP } else { NLM_F_ACK });
        buffer.set_sequence_number(sequence);
        bytes
    }
}

/// The messages of a reply: how they are distinguished from others, and what is used of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// Their type: for generic netlink, the number of the family.
    pub(super) kind: u16,
    /// The length of the header before their attributes, in bytes.
    pub(super) header: usize,
    /// The byte of the header that holds the command, and the command.
    pub(super) command: Option<(usize, u8)>,
    /// What is used of the header.
    pub(super) layout: Layout,
    pub(super) schema: Schema,
    /// An attribute without which a message is not kept.
    pub(super) only_with: Option<&'static str>,
}

/// A text as an attribute.
pub(super) fn text(number: u16, text: &str) -> DefaultNla {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    DefaultNla::new(number, bytes)
}

/// A number of four bytes as an attribute.
pub(super) fn number(number: u16, value: u32) -> DefaultNla {
    DefaultNla::new(number, value.to_ne_bytes().to_vec())
}

/// A number of one byte as an attribute.
pub(super) fn small(number: u16, value: u8) -> DefaultNla {
    DefaultNla::new(number, vec![value])
}

/// A flag as an attribute.
pub(super) fn flag(number: u16) -> DefaultNla {
    DefaultNla::new(number, Vec::new())
}

/// Attributes in an attribute.
pub(super) fn nest(number: u16, attributes: &[DefaultNla]) -> DefaultNla {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    DefaultNla::new(number | NLA_F_NESTED, bytes)
}

/// A reply while its datagrams arrive.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    /// The question in words, for errors.
    pub(super) source: &'a str,
    pub(super) sequence: u32,
    pub(super) form: Form,
    messages: Vec<Value>,
    bytes: usize,
    interrupted: bool,
    /// Whether the reply was cut off, so that its end may still arrive.
    broken: bool,
}

impl<'a> Reply<'a> {
    pub(super) fn new(source: &'a str, sequence: u32, form: Form) -> Self {
        Self {
            source,
            sequence,
            form,
            messages: Vec::new(),
            bytes: 0,
            interrupted: false,
            broken: false,
        }
    }

    /// Whether the reply was cut off: what still arrives cannot be distinguished from the next one.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the kernel says that what it listed changed meanwhile.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Why a reply that was interrupted twice is of no use.
    pub(super) fn interrupted(&self) -> Failure {
        self.unread(
            UnreadKind::Errno(Errno::INTR),
            "what the kernel listed changed meanwhile, twice in a row".into(),
        )
    }

    /// The messages so far.
    pub(super) fn into_messages(self) -> Vec<Value> {
        self.messages
    }

    /// Takes a datagram. Returns whether the reply is complete. A message that is malformed is kept with the reason, in
    /// [`MALFORMED`].
    pub(super) fn add(&mut self, datagram: &[u8]) -> Result<bool, Failure> {
        self.bytes += datagram.len();
        if self.bytes > MAX_REPLY {
            return Err(self.unread(
                UnreadKind::TooLong,
                format!("it is longer than {MAX_REPLY} bytes"),
            ));
        }
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok(message) = NetlinkBuffer::new_checked(rest) else {
                self.messages.push(defect("a message is cut off"));
                self.broken = true;
                return Ok(true);
            };
            // `new_checked` compares it with the buffer and the header.
            let length = usize::try_from(message.length()).unwrap_or(usize::MAX);
            let body = rest.get(16..length).unwrap_or_default();
            // The answer to an earlier request that was given up.
            let ours = message.sequence_number() == self.sequence;
            self.interrupted |= ours && message.flags() & NLM_F_DUMP_INTR != 0;
            match message.message_type() {
                _ if !ours => {}
                NLMSG_NOOP => {}
                // A kernel may leave out the status of a dump that succeeded.
                NLMSG_DONE if body.is_empty() => return Ok(true),
                NLMSG_DONE => return self.status(body).map(|()| true),
                NLMSG_ERROR => {
                    self.status(body)?;
                    return Ok(true);
                }
                kind if kind == self.form.kind => {
                    let message = self.message(body);
                    let is_used = self.form.only_with.is_none_or(|name| message.get(name).is_some());
                    if is_used || is_malformed(&message) {
                        self.messages.push(message);
                    }
                }
                other => {
                    let kind = self.form.kind;
                    self.messages
                        .push(defect(&format!("a message has type {other} instead of {kind}")));
                }
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }

    /// The error in a message that ends a reply: 0, or a negative errno.
    fn status(&self, body: &[u8]) -> Result<(), Failure> {
        let status = body.first_chunk();
        let status = status.ok_or_else(|| self.malformed("a status that is cut off"))?;
        match i32::from_ne_bytes(*status) {
            0 => Ok(()),
            number => match number.checked_neg().and_then(fact::errno) {
                Some(errno) => Err(Failure::Errno(errno)),
                None => Err(self.malformed(&format!("an error with number {number}"))),
            },
        }
    }

    fn message(&self, body: &[u8]) -> Value {
        let Some((header, attributes)) = body.split_at_checked(self.form.header) else {
            return defect("a message has no header");
        };
        if let Some((place, expected)) = self.form.command {
            let found = header.get(place).copied();
            if found != Some(expected) {
                let found = found.unwrap_or_default();
                return defect(&format!("a message has command {found} instead of {expected}"));
            }
        }
        let mut message = fields(header, self.form.layout);
        message.append(&mut attributes_of(attributes, self.form.schema));
        Value::Object(message)
    }

    /// Why the reply is of no use.
    pub(super) fn malformed(&self, found: &str) -> Failure {
        self.unread(UnreadKind::Malformed, format!("the kernel's reply has {found}"))
    }

    fn unread(&self, kind: UnreadKind, detail: String) -> Failure {
        Failure::Unread(Box::new(Unread {
            source: self.source.to_owned(),
            kind,
            detail,
        }))
    }

    /// The reply has not ended in time.
    pub(super) fn late(&self) -> Failure {
        self.unread(
            UnreadKind::Errno(Errno::TIMEDOUT),
            "the kernel's reply did not end in time".into(),
        )
    }
}

/// A part of a document that could not be read.
fn defect(reason: &str) -> Value {
    json!({ MALFORMED: reason })
}

/// The attributes that a schema lists. Those that are malformed are left out, with the first reason in [`MALFORMED`].
fn attributes_of(bytes: &[u8], schema: Schema) -> Map<String, Value> {
    let mut found = Map::new();
    let mut wrong: Option<String> = None;
    for attribute in NlasIterator::new(bytes) {
        let Ok(attribute) = attribute else {
            wrong.get_or_insert_with(cut_off);
            break;
        };
        let known = schema.iter().find(|(number, ..)| *number == attribute.kind());
        if let Some(&(_, name, kind)) = known
            && let Err(reason) = add(&mut found, name, kind, attribute.value())
        {
            wrong.get_or_insert(reason);
        }
    }
    if let Some(reason) = wrong {
        found.insert(MALFORMED.to_owned(), reason.into());
    }
    found
}

fn cut_off() -> String {
    "an attribute is cut off".into()
}

/// Adds the content of one attribute.
fn add(found: &mut Map<String, Value>, name: &str, kind: Kind, value: &[u8]) -> Result<(), String> {
    let number = || unsigned(value).ok_or_else(|| format!("{name} has {} bytes", value.len()));
    let value = match kind {
        Kind::Number => Value::from(number()?),
        Kind::Numbers => {
            let (numbers, rest) = value.as_chunks();
            if !rest.is_empty() {
                return Err(format!("{name} has {} bytes", value.len()));
            }
            numbers.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
        }
        Kind::Text => {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            Value::from(String::from_utf8_lossy(&value[..end]))
        }
        Kind::Nest(schema) => Value::Object(attributes_of(value, schema)),
        Kind::Struct(layout) => Value::Object(fields(value, layout)),
        Kind::Bytes => digits(value).into(),
        Kind::List(schema) => {
            append(found, name, Value::Object(attributes_of(value, schema)));
            return Ok(());
        }
        Kind::Structs(layout) => {
            append(found, name, Value::Object(fields(value, layout)));
            return Ok(());
        }
        Kind::Each => {
            append(found, name, number()?.into());
            return Ok(());
        }
        Kind::Entries(schema) => {
            for entry in NlasIterator::new(value) {
                let entry = entry.map_err(|_| cut_off())?;
                append(found, name, Value::Object(attributes_of(entry.value(), schema)));
            }
            return Ok(());
        }
        Kind::Counts => {
            let counts = found.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(counts) = counts {
                for one in NlasIterator::new(value) {
                    let one = one.map_err(|_| cut_off())?;
                    // Padding has no value.
                    if let Some(count) = unsigned(one.value()) {
                        counts.insert(one.kind().to_string(), count.into());
                    }
                }
            }
            return Ok(());
        }
    };
    found.insert(name.to_owned(), value);
    Ok(())
}

/// Two hexadecimal digits for each byte.
fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Appends an entry to a list.
fn append(found: &mut Map<String, Value>, name: &str, entry: Value) {
    match found.get_mut(name) {
        Some(Value::Array(entries)) => entries.push(entry),
        _ => {
            found.insert(name.to_owned(), Value::Array(vec![entry]));
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
