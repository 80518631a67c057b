//! Watches devices: their asynchronous events, and their addition and removal.
//!
//! One context per device is open for its events. It must be closed when the device is removed: a driver that cannot
//! revoke open contexts (rxe) blocks the removal, and other drivers keep the memory. So the uverbs directory in sysfs,
//! which the kernel removes first, is compared every second; inotify does not work there.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use rdma_health_protocol::{AsyncEvent, AsyncEventKind as Kind, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Outbox;
use crate::{
    nodes,
    sys::{AsyncEvents, DeviceList, RawEvent},
};

/// Interval of reading the list of devices.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// Time before opening a device is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Devices by name, each with the inode of its uverbs directory: a device that was removed and added within a second has the
/// same name but another inode.
type Listing = BTreeMap<String, u64>;

struct Device {
    inode: u64,
    state: State,
}

enum State {
    Open(AsyncEvents),
    /// Not open: closed after a fatal event until it is a new device, or retried at that time.
    Closed(Option<Instant>),
}

/// Sends events until the process ends.
pub(super) fn watch(outbox: &Outbox) {
    let mut devices: BTreeMap<String, Device> = BTreeMap::new();
    let mut first = true;
    let mut next_list = Instant::now();
    loop {
        let now = Instant::now();
        if now >= next_list {
            next_list = now + LIST_INTERVAL;
            let known = devices
                .iter()
                .map(|(name, device)| (name.clone(), device.inode))
                .collect();
            let current = list();
            for (name, kind) in changes(&known, &current) {
                // Also closes its context.
                devices.remove(&name);
                if let (Kind::DeviceAdded, Some(&inode)) = (kind, current.get(&name)) {
                    let state = State::Closed(Some(now));
                    devices.insert(name.clone(), Device { inode, state });
                }
                if !first {
                    send(outbox, name, None, kind);
                }
            }
            first = false;
            open(&mut devices, now);
        }
        serve(&mut devices, next_list, outbox);
    }
}

fn list() -> Listing {
    let nodes = nodes::list(Path::new(nodes::CLASS));
    nodes.into_iter().map(|(name, node)| (name, node.inode)).collect()
}

/// The changes between two listings, in order of name; a replaced device is removed, then added.
fn changes(before: &Listing, after: &Listing) -> Vec<(String, Kind)> {
    let gone = before
        .iter()
        .filter(|(name, inode)| after.get(*name) != Some(inode));
    let new = after
        .iter()
        .filter(|(name, inode)| before.get(*name) != Some(inode));
    let mut changes: Vec<_> = gone
        .map(|(name, _)| (name.clone(), Kind::DeviceRemoved))
        .chain(new.map(|(name, _)| (name.clone(), Kind::DeviceAdded)))
        .collect();
    // The sort is stable, so removal stays before addition.
    changes.sort_by(|(a, _), (b, _)| a.cmp(b));
    changes
}

/// Opens the devices that are due.
fn open(devices: &mut BTreeMap<String, Device>, now: Instant) {
    let due = |device: &Device| matches!(device.state, State::Closed(Some(at)) if at <= now);
    if !devices.values().any(due) {
        return;
    }
    let opened = DeviceList::read();
    for (name, device) in devices.iter_mut().filter(|(_, device)| due(device)) {
        let found = opened
            .as_ref()
            .map_err(|&error| error)
            .map(|list| list.find(name));
        let events = match found {
            // Listed in sysfs, but not yet or no longer by the library.
            Ok(None) => {
                device.state = State::Closed(Some(now + LIST_INTERVAL));
                continue;
            }
            Ok(Some(found)) => found.open().and_then(AsyncEvents::new),
            Err(error) => Err(error),
        };
        device.state = match events {
            Ok(events) => State::Open(events),
            Err(error) => {
                eprintln!("rdma-health-verbs: cannot watch events of {name}: {error}");
                State::Closed(Some(now + RETRY_INTERVAL))
            }
        };
    }
}

/// Waits for events at most until `until`, and sends them.
fn serve(devices: &mut BTreeMap<String, Device>, until: Instant, outbox: &Outbox) {
    let open = || devices.values().filter_map(|device| device.events());
    let mut fds: Vec<_> = open().map(|events| PollFd::new(events, PollFlags::IN)).collect();
    let wait = until.saturating_duration_since(Instant::now());
    let Ok(timeout) = Timespec::try_from(wait) else {
        return;
    };
    // Fails only after a signal; the next iteration waits again.
    if poll(&mut fds, Some(&timeout)).is_err() {
        return;
    }
    let flags: Vec<_> = fds.iter().map(PollFd::revents).collect();
    drop(fds);
    let open = devices.iter_mut().filter(|(_, device)| device.events().is_some());
    for ((name, device), flags) in open.zip(flags).filter(|(_, flags)| !flags.is_empty()) {
        let ended = flags.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        if device.send_events(name, outbox) || ended {
            // The kernel can now free it. If it is still listed as the same device, it is no longer usable.
            device.state = State::Closed(None);
        }
    }
}

