//! What is counted of changes of the configuration.

use rdma_health_instrument::{Entry, Registry, ReloadFamilies, Reloads, families};

families! {
    CHANGES: Counter "rdma_health_config_reloads_total" [""] {"result"}
        "Number of changes of the configuration file, by result: success if applied, failure if rejected.";
    LAST_SUCCESSFUL: Gauge "rdma_health_config_last_reload_successful" [""] {}
        "Whether the current content of the configuration file is active.";
    LAST_SUCCESS: Gauge "rdma_health_config_last_reload_success_timestamp_seconds" ["seconds since 1970"] {}
        "Time at which the active configuration was loaded, in seconds since 1970.";
    LAST_LOOK: Gauge "rdma_health_config_last_look_timestamp_seconds" ["seconds since 1970"] {}
        "Time at which the configuration file was last read, in seconds since 1970; absent without a file.";
}

/// Registers what `/metrics` shows of changes of the configuration file.
pub fn reloads(registry: &Registry) -> Reloads {
    Reloads::new(
        registry,
        ReloadFamilies {
            changes: &CHANGES,
            last_successful: &LAST_SUCCESSFUL,
            last_success: &LAST_SUCCESS,
            last_look: &LAST_LOOK,
        },
    )
}

/// Every family of these.
pub fn families() -> &'static [&'static Entry] {
    ALL
}
