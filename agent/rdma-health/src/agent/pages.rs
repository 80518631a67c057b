//! Answers HTTP requests: reads the ports for each scrape, for a bounded time, and shows the result.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rdma_health_kernel::collector::Refresh;
use rdma_health_metrics::{CONTENT_TYPE, RenderOptions};
use rdma_health_report::{FACTS, LIVE, PageOptions, SNAPSHOT};
use rdma_health_web::{Answer, Asked, Handler, Page, StatusCode};

use super::{
    Agent,
    download::{self, Downloads},
};

const EXPLAIN: &str = "/explain/";
/// How often the page that refreshes itself does, in seconds.
const REFRESH: u32 = 30;
const METRICS: &str = "/metrics";
const LIVENESS: &str = "/healthz";
const READINESS: &str = "/readyz";
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
}

impl Pages {
    pub(super) fn new(agent: Arc<Agent>) -> Self {
        Self {
            agent,
            length: Arc::default(),
            downloads: Arc::default(),
        }
    }

    /// Reads the ports and shows what there is then.
    async fn metrics(&self) -> Answer {
        let began = Instant::now();
        let agent = &self.agent;
        let reading = agent.read(Refresh::Ports, SCRAPE_PATIENCE);
        let view = match tokio::time::timeout(READER_PATIENCE, reading).await {
            Ok(Some(reading)) => agent.state.read(reading),
            Ok(None) | Err(_) => agent.state.view(),
        };
        let options = RenderOptions {
            node_exporter_names: agent.config.borrow().node_exporter_names,
        };
        // Growing step by step would copy it all several times; half as much again would lie idle.
        let mut body = Vec::with_capacity(self.length.load(Ordering::Relaxed) + SPARE);
        agent.exporter.render(view.as_deref(), options, &mut body);
        self.length.store(body.len(), Ordering::Relaxed);
        agent.metrics.scraped(began.elapsed());
        Answer {
            code: StatusCode::OK,
            content_type: CONTENT_TYPE,
            body,
        }
    }
}

impl Handler for Pages {
    const REALM: &'static str = "rdma-health";
    const PAGES: &'static [Page] = &[
        Page {
            path: "/",
            is_open: false,
        },
        Page {
            path: LIVE,
            is_open: false,
        },
        Page {
            path: EXPLAIN,
            is_open: false,
        },
        Page {
            path: FACTS,
            is_open: false,
        },
        Page {
            path: SNAPSHOT,
            is_open: false,
        },
        Page {
            path: METRICS,
            is_open: false,
        },
        // The kubelet has no password, and these two say no more than a word.
        Page {
            path: LIVENESS,
            is_open: true,
        },
        Page {
            path: READINESS,
            is_open: true,
        },
    ];

    async fn answer(&self, path: &'static str, asked: &Asked<'_>) -> Answer {
        let view = || self.agent.state.view();
        let page = |refresh| {
            let options = PageOptions {
                refresh,
                may_read_all: asked.is_proven,
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
            FACTS => download::facts(view().as_deref(), asked.is_proven),
            SNAPSHOT => match view() {
                Some(view) => {
                    let config = self.agent.config.borrow().clone();
                    self.downloads.snapshot(config, view, asked.is_proven).await
                }
                None => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the node has not been read yet"),
            },
            METRICS => self.metrics().await,
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
        Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the node has not been read yet")
    }
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
    fn the_kubelet_needs_no_password_and_everybody_else_does() {
        let open: Vec<_> = Pages::PAGES.iter().filter(|page| page.is_open).collect();
        assert_eq!(open.len(), 2);
        assert!(open.iter().all(|page| [LIVENESS, READINESS].contains(&page.path)));
    }
}
