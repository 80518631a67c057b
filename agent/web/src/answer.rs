//! The interface between the server and the program whose pages it serves.

use std::future::Future;

use hyper::StatusCode;

const TEXT: &str = "text/plain; charset=utf-8";
/// The content type of a page for a browser.
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// A page of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Its path, which also names it in metrics. One that ends in a slash, except `/`, serves every path below it, and none of
    /// its own.
    pub path: &'static str,
    /// Whether it needs no password, for example for the kubelet, which has none.
    pub is_open: bool,
}

impl Page {
    /// A page that needs the password, if passwords are configured.
    pub const fn closed(path: &'static str) -> Self {
        Self { path, is_open: false }
    }

    /// A page that never needs a password.
    pub const fn open(path: &'static str) -> Self {
        Self { path, is_open: true }
    }
}

/// Provides the pages.
pub trait Handler: Send + Sync + 'static {
    /// The realm of the request for a password.
    const REALM: &'static str;
    /// All pages. `/` should link to the others.
    const PAGES: &'static [Page];

    /// The page at this path, which is the path of one of [`PAGES`](Self::PAGES).
    fn answer(&self, path: &'static str, asked: &Asked<'_>) -> impl Future<Output = Answer> + Send;
}

/// What a request asks for, in addition to the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The formats that the client accepts: its header `Accept`, or nothing.
    pub accept: &'a str,
    /// The rest of the path below a page whose path ends in a slash; otherwise empty. It is untrusted and not decoded.
    pub below: &'a str,
    /// Whether the client proved who it is, by a password or a certificate. A server that demands neither serves everyone, and
    /// no one is proven.
    pub is_proven: bool,
}

impl Page {
    /// The rest of the path, if this page serves it.
    pub(crate) fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.path != "/" && self.path.ends_with('/') {
            return path.strip_prefix(self.path).filter(|rest| !rest.is_empty());
        }
        (path == self.path).then_some("")
    }
}

/// A page's content, independent of HTTP encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub code: StatusCode,
    /// Content type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A line of text.
    pub fn text(code: StatusCode, line: &str) -> Self {
        Self {
            code,
            content_type: TEXT,
            body: format!("{line}\n").into_bytes(),
        }
    }

    /// A page for a browser. Scripts and external resources are blocked.
    pub fn html(page: String) -> Self {
        Self {
            code: StatusCode::OK,
            content_type: HTML,
            body: page.into_bytes(),
        }
    }
}
