//! Framing: a 4-byte little-endian length, then that many bytes of JSON.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

/// The longest body either side accepts, in bytes: what a node with 256 devices needs that have every entry of a table of
/// 256 GIDs in use.
pub const MAX_BODY: usize = 8 << 20;

/// Bytes of the length that stands before each body.
pub const HEADER: usize = 4;

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection ended between two frames.
    #[error("the connection was closed")]
    Closed,
    /// The connection ended inside a frame, or failed.
    #[error("the connection broke off: {0}")]
    Io(#[from] io::Error),
    /// The other side announced more than [`MAX_BODY`].
    #[error("a frame of {0} bytes is longer than {MAX_BODY}")]
    TooLong(usize),
    /// The body is not the JSON that belongs here.
    #[error("a frame that does not parse: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// The length that a header announces.
///
/// # Errors
/// [`FrameError::TooLong`] where it exceeds [`MAX_BODY`].
pub fn body_length(header: [u8; HEADER]) -> Result<usize, FrameError> {
    // A u32 always fits a usize on the 64-bit machines this runs on; where it did not, it would be too long.
    let length = usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > MAX_BODY {
        Err(FrameError::TooLong(length))
    } else {
        Ok(length)
    }
}

/// Header and body of one message.
///
/// # Errors
/// [`FrameError::TooLong`] where the body would exceed [`MAX_BODY`]: it is not sent then.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - HEADER;
    match u32::try_from(length) {
        Ok(announced) if length <= MAX_BODY => frame[..HEADER].copy_from_slice(&announced.to_le_bytes()),
        _ => return Err(FrameError::TooLong(length)),
    }
    Ok(frame)
}

/// The message in a body.
///
/// # Errors
/// [`FrameError::Malformed`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    Ok(serde_json::from_slice(body)?)
}

