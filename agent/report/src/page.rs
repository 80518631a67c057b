//! The status page: the verdict, as `check` prints it, since when, the ports, the topology and what changed. It has no scripts and
//! no external resources.

mod explain;
mod frame;
mod past;
mod ports;
mod spark;
mod style;
mod verdict;

use rdma_health_rules::Domain;
use rdma_health_view::View;

use super::{Report, host_of, markup::Markup, summary, text::outcome, topology};
pub use explain::explanation;
use frame::{badge, foot, head, moment};
use past::Past;

/// How to show the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageOptions<'a> {
    /// The interval in seconds at which the browser loads the page again, if it should.
    pub refresh: Option<u32>,
    /// Whether this client may read names and addresses of the node in full.
    pub may_read_all: bool,
    /// The name of the Node in Kubernetes; `None` outside of it.
    pub kubernetes_node: Option<&'a str>,
}

/// The path of the page that refreshes itself.
pub const LIVE: &str = "/live";
/// The path of the snapshot.
pub const SNAPSHOT: &str = "/snapshot.tar.zst";

/// The whole page; without a view (before the first reading), a message.
pub fn render(view: Option<&View>, options: PageOptions<'_>) -> String {
    let mut page = Markup::default();
    match view {
        None => {
            head(&mut page, "rdma-health", "", options.refresh);
            page.html("<header><h1>rdma-health</h1></header><main><p>The node has not been read yet.</main>");
        }
        Some(view) => content(&mut page, view, options),
    }
    foot(&mut page);
    page.into_string()
}

fn content(page: &mut Markup, view: &View, options: PageOptions<'_>) {
    let (node, verdict) = (&view.node, &view.verdict);
    let diagnosis = &*view.diagnosis;
    let report = Report {
        node,
        verdict,
        diagnosis,
        kubernetes_node: options.kubernetes_node,
    };
    let past = Past::of(node);
    let hostname = host_of(node);
    let name = options.kubernetes_node.or(hostname).unwrap_or("this node");
    let status = report.status().name();
    head(
        page,
        &format!("{name}: {status} - rdma-health"),
        status,
        options.refresh,
    );
    page.html("<header><h1>rdma-health: ").text(name).html("</h1><p>");
    badge(page, status, status);
    page.text(outcome(&report));
    page.html(" ");
    verdict::since(page, past.of_status(status), node.time);
    page.html("<p class=dim>");
    if let Some(hostname) = hostname.filter(|hostname| *hostname != name) {
        page.html("host ").text(hostname).html(", ");
    }
    if let Some(kernel) = node.host.kernel.known() {
        page.html("Linux ").text(kernel).html(", ");
    }
    page.html("read ");
    moment(page, node.time, node.time);
    page.html(match options.refresh {
        None => ". <a href=/live>Refresh every 30 s</a>",
        Some(_) => ". Refreshes every 30 s. <a href=/>Stop</a>",
    });
    if node.sources.values().any(|source| source.stale) {
        page.html("<p>Some facts are stale: reading them has not finished yet.");
    }
    page.html("</header><main>");
    if let Some(step) = &diagnosis.next_step {
        page.html("<div class=step><h2>Next step</h2>").instructions(step);
        page.html("</div>");
    }
    verdict::causes(page, &report, &past);
    verdict::other_findings(page, &report, &past);
    let troubled = ports::troubled(verdict);
    ports::write(page, view, &troubled);
    page.html("<section aria-labelledby=topology><h2 id=topology>Topology</h2>");
    page.html("<div class=wide tabindex=0 role=region aria-label=\"Drawing of the topology\">");
    page.markup(topology::drawn(node, Some(&troubled)));
    page.html("</div><p class=dim>Colours follow the findings. <code>rdma-health topology</code> has the distances.</section>");
    past.events(page, node.time);
    page.html("<section aria-labelledby=node><h2 id=node>Node</h2><dl class=facts>");
    for domain in Domain::ALL {
        page.html("<dt>")
            .text(domain.name())
            .html("<dd>")
            .text(summary::of(domain, node));
    }
    page.html("</dl></section>");
    downloads(page, options.may_read_all);
    page.html("</main>");
}

fn downloads(page: &mut Markup, may_read_all: bool) {
    page.html("<section aria-labelledby=files><h2 id=files>Files</h2><ul>")
        .html("<li><a href=/api/v1/report>Report as JSON</a>: verdict, causes, findings and facts")
        .html("<li><a href=/api/v1/node>Facts as JSON</a>: everything that was read, and the history");
    page.html(if may_read_all {
        "<li><a href=/snapshot.tar.zst>Snapshot</a>: the files that were read"
    } else {
        "<li><a href=/snapshot.tar.zst>Anonymised snapshot</a>: the files that were read, without names and addresses. \
         A client with a password or a certificate (<code>--web-config</code>) gets the names, too."
    });
    page.html("</ul><p class=dim>Analyse a snapshot anywhere: <code>rdma-health check --snapshot FILE</code></section>");
}

#[cfg(test)]
mod tests;
