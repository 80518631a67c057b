//! Netlink on the wire: requests, and replies as JSON documents with the names of the kernel's netlink specifications.
//!
//! Format: `Documentation/userspace-api/netlink/intro.rst`; names: `Documentation/netlink/specs`. A [`Schema`] lists the attributes that
//! are used. All others are skipped, whatever they hold, so a reply cannot nest deeper than its schema.

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NetlinkBuffer, NlasIterator};
use rustix::io::Errno;
use serde_json::{Map, Value};

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
}

/// Maximum size of a reply in bytes, of all its messages together.
const MAX_REPLY: usize = 4 << 20;
/// Length of the header of a generic netlink message: command, version, reserved.
const GENERIC_HEADER: usize = 4;

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;

/// A request of generic netlink.
#[derive(Debug)]
pub(super) struct Request {
    /// The number of the family.
    pub(super) family: u16,
    pub(super) command: u8,
    /// Whether it asks for all objects.
    pub(super) dump: bool,
    /// Its attributes.
    pub(super) attributes: Vec<DefaultNla>,
}

impl Request {
    /// Its bytes.
    pub(super) fn bytes(&self, sequence: u32) -> Vec<u8> {
        let attributes = self.attributes.as_slice();
        let header = 16 + GENERIC_HEADER;
        let mut bytes = vec![0; header + attributes.buffer_len()];
        bytes[16] = self.command;
        bytes[17] = 1;
        attributes.emit(&mut bytes[header..]);
        // A request has a few hundred bytes.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut buffer = NetlinkBuffer::new(&mut bytes);
        buffer.set_length(length);
        buffer.set_message_type(self.family);
        buffer.set_flags(NLM_F_REQUEST | if self.dump { NLM_F_DUMP } else { NLM_F_ACK });
        buffer.set_sequence_number(sequence);
        bytes
    }
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
    /// The number of the family that was asked.
    pub(super) family: u16,
    /// The command of its messages.
    pub(super) command: u8,
    pub(super) schema: Schema,
    messages: Vec<Value>,
    bytes: usize,
}

impl<'a> Reply<'a> {
    pub(super) fn new(source: &'a str, sequence: u32, family: u16, command: u8, schema: Schema) -> Self {
        Self {
            source,
            sequence,
            family,
            command,
            schema,
            messages: Vec::new(),
            bytes: 0,
        }
    }

    /// The messages so far.
    pub(super) fn into_messages(self) -> Vec<Value> {
        self.messages
    }

    /// Takes a datagram. Returns whether the reply is complete.
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
            let message =
                NetlinkBuffer::new_checked(rest).map_err(|_| self.malformed("a message is cut off"))?;
            // `new_checked` compares it with the buffer and the header.
            let length = usize::try_from(message.length()).unwrap_or(usize::MAX);
            let body = rest.get(16..length).unwrap_or_default();
            // The answer to an earlier request that was given up.
            let ours = message.sequence_number() == self.sequence;
            match message.message_type() {
                _ if !ours => {}
                NLMSG_NOOP => {}
                NLMSG_DONE => return self.status(body).map(|()| true),
                NLMSG_ERROR => {
                    self.status(body)?;
                    return Ok(true);
                }
                family if family == self.family => {
                    let message = self.message(body)?;
                    self.messages.push(message);
                }
                other => {
                    let family = self.family;
                    return Err(self.malformed(&format!("a message of family {other} instead of {family}")));
                }
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }

    /// The error in a message that ends a reply: 0, or a negative errno.
    fn status(&self, body: &[u8]) -> Result<(), Failure> {
        // A kernel may leave out the status of a dump that succeeded.
        let Some(status) = body.first_chunk() else {
            return Ok(());
        };
        match i32::from_ne_bytes(*status) {
            0 => Ok(()),
            number => match number.checked_neg().and_then(fact::errno) {
                Some(errno) => Err(Failure::Errno(errno)),
                None => Err(self.malformed(&format!("an error with number {number}"))),
            },
        }
    }

    fn message(&self, body: &[u8]) -> Result<Value, Failure> {
        let (header, attributes) = body
            .split_at_checked(GENERIC_HEADER)
            .ok_or_else(|| self.malformed("a message without a header"))?;
        if header[0] != self.command {
            let (found, expected) = (header[0], self.command);
            return Err(self.malformed(&format!("a message with command {found} instead of {expected}")));
        }
        self.attributes(attributes, self.schema).map(Value::Object)
    }

    fn attributes(&self, bytes: &[u8], schema: Schema) -> Result<Map<String, Value>, Failure> {
        let mut found = Map::new();
        for attribute in NlasIterator::new(bytes) {
            let attribute = attribute.map_err(|_| self.malformed("an attribute is cut off"))?;
            let known = schema.iter().find(|(number, ..)| *number == attribute.kind());
            let Some(&(_, name, kind)) = known else {
                continue;
            };
            let value = attribute.value();
            let wrong = || self.malformed(&format!("{name} with {} bytes", value.len()));
            let value = match kind {
                Kind::Number => Value::from(unsigned(value).ok_or_else(wrong)?),
                Kind::Numbers => {
                    let (numbers, rest) = value.as_chunks();
                    if !rest.is_empty() {
                        return Err(wrong());
                    }
                    numbers.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
                }
                Kind::Text => {
                    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
                    Value::from(String::from_utf8_lossy(&value[..end]))
                }
                Kind::Nest(schema) => Value::Object(self.attributes(value, schema)?),
                Kind::List(schema) => {
                    let entry = Value::Object(self.attributes(value, schema)?);
                    if let Some(Value::Array(entries)) = found.get_mut(name) {
                        entries.push(entry);
                        continue;
                    }
                    Value::Array(vec![entry])
                }
            };
            found.insert(name.to_owned(), value);
        }
        Ok(found)
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

/// A number in the order of bytes of this machine.
fn unsigned(bytes: &[u8]) -> Option<u64> {
    Some(match bytes.len() {
        1 => bytes[0].into(),
        2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
        4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
        8 => u64::from_ne_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
