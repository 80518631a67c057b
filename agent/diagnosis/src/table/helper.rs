//! The verbs helper.

use rdma_health_rules::{FindingCase, domain::reading};

use crate::{known::KnownCause, weigh};

pub(super) static HELPER_MISSING: KnownCause = KnownCause {
    id: "helper-missing",
    title: "The verbs helper is not installed or not reachable",
    explanation: "rdma-health-verbs queries libibverbs for rdma-health. Without it, path MTUs and GID tables are unknown and no \
    port is probed. RDMA itself may work.",
    next_step: "Install rdma-health-verbs in PATH or in the directory of rdma-health, or configure its location (--helper, \
    --helper-socket, helper.program, helper.socket). In a pod, use an image that contains it, or check the container behind \
    the socket.",
    rules: &[&reading::HELPER_UNHEALTHY],
    cases: &[FindingCase::HelperUnreachable],
    often: &[],
    sometimes: &[],
    weigh: weigh::nothing,
};

pub(super) static HELPER_FAILS: KnownCause = KnownCause {
    id: "helper-fails",
    title: "The verbs helper fails instead of answering",
    explanation: "A signal or a crashing libibverbs provider ends the helper, it is stopped, or its responses are unusable: it has another \
    version, or its libibverbs cannot list the devices. The devices themselves may be healthy.",
    next_step: "Check how it ended and its last output (in a pod: kubectl -n rdma-health logs POD -c verbs, with --previous \
    for a container that restarted). Run ibv_devinfo, which loads the same providers: if it crashes too, update rdma-core. If a \
    signal ended the helper, check memory limits and the kernel log (oom-kill, segfault). If it did not greet, look at its state \
    (ps: T is stopped) and at the CPU limit of its container. If the versions differ, install helper \
    and rdma-health from one release.",
    rules: &[&reading::HELPER_UNHEALTHY],
    cases: &[FindingCase::HelperFailed],
    often: &[],
    sometimes: &[],
    weigh: weigh::helper,
};
