//! The thread that reads the node, so that the rest of the agent never waits for a kernel.

use std::{
    thread,
    time::{Duration, Instant},
};

use rdma_health_node::{
    Node,
    collector::{Collector, Refresh},
};
use tokio::sync::{mpsc, oneshot};

use crate::view::ReadErrors;

/// A reading that is not older than this serves the next request for ports, too.
const FRESH: Duration = Duration::from_millis(100);

/// What a reading brings.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// The node, without what the helper says.
    pub(crate) node: Node,
    /// Failing reads so far.
    pub(crate) errors: Vec<ReadErrors>,
    /// Reader threads alive.
    pub(crate) threads: usize,
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

/// A handle to the thread. It ends with the last handle.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    orders: mpsc::Sender<Order>,
}

impl Reader {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, where it has no thread left.
    pub(crate) fn start(mut collector: Collector) -> std::io::Result<Self> {
        let (orders, mut receiver) = mpsc::channel(64);
        thread::Builder::new()
            .name("collector".into())
            .stack_size(512 << 10)
            .spawn(move || {
                let mut last: Option<Instant> = None;
                while let Some(order) = receiver.blocking_recv() {
                    match order {
                        Order::Exclude(patterns) => collector.exclude(patterns),
                        Order::Refresh {
                            what,
                            patience,
                            answer,
                        } => {
                            // Several scrapes that arrive together share one reading.
                            let fresh =
                                what == Refresh::Ports && last.is_some_and(|last| last.elapsed() < FRESH);
                            if !fresh {
                                collector.refresh(what, Instant::now() + patience);
                                last = Some(Instant::now());
                            }
                            // The asker may have gone away meanwhile.
                            let _ = answer.send(reading(&collector));
                        }
                    }
                }
            })?;
        Ok(Self { orders })
    }

    /// Reads, for at most `patience`; what did not end by then is told as stale. `None` once the thread has ended.
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

    /// Changes which devices are left out.
    pub(crate) async fn exclude(&self, patterns: Vec<String>) {
        // The thread ends only when we do.
        let _ = self.orders.send(Order::Exclude(patterns)).await;
    }
}

fn reading(collector: &Collector) -> Reading {
    let errors = collector.errors().map(|(source, kind, count)| ReadErrors {
        source: source.to_owned(),
        kind: kind.to_owned(),
        count,
    });
    Reading {
        node: collector.node(),
        errors: errors.collect(),
        threads: collector.workers(),
        revision: collector.revision(),
    }
}
