//! Produces a completion error for real: `inject DEVICE loc-prot|rem-access|rem-inv-req [PORT]`.
//!
//! Prints the completion as `STATUS NAME VENDOR_ERROR` and exits with 0; 1 where there was none.

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use rdma_health_protocol::best_gid;
use rdma_health_verbs::{
    status,
    sys::{
        Access, Capabilities, CompletionQueue, Destination, DeviceList, MemoryRegion, PollBuffer,
        ProtectionDomain, QueuePair, Remote, Segment, Write,
    },
};

const SIZE: u32 = 4096;

fn main() -> ExitCode {
    match inject() {
        Ok(completion) => {
            println!("{completion}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("inject: {error}");
            ExitCode::FAILURE
        }
    }
}

fn inject() -> Result<String, Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (device, fault) = match arguments.as_slice() {
        [device, fault, ..] => (device, fault.as_str()),
        _ => return Err("usage: inject DEVICE loc-prot|rem-access|rem-inv-req [PORT]".into()),
    };
    let number = arguments.get(2).map_or(Ok(1), |port| port.parse())?;
    let list = DeviceList::read()?;
    let context = list.find(device).ok_or("no such device")?.open()?;
    let port = context.port(number)?;
    let gids = rdma_health_verbs::devices::gids(&context, number)?;
    let gid =
        best_gid(&gids).map(|gid| Ok::<_, Box<dyn Error>>((gid.gid.octets(), u8::try_from(gid.index)?)));
    let gid = gid.transpose()?;

    let domain = ProtectionDomain::new(&context)?;
    let source = MemoryRegion::new(&domain, SIZE as usize, Access::Local, None)?;
    // Has room for more than the source holds, so that only the source is at fault.
    let target = MemoryRegion::new(&domain, 2 * SIZE as usize, Access::RemoteWrite, None)?;
    let capabilities = Capabilities {
        send_depth: 1,
        inline: 0,
    };
    let create = || QueuePair::new(CompletionQueue::new(&domain, 16)?, number, capabilities);
    let pair = [create()?, create()?];
    for (end, other) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
        end.init(fault != "rem-inv-req")?;
        end.ready_to_receive(Destination {
            queue_pair: other.number(),
            psn: 0,
            lid: port.lid,
            gid,
            mtu: port.active_mtu,
        })?;
        end.ready_to_send(0)?;
    }

    let whole = source.segment(0, SIZE).ok_or("the region is too small")?;
    let place = target.remote(0).ok_or("the region is too small")?;
    let (local, remote) = match fault {
        // Starts within the region and ends one byte behind it. The HCA checks it before it reads.
        "loc-prot" => (
            Segment {
                length: SIZE + 1,
                ..whole
            },
            place,
        ),
        "rem-access" => (
            whole,
            Remote {
                key: place.key ^ 0xff,
                ..place
            },
        ),
        "rem-inv-req" => (whole, place),
        other => return Err(format!("no such fault: {other}").into()),
    };
    pair[0].post_write(&Write {
        id: 1,
        local,
        remote,
        signaled: true,
    })?;
    let (started, mut buffer) = (Instant::now(), PollBuffer::default());
    while started.elapsed() < Duration::from_secs(10) {
        if let Some(completion) = pair[0].poll(&mut buffer)?.next() {
            let name = status::name(completion.status);
            return Ok(format!(
                "{} {name} {}",
                completion.status, completion.vendor_error
            ));
        }
    }
    Err("no completion came".into())
}
