//! The conversation with the kernel: one request, one reply, bounded in size and time.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use netlink_packet_core::DefaultNla;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{
        AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, netlink,
        netlink::SocketAddrNetlink, recvfrom, send, socket_with,
    },
};
use serde_json::Value;

use super::{
    kept::is_malformed,
    kernel::{no_command, no_family},
    wire::{Form, Kind, Layout, Reply, Request, Schema, text},
};
use crate::{
    fact::{Unread, UnreadKind},
    recording::Failure,
};

/// How long a reply may take. A driver that asks its firmware needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// The kernel's largest datagram: a dump has at most 32 KiB, one message at most an attribute of 64 KiB with many virtual functions, and
/// some small ones.
const DATAGRAM: usize = 72 << 10;

/// What is asked of a family, and what of the reply is used.
#[derive(Debug)]
pub(super) struct Question {
    /// The name of the family in the kernel's specifications.
    pub(super) family: &'static str,
    pub(super) call: Call,
    /// Whether it asks for all objects.
    pub(super) dump: bool,
    pub(super) attributes: Vec<DefaultNla>,
    pub(super) schema: Schema,
}

/// How a family is called.
#[derive(Debug)]
pub(super) enum Call {
    /// Generic netlink, where the kernel chooses the number of the family: the command of the request, and that of the messages in the
    /// reply.
    Generic(u8, u8),
    /// The routing family.
    Route(Route),
    /// The RDMA family: a command of its device part (`enum rdma_nldev_command`).
    Rdma(u16),
}

/// A call of the routing family (`include/uapi/linux/rtnetlink.h`).
#[derive(Debug)]
pub(super) struct Route {
    /// The type of the request, and that of the messages in the reply.
    pub(super) kinds: (u16, u16),
    /// The header of the request; that of the messages is as long.
    pub(super) header: Vec<u8>,
    /// The byte of the header that holds a command, and the command.
    pub(super) command: Option<(usize, u8)>,
    /// What is used of the header of a message.
    pub(super) layout: Layout,
    /// An attribute without which a message is not kept.
    pub(super) only_with: Option<&'static str>,
}

/// Sockets of netlink, each opened when it is first used.
#[derive(Debug, Default)]
pub(super) struct Client {
    sockets: BTreeMap<u32, OwnedFd>,
    sequence: u32,
    families: BTreeMap<&'static str, Family>,
}

/// A family of generic netlink in this kernel.
#[derive(Debug)]
struct Family {
    /// Its number, which the kernel chooses.
    number: u16,
    /// Its commands; empty if the kernel does not list them.
    commands: Vec<u64>,
}

impl Client {
    /// The messages of the kernel's reply. `source` names the question in errors.
    pub(super) fn ask(&mut self, source: &str, question: Question) -> Result<Vec<Value>, Failure> {
        /// The number of the device part among the parts of the RDMA family (`RDMA_NL_NLDEV`, `RDMA_NL_GET_TYPE`).
        const RDMA_DEVICES: u16 = 5 << 10;
        let Question {
            family,
            call,
            dump,
            attributes,
            schema,
        } = question;
        let is_rdma = matches!(call, Call::Rdma(_));
        let (protocol, kind, header, form) = match call {
            Call::Generic(request, reply) => {
                let known = self.family(source, family)?;
                // Otherwise the kernel answers the same as for a driver that does not support the command.
                if !known.commands.is_empty() && !known.commands.contains(&request.into()) {
                    return Err(no_command(source, family));
                }
                let kind = known.number;
                let form = generic(kind, reply, schema);
                (Some(netlink::GENERIC), kind, generic_header(request), form)
            }
            Call::Route(route) => {
                let form = Form {
                    kind: route.kinds.1,
                    header: route.header.len(),
                    command: route.command,
                    layout: route.layout,
                    schema,
                    only_with: route.only_with,
                };
                (None, route.kinds.0, route.header, form)
            }
            Call::Rdma(command) => {
                let kind = RDMA_DEVICES + command;
                let form = Form {
                    kind,
                    header: 0,
                    command: None,
                    layout: &[],
                    schema,
                    only_with: None,
                };
                (Some(netlink::RDMA), kind, Vec::new(), form)
            }
        };
        let request = Request {
            kind,
            header,
            dump,
            attributes,
        };
        let is_plain = is_rdma && request.attributes.is_empty();
        match self.exchange(source, protocol, &request, form) {
            // A question without attributes cannot be wrong.
            Err(Failure::Errno(Errno::INVAL)) if is_plain => Err(no_command(source, family)),
            answer => answer,
        }
    }

