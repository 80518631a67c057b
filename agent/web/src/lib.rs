//! An HTTP server for a few read-only pages, independent of their content.
//!
//! Every resource of a connection is bounded: the number of connections, in total and per address; the size and time of a
//! request's head; the time in which a client must read its response; and the time that an idle connection stays open,
//! which is long enough that a scrape every minute needs only one TLS handshake. A file in the format of Prometheus
//! exporters defines who may read the pages, and how ([`web_config`]).

#![forbid(unsafe_code)]

mod answer;
mod gzip;
mod metrics;
mod route;
mod server;
mod tls;
pub mod web_config;

pub use answer::{Answer, Asked, Handler, Page};
pub use hyper::StatusCode;
pub use metrics::Metrics;
pub use server::{BindError, Server};
pub use tls::Validity;
