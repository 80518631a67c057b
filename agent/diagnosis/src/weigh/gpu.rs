//! Errors of CUDA and `ROCm` in a job, and what to do about each.

use super::{Case, Scales, job::logged};
use crate::symptom::SymptomKind;

/// What to do where a process cannot import GPU memory of another node.
pub(super) const EXCHANGE: &str = "GPU memory is shared between nodes over NVLink through nvidia-imex. On every node of the NVLink domain: systemctl status nvidia-imex, nvidia-imex-ctl -N (each node must be READY), \
    and /dev/nvidia-caps-imex-channels/channel0, which the container of the job needs, too (on Kubernetes a ComputeDomain). nvidia-smi -q | grep -A4 Fabric must show Completed and Success. \
    Until then NCCL works without it: NCCL_MNNVL_ENABLE=0.";

/// Words of errors, in lower case, and what to do.
const STEPS: [(&[&str], &str); 5] = [
    (&["imex"], EXCHANGE),
    (
        &["fromshareablehandle", "toshareablehandle", "p2p.cc"],
        "A process could not open the GPU memory of another one. Within a node: give all processes of the job all GPUs of the node (one container for its ranks, or --ipc=host and \
        --pid=host), or switch these paths off to confirm it: NCCL_P2P_DISABLE=1, NCCL_CUMEM_ENABLE=0. Between nodes with NVLink: nvidia-imex must run on all of them, nvidia-imex-ctl -N shows each \
        READY, and the container needs /dev/nvidia-caps-imex-channels; NCCL_MNNVL_ENABLE=0 does without.",
    ),
    (
        &["invalid device ordinal", "failure 101"],
        "The process uses a GPU number that it does not see: compare CUDA_VISIBLE_DEVICES (ROCR_VISIBLE_DEVICES) and the local rank with nvidia-smi -L where it runs. Each process of a node needs its \
        own local rank, and the container all GPUs that the ranks use.",
    ),
    (
        &["graph/paths.", "graph/topo."],
        "NCCL (RCCL) cannot make sense of how the GPUs of the node are connected. Compare nvidia-smi topo -m (rocm-smi --showtopo) inside the job with the host: in a virtual machine or container with a part of the \
        GPUs the links lead to GPUs that are not there. Give the job all GPUs that are connected, update the library, or do without these links: NCCL_P2P_DISABLE=1. Then see whether the same job runs.",
    ),
    (
        &["failure 999", "aicpu", "aicore", "unknown error"],
        "The driver does not say more about this error. Read its log of that time: journalctl -k | grep -e Xid -e NVRM -e amdgpu -e davinci; NPUs also write to ~/ascend/log/debug/plog. Check the \
        devices (nvidia-smi, rocm-smi or npu-smi info), restart the driver's services or the node, and see whether a small program of the vendor runs there.",
    ),
];

/// An error of CUDA, `ROCm` or another accelerator.
pub(crate) fn gpu_program(case: &Case<'_>, scales: &mut Scales) {
    let found = case.seen(&[SymptomKind::ComputeError]).find_map(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        let has = |(words, _): &&(&[&str], &str)| words.iter().any(|word| text.contains(word));
        STEPS.iter().find(has).map(|(_, step)| *step)
    });
    scales.next_step = found.map(str::to_owned);
    logged(case, scales);
}
