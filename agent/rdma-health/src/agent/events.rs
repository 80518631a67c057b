//! What the kernel reports on its own: devices that come and go, links and addresses that change.
//!
//! Source: the kobject uevent and rtnetlink multicast groups of netlink(7). A message only says that something is to be
//! read again, so little of it is looked at, and losing some (ENOBUFS) costs nothing but a reading.

use std::{io, os::fd::OwnedFd, thread};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, netlink, recv, socket_with},
};
use tokio::sync::mpsc;
use tracing::warn;

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A device came or went.
    Device,
    /// A network device or address changed.
    Network,
}

impl Event {
    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Device => "uevent",
            Self::Network => "rtnetlink",
        }
    }
}

// Multicast groups of rtnetlink (include/uapi/linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
/// The kernel's group of uevents; 2 is udev's.
const UEVENT_KERNEL: u32 = 1;

/// Receives both in a separate thread. A group that cannot be joined (a seccomp filter, for example) is logged once and left
/// out: the node is also read at intervals.
pub(crate) fn listen(events: mpsc::Sender<Event>) {
    // NETLINK_ROUTE is protocol 0, which rustix writes as none.
    let sources = [
        (Event::Device, Some(netlink::KOBJECT_UEVENT), UEVENT_KERNEL),
        (
            Event::Network,
            None,
            RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
        ),
    ];
    let mut sockets = Vec::new();
    for (event, protocol, groups) in sources {
        match open(protocol, groups) {
            Ok(socket) => sockets.push((event, socket)),
            Err(error) => {
                warn!(%error, "cannot subscribe to kernel {} messages; changes are noticed at the next interval", event.name());
            }
        }
    }
    let spawned = thread::Builder::new()
        .name("events".into())
        .stack_size(64 << 10)
        .spawn(move || {
            if let Err(error) = forward(&sockets, &events) {
                warn!(%error, "no longer receiving kernel messages; changes are noticed at the next interval");
            }
        });
    if let Err(error) = spawned {
        warn!(%error, "cannot start the thread that receives kernel messages; changes are noticed at the next interval");
    }
}

fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    rustix::net::bind(&socket, &netlink::SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Runs until the receiver is gone or the kernel refuses.
fn forward(sockets: &[(Event, OwnedFd)], events: &mpsc::Sender<Event>) -> io::Result<()> {
    let mut buffer = [0; 8192];
    while !sockets.is_empty() && !events.is_closed() {
        let mut ready: Vec<_> = sockets
            .iter()
            .map(|(_, socket)| PollFd::new(socket, PollFlags::IN))
            .collect();
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (event, socket) in sockets {
            let relevant = match recv(socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, n)) => *event == Event::Network || concerns_us(&buffer[..n.min(buffer.len())]),
                // Messages were lost: read everything.
                Err(Errno::NOBUFS) => true,
                Err(Errno::AGAIN | Errno::INTR) => false,
                Err(error) => return Err(error.into()),
            };
            if relevant {
                // A full queue holds one that says the same.
                let _ = events.try_send(*event);
            }
        }
    }
    Ok(())
}

/// Whether a uevent is about a device that matters: `add@/devices/…\0ACTION=add\0SUBSYSTEM=infiniband\0…`.
fn concerns_us(message: &[u8]) -> bool {
    const SUBSYSTEMS: [&[u8]; 4] = [b"infiniband", b"infiniband_verbs", b"net", b"module"];
    let mut fields = message.split(|byte| *byte == 0);
    fields.any(|field| {
        field
            .strip_prefix(b"SUBSYSTEM=")
            .is_some_and(|name| SUBSYSTEMS.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uevents_of_rdma_network_and_modules_count() {
        assert!(concerns_us(
            b"remove@/devices/virtual/infiniband/rxe0\0ACTION=remove\0SUBSYSTEM=infiniband\0"
        ));
        assert!(!concerns_us(
            b"change@/devices/x\0ACTION=change\0SUBSYSTEM=block\0"
        ));
        assert!(!concerns_us(b""));
    }
}
