//! Hostile HTTP requests: cut off, slow, oversized, pipelined, never read.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    thread::sleep,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketType, bind, connect, socket},
};

use super::{Run, dice::Dice};

/// Connections that one attacker keeps open without a complete request.
const HELD: usize = 40;
/// How long it reads an answer.
const PATIENCE: Duration = Duration::from_millis(200);

/// Attacks until the run is over; returns the number of requests.
pub(crate) fn attack(run: &Run, address: SocketAddr, mut dice: Dice) -> u64 {
    let mut held = VecDeque::new();
    run.repeat(|| {
        let request = request(&mut dice);
        let Some(mut stream) = connect_from(&mut dice, address) else {
            // All places are taken for now.
            sleep(Duration::from_millis(5));
            return Ok(());
        };
        // The agent may close the connection at any time: that is its right.
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.write_all(&request);
        match dice.below(4) {
            0 => {
                let _ = stream.read(&mut [0; 4096]);
            }
            1 => {
                held.push_back(stream);
                if held.len() > HELD {
                    held.pop_front();
                }
            }
            _ => {}
        }
        // About 15 requests in a second: an attack, and not a measurement of this machine.
        sleep(Duration::from_millis(60));
        Ok(())
    })
}

fn request(dice: &mut Dice) -> Vec<u8> {
    let path = dice.pick(&[
        "/metrics",
        "/",
        "/snapshot",
        "/api/v1/report",
        "/explain/port-down",
        "/explain/%00%1b",
        "/../../etc/passwd",
        "*",
    ]);
    let proper = format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\n\r\n").into_bytes();
    match dice.below(8) {
        0 => dice.bytes(300),
        1 => {
            let mut bytes = proper;
            dice.mutate(&mut bytes);
            bytes
        }
        2 => proper[..dice.below(proper.len())].to_vec(),
        3 => proper.repeat(1 + dice.below(30)),
        4 => format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000)).into_bytes(),
        5 => {
            let heads = "x: y\r\n".repeat(2000);
            format!("GET / HTTP/1.1\r\n{heads}\r\n").into_bytes()
        }
        6 => format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n").into_bytes(),
        _ => proper,
    }
}

/// Connects from one of the addresses of 127.0.0.0/24, which count as different clients.
fn connect_from(dice: &mut Dice, to: SocketAddr) -> Option<TcpStream> {
    let last = u8::try_from(2 + dice.below(250)).ok()?;
    let made = || -> Result<TcpStream, Errno> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))?;
        connect(&socket, &to)?;
        Ok(socket.into())
    };
    made().ok()
}
