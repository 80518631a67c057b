//! Answers HTTP requests: reads the ports for each scrape, for a bounded time, and shows the result.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rdma_health_config::NodeName;
use rdma_health_kernel::collector::Refresh;
use rdma_health_metrics::{Format, RenderOptions};
use rdma_health_report::{JSON_SCHEMA, LIVE, PageOptions, Part, Report, SNAPSHOT};
use rdma_health_view::View;
use rdma_health_web::{Answer, Asked, Handler, Page, StatusCode};

use super::{Agent, download::Downloads};

const EXPLAIN: &str = "/explain/";
/// How often the page that refreshes itself does, in seconds.
const REFRESH: u32 = 30;
const METRICS: &str = "/metrics";
const LIVENESS: &str = "/healthz";
const READINESS: &str = "/readyz";
/// The parts of the report as JSON, with the schema of all of them.
const API: [(&str, Part); 7] = [
    ("/api/v1/report", Part::Report),
    ("/api/v1/verdict", Part::Verdict),
    ("/api/v1/findings", Part::Findings),
    ("/api/v1/causes", Part::Causes),
    ("/api/v1/events", Part::Events),
    ("/api/v1/inventory", Part::Inventory),
    ("/api/v1/node", Part::Node),
];
const API_SCHEMA: &str = "/api/v1/schema";
/// How long a scrape waits for the kernel; what has not answered by then is shown as it was, and marked stale.
const SCRAPE_PATIENCE: Duration = Duration::from_millis(400);
/// A full reading that is under way holds the reader for longer than a scrape may wait.
const READER_PATIENCE: Duration = Duration::from_millis(600);
/// Headroom over the previous response's size: counters grow by a digit from time to time.
const SPARE: usize = 4 << 10;

/// The pages of the agent.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    agent: Arc<Agent>,
    /// How long the last answer was, in bytes.
    length: Arc<AtomicUsize>,
    downloads: Arc<Downloads>,
    /// The name of this Node in Kubernetes; `None` outside of it.
    node: Option<NodeName>,
}

impl Pages {
    pub(super) fn new(agent: Arc<Agent>, node: Option<NodeName>) -> Self {
        Self {
            agent,
            length: Arc::default(),
            downloads: Arc::default(),
            node,
        }
    }

    /// Reads the ports and shows what there is then.
    async fn metrics(&self, format: Format) -> Answer {
        let began = Instant::now();
        let agent = &self.agent;
        let reading = agent.read(Refresh::Ports, SCRAPE_PATIENCE);
        let view = match tokio::time::timeout(READER_PATIENCE, reading).await {
            Ok(Some(reading)) => agent.state.read(reading),
            Ok(None) | Err(_) => agent.state.view(),
        };
        let options = {
            let config = agent.config.borrow();
            RenderOptions {
                node_exporter_names: config.node_exporter_names,
                without_fixed: !config.fixed_metrics,
                format,
            }
        };
        // Growing step by step would copy it all several times; half as much again would lie idle.
        let mut body = Vec::with_capacity(self.length.load(Ordering::Relaxed) + SPARE);
        agent.exporter.render(view.as_deref(), options, &mut body);
        self.length.store(body.len(), Ordering::Relaxed);
        agent.metrics.scraped(began.elapsed());
        Answer {
            code: StatusCode::OK,
            content_type: format.content_type(),
            body,
        }
    }
}

/// A part of the report as JSON, from the last reading.
fn api(view: Option<&View>, node: Option<&NodeName>, part: Part) -> Answer {
    let Some(view) = view else {
        return not_read_yet();
    };
    let report = Report {
        node: &view.node,
        verdict: &view.verdict,
        diagnosis: &view.diagnosis,
        kubernetes_node: node.map(NodeName::as_str),
    };
    match rdma_health_report::json_part(&report, part) {
        Ok(body) => json(body),
        Err(error) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn json(body: Vec<u8>) -> Answer {
    Answer {
        code: StatusCode::OK,
        content_type: "application/json",
        body,
    }
}

impl Handler for Pages {
    const REALM: &'static str = "rdma-health";
    const PAGES: &'static [Page] = &[
        Page::closed("/"),
        Page::closed(LIVE),
        Page::closed(EXPLAIN),
        Page::closed(SNAPSHOT),
        Page::closed(METRICS),
        Page::closed(API[0].0),
        Page::closed(API[1].0),
        Page::closed(API[2].0),
        Page::closed(API[3].0),
        Page::closed(API[4].0),
        Page::closed(API[5].0),
        Page::closed(API[6].0),
        Page::closed(API_SCHEMA),
        // The kubelet has no password, and these two say no more than a word.
        Page::open(LIVENESS),
        Page::open(READINESS),
    ];

    async fn answer(&self, path: &'static str, asked: &Asked<'_>) -> Answer {
        let view = || self.agent.state.view();
        if let Some((_, part)) = API.iter().find(|(of, _)| *of == path) {
            return api(view().as_deref(), self.node.as_ref(), *part);
        }
        let page = |refresh| {
            let options = PageOptions {
                refresh,
                may_read_all: asked.is_proven,
                kubernetes_node: self.node.as_ref().map(NodeName::as_str),
            };
            Answer::html(rdma_health_report::page(view().as_deref(), options))
        };
        match path {
            LIVE => page(Some(REFRESH)),
            EXPLAIN => match rdma_health_report::explanation(asked.below) {
                Some(explanation) => Answer::html(explanation),
                None => Answer::text(
                    StatusCode::NOT_FOUND,
                    "no rule or cause has this name; see rdma-health rules",
                ),
            },
            SNAPSHOT => match view() {
                Some(view) => {
                    let config = self.agent.config.borrow().clone();
                    self.downloads.snapshot(config, view, asked.is_proven).await
                }
                None => not_read_yet(),
            },
            METRICS => self.metrics(Format::accepted(asked.accept)).await,
            API_SCHEMA => json(JSON_SCHEMA.into()),
            LIVENESS => Answer::text(StatusCode::OK, "ok"),
            READINESS => readiness(view().is_some()),
            _ => page(None),
        }
    }
}

fn readiness(was_read: bool) -> Answer {
    if was_read {
        Answer::text(StatusCode::OK, "ok")
    } else {
        not_read_yet()
    }
}

fn not_read_yet() -> Answer {
    Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the node has not been read yet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_waits_for_a_node() {
        let answer = readiness(false);
        assert_eq!(answer.code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.body, b"the node has not been read yet\n");
        assert_eq!(readiness(true).code, StatusCode::OK);
    }

    #[test]
    fn every_part_of_the_report_has_its_path() {
        for part in Part::ALL {
            let path = format!("/api/v1/{}", part.name());
            assert!(API.contains(&(&*path, part)), "{path}");
        }
        assert!(
            Pages::PAGES
                .iter()
                .all(|page| !page.is_open || !page.path.starts_with("/api"))
        );
        assert_eq!(
            api(None, None, Part::Report).code,
            StatusCode::SERVICE_UNAVAILABLE
        );
    }

    #[test]
    fn the_kubelet_needs_no_password_and_everybody_else_does() {
        let open: Vec<_> = Pages::PAGES.iter().filter(|page| page.is_open).collect();
        assert_eq!(open.len(), 2);
        assert!(open.iter().all(|page| [LIVENESS, READINESS].contains(&page.path)));
    }
}
