//! Which path gives what.

use std::time::Duration;

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderMap, HeaderValue},
};
use tokio::time::timeout;

use super::{Handler, gzip, page};
use crate::metrics::CONTENT_TYPE;

/// How long the agent may take to answer. It bounds its own readings far below this.
const DEADLINE: Duration = Duration::from_secs(10);

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// An answer before it is put into HTTP.
struct Answer {
    code: StatusCode,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Answer {
    fn text(code: StatusCode, body: &str) -> Self {
        Self {
            code,
            content_type: TEXT,
            body: format!("{body}\n").into_bytes(),
        }
    }
}

/// The page that is asked for: one of ours, or `other`.
pub(super) fn page_of<B>(request: &Request<B>) -> &'static str {
    match request.uri().path() {
        "/metrics" => "/metrics",
        "/healthz" => "/healthz",
        "/readyz" => "/readyz",
        "/" => "/",
        _ => "other",
    }
}

/// A page that could not be given, in a few words.
pub(super) fn refusal(code: StatusCode, why: &str) -> Response<Full<Bytes>> {
    respond(Answer::text(code, why), &HeaderMap::new(), false)
}

/// What is answered over a connection that was let in by what holds no more.
pub(super) fn outdated<B>(handler: &impl Handler, request: &Request<B>) -> Response<Full<Bytes>> {
    let code = StatusCode::SERVICE_UNAVAILABLE;
    handler.answered(page_of(request), code.as_u16());
    refusal(code, "the web configuration changed; connect again")
}

/// Answers one request.
pub(super) async fn answer<B>(handler: &impl Handler, request: &Request<B>) -> Response<Full<Bytes>> {
    let path = page_of(request);
    let known = path != "other";
    let readable = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = match path {
        "other" => Answer::text(StatusCode::NOT_FOUND, "no such page; see / for those that exist"),
        _ if !readable => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered"),
        "/metrics" => match timeout(DEADLINE, handler.metrics()).await {
            Ok(body) => Answer {
                code: StatusCode::OK,
                content_type: CONTENT_TYPE,
                body,
            },
            Err(_) => Answer::text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the agent did not answer in time",
            ),
        },
        "/healthz" => Answer::text(StatusCode::OK, "ok"),
        "/readyz" => match handler.view() {
            Some(_) => Answer::text(StatusCode::OK, "ok"),
            None => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the node has not been read yet"),
        },
        _ => Answer {
            code: StatusCode::OK,
            content_type: HTML,
            body: page::render(handler.view().as_deref()).into_bytes(),
        },
    };
    handler.answered(path, answer.code.as_u16());
    respond(answer, request.headers(), known && !readable)
}

fn respond(answer: Answer, asked: &HeaderMap, wrong_method: bool) -> Response<Full<Bytes>> {
    let compressed = gzip::accepted(asked)
        .then(|| gzip::compress(&answer.body))
        .flatten();
    let encoded = compressed.is_some();
    let mut response = Response::new(Full::new(Bytes::from(compressed.unwrap_or(answer.body))));
    *response.status_mut() = answer.code;
    let headers = response.headers_mut();
    let mut set = |name, value| drop(headers.insert(name, HeaderValue::from_static(value)));
    set(header::CONTENT_TYPE, answer.content_type);
    set(header::CACHE_CONTROL, "no-store");
    set(header::VARY, "Accept-Encoding");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if encoded {
        set(header::CONTENT_ENCODING, "gzip");
    }
    if wrong_method {
        set(header::ALLOW, "GET, HEAD");
    }
    if answer.content_type == HTML {
        // The page needs nothing but its own style; what a driver put into a name must not do more.
        set(
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        );
    }
    response
}
