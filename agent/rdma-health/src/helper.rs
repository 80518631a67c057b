//! The verbs helper: where the settings say that it is, what they have it measure, and its answers as facts.

use std::{collections::BTreeMap, path::Path as FilePath, sync::Arc};

use rdma_health_config as config;
use rdma_health_helper::{Failure, Helper, Place};
use rdma_health_kernel::{KubeletAnswers, Privileged};
use rdma_health_node::{Fact, Node, Unread, UnreadKind, limits::Runtime, node::VerbsDevice};
use rdma_health_protocol::{
    Device, HelperError, KubeletAnswer, KubeletMethod, Path, ProbeRequest, RuntimeLimits, queue_pairs_for,
};

/// The most parts of the kernel log that are asked for at once.
const MAX_LOG_PARTS: usize = 128;

/// Where the settings say; else the helper that belongs to this program.
pub(crate) fn place(settings: &config::Helper) -> Place {
    match (&settings.program, &settings.socket) {
        (_, Some(socket)) => Place::Socket(socket.clone()),
        (Some(program), None) => Place::Program(program.clone()),
        (None, None) => Place::of_this_program(),
    }
}

/// The rate of a port in bits per second, if it is known.
pub(crate) fn rate_of(node: &Node, device: &str, port: u8) -> Option<u64> {
    Some(node.port(device, port)?.rate.known()?.bits_per_second)
}

/// The measurement of a port that the settings request. The port's rate in bits per second decides the number of queue pairs if
/// the settings do not.
pub(crate) fn probe_request(
    settings: &config::Probe,
    device: &str,
    port: u8,
    rate: Option<u64>,
) -> ProbeRequest {
    // The configuration bounds both sizes well below this.
    let size = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    ProbeRequest {
        path: Path::loopback(device, port),
        message_size: size(settings.message_size),
        depth: settings.depth,
        queue_pairs: settings
            .queue_pairs
            .unwrap_or_else(|| queue_pairs_for(rate.unwrap_or_default())),
        byte_budget: settings.byte_budget,
        time_budget_ms: u64::try_from(settings.time_budget.as_millis()).unwrap_or(u64::MAX),
        latency_samples: settings.latency_samples,
        latency_size: size(settings.latency_size),
        gid_index: None,
        even_if_busy: false,
        memory_node: None,
        busy_bytes_per_second: settings.busy_bytes_per_second,
    }
}

/// The helper's answer about runtimes as a fact; `None` if it does not see the host's processes.
pub(crate) fn runtimes_fact(
    answer: Result<Option<Vec<RuntimeLimits>>, Failure>,
) -> Option<Fact<Vec<Runtime>>> {
    match answer {
        Ok(runtimes) => Some(Fact::Known(runtimes?.into_iter().map(Runtime::from).collect())),
        Err(failure) => Some(unread(&failure).into()),
    }
}

/// Asks the helper for what only a privileged process may read. Returns whether it answered anything new.
pub(crate) async fn ask_privileged(helper: &Helper, privileged: &Privileged) -> bool {
    let spaces = helper.pci_spaces().await;
    let mut changed = privileged.set_spaces(spaces.map_err(|failure| unread(&failure)));
    let modules = helper.modules().await;
    changed |= privileged.set_modules(modules.map_err(|failure| unread(&failure)));
    let statistics = helper.statistics().await;
    changed |= privileged.set_statistics(statistics.map_err(|failure| unread(&failure)));
    let files = helper.host_files().await;
    changed |= privileged.set_files(files.map_err(|failure| unread(&failure)));
    // As many parts as the largest buffer of a kernel has. The rest of a flood comes with the next question.
    for _ in 0..MAX_LOG_PARTS {
        let part = helper.kernel_log(privileged.log_from()).await;
        let more = part.as_ref().is_ok_and(|part| part.more);
        changed |= privileged.add_log(part.map_err(|failure| unread(&failure)));
        if !more {
            break;
        }
    }
    changed
}

/// Where kubelets serve pod resources, unless they run with another `--root-dir`.
const KUBELET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

/// Whether the helper at `place` may find a kubelet. One that this program starts sees what this program sees.
pub(crate) fn may_find_kubelet(place: &Place) -> bool {
    matches!(place, Place::Socket(_)) || !matches!(FilePath::new(KUBELET).try_exists(), Ok(false))
}

/// Asks the helper at `place` what the kubelet answers. Returns whether that is new.
pub(crate) async fn ask_kubelet(helper: &Helper, place: &Place, kubelet: &KubeletAnswers) -> bool {
    let mut changed = false;
    for method in KubeletMethod::ALL {
        let answer = if may_find_kubelet(place) {
            helper.kubelet(method).await
        } else {
            Ok(KubeletAnswer::Absent)
        };
        changed |= kubelet.set(method, answer.map_err(|failure| unread(&failure)));
    }
    changed
}

fn unread(failure: &Failure) -> Unread {
    Unread {
        source: "rdma-health-verbs".into(),
        kind: UnreadKind::Helper(failure.trouble()),
        detail: failure.to_string(),
    }
}

/// The helper's answer as a fact.
pub(crate) fn verbs_fact(
    answer: Result<Vec<Result<Device, HelperError>>, Failure>,
) -> Fact<Arc<BTreeMap<String, VerbsDevice>>> {
    match answer {
        Ok(devices) => {
            let entry = |device: Result<Device, HelperError>| match device {
                Ok(device) => (device.name.clone(), VerbsDevice::Device(device)),
                Err(error) => (
                    error.device.clone().unwrap_or_default(),
                    VerbsDevice::Error(error),
                ),
            };
            Fact::Known(Arc::new(devices.into_iter().map(entry).collect()))
        }
        Err(failure) => unread(&failure).into(),
    }
}
