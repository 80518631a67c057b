//! Why a request to the API server failed, with messages that name what to change.

use std::time::Duration;

use super::{
    schedule::Backoff,
    text::{shorten, single_line},
};

/// If a connection is refused within this time, no server is running. If it takes longer, a server may be overloaded.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The verb and resource of a request, which RBAC must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission {
    /// `get`, `patch`, …
    pub verb: &'static str,
    /// `nodes/status`, …
    pub resource: &'static str,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The kubeconfig, or the pod's token or CA, is not usable.
    #[error("no usable credentials for the API server: {0}")]
    Configuration(String),
    /// The connection could not be opened.
    #[error("cannot reach the API server: {0}")]
    Unreachable(String),
    /// The connection broke before the response was complete.
    #[error("cannot reach the API server, the connection broke: {0}")]
    Broken(String),
    /// No response in time.
    #[error("the API server did not respond within {0:?}")]
    TimedOut(Duration),
    /// The response is not valid.
    #[error("the API server's response is invalid: {0}")]
    Malformed(String),
    /// The server rejected the request.
    #[error("{}", refusal(.0))]
    Refused(Box<Refusal>),
}

/// A response with an error status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Verb and resource of the request.
    pub permission: Permission,
    /// Name of the object.
    pub name: String,
    /// HTTP status.
    pub code: u16,
    /// The server's message.
    pub message: String,
    /// `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The fields that conflict.
    pub fields: Vec<String>,
}

fn refusal(refusal: &Refusal) -> String {
    let Refusal {
        permission: Permission { verb, resource },
        name,
        code,
        message,
        ..
    } = refusal;
    let said = shorten(&single_line(message), 400);
    match code {
        401 => format!(
            "the API server rejected the credentials (401): {said}; the token or certificate is expired or belongs to another \
            cluster"
        ),
        403 => format!(
            "not allowed to {verb} {resource} (403): grant verb {verb:?} on resource {resource:?} of API group \"\" to the \
             agent's service account; the server says: {said}"
        ),
        404 if resource.starts_with("nodes") => format!(
            "Node {name:?} not found (404): set NODE_NAME, --node-name or kubernetes.node to the name that kubectl get nodes \
            shows"
        ),
        409 if *resource == "nodes/status" => format!(
            "another controller manages the agent's conditions or labels (409): {said}; set kubernetes.force to take over \
             rdma-health's own; remove another controller's condition from kubernetes.aliases"
        ),
        429 => format!("the API server throttles requests (429): {said}"),
        _ => format!("the API server rejected {verb} {resource} ({code}): {said}"),
    }
}

impl Failure {
    /// The value of the label `code` in metrics: the HTTP status, or why there is none.
    pub fn code(&self) -> String {
        match self {
            Self::Configuration(_) => "configuration".into(),
            Self::Unreachable(_) | Self::Broken(_) => "unreachable".into(),
            Self::TimedOut(_) => "timed_out".into(),
            Self::Malformed(_) => "malformed".into(),
            Self::Refused(refusal) => refusal.code.to_string(),
        }
    }

    /// How to back off after this failure of an attempt that `took` so long.
    pub(super) fn backoff(&self, took: Duration) -> Backoff {
        match self {
            Self::Unreachable(_) if took < AT_ONCE => Backoff::Away,
            Self::Unreachable(_) | Self::Broken(_) | Self::TimedOut(_) => Backoff::Struggling(took),
            Self::Configuration(_) | Self::Malformed(_) => Backoff::Refused,
            Self::Refused(refusal) => match (refusal.code, refusal.retry_after) {
                // A load balancer without a running server, or a server that is starting.
                (502 | 503, None) if took < AT_ONCE => Backoff::Away,
                (500..=599, None) if took >= AT_ONCE => Backoff::Struggling(took),
                (429 | 500..=599, after) => Backoff::Throttled(after),
                _ => Backoff::Refused,
            },
        }
    }

    /// Whether a new connection, with reread credentials, may succeed.
    pub(super) fn needs_new_connection(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.code == 401,
            _ => true,
        }
    }

    /// The HTTP status, if there was a response.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, retry_after: Option<Duration>) -> Failure {
        Failure::Refused(Box::new(Refusal {
            permission: Permission {
                verb: "patch",
                resource: "nodes/status",
            },
            name: "node-1".into(),
            code,
            message: "no\u{1b}[31m".into(),
            retry_after,
            fields: Vec::new(),
        }))
    }

    #[test]
    fn a_refusal_names_what_is_missing() {
        let text = refused(403, None).to_string();
        assert!(
            text.contains("verb \"patch\" on resource \"nodes/status\""),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
        assert!(
            refused(404, None)
                .to_string()
                .contains("Node \"node-1\" not found")
        );
        assert!(refused(401, None).to_string().contains("expired"));
    }

    #[test]
    fn only_a_failure_that_costs_the_server_nothing_is_retried_soon() {
        let after = Some(Duration::from_secs(7));
        let (soon, late) = (Duration::from_millis(5), Duration::from_secs(2));
        let refused_at_all = Failure::Unreachable(String::new());
        assert_eq!(refused_at_all.backoff(soon), Backoff::Away);
        assert_eq!(refused_at_all.backoff(late), Backoff::Struggling(late));
        assert_eq!(
            Failure::Broken(String::new()).backoff(soon),
            Backoff::Struggling(soon)
        );
        assert_eq!(Failure::TimedOut(late).backoff(late), Backoff::Struggling(late));
        assert_eq!(refused(503, None).backoff(soon), Backoff::Away);
        assert_eq!(refused(503, None).backoff(late), Backoff::Struggling(late));
        assert_eq!(refused(503, after).backoff(soon), Backoff::Throttled(after));
        assert_eq!(refused(429, after).backoff(soon), Backoff::Throttled(after));
        assert_eq!(refused(504, None).backoff(soon), Backoff::Throttled(None));
        assert_eq!(refused(504, None).backoff(late), Backoff::Struggling(late));
        assert_eq!(refused(403, None).backoff(soon), Backoff::Refused);
    }
}
