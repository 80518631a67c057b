//! Handles bytes as those of another node, without one: for the fuzz target and the tests. Not part of the interface.

use tokio::io::{join, sink};

use crate::{
    channel::{self, Channel, ChannelError, PROMPT},
    message::{Answer, Ask},
    seal::{HELLO, Keys, Side},
    token::Token,
};

/// A token that only tests use.
fn token() -> Token {
    Token {
        key: crate::token::keyed(b"a token of the tests"),
    }
}

/// Both handshakes with a node that sends these bytes and then ends. Returns what a listening node, and then a connecting one, makes of
/// them. Without the token, no bytes succeed.
pub async fn handshakes(bytes: &[u8]) -> [Result<(), ChannelError>; 2] {
    let stream = || join(bytes, sink());
    [
        Channel::accept(stream(), &token()).await.map(drop),
        Channel::connect(stream(), &token()).await.map(drop),
    ]
}

/// These bytes as frames after the handshake. Returns the error that ends the connection.
pub async fn frames(bytes: &[u8]) -> ChannelError {
    let mut channel = channel::after_handshake(join(bytes, sink()), &keys());
    loop {
        if let Err(error) = channel.receive::<Ask>(PROMPT).await {
            return error;
        }
    }
}

/// These bytes as the body of a frame from a node that knows the token, once as a question and once as an answer. What parses is written
/// again and must parse to the same.
///
/// # Panics
/// If it does not: for the fuzz target, that is a defect.
pub async fn body(bytes: &[u8]) {
    let Ok(frame) = channel::frame(bytes, &mut keys().frames(Side::Connects)) else {
        return;
    };
    let receiver = || channel::after_handshake(join(frame.as_slice(), sink()), &keys());
    if let Ok(ask) = receiver().receive::<Ask>(PROMPT).await {
        same::<Ask>(&ask);
    }
    if let Ok(answer) = receiver().receive::<Answer>(PROMPT).await {
        same::<Answer>(&answer);
    }
}

fn same<T: serde::Serialize + serde::de::DeserializeOwned>(message: &T) {
    let text = serde_json::to_string(message).unwrap_or_default();
    // A number that has no JSON form, such as infinity, is written as null.
    if let Ok(again) = serde_json::from_str::<T>(&text) {
        assert_eq!(serde_json::to_string(&again).unwrap_or_default(), text);
    }
}

fn keys() -> Keys {
    Keys::derive(&token(), &[1; HELLO], &[2; HELLO])
}

#[cfg(test)]
#[path = "untrusted_tests.rs"]
mod tests;
