//! A stranger that reaches the port: whatever it sends costs a bounded number of bytes and ends in time, and nothing it sends is parsed.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use proptest::prelude::*;
use tokio::{
    io::{AsyncRead, AsyncWriteExt, ReadBuf, duplex},
    runtime::Builder,
    time::sleep,
};

use super::*;
use crate::{
    message::Introduction,
    seal::{self, TAG},
};

fn wait<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}

/// A node that sends the same bytes for ever, and how many of them were taken.
struct Endless<'a> {
    bytes: &'a [u8],
    taken: &'a AtomicUsize,
}

impl AsyncRead for Endless<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        while buf.remaining() > 0 {
            let at = self.taken.fetch_add(1, Ordering::Relaxed) % self.bytes.len();
            buf.put_slice(&self.bytes[at..=at]);
        }
        assert!(buf.filled().len() > before);
        Poll::Ready(Ok(()))
    }
}

proptest! {
    #[test]
    fn no_bytes_of_a_stranger_succeed(bytes in prop::collection::vec(any::<u8>(), 0..300), as_peer in any::<bool>()) {
        // Half of them begin as this program does.
        let mut all = if as_peer { seal::hello().unwrap().to_vec() } else { Vec::new() };
        all.extend(bytes);
        for result in wait(handshakes(&all)) {
            prop_assert!(result.is_err());
        }
    }

    #[test]
    fn no_frame_without_its_tag_is_parsed(bytes in prop::collection::vec(any::<u8>(), 0..300), length in any::<u32>()) {
        let mut framed = length.to_le_bytes().to_vec();
        framed.extend(&bytes);
        for all in [&bytes, &framed] {
            let error = wait(frames(all));
            prop_assert!(
                matches!(error, ChannelError::Closed | ChannelError::Io(_) | ChannelError::TooLong(_) | ChannelError::WrongTag),
                "{error:?}"
            );
        }
    }

    /// From a node that knows the token: any bytes, and JSON that nearly belongs here.
    #[test]
    fn any_body_is_handled(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "\\{\"ask\":\"(introduce|open|connect|measure|finish)\",\"with\":[\\[{\"a-z:,0-9e.}\\]-]{0,60}\\}") {
        wait(body(&bytes));
        wait(body(text.as_bytes()));
    }
}

#[test]
fn endless_bytes_of_a_stranger_are_not_read() {
    let hello = seal::hello().unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], &hello, &[0], &[255]] {
        let taken = AtomicUsize::new(0);
        let stream = join(Endless { bytes, taken: &taken }, sink());
        assert!(wait(Channel::accept(stream, &token())).is_err());
        let most = taken.load(Ordering::Relaxed);
        assert!(most <= HELLO + TAG, "{most} bytes");
    }
}

/// A length alone costs no memory: it is refused, or the connection ends before that many bytes have arrived.
#[test]
fn an_announced_length_is_not_allocated() {
    for length in [u32::MAX, (1 << 20) + 1] {
        let error = wait(frames(&length.to_le_bytes()));
        assert!(matches!(error, ChannelError::TooLong(_)), "{error:?}");
    }
    let error = wait(frames(&(1_u32 << 20).to_le_bytes()));
    assert!(matches!(error, ChannelError::Io(_)), "{error:?}");
}

/// A list that is longer than any node has ports is refused while it is read.
#[test]
fn a_long_list_is_refused_within_its_frame() {
    let introduction = |ports: usize| {
        let port = r#"{"device":"mlx5_0","port":1,"link_layer":"Ethernet","rate":null,"capacity":null,"limited_by":"its rate","software":false,"subnets":[]}"#;
        let ports = vec![port; ports].join(",");
        format!(r#"{{"node":"n","ports":[{ports}]}}"#)
    };
    let read = |ports| serde_json::from_str::<Introduction>(&introduction(ports));
    assert_eq!(read(256).unwrap().ports.len(), 256);
    let refused = read(257).unwrap_err().to_string();
    assert!(refused.contains("256"), "{refused}");
    let deep = "[".repeat(1 << 19);
    wait(body(deep.as_bytes()));
}

/// Whether it sends nothing, or one byte now and then: each step of the handshake has one deadline, not one for each byte.
#[test]
fn a_slow_stranger_is_dropped() {
    wait(async {
        let (here, _silent) = duplex(64);
        let (there, mut slow) = duplex(64);
        let drip = async {
            for byte in seal::hello().unwrap() {
                sleep(Duration::from_millis(200)).await;
                if slow.write_all(&[byte]).await.is_err() {
                    break;
                }
            }
            // It stays connected.
            std::future::pending::<()>().await;
        };
        let own = token();
        let both = async { tokio::join!(Channel::accept(here, &own), Channel::accept(there, &own)) };
        let (silent, slow) = tokio::select! {
            both = both => both,
            () = drip => unreachable!("it never ends"),
        };
        for result in [silent.map(drop), slow.map(drop)] {
            assert!(matches!(result, Err(ChannelError::Late(PROMPT))), "{result:?}");
        }
    });
}
