//! The links of network devices: why one is down, speed and lanes, forward error correction, pause frames.
//!
//! Source: the generic netlink family `ethtool` (`Documentation/networking/ethtool-netlink.rst`,
//! `Documentation/netlink/specs/ethtool.yaml`), Linux 5.6 and later. Reading needs no privilege.

mod errors;
mod fec;
mod link_state;
mod pause;
mod speed;

use std::collections::BTreeMap;

use netlink_packet_core::DefaultNla;
use serde::{Deserialize, Serialize};

use super::{
    Asked, Call, Netlink, Question, ask_each, is_for_all, only,
    wire::{Schema, nest, number, text},
};
use crate::{
    fact::{Errno, Fact, Unread},
    root::Scope,
    source::{After, Known, Source},
};

use self::link_state::State;
pub(super) use self::link_state::{Plugged, plugged, plugged_now, state};
pub use self::{errors::ERRORS, fec::Fec, link_state::DownReason, pause::Pause, speed::Speed};

const FAMILY: &str = "ethtool";
/// What the kernel answers for a driver that does not support a question.
const NOT_SUPPORTED: [Errno; 1] = [Errno::OPNOTSUPP];
/// `ETHTOOL_FLAG_STATS`: the reply has statistics.
const FLAG_STATS: u32 = 1 << 2;

/// Links by network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// The network devices of RDMA ports, and the members of bonds among them; absent in a tree of files.
    pub netdevs: Fact<BTreeMap<String, Link>>,
}

/// The link of one network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Why it is down; absent if it is up, or if the driver does not know.
    pub down_reason: Fact<DownReason>,
    /// How often the physical link went down; absent if the driver does not count.
    pub downs: Fact<u64>,
    /// Speed and lanes; absent while it is down, and if the driver does not report them.
    #[serde(default)]
    pub speed: Fact<Speed>,
    /// Forward error correction; absent if the driver does not report it.
    pub fec: Fact<Fec>,
    /// Pause frames; absent if the driver does not report them.
    pub pause: Fact<Pause>,
    /// Number of received frames and symbols with an error, by the names in [`ERRORS`]; absent before Linux 5.13, and if the driver
    /// counts none.
    #[serde(default)]
    pub errors: Fact<BTreeMap<String, u64>>,
}

impl Source for Links {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        Self {
            netdevs: ask_each(scope, known, FAMILY, Asked::Cables, |netlink, netdev| {
                let state = state(netlink, netdev);
                match state.unread().filter(|unread| is_for_all(unread)) {
                    Some(unread) => unread.clone().into(),
                    None => Fact::Known(Link::read(netlink, netdev, state)),
                }
            }),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            netdevs: why.clone().into(),
        }
    }
}

impl Link {
    fn read(netlink: &Netlink<'_, '_>, netdev: &str, state: Fact<Vec<State>>) -> Self {
        let state = state.and_then(only);
        Self {
            down_reason: state.as_ref().and_then(|state| state.reason().into()),
            downs: state.and_then(|state| state.downs.into()),
            speed: Speed::read(netlink, netdev),
            fec: Fec::read(netlink, netdev),
            pause: Pause::read(netlink, netdev),
            errors: errors::read(netlink, netdev),
        }
    }
}

/// A command: the numbers of the request and of its reply, and what is used of it.
struct Command {
    commands: (u8, u8),
    schema: Schema,
}

/// The attribute with the header in most requests.
const HEADER: u16 = 1;

/// The header of a request: the network device, and what is wanted.
fn header(number_of_header: u16, netdev: &str, flags: u32) -> DefaultNla {
    const DEV_NAME: u16 = 2;
    const FLAGS: u16 = 3;
    nest(number_of_header, &[text(DEV_NAME, netdev), number(FLAGS, flags)])
}

fn question(netdev: &str, command: &Command, flags: u32) -> Question {
    Question {
        family: FAMILY,
        call: Call::Generic(command.commands.0, command.commands.1),
        dump: false,
        attributes: vec![header(HEADER, netdev, flags)],
        schema: command.schema,
    }
}
