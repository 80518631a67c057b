//! Who may read the pages, and how: TLS, client certificates, passwords and headers, by a file in the form that every
//! Prometheus exporter has (`--web-config FILE`).
//!
//! The file decides about access, so nothing in it is passed over: a key that is not known, a form of protection that is
//! not offered, or a certificate that cannot be used is refused. At the start that ends the agent, for it must never serve
//! openly what was to be protected; later the old state stays in force.

mod file;
mod follow;
mod users;

use std::{fmt, path::Path, sync::Arc, time::SystemTime};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};
use tokio_rustls::TlsAcceptor;

use super::{Handler, route};
use crate::config::Error;
pub(crate) use file::Sources;
pub(crate) use follow::follow;
use users::{Admission, Users};

/// The protection in force. Nothing by default.
#[derive(Default)]
pub(crate) struct Web {
    tls: Option<TlsAcceptor>,
    users: Option<Users>,
    headers: Vec<(HeaderName, HeaderValue)>,
    expires: Option<SystemTime>,
    expired: Option<Error>,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No key, no hash.
        f.debug_struct("Web")
            .field("tls", &self.tls.is_some())
            .field("users", &self.users.is_some())
            .finish_non_exhaustive()
    }
}

/// Reads the file and everything that it names.
///
/// # Errors
/// What is wrong, with file, line and key. A certificate that has expired is none: see [`Web::expired`].
pub(crate) fn load(path: &Path) -> Result<(Sources, Web), Error> {
    let sources = Sources::read(path);
    let web = sources.build()?;
    Ok((sources, web))
}

impl Web {
    /// What speaks TLS, where that is asked for.
    pub(super) fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.clone()
    }

    /// That the server's certificate has expired, so that clients will refuse it.
    pub(crate) fn expired(&self) -> Option<&Error> {
        self.expired.as_ref()
    }

    /// Until when the server's certificate is good, where there is one.
    pub(crate) fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// Answers a request that may be answered, and refuses others.
    pub(super) async fn answer<B>(
        self: Arc<Self>,
        handler: &impl Handler,
        request: &Request<B>,
    ) -> Response<Full<Bytes>> {
        let mut response = match self.refuse(request).await {
            None => route::answer(handler, request).await,
            Some(response) => {
                handler.answered(route::page_of(request), response.status().as_u16());
                response
            }
        };
        for (name, value) in &self.headers {
            response.headers_mut().insert(name, value.clone());
        }
        response
    }

    async fn refuse<B>(&self, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
        let users = self.users.as_ref()?;
        // The kubelet has no password, and these two tell no more than a word.
        if matches!(route::page_of(request), "/healthz" | "/readyz") {
            return None;
        }
        match users.admit(request.headers().get(header::AUTHORIZATION)).await {
            Admission::Granted => None,
            Admission::Denied => {
                let mut response = route::refusal(StatusCode::UNAUTHORIZED, "a user and password are needed");
                let ask = HeaderValue::from_static("Basic realm=\"rdma-health\", charset=\"UTF-8\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
                Some(response)
            }
            Admission::Busy => Some(route::refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many passwords are being checked",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
