//! What every page has: head, icon, foot, and the words for times.

use rdma_health_node::words::{date, duration};

use super::style::STYLE;
use crate::markup::Markup;

/// Begins a page. `status` colours its icon; `refresh` is the interval in seconds at which the browser loads it again.
pub(super) fn head(page: &mut Markup, title: &str, status: &str, refresh: Option<u32>) {
    page.html("<!doctype html><html lang=en><head><meta charset=utf-8>")
        .html("<meta name=viewport content=\"width=device-width,initial-scale=1\"><title>")
        .text(title)
        .html("</title>");
    if let Some(seconds) = refresh {
        page.html("<meta http-equiv=refresh content=")
            .text(seconds)
            .html(">");
    }
    page.html(icon(status))
        .html("<style>")
        .html(STYLE)
        .html("</style></head><body>");
}

/// A dot in the colour of the status, without a request for a file.
fn icon(status: &str) -> &'static str {
    macro_rules! dot {
        ($colour:literal) => {
            concat!(
                "<link rel=icon href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Ccircle ",
                "cx='4' cy='4' r='4' fill='%23",
                $colour,
                "'/%3E%3C/svg%3E\">"
            )
        };
    }
    match status {
        "ok" => dot!("176f2c"),
        "warning" => dot!("c98400"),
        "critical" => dot!("b3261e"),
        _ => dot!("57606a"),
    }
}

/// Ends a page.
pub(super) fn foot(page: &mut Markup) {
    page.html("<footer><p class=dim><nav aria-label=\"Other pages\">")
        .html("<a href=/>status</a><a href=/metrics>metrics</a><a href=/readyz>readiness</a><a href=/healthz>liveness</a></nav>")
        .html("<p class=dim>rdma-health ")
        .text(env!("CARGO_PKG_VERSION"))
        .html("</footer></body></html>\n");
}

/// A word on a background in the colour of a severity or status.
pub(super) fn badge(page: &mut Markup, colour: &str, word: &str) {
    page.html("<span class=\"status ")
        .text(colour)
        .html("\">")
        .text(word)
        .html("</span> ");
}

/// A time as a date in UTC, and how long before `now` it was. Seconds since 1970.
pub(super) fn moment(page: &mut Markup, time: u64, now: u64) {
    let date = date(time);
    page.html("<time datetime=\"").text(&date).html("\">");
    page.text(date.replace('T', " ").replace('Z', " UTC"));
    if let Some(age) = now.checked_sub(time).filter(|age| *age > 0) {
        page.html(" (").text(duration(age)).html(" ago)");
    }
    page.html("</time>");
}
