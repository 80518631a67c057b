//! The client of the kubelet's pod-resources service, which only root may ask.
//!
//! Source: `/var/lib/kubelet/pod-resources/kubelet.sock`, gRPC service `v1.PodResourcesLister`
//! (`staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/types.go` in Kubernetes;
//! <https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#monitoring-device-plugin-resources>).
//!
//! The service needs one unary call without arguments, TLS or streams. So [`call`] speaks gRPC over `h2` directly, and [`answer`]
//! decodes what readers use of the messages with `prost`. What listens on the socket is not trusted: an answer is bounded in
//! size, in number of entries and in time.

#![forbid(unsafe_code)]

mod answer;
mod call;
mod messages;

use std::{io, os::unix::net::UnixStream, path::Path, time::Duration};

use rdma_health_protocol::{KubeletAnswer, KubeletFailure, KubeletMethod, KubeletTrouble};
use tokio::runtime::{Builder, Runtime};

use call::Failure;

/// The socket, unless the kubelet runs with another `--root-dir`.
pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

/// Asks the kubelet that listens on `socket`, for at most `deadline`. Blocks.
pub fn ask(socket: &Path, method: KubeletMethod, deadline: Duration) -> KubeletAnswer {
    let failed = |kind, detail: &str| KubeletAnswer::Failed(KubeletFailure::new(kind, detail));
    let runtime = match event_loop() {
        Ok(runtime) => runtime,
        Err(error) => {
            let number = error.raw_os_error().unwrap_or_default();
            return failed(KubeletTrouble::Errno(number), &format!("no event loop: {error}"));
        }
    };
    let body = runtime.block_on(async {
        match tokio::time::timeout(deadline, call::unary(socket, method, deadline)).await {
            Ok(body) => body,
            Err(_) => Err(Failure::Hung(deadline)),
        }
    });
    match body {
        Ok(body) => {
            answer::decode(method, body).unwrap_or_else(|error| failed(error.kind(), &error.to_string()))
        }
        Err(failure) if failure.is_absence() => KubeletAnswer::Absent,
        Err(failure) => failed(failure.kind(), &failure.to_string()),
    }
}

/// Tokio panics if it cannot open the sockets for its signals, so it is only started with enough descriptors.
fn event_loop() -> io::Result<Runtime> {
    let room = [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    drop(room);
    Builder::new_current_thread().enable_all().build()
}
