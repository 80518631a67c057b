//! What the API server answers, and why it does not.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::{Response, header};
use kube::client::Body;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::CONNECT;
use crate::failure::{Failure, Permission, Refusal};

/// Maximum size of a response in bytes; a Node with a thousand images has a few hundred KiB.
const MAX_ANSWER: usize = 8 << 20;
/// Maximum number of fields in a conflict that are looked at: five of each condition.
const MAX_CONFLICTS: usize = 256;

#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    #[serde(default)]
    pub(super) metadata: ListMetadata,
    pub(super) items: Vec<T>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListMetadata {
    pub(super) r#continue: Option<String>,
}

/// The part of a query that asks for the next page.
pub(super) fn continuation(token: &str) -> Result<String, Failure> {
    /// It holds a key of etcd, which has a few hundred bytes.
    const LONGEST: usize = 16 << 10;
    // The token is base64url, which needs no escaping in a query; reject anything else.
    if token.len() <= LONGEST
        && token
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b))
    {
        Ok(format!("&continue={token}"))
    } else {
        Err(Failure::Malformed(
            "the continue token is too long or contains unexpected characters".into(),
        ))
    }
}

pub(super) fn unreachable(error: &kube::Error, server: &str) -> Failure {
    match error {
        // An unreadable token file or a failing credential plug-in.
        kube::Error::Auth(_) => Failure::Configuration(chain(error)),
        _ if never_connected(error) => Failure::Unreachable(format!("{server}: {}", root_cause(error))),
        _ => Failure::Broken(format!("{server}: {}", root_cause(error))),
    }
}

/// The last cause of an error: the layers of the client above it say only where it passed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let text = crate::text::single_line(&last.to_string());
    // The words of tokio for a timeout.
    if text == "deadline has elapsed" {
        return format!("no connection within {CONNECT:?}");
    }
    text
}

/// Whether the connection failed to open.
fn never_connected(error: &(dyn std::error::Error + 'static)) -> bool {
    let connecting = error
        .downcast_ref::<hyper_util::client::legacy::Error>()
        .is_some_and(hyper_util::client::legacy::Error::is_connect);
    connecting || error.source().is_some_and(never_connected)
}

/// An error with its causes, which libraries report separately.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    crate::text::single_line(&text)
}

pub(super) async fn read_response(
    response: Response<Body>,
    permission: Permission,
    name: &str,
) -> Result<Vec<u8>, Failure> {
    let code = response.status().as_u16();
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await
        .map_err(|error| Failure::Broken(chain(&*error)))?
        .to_bytes();
    if (200..300).contains(&code) {
        return Ok(body.to_vec());
    }
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = status["message"].as_str().map_or_else(
        || String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned(),
        str::to_owned,
    );
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let fields = causes.filter_map(|cause| Some(cause["field"].as_str()?.to_owned()));
    Err(Failure::Refused(Box::new(Refusal {
        permission,
        name: name.to_owned(),
        code,
        message,
        retry_after,
        fields: fields.take(MAX_CONFLICTS).collect(),
    })))
}

pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| Failure::Malformed(error.to_string()))
}
