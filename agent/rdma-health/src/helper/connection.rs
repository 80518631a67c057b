//! One connection to the helper: its streams, its process, its frames.

use std::{process::Stdio, time::Duration};

use rdma_health_protocol::{
    Message, PROTOCOL_VERSION,
    frame::{self, FrameError, HEADER},
};
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::UnixStream,
    process::Command,
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

use super::{
    Failure, Place, QUERY_DEADLINE,
    errors::Errors,
    killed::{self, Killed, Running},
};

/// Messages of the helper that wait for us. A helper that floods us waits in turn.
const BACKLOG: usize = 64;

/// An open connection whose greeting was heard.
pub(super) struct Connection {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    messages: mpsc::Receiver<Result<Message, Failure>>,
    /// Ends when dropped.
    _reader: Reader,
    /// Killed when dropped.
    child: Option<Running>,
    /// What our child says of itself.
    errors: Option<Errors>,
}

impl Connection {
    /// Starts or reaches the helper and waits for its greeting. None is started while too many of the `killed` have not
    /// ended.
    pub(super) async fn open(place: &Place, killed: &Killed) -> Result<Self, Failure> {
        let unreachable = |error: std::io::Error| Failure::Unreachable {
            path: place.path().display().to_string(),
            error: error.to_string().into(),
        };
        let mut connection = match place {
            Place::Program(path) => {
                let left = killed.left();
                if left >= killed::MOST {
                    return Err(Failure::Stuck(left));
                }
                let mut command = Command::new(path);
                command
                    .arg("stdio")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .kill_on_drop(true);
                let mut child = command.spawn().map_err(unreachable)?;
                let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
                    return Err(unreachable(std::io::Error::other(
                        "it has no standard input and output",
                    )));
                };
                let errors = child.stderr.take().map(Errors::follow);
                Self {
                    child: Some(Running::new(child, killed.clone())),
                    errors,
                    ..Self::over(Box::new(input), output)
                }
            }
            Place::Socket(path) => {
                let stream = timeout(QUERY_DEADLINE, UnixStream::connect(path))
                    .await
                    .map_err(|_| Failure::Hung(QUERY_DEADLINE))?
                    .map_err(unreachable)?;
                let (input, output) = stream.into_split();
                Self::over(Box::new(output), input)
            }
        };
        match timeout(QUERY_DEADLINE, connection.receive()).await {
            Err(_) => Err(Failure::Hung(QUERY_DEADLINE)),
            Ok(Ok(Message::Greeting(greeting))) if greeting.protocol == PROTOCOL_VERSION => Ok(connection),
            Ok(Ok(Message::Greeting(greeting))) => Err(Failure::WrongVersion {
                version: greeting.version.into(),
                protocol: greeting.protocol,
            }),
            Ok(Ok(_)) => Err(Failure::Malformed("no greeting first".into())),
            Ok(Err(failure)) => Err(failure),
        }
    }

    fn over(
        writer: Box<dyn AsyncWrite + Send + Unpin>,
        stream: impl AsyncRead + Send + Unpin + 'static,
    ) -> Self {
        let (sender, messages) = mpsc::channel(BACKLOG);
        let reader = tokio::spawn(read_all(stream, sender));
        Self {
            writer,
            messages,
            _reader: Reader(reader),
            child: None,
            errors: None,
        }
    }

    /// The next message. Dropping the future loses nothing.
    pub(super) async fn receive(&mut self) -> Result<Message, Failure> {
        match self.messages.recv().await {
            Some(Ok(message)) => Ok(message),
            Some(Err(Failure::Ended(how))) => Err(self.end().await.unwrap_or(Failure::Ended(how))),
            Some(Err(failure)) => Err(failure),
            None => Err(Failure::Ended("the connection was closed".into())),
        }
    }

    /// Sends one message; a helper that does not read is told as hung.
    pub(super) async fn send(&mut self, message: &impl Serialize) -> Result<(), Failure> {
        let bytes = frame::encode(message).map_err(|error| Failure::Malformed(error.to_string().into()))?;
        let write = async {
            self.writer.write_all(&bytes).await?;
            self.writer.flush().await
        };
        match timeout(QUERY_DEADLINE, write).await {
            Err(_) => Err(Failure::Hung(QUERY_DEADLINE)),
            Ok(Err(error)) => Err(self
                .end()
                .await
                .unwrap_or(Failure::Ended(error.to_string().into()))),
            Ok(Ok(())) => Ok(()),
        }
    }

    /// How our child ended, where it did, and what it said last.
    async fn end(&mut self) -> Option<Failure> {
        // Its end of the pipe closes a moment before the process can be waited for.
        let status = timeout(Duration::from_millis(500), self.child.as_mut()?.child()?.wait())
            .await
            .ok()?
            .ok()?;
        let said = match &mut self.errors {
            Some(errors) => errors.last_words().await,
            None => String::new(),
        };
        let said = if said.is_empty() {
            said
        } else {
            format!("; it said: {said}")
        };
        Some(match status.code() {
            // The dynamic linker's status.
            Some(127) => Failure::NotLoaded(said.into()),
            _ => Failure::Ended(format!("{status}{said}").into()),
        })
    }
}

/// Ends when it is dropped.
struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read_all(mut stream: impl AsyncRead + Unpin, sender: mpsc::Sender<Result<Message, Failure>>) {
    loop {
        let message = read_one(&mut stream).await.map_err(|error| match error {
            FrameError::Closed | FrameError::Io(_) => Failure::Ended(error.to_string().into()),
            FrameError::TooLong(_) | FrameError::Malformed(_) => Failure::Malformed(error.to_string().into()),
        });
        let last = message.is_err();
        if sender.send(message).await.is_err() || last {
            return;
        }
    }
}

async fn read_one(stream: &mut (impl AsyncRead + Unpin)) -> Result<Message, FrameError> {
    let mut header = [0; HEADER];
    match stream.read(&mut header).await? {
        0 => return Err(FrameError::Closed),
        n => {
            stream.read_exact(&mut header[n..]).await?;
        }
    }
    let length = frame::body_length(header)?;
    let mut body = Vec::new();
    let got = stream.take(length as u64).read_to_end(&mut body).await?;
    if got < length {
        return Err(FrameError::Io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    frame::decode(&body)
}
