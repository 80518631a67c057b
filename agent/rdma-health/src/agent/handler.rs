//! Answers HTTP requests: reads the ports anew for each scrape, for a bounded time, and shows what there is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rdma_health_node::collector::Refresh;

use super::Agent;
use crate::{
    http::Handler,
    metrics::{RenderOptions, render},
    view::View,
};

/// How long a scrape waits for the kernel; what has not answered by then is shown as it was, and marked stale.
const SCRAPE_PATIENCE: Duration = Duration::from_millis(400);
/// A full reading that is under way holds the reader for longer than a scrape may wait.
const READER_PATIENCE: Duration = Duration::from_millis(600);
/// Room for what an answer may have more than the last one: counters grow by a digit now and then.
const SPARE: usize = 4 << 10;

/// Publishes the agent's view over HTTP.
#[derive(Debug, Clone)]
pub(super) struct Publisher {
    agent: Arc<Agent>,
    /// How long the last answer was, in bytes.
    length: Arc<AtomicUsize>,
}

impl Publisher {
    pub(super) fn new(agent: Arc<Agent>) -> Self {
        Self {
            agent,
            length: Arc::default(),
        }
    }
}

impl Handler for Publisher {
    async fn metrics(&self) -> Vec<u8> {
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
        let mut buffer = Vec::with_capacity(self.length.load(Ordering::Relaxed) + SPARE);
        render(view.as_deref(), options, &agent.own, &mut buffer);
        self.length.store(buffer.len(), Ordering::Relaxed);
        agent.own.scraped(began.elapsed());
        buffer
    }

    fn view(&self) -> Option<Arc<View>> {
        self.agent.state.view()
    }

    fn answered(&self, path: &'static str, code: u16) {
        self.agent.own.http_answered(path, code);
    }

    fn refused(&self) {
        self.agent.own.http_refused();
    }
}
