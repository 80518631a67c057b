//! The agent and how it reads the node.

use rdma_health_node::{SourceStatus, UnreadKind};
use rdma_health_view::View;

use crate::table::{Labelled, table};

pub(crate) const NOTE: &str = "`source` is one part of the node (`host`, `iommu`, `infiniband/mlx5_0`, …); in \
    `rdma_health_read_errors_total` all devices count as `infiniband`.";

/// The revision that this was built from, if the build names one.
const REVISION: Option<&str> = option_env!("RDMA_HEALTH_REVISION");

table! {
    /// Families of the program.
    PROGRAM {}: ();

    Gauge "rdma_health_build_info" [""] {"version", "revision"}
        "Version of the agent and the revision that it was built from."
        => samples(|(), samples| samples.info([env!("CARGO_PKG_VERSION"), REVISION.unwrap_or_default()]));
}

table! {
    /// Families of the last reading as a whole.
    READING {}: &View;

    Gauge "rdma_health_node_timestamp_seconds" ["seconds since 1970"] {}
        "Time of the facts in this scrape, in seconds since 1970."
        => value(|view| Some(view.node.time));
    Counter "rdma_health_read_errors_total" [""] {"source", "kind"}
        "Number of failed reads; kind is an errno symbol," one_of &UnreadKind::OF_READS
        => samples(|view, samples| {
            for error in &view.read_errors {
                samples.add([&error.source, &error.kind.name()], error.count);
            }
        });
    Gauge "rdma_health_reader_threads" [""] {}
        "Number of threads that read the node, including stuck ones; more than one means that a read hangs or hung."
        => value(|view| Some(view.reader_threads));
}

table! {
    /// Families of each part of the node that is read separately.
    SOURCES {"source"}: &SourceStatus;

    Gauge "rdma_health_source_stale" [""] {}
        "Whether the last read of a source did not end in time, so that its facts are outdated."
        => value(|status| Some(status.stale));
    Gauge "rdma_health_source_last_read_timestamp_seconds" ["seconds since 1970"] {}
        "Time of the last read of a source, in seconds since 1970."
        => value(|status| status.time);
    Gauge "rdma_health_source_read_seconds" ["seconds"] {}
        "Duration of the last read of a source in seconds."
        => value(|status| status.time.map(|_| status.seconds));
    Gauge "rdma_health_source_unread_facts" [""] {}
        "Number of facts of a source that could not be read."
        => value(|status| Some(status.unread.len()));
}

/// The program as the subject of its families.
pub(crate) fn program() -> [Labelled<()>; 1] {
    [PROGRAM.labelled(&[], ())]
}

/// The reading as the subject of its families.
pub(crate) fn reading(view: &View) -> [Labelled<&View>; 1] {
    [READING.labelled(&[], view)]
}

/// Every source.
pub(crate) fn sources(view: &View) -> Vec<Labelled<&SourceStatus>> {
    let sources = view.node.sources.iter();
    sources
        .map(|(name, status)| SOURCES.labelled(&[name], &**status))
        .collect()
}
