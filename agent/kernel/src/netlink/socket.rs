//! The conversation with the kernel: one request, one reply, bounded in size and time.

use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use netlink_packet_core::DefaultNla;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, netlink,
        netlink::SocketAddrNetlink, recvfrom, send, socket_with,
    },
};
use serde_json::Value;

use super::wire::{Kind, Reply, Request, Schema, text};
use crate::{
    fact::{Unread, UnreadKind},
    recording::Failure,
};

/// How long a reply may take. A driver that asks its firmware needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// The kernel's largest datagram of a dump.
const DATAGRAM: usize = 32 << 10;

/// What is asked of a family, and what of the reply is used.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) family: &'static str,
    /// The command of the request, and that of the messages in the reply.
    pub(super) commands: (u8, u8),
    /// Whether it asks for all objects.
    pub(super) dump: bool,
    pub(super) attributes: Vec<DefaultNla>,
    pub(super) schema: Schema,
}

/// A socket of generic netlink, opened when it is first used.
#[derive(Debug, Default)]
pub(super) struct Client {
    socket: Option<OwnedFd>,
    sequence: u32,
    families: BTreeMap<&'static str, u16>,
}

impl Client {
    /// The messages of the kernel's reply. `source` names the question in errors.
    pub(super) fn ask(&mut self, source: &str, question: Question) -> Result<Vec<Value>, Failure> {
        let Question {
            family,
            commands,
            dump,
            attributes,
            schema,
        } = question;
        let family = self.family(source, family)?;
        let request = Request {
            family,
            command: commands.0,
            dump,
            attributes,
        };
        self.exchange(source, &request, commands.1, schema)
    }

    /// The number of a family, which the kernel chooses.
    fn family(&mut self, source: &str, name: &'static str) -> Result<u16, Failure> {
        const CONTROLLER: u16 = 16;
        const GET_FAMILY: u8 = 3;
        const NEW_FAMILY: u8 = 1;
        const FAMILY_NAME: u16 = 2;
        const FAMILY: Schema = &[(1, "family-id", Kind::Number)];
        if let Some(family) = self.families.get(name) {
            return Ok(*family);
        }
        let request = Request {
            family: CONTROLLER,
            command: GET_FAMILY,
            dump: false,
            attributes: vec![text(FAMILY_NAME, name)],
        };
        let unread = |kind, detail| {
            Failure::Unread(Box::new(Unread {
                source: source.to_owned(),
                kind,
                detail,
            }))
        };
        let messages = match self.exchange(source, &request, NEW_FAMILY, FAMILY) {
            Err(Failure::Errno(Errno::NOENT)) => {
                let detail = format!("this kernel has no netlink family {name}");
                return Err(unread(UnreadKind::Errno(Errno::OPNOTSUPP), detail));
            }
            other => other?,
        };
        let number = messages.first().and_then(|message| message["family-id"].as_u64());
        let number = number.and_then(|number| u16::try_from(number).ok());
        let number = number.ok_or_else(|| {
            unread(
                UnreadKind::Malformed,
                format!("the kernel reports no number of the family {name}"),
            )
        })?;
        self.families.insert(name, number);
        Ok(number)
    }

    fn exchange(
        &mut self,
        source: &str,
        request: &Request,
        command: u8,
        schema: Schema,
    ) -> Result<Vec<Value>, Failure> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut reply = Reply::new(source, self.sequence, request.family, command, schema);
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(open()?),
        };
        send(&*socket, &request.bytes(self.sequence), SendFlags::empty())?;
        let messages = receive(socket, &mut reply);
        if messages.is_err() {
            // The rest of a reply must not be taken for the next one.
            self.socket = None;
        }
        messages.map(|()| reply.into_messages())
    }
}

/// A socket that only the kernel can send to.
fn open() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(netlink::GENERIC);
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
mod tests {
    use super::*;

    #[test]
    fn only_the_kernel_is_believed() {
        assert!(is_kernel(Some(SocketAddrNetlink::new(0, 0).into())));
        assert!(!is_kernel(Some(SocketAddrNetlink::new(4711, 0).into())));
        assert!(!is_kernel(None));
    }

    /// The kernel of this machine has the controller, and no family of that name.
    #[test]
    fn a_family_that_the_kernel_does_not_have_is_reported() {
        let mut client = Client::default();
        let failure = client.family("question", "no_such_family").unwrap_err();
        let Failure::Unread(unread) = failure else {
            panic!("{failure:?}")
        };
        assert_eq!(
            unread.to_string(),
            "question: this kernel has no netlink family no_such_family (EOPNOTSUPP)"
        );
        assert_eq!(client.family("question", "nlctrl").unwrap(), 16);
    }
}
