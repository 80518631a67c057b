//! Which requests are refused before anything is opened.

use rdma_health_protocol::{MAX_QUEUE_PAIRS, Peer, ProbeRequest};
#[cfg(test)]
use rdma_health_protocol::{Path, PortKey, RemotePort};

/// Largest bandwidth message in bytes. A probe holds two buffers of this size.
pub const MAX_MESSAGE: u32 = 1 << 30;
/// Largest latency message in bytes.
pub const MAX_LATENCY_MESSAGE: u32 = 1 << 20;
/// Most writes outstanding.
pub const MAX_DEPTH: u32 = 4096;
/// Most latency samples; each takes 8 bytes until the end.
pub const MAX_SAMPLES: u32 = 1_000_000;
/// Longest time budget in milliseconds.
pub const MAX_TIME_MS: u64 = 600_000;
/// Most NUMA nodes that a kernel can have (`MAX_NUMNODES`).
const MAX_NODES: u32 = 1024;
/// Longest device name the kernel has (`IB_DEVICE_NAME_MAX`), its NUL included.
const MAX_NAME: usize = 64;

/// Whether the request is one that a probe can carry out. It is not where a size, the depth, the queue pairs or a budget is 0 or
/// beyond its maximum here, or the name of a device is not that of a file. No samples are allowed: the latency part is left
/// out.
pub fn is_sane(request: &ProbeRequest) -> bool {
    let named = is_device(&request.path.from.device)
        && match &request.path.to {
            Peer::Loopback => true,
            Peer::Remote(peer) => !peer.node.is_empty() && is_device(&peer.port.device),
        };
    let latency = request.latency_samples == 0
        || (request.latency_samples <= MAX_SAMPLES
            && (1..=MAX_LATENCY_MESSAGE).contains(&request.latency_size));
    let memory = request
        .memory_node
        .is_none_or(|node| node < MAX_NODES && request.path.is_loopback());
    named
        && latency
        && memory
        && (1..=MAX_MESSAGE).contains(&request.message_size)
        && (1..=MAX_DEPTH).contains(&request.depth)
        && (1..=MAX_QUEUE_PAIRS).contains(&(request.queue_pairs as usize))
        && request.byte_budget > 0
        && (1..=MAX_TIME_MS).contains(&request.time_budget_ms)
}

fn is_device(name: &str) -> bool {
    (1..MAX_NAME).contains(&name.len()) && !name.contains(['/', '\0']) && !matches!(name, "." | "..")
}

#[cfg(test)]
pub(crate) fn sane() -> ProbeRequest {
    ProbeRequest {
        path: Path::loopback("mlx5_0", 1),
        message_size: 65536,
        depth: 128,
        queue_pairs: 1,
        byte_budget: 64 << 20,
        time_budget_ms: 5000,
        latency_samples: 1000,
        latency_size: 8,
        gid_index: None,
        even_if_busy: false,
        memory_node: None,
        busy_bytes_per_second: 1 << 20,
    }
}

#[cfg(test)]
pub(crate) fn sane_between() -> ProbeRequest {
    let mut request = sane();
    request.path.to = Peer::Remote(RemotePort {
        node: "node-b".into(),
        port: PortKey {
            device: "mlx5_3".into(),
            port: 1,
        },
    });
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(request: &mut ProbeRequest) -> &mut RemotePort {
        match &mut request.path.to {
            Peer::Remote(peer) => peer,
            Peer::Loopback => panic!("a loopback"),
        }
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        assert!(is_sane(&sane()) && is_sane(&sane_between()));
        let refused: [fn(&mut ProbeRequest); 20] = [
            |r| r.message_size = 0,
            |r| r.message_size = MAX_MESSAGE + 1,
            |r| r.depth = 0,
            |r| r.depth = MAX_DEPTH + 1,
            |r| r.queue_pairs = 0,
            |r| r.queue_pairs = 65,
            |r| r.byte_budget = 0,
            |r| r.memory_node = Some(0),
            |r| r.time_budget_ms = 0,
            |r| r.time_budget_ms = u64::MAX,
            |r| r.latency_size = 0,
            |r| r.latency_size = MAX_LATENCY_MESSAGE + 1,
            |r| r.latency_samples = MAX_SAMPLES + 1,
            |r| r.path.from.device = String::new(),
            |r| r.path.from.device = "..".into(),
            |r| r.path.from.device = "../../etc".into(),
            |r| r.path.from.device = "a\0b".into(),
            |r| r.path.from.device = "x".repeat(64),
            |r| peer(r).node = String::new(),
            |r| peer(r).port.device = "..".into(),
        ];
        for (at, change) in refused.iter().enumerate() {
            let mut request = sane_between();
            change(&mut request);
            assert!(!is_sane(&request), "{at}");
        }
    }

    #[test]
    fn latency_may_be_left_out() {
        let request = ProbeRequest {
            latency_samples: 0,
            latency_size: 0,
            ..sane()
        };
        assert!(is_sane(&request));
    }
}
