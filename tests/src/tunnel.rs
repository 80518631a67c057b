//! The way of an API server into the network of a virtual node: an HTTP proxy (`CONNECT`) behind a Unix socket, as its
//! `--egress-selector-config-file` names one. Ports of this machine lead into the node; the proxy knows which.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::Arc,
    thread,
};

use anyhow::{Context as _, Result};

/// Maximum length of the head of a request in bytes.
const MAX_HEAD: usize = 4096;

/// Serves the socket until the process ends. `forwards` are authorities in the node's network (`10.0.2.15:14791`), each with the port of
/// this machine that leads there; any other goes to the same port of this machine.
///
/// # Errors
/// If the socket cannot be made.
pub fn serve(socket: &Path, forwards: Vec<(String, u16)>) -> Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| socket.display().to_string())?;
    let forwards = Arc::new(forwards);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let forwards = Arc::clone(&forwards);
            // A connection that fails is the server's to report.
            thread::spawn(move || connect(client, &forwards));
        }
    });
    Ok(())
}

fn connect(mut client: UnixStream, forwards: &[(String, u16)]) -> io::Result<()> {
    let head = head(&mut client)?;
    let authority = head.split_whitespace().nth(1).unwrap_or_default();
    let forward = forwards.iter().find(|(known, _)| known == authority);
    let port = forward.map(|(_, port)| *port);
    let port = port.or_else(|| authority.rsplit_once(':')?.1.parse().ok());
    let server = TcpStream::connect(("127.0.0.1", port.unwrap_or_default()));
    let Ok(server) = server else {
        return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        // Either side may leave at any time.
        let _ = io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Write);
    });
    io::copy(&mut client, &mut &server)?;
    server.shutdown(Shutdown::Write)
}

/// The head of a request, and not a byte of what follows.
fn head(client: &mut UnixStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_known_authority_leads_to_its_port_and_bytes_go_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        serve(&socket, vec![("10.0.2.15:14791".into(), port)]).unwrap();
        let mut client = UnixStream::connect(&socket).unwrap();
        client
            .write_all(b"CONNECT 10.0.2.15:14791 HTTP/1.1\r\nHost: 10.0.2.15:14791\r\n\r\nask")
            .unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut asked = [0; 3];
        server.read_exact(&mut asked).unwrap();
        assert_eq!(&asked, b"ask");
        server.write_all(b"answer").unwrap();
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "HTTP/1.1 200 OK\r\n\r\nanswer");
    }
}
