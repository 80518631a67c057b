//! A receiver of Alertmanager's notifications.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::spawn,
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::Value;

/// The most that a notification may have, in bytes.
const MAX_BODY: usize = 16 << 20;

/// What was received so far: one document of Alertmanager's webhook for each notification.
#[derive(Clone, Debug, Default)]
pub struct Notifications(Arc<Mutex<Vec<Value>>>);

impl Notifications {
    /// Receives notifications on a port of the loopback interface until the program ends. Requests that are not notifications are
    /// answered with what `page` returns.
    ///
    /// # Errors
    /// If no port is free.
    pub fn receive(page: impl Fn() -> Result<String> + Clone + Send + 'static) -> Result<(SocketAddr, Self)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let received = Self::default();
        let kept = received.clone();
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, page) = (kept.clone(), page.clone());
                // The other side repeats a request that failed.
                spawn(move || drop(answer(stream, &page, &kept)));
            }
        });
        Ok((address, received))
    }

    /// The notifications so far.
    pub fn so_far(&self) -> MutexGuard<'_, Vec<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(mut stream: TcpStream, page: &dyn Fn() -> Result<String>, received: &Notifications) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let body = if first.starts_with("POST") {
        ensure!(length <= MAX_BODY, "a notification of {length} bytes");
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let notification = serde_json::from_slice(&body)?;
        received.so_far().push(notification);
        String::new()
    } else {
        page()?
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}
