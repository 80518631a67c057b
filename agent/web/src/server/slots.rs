//! The slots of open connections: how many a client may have, and which connection is closed when another one needs a slot.
//!
//! A client that has no connection is never refused, however many connections others hold. When the server or a network is
//! full, the network with the most connections gives one up: the one that has waited longest for its client.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

/// Maximum number of open connections.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// Slots that only this node can have: they stay free for a kubelet or a proxy next to the agent.
const LOCAL_SLOTS: usize = 16;
/// Maximum number of open connections per network, so that one client leaves room for others.
pub(super) const MAX_PER_NETWORK: usize = 32;
/// With this many open connections, each is closed after its request, so that idle ones leave room.
pub(super) const CROWDED: usize = MAX_CONNECTIONS / 2;

/// All slots.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots(Arc<Mutex<Open>>);

/// The slot of one connection; released when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Slots,
    id: u64,
    evicted: Arc<Notify>,
}

/// What may come of a request for a slot.
#[derive(Debug)]
pub(super) enum Admission {
    /// A slot was free.
    Free(Slot),
    /// Another connection was closed for it.
    Evicted(Slot),
    /// The client has so many connections that it cannot have another one.
    Refused,
}

/// What an open connection is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// For the head of its first request.
    FirstRequest,
    /// For the server, which works on its request.
    Answer,
    /// For the client, which is to read the answer and to send the next request.
    NextRequest,
}

/// What limits apply to: one client may have all addresses of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    /// Loopback, and the node's own addresses.
    ThisNode,
    V4(Ipv4Addr),
    /// A /64, from which a single host can take any number of addresses.
    V6(u64),
}

#[derive(Debug)]
struct Connection {
    network: Network,
    address: IpAddr,
    stage: Stage,
    /// When the stage began.
    since: Instant,
    evicted: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, Connection>,
}

impl Network {
    /// The network of a client at `peer`, which connected to the address `own`.
    fn of(peer: IpAddr, own: IpAddr) -> Self {
        match peer {
            // A client on this node that connects to one of its addresses has this address too.
            _ if peer.is_loopback() || peer == own => Self::ThisNode,
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                let prefix = [a, b, c, d]
                    .into_iter()
                    .fold(0, |prefix, part| prefix << 16 | u64::from(part));
                Self::V6(prefix)
            }
        }
    }
}

impl Slots {
    /// A slot for a connection from `peer` to the address `own` of this node.
    pub(super) fn admit(&self, peer: IpAddr, own: IpAddr) -> Admission {
        // An IPv4 client of an IPv6 socket has an address in ::ffff:0:0/96, one /64 for all of them.
        let (address, own) = (peer.to_canonical(), own.to_canonical());
        let network = Network::of(address, own);
        let mut open = self.lock();
        let evicted = if open.has_room(network) {
            false
        } else {
            let Some(id) = open.least_deserving(network, address) else {
                return Admission::Refused;
            };
            open.evict(id);
            true
        };
        let slot = self.take(&mut open, network, address);
        if evicted {
            Admission::Evicted(slot)
        } else {
            Admission::Free(slot)
        }
    }

    fn take(&self, open: &mut Open, network: Network, address: IpAddr) -> Slot {
        let (id, evicted) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        let connection = Connection {
            network,
            address,
            stage: Stage::FirstRequest,
            since: Instant::now(),
            evicted: Arc::clone(&evicted),
        };
        open.connections.insert(id, connection);
        Slot {
            slots: self.clone(),
            id,
            evicted,
        }
    }

    /// Closes the connection that has waited longest for its client, of the network with the most connections. Whether
    /// there was one.
    pub(super) fn make_room(&self) -> bool {
        let mut open = self.lock();
        let found = open.longest_waiting(|_| true);
        found.inspect(|id| open.evict(*id)).is_some()
    }

    /// Closes the connections that have not sent a request.
    pub(super) fn close_silent(&self) {
        let mut open = self.lock();
        let silent = |connection: &Connection| connection.stage == Stage::FirstRequest;
        let silent: Vec<_> = open
            .connections
            .iter()
            .filter(|(_, one)| silent(one))
            .map(|(id, _)| *id)
            .collect();
        for id in silent {
            open.evict(id);
        }
    }

    /// The number of open connections.
    pub(super) fn open(&self) -> usize {
        self.lock().connections.len()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // No code panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Whether a slot is free for the network.
    fn has_room(&self, network: Network) -> bool {
        self.connections.len() < MAX_CONNECTIONS
            && self.of_network(network) < MAX_PER_NETWORK
            && (network == Network::ThisNode || !self.is_full_of_remote())
    }

    /// Whether other nodes have all slots that they can have.
    fn is_full_of_remote(&self) -> bool {
        self.connections.len() - self.of_network(Network::ThisNode) >= MAX_CONNECTIONS - LOCAL_SLOTS
    }

    fn of_network(&self, network: Network) -> usize {
        self.connections
            .values()
            .filter(|one| one.network == network)
            .count()
    }

    fn of_address(&self, address: IpAddr) -> usize {
        self.connections
            .values()
            .filter(|one| one.address == address)
            .count()
    }

    /// The connection to close for a new one of this network and address. It is of a client with more connections than the
    /// new one's, or waits for the client that now opens another one. A connection that waits for its client comes first.
    fn least_deserving(&self, network: Network, address: IpAddr) -> Option<u64> {
        let (own, same) = (self.of_network(network), self.of_address(address));
        let network_full = own >= MAX_PER_NETWORK;
        let remote_full = network != Network::ThisNode && self.is_full_of_remote();
        let holds_more = |one: &Connection| {
            if one.network == network {
                self.of_address(one.address) > same
            } else {
                // Only one that counts towards the limit that was reached makes room.
                let counts = !remote_full || one.network != Network::ThisNode;
                counts && !network_full && self.of_network(one.network) > own
            }
        };
        self.longest_waiting(|one| holds_more(one) || one.address == address)
            .or_else(|| self.longest(|one| holds_more(one)))
    }

    fn longest_waiting(&self, eligible: impl Fn(&Connection) -> bool) -> Option<u64> {
        self.longest(|one| one.stage != Stage::Answer && eligible(one))
    }

    /// The connection whose stage began first, of the network and then the address with the most connections.
    fn longest(&self, eligible: impl Fn(&Connection) -> bool) -> Option<u64> {
        let eligible = self.connections.iter().filter(|(_, one)| eligible(one));
        let rank = |one: &Connection| {
            (
                self.of_network(one.network),
                self.of_address(one.address),
                std::cmp::Reverse(one.since),
            )
        };
        eligible.max_by_key(|(_, one)| rank(one)).map(|(id, _)| *id)
    }

    /// Frees the slot at once; the connection ends when its task runs.
    fn evict(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.evicted.notify_one();
        }
    }
}

impl Slot {
    /// The server works on a request of it.
    pub(super) fn answering(&self) {
        self.enter(Stage::Answer);
    }

    /// The answer is ready for the client.
    pub(super) fn answered(&self) {
        self.enter(Stage::NextRequest);
    }

    fn enter(&self, stage: Stage) {
        if let Some(connection) = self.slots.lock().connections.get_mut(&self.id) {
            (connection.stage, connection.since) = (stage, Instant::now());
        }
    }

    /// Ends when the connection must be closed, because another one needs its slot.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Whether so many connections are open that idle ones should close.
    pub(super) fn is_crowded(&self) -> bool {
        self.slots.open() >= CROWDED
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().connections.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
