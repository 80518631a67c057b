//! Why the API server did not do what it was asked, in words that name what to change.

use std::time::Duration;

use super::{
    schedule::Setback,
    text::{plain, shorten},
};

/// Nobody is there who refuses a connection so soon. Where it takes longer somebody may be there who is too busy.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What is asked of the API server: the verb and resource that RBAC must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permission {
    /// `get`, `patch`, …
    pub(crate) verb: &'static str,
    /// `nodes/status`, …
    pub(crate) resource: &'static str,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The kubeconfig, or the pod's token and CA, are not to be used.
    #[error("no way to the API server: {0}")]
    Configuration(String),
    /// There is no connection.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// There was one, and it broke before the answer had come.
    #[error("the API server cannot be reached, the connection broke: {0}")]
    Broken(String),
    /// There is one, and no answer.
    #[error("the API server did not answer within {0:?}")]
    TimedOut(Duration),
    /// What came is not what the API is.
    #[error("the API server's answer makes no sense: {0}")]
    Malformed(String),
    /// It refused.
    #[error("{}", refusal(.0))]
    Refused(Box<Refusal>),
}

/// An answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What was asked.
    pub(crate) permission: Permission,
    /// Of what.
    pub(crate) name: String,
    /// HTTP status.
    pub(crate) code: u16,
    /// The server's words.
    pub(crate) message: String,
    /// `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// Fields that a conflict is about.
    pub(crate) fields: Vec<String>,
}

fn refusal(refusal: &Refusal) -> String {
    let Refusal {
        permission: Permission { verb, resource },
        name,
        code,
        message,
        ..
    } = refusal;
    let said = shorten(&plain(message), 400);
    match code {
        401 => format!(
            "the API server does not know us (401): {said}; the token or certificate is expired or of another cluster"
        ),
        403 => format!(
            "not allowed to {verb} {resource} (403): grant verb {verb:?} on resource {resource:?} of API group \"\" to the \
             agent's service account; the server says: {said}"
        ),
        404 if resource.starts_with("nodes") => format!(
            "there is no Node {name:?} (404): NODE_NAME, --node-name or kubernetes.node must be the Node's name as in \
             kubectl get nodes"
        ),
        409 if *resource == "nodes/status" => format!(
            "somebody else manages a condition of ours, which is left to them (409; kubernetes.force takes it over): {said}"
        ),
        429 => format!("the API server throttles us (429): {said}"),
        _ => format!("the API server refuses to {verb} {resource} ({code}): {said}"),
    }
}

impl Failure {
    /// A word for metrics: the HTTP status, or why there is none.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Configuration(_) => "configuration".into(),
            Self::Unreachable(_) | Self::Broken(_) => "unreachable".into(),
            Self::TimedOut(_) => "timed_out".into(),
            Self::Malformed(_) => "malformed".into(),
            Self::Refused(refusal) => refusal.code.to_string(),
        }
    }

    /// What follows from it, and from how long the attempt `took`, for the next one.
    pub(super) fn setback(&self, took: Duration) -> Setback {
        match self {
            Self::Unreachable(_) if took < AT_ONCE => Setback::Away,
            Self::Unreachable(_) | Self::Broken(_) | Self::TimedOut(_) => Setback::Struggling(took),
            Self::Configuration(_) | Self::Malformed(_) => Setback::Refused,
            Self::Refused(refusal) => match (refusal.code, refusal.retry_after) {
                // A load balancer without a server behind it, or a server that is starting.
                (502 | 503, None) if took < AT_ONCE => Setback::Away,
                (500..=599, None) if took >= AT_ONCE => Setback::Struggling(took),
                (429 | 500..=599, after) => Setback::Throttled(after),
                _ => Setback::Refused,
            },
        }
    }

    /// Whether another connection, with credentials read anew, may fare better.
    pub(super) fn spoils_connection(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.code == 401,
            _ => true,
        }
    }

    /// The HTTP status, where there is one.
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
        assert!(refused(404, None).to_string().contains("no Node \"node-1\""));
        assert!(refused(401, None).to_string().contains("expired"));
    }

    #[test]
    fn what_is_tried_again_soon_is_what_costs_the_server_nothing() {
        let after = Some(Duration::from_secs(7));
        let (soon, late) = (Duration::from_millis(5), Duration::from_secs(2));
        let refused_at_all = Failure::Unreachable(String::new());
        assert_eq!(refused_at_all.setback(soon), Setback::Away);
        assert_eq!(refused_at_all.setback(late), Setback::Struggling(late));
        assert_eq!(
            Failure::Broken(String::new()).setback(soon),
            Setback::Struggling(soon)
        );
        assert_eq!(Failure::TimedOut(late).setback(late), Setback::Struggling(late));
        assert_eq!(refused(503, None).setback(soon), Setback::Away);
        assert_eq!(refused(503, None).setback(late), Setback::Struggling(late));
        assert_eq!(refused(503, after).setback(soon), Setback::Throttled(after));
        assert_eq!(refused(429, after).setback(soon), Setback::Throttled(after));
        assert_eq!(refused(504, None).setback(soon), Setback::Throttled(None));
        assert_eq!(refused(504, None).setback(late), Setback::Struggling(late));
        assert_eq!(refused(403, None).setback(soon), Setback::Refused);
    }
}
