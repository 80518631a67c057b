//! One connection to the helper: its streams, its process, its frames.

use std::{process::Stdio, time::Duration};

use rdma_health_protocol::{
    FINGERPRINT, Message, PROTOCOL_VERSION,
    frame::{self, FrameError, HEADER},
};
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::UnixStream,
    process::Command,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Failure, Place, QUERY_DEADLINE,
    errors::{Errors, Log},
    killed::{self, Killed, Running},
};

/// Maximum number of queued messages of the helper; a helper that sends more has to wait.
const BACKLOG: usize = 64;
/// Maximum number of messages that are read in [`MESSAGE_PERIOD`]: far more than devices cause, and few enough that a helper
/// that floods the agent with events takes none of its time.
const MESSAGES_PER_PERIOD: u32 = 256;
const MESSAGE_PERIOD: Duration = Duration::from_secs(1);

/// An open connection after the helper's greeting.
pub(super) struct Connection {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    messages: mpsc::Receiver<Result<Message, Failure>>,
    /// Ends when dropped.
    _reader: Reader,
    /// Killed when dropped.
    child: Option<Running>,
    /// The child's standard error.
    errors: Option<Errors>,
}

impl Connection {
    /// Starts the helper or connects to it, and waits for its greeting. Does not start one while too many of the `killed`
    /// have not ended. What a started helper writes to its standard error goes to `log`.
    pub(super) async fn open(place: &Place, killed: &Killed, log: &Log) -> Result<Self, Failure> {
        let unreachable = |error: std::io::Error| Failure::unreachable(place, &error);
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
                        "its standard input and output are not connected",
                    )));
                };
                let errors = child
                    .stderr
                    .take()
                    .map(|stream| Errors::follow(stream, log.clone()));
                Self {
                    child: Some(Running::new(child, killed.clone())),
                    errors,
                    ..Self::over(Box::new(input), output)
                }
            }
            Place::Socket(path) => {
                let stream = timeout(QUERY_DEADLINE, UnixStream::connect(path))
                    .await
                    .map_err(|_| Failure::Silent(QUERY_DEADLINE))?
                    .map_err(unreachable)?;
                let (input, output) = stream.into_split();
                Self::over(Box::new(output), input)
            }
        };
        match timeout(QUERY_DEADLINE, connection.receive()).await {
            Err(_) => Err(Failure::Silent(QUERY_DEADLINE)),
            Ok(Ok(Message::Greeting(greeting)))
                if greeting.protocol == PROTOCOL_VERSION && greeting.fingerprint == FINGERPRINT =>
            {
                Ok(connection)
            }
            Ok(Ok(Message::Greeting(greeting))) if greeting.protocol == PROTOCOL_VERSION => {
                Err(Failure::OtherBuild(greeting.version.into()))
            }
            Ok(Ok(Message::Greeting(greeting))) => Err(Failure::WrongVersion {
                version: greeting.version.into(),
                protocol: greeting.protocol,
            }),
            Ok(Ok(_)) => Err(Failure::Malformed("its first message is not a greeting".into())),
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

    /// Sends one message. A helper that does not read it counts as hung.
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

    /// Takes the exit status of the child from the kernel if it has ended; it is kept for later.
    pub(super) fn collect_status(&mut self) {
        if let Some(child) = self.child.as_mut().and_then(Running::child) {
            let _ = child.try_wait();
        }
    }

    /// The exit status of the child and its last output, if it has ended.
    async fn end(&mut self) -> Option<Failure> {
        // The child's end of the pipe closes a moment before its exit status is available.
        let status = timeout(Duration::from_millis(500), self.child.as_mut()?.child()?.wait())
            .await
            .ok()?
            .ok()?;
        let said = match &mut self.errors {
            Some(errors) => errors.last_output().await,
            None => String::new(),
        };
        let said = if said.is_empty() {
            said
        } else {
            format!("; its last output: {said}")
        };
        Some(match status.code() {
            // The exit status of the dynamic linker.
            Some(127) => Failure::NotLoaded(said.into()),
            _ => Failure::Ended(format!("{status}{said}").into()),
        })
    }
}

/// A task that ends when it is dropped.
struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read_all(mut stream: impl AsyncRead + Unpin, sender: mpsc::Sender<Result<Message, Failure>>) {
    let (mut began, mut count) = (Instant::now(), 0);
    loop {
        if began.elapsed() >= MESSAGE_PERIOD {
            (began, count) = (Instant::now(), 0);
        } else if count >= MESSAGES_PER_PERIOD {
            sleep_until(began + MESSAGE_PERIOD).await;
            continue;
        }
        count += 1;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rdma_health_protocol::Greeting;

    use super::*;

    /// The frames of a helper, as bytes, of which a part is then changed.
    fn frames() -> Vec<u8> {
        let greeting = Message::Greeting(Greeting {
            protocol: PROTOCOL_VERSION,
            version: "1".into(),
            fingerprint: FINGERPRINT,
        });
        let frame = frame::encode(&greeting).unwrap_or_default();
        frame.repeat(3)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn whatever_a_helper_sends_ends_in_one_failure(
            at in 0..200_usize,
            removed in 0..40_usize,
            added in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = frames();
            let at = at.min(bytes.len());
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, added);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let received = runtime.unwrap().block_on(async {
                let (sender, mut receiver) = mpsc::channel(BACKLOG);
                read_all(bytes.as_slice(), sender).await;
                let mut received = Vec::new();
                while let Some(message) = receiver.recv().await {
                    received.push(message);
                }
                received
            });
            let (last, before) = received.split_last().unwrap();
            prop_assert!(last.is_err() && before.iter().all(Result::is_ok) && before.len() <= 3);
        }
    }
}
