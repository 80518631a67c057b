//! Scrapes as Prometheus does: over one connection where the server keeps it, compressed where that is configured.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client of one server.
pub(crate) struct Client {
    address: SocketAddr,
    gzip: bool,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, gzip: bool) -> Self {
        Self {
            address,
            gzip,
            connection: None,
        }
    }

    /// Fetches `/metrics`; returns the body as it came.
    pub(crate) fn scrape(&mut self) -> Result<Vec<u8>> {
        let mut connection = if let Some(kept) = self.connection.take() {
            kept
        } else {
            let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            BufReader::new(stream)
        };
        let encoding = if self.gzip { "gzip" } else { "identity" };
        write!(
            connection.get_mut(),
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: {encoding}\r\n\r\n",
            self.address
        )?;
        let (mut length, mut chunked, mut close) = (None, false, false);
        let status = line(&mut connection)?;
        ensure!(status.contains(" 200 "), "{status}");
        loop {
            let header = line(&mut connection)?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(':').context("no header")?;
            match (name, value.trim()) {
                ("content-length", value) => length = Some(value.parse()?),
                ("transfer-encoding", "chunked") => chunked = true,
                ("connection", "close") => close = true,
                _ => {}
            }
        }
        let mut body = Vec::new();
        if let Some(length) = length {
            (&mut connection).take(length).read_to_end(&mut body)?;
        } else if chunked {
            loop {
                let size = u64::from_str_radix(&line(&mut connection)?, 16)?;
                (&mut connection).take(size).read_to_end(&mut body)?;
                line(&mut connection)?;
                if size == 0 {
                    break;
                }
            }
        } else {
            connection.read_to_end(&mut body)?;
            close = true;
        }
        if !close {
            self.connection = Some(connection);
        }
        Ok(body)
    }
}

fn line(connection: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