impl Device {
    fn events(&self) -> Option<&AsyncEvents> {
        match &self.state {
            State::Open(events) => Some(events),
            State::Closed(_) => None,
        }
    }

    /// Sends pending events. Returns whether the device has failed for good.
    fn send_events(&self, name: &str, outbox: &Outbox) -> bool {
        let Some(events) = self.events() else { return false };
        loop {
            match events.next() {
                Ok(Some(event)) => {
                    let (port, kind) = meaning(event);
                    send(outbox, name.to_owned(), port, kind);
                    if kind == Kind::DeviceFatal {
                        return true;
                    }
                }
                Ok(None) => return false,
                Err(error) => {
                    eprintln!("rdma-health-verbs: cannot read further events of {name}: {error}");
                    return true;
                }
            }
        }
    }
}

fn send(outbox: &Outbox, device: String, port: Option<u8>, kind: Kind) {
    outbox.send(&Message::Event(AsyncEvent { device, port, kind }));
}

/// Port and kind of an event (`enum ibv_event_type` in `verbs.h`).
fn meaning(event: RawEvent) -> (Option<u8>, Kind) {
    let kind = match event.kind {
        8 => Kind::DeviceFatal,
        9 => Kind::PortActive,
        10 => Kind::PortError,
        11 => Kind::LidChange,
        12 => Kind::PkeyChange,
        13 => Kind::SmChange,
        17 => Kind::ClientReregister,
        18 => Kind::GidChange,
        _ => Kind::Other,
    };
    let of_port = !matches!(kind, Kind::DeviceFatal | Kind::Other);
    (of_port.then(|| u8::try_from(event.port).ok()).flatten(), kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        use rdma_sys::ibv_event_type as event;
        for (number, kind) in [
            (event::IBV_EVENT_DEVICE_FATAL, Kind::DeviceFatal),
            (event::IBV_EVENT_PORT_ACTIVE, Kind::PortActive),
            (event::IBV_EVENT_PORT_ERR, Kind::PortError),
            (event::IBV_EVENT_LID_CHANGE, Kind::LidChange),
            (event::IBV_EVENT_PKEY_CHANGE, Kind::PkeyChange),
            (event::IBV_EVENT_SM_CHANGE, Kind::SmChange),
            (event::IBV_EVENT_CLIENT_REREGISTER, Kind::ClientReregister),
            (event::IBV_EVENT_GID_CHANGE, Kind::GidChange),
            (event::IBV_EVENT_WQ_FATAL, Kind::Other),
        ] {
            let port = (!matches!(kind, Kind::DeviceFatal | Kind::Other)).then_some(2);
            assert_eq!(
                meaning(RawEvent {
                    kind: number as u32,
                    port: 2
                }),
                (port, kind)
            );
        }
        assert_eq!(meaning(RawEvent { kind: 9, port: -1 }), (None, Kind::PortActive));
        assert_eq!(meaning(RawEvent { kind: 4711, port: 1 }), (None, Kind::Other));
    }

    #[test]
    fn a_replaced_device_is_removed_then_added() {
        let before = Listing::from([("a".into(), 1), ("b".into(), 2), ("c".into(), 3)]);
        let after = Listing::from([("a".into(), 1), ("b".into(), 9), ("d".into(), 4)]);
        let expected = [
            ("b", Kind::DeviceRemoved),
            ("b", Kind::DeviceAdded),
            ("c", Kind::DeviceRemoved),
            ("d", Kind::DeviceAdded),
        ];
        assert_eq!(
            changes(&before, &after),
            expected.map(|(name, kind)| (name.to_owned(), kind))
        );
    }

    proptest! {
        #[test]
        fn changes_lead_from_one_listing_to_the_next(
            before: std::collections::BTreeMap<String, u64>,
            after: std::collections::BTreeMap<String, u64>,
        ) {
            let mut listing = before.clone();
            for (name, kind) in changes(&before, &after) {
                match kind {
                    Kind::DeviceRemoved => prop_assert!(listing.remove(&name).is_some()),
                    _ => prop_assert!(listing.insert(name.clone(), after[&name]).is_none()),
                }
            }
            prop_assert_eq!(listing, after);
        }
    }
}
