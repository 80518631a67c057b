//! What systemd reports of the services of RDMA: `Failed to start openibd - configure Mellanox devices.`, `opensm.service: Failed with
//! result 'exit-code'.`, `Job for openibd.service failed because the control process exited with error code.`

use crate::symptom::SymptomKind::{self as K};

/// Services that load the modules of RDMA, by parts of their names and descriptions.
const LOADERS: [&str; 4] = [
    "openibd",
    "rdma-load-modules",
    "load rdma modules",
    "rdma.service",
];

/// Services that manage an InfiniBand subnet.
const MANAGERS: [&str; 2] = ["opensm", "opensmd"];

/// Services that manage the `NVLink` fabric of GPUs, within a node and between nodes.
const GPU_FABRIC: [&str; 5] = [
    "nvidia-fabricmanager",
    "nvidia fabric manager",
    "nvidia-imex",
    "nvidia imex",
    "fabricmanager",
];

/// Services that load the module for transfers between adapters and GPU memory.
const PEER_MEMORY: [&str; 4] = ["nvidia-peermem", "nvidia_peermem", "nv_peer_mem", "nv-peer-mem"];

/// Other services of RDMA, whose failure keeps a part of the node from working.
const OTHERS: [&str; 5] = ["srp_daemon", "ibacm", "iwpmd", "srptools", "rdma-hw"];

/// What a line in lower case shows of a service that did not start or ended with a failure, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 9] = [
        "failed to start",
        "failed with result",
        "main process exited",
        "control process exited",
        "entered failed state",
        "dependency failed for",
        "start request repeated too quickly",
        "service failed because",
        "start operation timed out",
    ];
    // The program that it starts may be missing: the service is of a package that was removed.
    if lower.contains("failed at step exec spawning") {
        return None;
    }
    let at = FORMS.iter().find_map(|form| lower.find(form))?;
    let names = |services: &[&str]| services.iter().any(|service| is_unit(lower, service));
    if names(&LOADERS) {
        Some((K::ModuleMissing, at))
    } else if names(&MANAGERS) {
        Some((K::ManagerNotStarted, at))
    } else if names(&GPU_FABRIC) {
        Some((K::GpuLinkError, at))
    } else if names(&PEER_MEMORY) {
        Some((K::GdrDisabled, at))
    } else if names(&OTHERS) {
        Some((K::Unrecognised, at))
    } else {
        None
    }
}

/// The service that loads modules of RDMA which a message names, in lower case.
pub(crate) fn loader(lower: &str) -> Option<&'static str> {
    find(lower)?;
    let named = LOADERS.iter().find(|name| is_unit(lower, name))?;
    Some(match *named {
        "load rdma modules" | "rdma-load-modules" => "'rdma-load-modules@*'",
        "rdma.service" => "rdma",
        name => name,
    })
}

/// Whether a name stands in a line as the name or description of a unit, and not as a part of a longer one.
fn is_unit(lower: &str, name: &str) -> bool {
    lower.match_indices(name).any(|(at, _)| {
        let is_word = |at: Option<usize>| {
            at.and_then(|at| lower.as_bytes().get(at))
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/' | b'_'))
        };
        !is_word(at.checked_sub(1)) && !is_word(Some(at + name.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_rdma_that_do_not_start_are_told_from_others() {
        for (line, expected) in [
            (
                "systemd[1]: failed to start openibd - configure mellanox devices.",
                Some(K::ModuleMissing),
            ),
            (
                "job for openibd.service failed because the control process exited with error code.",
                Some(K::ModuleMissing),
            ),
            (
                "systemd[1]: failed to start load rdma modules from /etc/rdma/modules/rdma.conf.",
                Some(K::ModuleMissing),
            ),
            (
                "systemd[1]: opensm.service: failed with result 'exit-code'.",
                Some(K::ManagerNotStarted),
            ),
            (
                "job for nvidia-fabricmanager.service failed because the control process exited with error code.",
                Some(K::GpuLinkError),
            ),
            (
                "job for openibd.service failed because a timeout was exceeded.",
                Some(K::ModuleMissing),
            ),
            (
                "systemd[1]: failed to start nvidia imex service.",
                Some(K::GpuLinkError),
            ),
            (
                "systemd[1]: nvidia-peermem.service: failed with result 'exit-code'.",
                Some(K::GdrDisabled),
            ),
            (
                "job for srp_daemon.service failed because the control process exited with error code.",
                Some(K::Unrecognised),
            ),
            (
                "job for nginx.service failed because a timeout was exceeded.",
                None,
            ),
            ("systemd[1]: failed to start opensm-exporter.service", None),
            ("systemd[1]: failed to start rdma node description daemon.", None),
            (
                "systemd[1]: opensm.service: failed at step exec spawning /usr/sbin/opensm: no such file or directory",
                None,
            ),
            ("openibd: loading hca driver and access layer: [  ok  ]", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
        assert_eq!(
            loader("systemd[1]: failed to start load rdma modules from /etc/rdma/modules/rdma.conf."),
            Some("'rdma-load-modules@*'")
        );
    }
}