    /// A family as this kernel has it.
    fn family(&mut self, source: &str, name: &'static str) -> Result<&Family, Failure> {
        const CONTROLLER: u16 = 16;
        const GET_FAMILY: u8 = 3;
        const NEW_FAMILY: u8 = 1;
        const FAMILY_NAME: u16 = 2;
        const FAMILY: Schema = &[
            (1, "family-id", Kind::Number),
            (6, "ops", Kind::Entries(&[(1, "id", Kind::Number)])),
        ];
        if self.families.contains_key(name) {
            return Ok(&self.families[name]);
        }
        let request = Request {
            kind: CONTROLLER,
            header: generic_header(GET_FAMILY),
            dump: false,
            attributes: vec![text(FAMILY_NAME, name)],
        };
        let form = generic(CONTROLLER, NEW_FAMILY, FAMILY);
        let messages = match self.exchange(source, Some(netlink::GENERIC), &request, form) {
            Err(Failure::Errno(Errno::NOENT)) => return Err(no_family(source, name)),
            other => other?,
        };
        let message = messages.first().filter(|message| !is_malformed(message));
        let number = message.and_then(|message| u16::try_from(message["family-id"].as_u64()?).ok());
        let number = number.ok_or_else(|| {
            Failure::Unread(Box::new(Unread {
                source: source.to_owned(),
                kind: UnreadKind::Malformed,
                detail: format!("the kernel's reply has no number of the family {name}, or is malformed"),
            }))
        })?;
        let commands = message.and_then(|message| message["ops"].as_array());
        let commands = commands.into_iter().flatten();
        let commands = commands.filter_map(|command| command["id"].as_u64()).collect();
        Ok(self.families.entry(name).or_insert(Family { number, commands }))
    }

    fn exchange(
        &mut self,
        source: &str,
        protocol: Option<Protocol>,
        request: &Request,
        form: Form,
    ) -> Result<Vec<Value>, Failure> {
        twice(|| self.exchange_once(source, protocol, request, form))
    }

    fn exchange_once<'a>(
        &mut self,
        source: &'a str,
        protocol: Option<Protocol>,
        request: &Request,
        form: Form,
    ) -> Result<Reply<'a>, Failure> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut reply = Reply::new(source, self.sequence, form);
        // The routing family has number 0.
        let number = protocol.map_or(0, |protocol| protocol.as_raw().get());
        let socket = match self.sockets.entry(number) {
            Entry::Occupied(socket) => socket.into_mut(),
            Entry::Vacant(none) => none.insert(open(protocol)?),
        };
        send(&*socket, &request.bytes(self.sequence), SendFlags::empty())?;
        let messages = receive(socket, &mut reply);
        if messages.is_err() || reply.is_broken() {
            // The rest of a reply must not be taken for the next one.
            self.sockets.remove(&number);
        }
        messages.map(|()| reply)
    }
}

/// The messages of a reply, which is requested again if the kernel says that what it listed changed meanwhile: then some may be missing.
fn twice<'a>(mut ask: impl FnMut() -> Result<Reply<'a>, Failure>) -> Result<Vec<Value>, Failure> {
    let first = ask()?;
    let reply = if first.is_interrupted() { ask()? } else { first };
    if reply.is_interrupted() {
        return Err(reply.interrupted());
    }
    Ok(reply.into_messages())
}

/// The header of a request of generic netlink: command, version, reserved.
fn generic_header(command: u8) -> Vec<u8> {
    vec![command, 1, 0, 0]
}

/// The messages of a family of generic netlink.
fn generic(kind: u16, command: u8, schema: Schema) -> Form {
    Form {
        kind,
        header: 4,
        command: Some((0, command)),
        layout: &[],
        schema,
        only_with: None,
    }
}

/// A socket that only the kernel can send to.
fn open(protocol: Option<Protocol>) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

fn receive(socket: &OwnedFd, reply: &mut Reply<'_>) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let (length, sender) = match recvfrom(socket, &mut buffer[..], RecvFlags::TRUNC) {
            Ok((_, length, sender)) => (length, sender),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                wait(socket, deadline).ok_or_else(|| reply.late())??;
                continue;
            }
            Err(errno) => return Err(errno.into()),
        };
        if Instant::now() >= deadline {
            return Err(reply.late());
        }
        if !is_kernel(sender) {
            continue;
        }
        let datagram = buffer
            .get(..length)
            .ok_or_else(|| reply.malformed(&format!("a datagram of {length} bytes")))?;
        if reply.add(datagram)? {
            return Ok(());
        }
    }
}

/// Waits for a datagram; `None` at the deadline.
fn wait(socket: &OwnedFd, deadline: Instant) -> Option<Result<(), Errno>> {
    let left = deadline.checked_duration_since(Instant::now())?;
    let left = rustix::time::Timespec::try_from(left).ok()?;
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&left)) {
        Ok(0) => None,
        Ok(_) | Err(Errno::INTR) => Some(Ok(())),
        Err(errno) => Some(Err(errno)),
    }
}

/// Whether a datagram is from the kernel and not from another process.
fn is_kernel(sender: Option<SocketAddrAny>) -> bool {
    let sender = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok());
    sender.is_some_and(|sender| sender.pid() == 0)
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
