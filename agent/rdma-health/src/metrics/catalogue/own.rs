//! Families about the agent itself.

use super::families;

pub(super) const NOTE: &str = "`source` is one part of the reading (`host`, `iommu`, `infiniband/mlx5_0`, …); in \
    `rdma_health_read_errors_total` all devices count as `infiniband`.";

families! {
    BUILD: Gauge "rdma_health_build_info" [""] {"version", "revision"}
        "The agent's version and the revision it was built from.";
    NODE_TIME: Gauge "rdma_health_node_timestamp_seconds" ["seconds since 1970"] {}
        "When the facts that are shown were put together.";
    READ_ERRORS: Counter "rdma_health_read_errors_total" [""] {"source", "kind"}
        "Reads that failed; kind is an errno, malformed, too_long, not_a_file, missing, hung, helper or panic.";
    SOURCE_STALE: Gauge "rdma_health_source_stale" [""] {"source"}
        "Whether the last reading of a source did not end in time, so that its facts are old.";
    SOURCE_TIME: Gauge "rdma_health_source_last_read_timestamp_seconds" ["seconds since 1970"] {"source"}
        "When a source was last read.";
    SOURCE_SECONDS: Gauge "rdma_health_source_read_seconds" ["seconds"] {"source"}
        "How long the last reading of a source took.";
    SOURCE_UNREAD: Gauge "rdma_health_source_unread_facts" [""] {"source"}
        "Facts of a source that could not be read.";
    THREADS: Gauge "rdma_health_reader_threads" [""] {}
        "Threads that read the node, stuck ones included; more than one means that a read hangs or hung.";
    SCRAPE: Histogram "rdma_health_scrape_seconds" ["seconds"] {}
        "How long it took to answer a scrape, reading included.";
    REFRESH: Histogram "rdma_health_refresh_seconds" ["seconds"] {"scope"}
        "How long it took to read the node: all of it or only its ports.";
    HTTP_REQUESTS: Counter "rdma_health_http_requests_total" [""] {"path", "code"}
        "HTTP requests answered; paths that do not exist count as other.";
    HTTP_REFUSED: Counter "rdma_health_http_connections_refused_total" [""] {}
        "HTTP connections turned away because too many were open.";
    HELPER_UP: Gauge "rdma_health_helper_up" [""] {}
        "Whether the verbs helper answers.";
    HELPER_RESTARTS: Counter "rdma_health_helper_restarts_total" [""] {"reason"}
        "How often the verbs helper was given up and started again.";
    RELOADS: Counter "rdma_health_config_reloads_total" [""] {"result"}
        "Changes of the configuration file that were taken over (success) or refused (failure).";
    RELOAD_OK: Gauge "rdma_health_config_last_reload_successful" [""] {}
        "Whether the configuration file as it is now is in effect.";
    RELOAD_TIME: Gauge "rdma_health_config_last_reload_success_timestamp_seconds" ["seconds since 1970"] {}
        "When the configuration in effect was taken over.";
    WEB_RELOAD_OK: Gauge "rdma_health_web_config_last_reload_successful" [""] {}
        "Whether the web configuration as it is now, with its certificates, is in effect; 1 where there is none.";
    CERTIFICATE_EXPIRES: Gauge "rdma_health_web_config_certificate_expiry_timestamp_seconds" ["seconds since 1970"] {}
        "Until when the certificate in effect is good; absent without TLS.";
    PROBE_RUNS: Counter "rdma_health_probe_runs_total" [""] {"result"}
        "Probes by result: success, failure, skipped, or helper where the helper did not answer.";
    EVENTS: Counter "rdma_health_events_total" [""] {"source"}
        "Messages that led to a reading before its time, by source: uevent, rtnetlink or verbs.";
    KUBERNETES_ENABLED: Gauge "rdma_health_kubernetes_enabled" [""] {}
        "Whether the node's state is published to Kubernetes.";
    KUBERNETES_REQUESTS: Counter "rdma_health_kubernetes_requests_total" [""] {"verb", "resource", "code"}
        "Requests to the API server; code is ok, an HTTP status, unreachable, timed_out, configuration or malformed.";
    KUBERNETES_SUCCESS: Gauge "rdma_health_kubernetes_last_success_timestamp_seconds" ["seconds since 1970"] {}
        "When the agent last knew that the Node's conditions are as it wants them; 0 where it never did.";
    PROCESS_CPU: Counter "process_cpu_seconds_total" ["seconds"] {}
        "Total user and system CPU time spent in seconds.";
    PROCESS_RESIDENT: Gauge "process_resident_memory_bytes" ["bytes"] {}
        "Resident memory size in bytes.";
    PROCESS_VIRTUAL: Gauge "process_virtual_memory_bytes" ["bytes"] {}
        "Virtual memory size in bytes.";
    PROCESS_START: Gauge "process_start_time_seconds" ["seconds since 1970"] {}
        "Start time of the process since unix epoch in seconds.";
    PROCESS_FDS: Gauge "process_open_fds" [""] {}
        "Number of open file descriptors (Linux 6.2 or later).";
    PROCESS_MAX_FDS: Gauge "process_max_fds" [""] {}
        "Maximum number of open file descriptors.";
}
