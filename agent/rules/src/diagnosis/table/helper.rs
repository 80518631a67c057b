//! The verbs helper.

use crate::diagnosis::{known::KnownCause, weigh};

pub(super) static HELPER_MISSING: KnownCause = KnownCause {
    id: "helper-missing",
    title: "The verbs helper is not installed, or cannot be reached",
    explanation: "rdma-health-verbs asks libibverbs on behalf of rdma-health. Without it nothing is known of path MTUs and no \
        port is probed; RDMA itself may work.",
    next_step: "Install rdma-health-verbs beside rdma-health or in PATH, or say where it is (--helper, --helper-socket, \
        helper.program, helper.socket); in a pod, use an image that holds it, or look at the container behind the socket.",
    rules: &["helper-unhealthy"],
    often: &[],
    sometimes: &[],
    weigh: weigh::nothing,
};

pub(super) static HELPER_FAILS: KnownCause = KnownCause {
    id: "helper-fails",
    title: "The verbs helper fails instead of answering",
    explanation: "Something ends the process that asks libibverbs - a signal, a provider that crashes - or it answers what \
        makes no sense here: another version, a libibverbs that lists no devices. No device needs to be broken for that.",
    next_step: "Read how it ended and what it said (in a pod: kubectl -n rdma-health logs POD -c verbs, and --previous for one that ended); run rdma-health probe, and ibv_devinfo, which loads the same providers. \
        Where that ends alike, update rdma-core; where a signal ended it, look at memory limits and at the kernel's log \
        (oom-kill, segfault). Where the version does not fit, install helper and rdma-health from one release.",
    rules: &["helper-unhealthy"],
    often: &[],
    sometimes: &[],
    weigh: weigh::nothing,
};
