//! Who may read the pages, and how: TLS, client certificates, passwords and headers, from a file in the format of Prometheus
//! exporters (`--web-config FILE`).
//!
//! The file controls access, so nothing in it is ignored: an unknown key, an unsupported protection or an unusable
//! certificate is an error. At the start it ends the agent, which must never serve unprotected what should be protected;
//! later the old state stays active.

mod file;
mod follow;
mod users;

use std::{fmt, path::Path, sync::Arc};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};
use rdma_health_yaml::Error;
use tokio_rustls::TlsAcceptor;

use super::{Handler, route, tls::Validity};
pub use file::Sources;
pub use follow::follow;
use users::{Admission, Users};

/// The active protection; none by default.
#[derive(Default)]
pub struct Web {
    tls: Option<TlsAcceptor>,
    /// Whether the TLS handshake fails without a valid certificate of the client.
    proves_clients: bool,
    users: Option<Users>,
    headers: Vec<(HeaderName, HeaderValue)>,
    validity: Option<Validity>,
    expired: Option<Error>,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Print neither keys nor hashes.
        f.debug_struct("Web")
            .field("tls", &self.tls.is_some())
            .field("users", &self.users.is_some())
            .finish_non_exhaustive()
    }
}

/// Reads the file and everything that it names.
///
/// # Errors
/// The error, with file, line and key. An expired certificate is not an error: see [`Web::expired`].
pub fn load(path: &Path) -> Result<(Sources, Web), Error> {
    let file = path.to_owned();
    let sources = rdma_health_file::within(move || Sources::read(&file));
    let sources = sources.unwrap_or_else(|error| Sources::unreadable(path, error));
    let web = sources.build()?;
    Ok((sources, web))
}

impl Web {
    /// The TLS acceptor, if TLS is configured.
    pub(super) fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.clone()
    }

    /// The error that the server's certificate has expired, so that clients will reject it.
    pub(crate) fn expired(&self) -> Option<&Error> {
        self.expired.as_ref()
    }

    /// When the server's certificate is valid, if there is one.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.validity
    }

    /// Responds to an authorised request, and refuses others.
    pub(super) async fn answer<H: Handler, B>(
        self: Arc<Self>,
        handler: &H,
        request: &Request<B>,
    ) -> Response<Full<Bytes>> {
        let mut response = match self.refuse::<H, B>(request).await {
            None => {
                let is_open = route::page::<H, B>(request).is_some_and(|page| page.is_open);
                let is_proven = self.proves_clients || (self.users.is_some() && !is_open);
                route::answer(handler, request, is_proven).await
            }
            Some(response) => response,
        };
        for (name, value) in &self.headers {
            response.headers_mut().insert(name, value.clone());
        }
        response
    }

    async fn refuse<H: Handler, B>(&self, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
        let users = self.users.as_ref()?;
        if route::page::<H, B>(request).is_some_and(|page| page.is_open) {
            return None;
        }
        match users.admit(request.headers().get(header::AUTHORIZATION)).await {
            Admission::Granted => None,
            Admission::Denied => {
                let mut response = route::refusal(StatusCode::UNAUTHORIZED, "user and password required");
                let ask = format!("Basic realm=\"{}\", charset=\"UTF-8\"", H::REALM);
                if let Ok(ask) = HeaderValue::try_from(ask) {
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
                }
                Some(response)
            }
            Admission::Busy => Some(route::refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many passwords are being checked; try again",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