/// Reads one message.
///
/// # Errors
/// Any [`FrameError`]; the stream is of no further use then.
pub fn read<T: DeserializeOwned>(stream: &mut impl Read) -> Result<T, FrameError> {
    let mut header = [0; HEADER];
    match stream.read(&mut header)? {
        0 => return Err(FrameError::Closed),
        n => stream.read_exact(&mut header[n..])?,
    }
    let length = body_length(header)?;
    let mut body = Vec::new();
    // Grows with what arrives, so that a length alone costs no memory.
    let got = stream.take(length as u64).read_to_end(&mut body)?;
    if got < length {
        return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    decode(&body)
}

/// Writes one message and flushes.
///
/// # Errors
/// [`FrameError::TooLong`] or [`FrameError::Io`].
pub fn write(stream: &mut impl Write, message: &impl Serialize) -> Result<(), FrameError> {
    stream.write_all(&encode(message)?)?;
    stream.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Ask, ConnectRequest, Device, DriverStatistics, EndAddress, EndGid, Gid, GidType, HelperError,
        HostFile, HostFileName, LogPart, MAX_DEVICES, MAX_DRIVERS, MAX_HOST_FILE, MAX_HOST_FILES,
        MAX_LOG_RECORDS, MAX_MODULES, MAX_SPACE, MAX_SPACES, MAX_STATISTICS, Message, ModuleMemory,
        ModulePage, OfferRequest, Path, PciSpace, Peer, Port, ProbeRequest, QueuePairAddress, RegionAddress,
        RemotePort, Reply, Request, Response, Role, Statistic,
    };

    fn request() -> Request {
        Request {
            id: 7,
            ask: Ask::Probe(ProbeRequest {
                path: Path::loopback("mlx5_0", 1),
                message_size: 65536,
                depth: 64,
                queue_pairs: 4,
                byte_budget: 1 << 20,
                time_budget_ms: 1000,
                latency_samples: 100,
                latency_size: 8,
                gid_index: None,
                even_if_busy: false,
                memory_node: None,
                busy_bytes_per_second: 1 << 20,
            }),
        }
    }

    #[test]
    fn requests_survive_the_wire() {
        let Ask::Probe(mut probe) = request().ask else {
            panic!("not a probe")
        };
        probe.path.to = Peer::Remote(RemotePort {
            node: "node-b".into(),
            port: probe.path.from.clone(),
        });
        let to = EndAddress {
            queue_pairs: vec![
                QueuePairAddress {
                    number: 17,
                    psn: 4711
                };
                3
            ],
            lid: 0,
            gid: Some(EndGid {
                gid: "::ffff:10.0.0.1".parse().unwrap(),
                kind: GidType::RoceV2,
            }),
            mtu: 4096,
            region: RegionAddress {
                address: u64::MAX,
                key: u32::MAX,
                length: 1,
            },
            pattern: u64::MAX,
        };
        let offer = OfferRequest {
            role: Role::Respond,
            probe,
        };
        for ask in [
            request().ask,
            Ask::Offer(offer),
            Ask::Connect(ConnectRequest { end: u64::MAX, to }),
            Ask::Measure(1),
        ] {
            let request = Request { id: u64::MAX, ask };
            let frame = encode(&request).unwrap();
            assert_eq!(read::<Request>(&mut frame.as_slice()).unwrap(), request);
        }
    }

    #[test]
    fn a_stream_that_ends_is_closed_between_frames_and_broken_within() {
        let frame = encode(&request()).unwrap();
        assert!(matches!(
            read::<Request>(&mut [].as_slice()),
            Err(FrameError::Closed)
        ));
        for cut in 1..frame.len() {
            assert!(
                matches!(read::<Request>(&mut &frame[..cut]), Err(FrameError::Io(_))),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn an_announced_length_beyond_the_limit_is_refused_before_it_is_read() {
        let header = u32::try_from(MAX_BODY + 1).unwrap().to_le_bytes();
        assert!(matches!(
            read::<Request>(&mut header.as_slice()),
            Err(FrameError::TooLong(_))
        ));
    }

    fn answer(devices: Vec<Result<Device, HelperError>>) -> Message {
        Message::Response(Response {
            id: 1,
            reply: Reply::Devices(devices),
        })
    }

    /// A device whose every word and number is as long as they get.
    fn full(gids: u32) -> Device {
        let gid = |index| Gid {
            index,
            gid: "fe80:1111:2222:3333:4444:5555:6666:7777".parse().unwrap(),
            kind: GidType::RoceV2,
            netdev_index: Some(1_000_000),
            netdev: None,
        };
        Device {
            name: "rocep193s0f1v127".into(),
            node_guid: u64::MAX,
            firmware: "28.39.1002 (MT_0000000838)".into(),
            vendor_id: u32::MAX,
            vendor_part_id: u32::MAX,
            max_mr_size: u64::MAX,
            ports: vec![Port {
                number: 1,
                state: 4,
                phys_state: 5,
                link_layer: 2,
                active_mtu: 4096,
                max_mtu: 4096,
                lid: u16::MAX,
                sm_lid: u16::MAX,
                gid_table_len: gids,
                gids: (0..gids).map(gid).collect(),
            }],
        }
    }

    #[test]
    fn the_largest_node_fits_into_a_frame() {
        for (devices, gids) in [(256, 256), (MAX_DEVICES, 10)] {
            let message = answer(vec![Ok(full(gids)); devices]);
            let frame = encode(&message).unwrap();
            assert!(read::<Message>(&mut frame.as_slice()).unwrap() == message);
        }
    }

    /// As long as the records are that readers keep, each of backslashes, which JSON doubles.
    #[test]
    fn the_largest_answers_of_a_privileged_helper_fit_into_a_frame() {
        let space = PciSpace {
            address: "10000:e1:00.1".into(),
            space: vec![0xff; MAX_SPACE],
        };
        let log = LogPart {
            records: vec!["\\".repeat(2048); MAX_LOG_RECORDS],
            next: u64::MAX,
            more: true,
        };
        let page = ModulePage {
            address: 0xff,
            page: 0xff,
            offset: 0xff,
            data: vec![0xff; 256],
            errno: i32::MIN,
        };
        let module = ModuleMemory {
            netdev: "x".repeat(16),
            pages: vec![page; 8],
            errno: i32::MIN,
        };
        let statistic = Statistic {
            name: "\\".repeat(32),
            value: u64::MAX,
        };
        let file = HostFile {
            name: HostFileName::Neighbour(u32::MAX),
            content: vec![0xff; MAX_HOST_FILE],
            errno: i32::MIN,
        };
        let driver = DriverStatistics {
            netdev: "x".repeat(16),
            statistics: vec![statistic; MAX_STATISTICS],
            errno: i32::MIN,
        };
        for reply in [
            Reply::PciSpaces(vec![space; MAX_SPACES]),
            Reply::KernelLog(log),
            Reply::Modules(vec![module; MAX_MODULES]),
            Reply::Statistics(vec![driver; MAX_DRIVERS]),
            Reply::HostFiles(vec![file; MAX_HOST_FILES]),
        ] {
            let message = Message::Response(Response { id: u64::MAX, reply });
            let frame = encode(&message).unwrap();
            assert!(read::<Message>(&mut frame.as_slice()).unwrap() == message);
        }
    }

    #[test]
    fn a_list_that_is_too_long_ends_the_conversation() {
        let error = HelperError {
            device: None,
            call: String::new(),
            errno: 5,
        };
        let mut many = full(0);
        many.ports = vec![many.ports[0].clone(); 256];
        for (message, most) in [
            (answer(vec![Err(error); MAX_DEVICES + 1]), MAX_DEVICES),
            (answer(vec![Ok(many)]), 255),
            (answer(vec![Ok(full((1 << 16) + 1))]), 1 << 16),
        ] {
            let body = serde_json::to_vec(&message).unwrap();
            let refused = decode::<Message>(&body).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("more than {most} entries")),
                "{refused}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_frame_takes_what_it_announces_from_the_stream_and_no_more(body: Vec<u8>, after: Vec<u8>) {
            let length = u32::try_from(body.len()).unwrap().to_le_bytes();
            let stream = [&length[..], &body, &after].concat();
            let mut rest = stream.as_slice();
            let read = read::<serde_json::Value>(&mut rest);
            prop_assert_eq!(rest, after);
            match (read, serde_json::from_slice::<serde_json::Value>(&body)) {
                (Ok(read), Ok(parsed)) => prop_assert_eq!(read, parsed),
                (read, parsed) => prop_assert!(parsed.is_err() && matches!(read, Err(FrameError::Malformed(_)))),
            }
        }

        #[test]
        fn every_request_survives_the_wire(id: u64, device in "\\PC{0,20}", (port, gid_index) in any::<(u8, Option<u32>)>(), sizes: [u32; 3]) {
            let Ask::Probe(probe) = request().ask else { unreachable!("the request asks for a probe") };
            let [message_size, latency_size, latency_samples] = sizes;
            let ask = Ask::Probe(ProbeRequest { path: Path::loopback(device, port), gid_index, message_size, latency_size, latency_samples, ..probe });
            let sent = Request { id, ask };
            prop_assert_eq!(read::<Request>(&mut encode(&sent).unwrap().as_slice()).unwrap(), sent);
        }
    }
}
