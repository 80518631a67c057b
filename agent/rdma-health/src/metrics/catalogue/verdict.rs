//! Families about the verdict, findings and probes.

use super::families;

pub(super) const NOTE: &str = "`rule` is the id that `rdma-health explain` takes. `device` and `port` are empty where a \
    finding is about the whole node. A port that was busy or not active was not probed: that is a skip and no failure.";

families! {
    STATUS: Gauge "rdma_verdict" [""] {"status"}
        "Whether the verdict on the node is ok, warning, critical or unknown: 1 for the one that holds.";
    FINDINGS: Gauge "rdma_findings" [""] {"severity"}
        "Findings on the node, by severity.";
    FINDING: Gauge "rdma_finding" [""] {"rule", "severity", "domain", "device", "port"}
        "A rule that fired, 1 as long as it does.";
    PROBE_SUCCESS: Gauge "rdma_probe_success" [""] {"device", "port"}
        "Whether the last probe of a port worked.";
    PROBE_SKIPPED: Gauge "rdma_probe_skipped" [""] {"device", "port", "reason"}
        "The last probe of a port did not start: busy, not_active or no_such_port.";
    PROBE_STAGE: Gauge "rdma_probe_stage_info" [""] {"device", "port", "stage"}
        "How far the last probe of a port got; done is all the way.";
    PROBE_FAILURE: Gauge "rdma_probe_failure_info" [""] {"device", "port", "stage", "reason", "vendor_error"}
        "Why the last probe of a port failed: an errno or completion status, timed_out, no_gid or corrupted.";
    PROBE_TIME: Gauge "rdma_probe_last_timestamp_seconds" ["seconds since 1970"] {"device", "port"}
        "When the last probe of a port ended.";
    PROBE_DURATION: Gauge "rdma_probe_duration_seconds" ["seconds"] {"device", "port"}
        "How long the last probe of a port took, setup included.";
    PROBE_BANDWIDTH: Gauge "rdma_probe_bandwidth_bytes_per_second" ["bytes/s"] {"device", "port"}
        "Bandwidth that the last probe of a port measured.";
    PROBE_BYTES: Gauge "rdma_probe_written_bytes" ["bytes"] {"device", "port"}
        "Bytes that the last probe of a port wrote to measure the bandwidth.";
    PROBE_LATENCY: Gauge "rdma_probe_latency_seconds" ["seconds"] {"device", "port", "quantile"}
        "Latency of small writes that the last probe of a port measured; quantile 0 is the fastest.";
    PROBE_GID: Gauge "rdma_probe_gid_index" [""] {"device", "port"}
        "Index of the GID that the last probe of a port used.";
}
