//! The task that reads the node, one refresh after the other. It never blocks on the kernel: the collector's workers do.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_kernel::collector::{Collector, Refresh};
use rdma_health_node::Node;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout_at,
};

use rdma_health_view::ReadErrors;

/// A reading that is not older than this serves the next request for ports, too.
const FRESH: Duration = Duration::from_millis(100);

/// What a reading brings.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// The node, without what the helper says.
    pub(crate) node: Node,
    /// Failing reads so far.
    pub(crate) read_errors: Vec<ReadErrors>,
    /// Reader threads alive.
    pub(crate) reader_threads: usize,
    /// [`Collector::revision`] of it.
    pub(crate) revision: u64,
}

enum Order {
    Refresh {
        what: Refresh,
        patience: Duration,
        answer: oneshot::Sender<Reading>,
    },
    Exclude(Vec<String>),
}

/// A handle to the task. It ends with the last handle.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    orders: mpsc::Sender<Order>,
}

impl Reader {
    /// Starts the task.
    pub(crate) fn start(mut collector: Collector) -> Self {
        let (orders, mut receiver) = mpsc::channel(64);
        let progress = Arc::new(Notify::new());
        let notified = Arc::clone(&progress);
        collector.on_progress(move || notified.notify_one());
        tokio::spawn(async move {
            let mut last: Option<Instant> = None;
            while let Some(order) = receiver.recv().await {
                match order {
                    Order::Exclude(patterns) => collector.exclude(patterns),
                    Order::Refresh {
                        what,
                        patience,
                        answer,
                    } => {
                        // Several scrapes that arrive together share one reading.
                        let fresh = what == Refresh::Ports && last.is_some_and(|last| last.elapsed() < FRESH);
                        if !fresh {
                            refresh(&mut collector, &progress, what, patience).await;
                            last = Some(Instant::now());
                        }
                        // The asker may have gone away meanwhile.
                        let _ = answer.send(reading(&collector));
                    }
                }
            }
        });
        Self { orders }
    }

    /// Reads, for at most `patience`; sources that have not answered by then are marked stale. `None` once the task has ended.
    pub(crate) async fn read(&self, what: Refresh, patience: Duration) -> Option<Reading> {
        let (answer, reading) = oneshot::channel();
        self.orders
            .send(Order::Refresh {
                what,
                patience,
                answer,
            })
            .await
            .ok()?;
        reading.await.ok()
    }

    /// Changes which devices are excluded.
    pub(crate) async fn exclude(&self, patterns: Vec<String>) {
        // The task ends only when we do.
        let _ = self.orders.send(Order::Exclude(patterns)).await;
    }
}

async fn refresh(collector: &mut Collector, progress: &Notify, what: Refresh, patience: Duration) {
    let mut pass = collector.begin(what, Instant::now() + patience);
    while let Some(until) = collector.advance(&mut pass) {
        // Looked at again either way.
        let _ = timeout_at(until.into(), progress.notified()).await;
    }
}

fn reading(collector: &Collector) -> Reading {
    let errors = collector.errors().map(|(source, kind, count)| ReadErrors {
        source: source.to_owned(),
        kind: kind.clone(),
        count,
    });
    Reading {
        node: Node::new(collector.facts()),
        read_errors: errors.collect(),
        reader_threads: collector.workers(),
        revision: collector.revision(),
    }
}
