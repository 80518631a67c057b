//! The HTTP server: metrics, health and a small status page.
//!
//! Everything about a connection is bounded: how many there are, from one address too, how long a request's head may be
//! and take, how long a client may not read its answer, and how long a connection stays open for the next request: so
//! long that a scrape every minute pays for one TLS handshake only.

mod gzip;
mod page;
mod route;
mod server;
mod tls;
pub(crate) mod web_config;

use std::{future::Future, sync::Arc};

pub(crate) use server::Server;

use crate::view::View;

/// What the server asks of the agent.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Everything that `/metrics` tells, as text.
    fn metrics(&self) -> impl Future<Output = Vec<u8>> + Send;

    /// What was read and judged last; `None` before the first reading.
    fn view(&self) -> Option<Arc<View>>;

    /// A request was answered. `path` is one of the server's own, or `other`.
    fn answered(&self, path: &'static str, code: u16);

    /// A connection was turned away because too many were open.
    fn refused(&self);
}
