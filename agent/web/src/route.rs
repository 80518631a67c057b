//! Routes requests to pages.

use std::time::Duration;

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Bytes,
    header::{self, HeaderMap, HeaderValue},
};
use tokio::time::timeout;

use super::{Answer, Asked, Handler, Metrics, Page, answer::HTML, gzip};

/// Timeout of the handler.
const DEADLINE: Duration = Duration::from_secs(10);

/// The requested page, if it exists.
pub(super) fn page<H: Handler, B>(request: &Request<B>) -> Option<&'static Page> {
    let path = request.uri().path();
    H::PAGES.iter().find(|page| page.below(path).is_some())
}

/// Counts a response under the page's path, otherwise as `other`.
pub(super) fn count<H: Handler, B>(metrics: &Metrics, request: &Request<B>, code: StatusCode) {
    let name = page::<H, B>(request).map_or("other", |page| page.path);
    metrics.answered(name, code.as_u16());
}

/// An error response with a short reason.
pub(super) fn refusal(code: StatusCode, why: &str) -> Response<Full<Bytes>> {
    respond(Answer::text(code, why), &HeaderMap::new(), false)
}

/// The response on a connection that was admitted under an outdated web configuration.
pub(super) fn outdated() -> Response<Full<Bytes>> {
    let code = StatusCode::SERVICE_UNAVAILABLE;
    refusal(code, "the web configuration changed; connect again")
}

/// Answers one request of a client that proved who it is, or that did not have to.
pub(super) async fn answer<H: Handler, B>(
    handler: &H,
    request: &Request<B>,
    is_proven: bool,
) -> Response<Full<Bytes>> {
    let readable = matches!(*request.method(), Method::GET | Method::HEAD);
    let page = page::<H, B>(request);
    let answer = match page {
        None => Answer::text(StatusCode::NOT_FOUND, "page not found; see / for a list"),
        Some(_) if !readable => {
            Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported")
        }
        Some(page) => {
            let accept = request.headers().get(header::ACCEPT);
            let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
            let below = page.below(request.uri().path()).unwrap_or_default();
            let asked = Asked {
                accept,
                below,
                is_proven,
            };
            match timeout(DEADLINE, handler.answer(page.path, &asked)).await {
                Ok(answer) => answer,
                Err(_) => Answer::text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the agent did not respond in time",
                ),
            }
        }
    };
    respond(answer, request.headers(), page.is_some() && !readable)
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
    set(header::VARY, "Accept, Accept-Encoding");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if encoded {
        set(header::CONTENT_ENCODING, "gzip");
    }
    if wrong_method {
        set(header::ALLOW, "GET, HEAD");
    }
    if answer.content_type == HTML {
        // The page needs only its own style and the icon in its head; text from a driver must not be able to do more.
        set(
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        );
    }
    response
}
