//! Connections that are not of RDMA: to web servers, databases and shells, and those of UCX over TCP.

use crate::symptom::SymptomKind::{self as K};

/// What names another protocol or its client, in lower case.
const OTHERS: [&str; 16] = [
    "http://",
    "https://",
    "grpc://",
    "s3://",
    "redis://",
    "httpconnection",
    "httpsconnection",
    "urllib3",
    "requests.exceptions",
    "ssh: ",
    "curl: ",
    "mlflow",
    "wandb",
    "grpc",
    "redis",
    "etcd",
];
/// Sources of UCX's transport over TCP, in lower case.
const TCP: [&str; 4] = ["tcp_ep", "tcp_iface", "tcp_sockcm", "tcp_cm.c"];
/// What perftest prints before an address and its port.
const CONNECT: &str = "couldn't connect to ";

/// Whether a failed connection in a line in lower case is one of another protocol: a web server's, or of a client that names no port.
pub(super) fn is_other_connection(lower: &str, kind: K) -> bool {
    if !matches!(
        kind,
        K::ExchangeFailed
            | K::ConnectRefused
            | K::ConnectFailed
            | K::PeerUnreachable
            | K::PeerClosed
            | K::NoListener
    ) {
        return false;
    }
    let names_port = |rest: &str| {
        let address = rest.split_whitespace().next().unwrap_or_default();
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.trim_end_matches(['.', ',']));
        port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_other = OTHERS.iter().any(|name| lower.contains(name));
    let to_none = kind == K::ExchangeFailed
        && lower
            .split_once(CONNECT)
            .is_some_and(|(_, rest)| !names_port(rest));
    is_other || to_none
}

/// Whether a line in lower case is of UCX's transport over TCP.
pub(super) fn is_tcp_of_ucx(lower: &str) -> bool {
    TCP.iter().any(|source| lower.contains(source)) && !lower.contains("rdma")
}

/// Whether a line shows that the job goes on: NCCL's communicator, a step of a training with its loss, or its end.
pub(super) fn goes_on(bytes: &[u8]) -> bool {
    const ENDS: [&str; 5] = [
        "init complete",
        "training finished",
        "training complete",
        "finished training",
        "training done",
    ];
    let lower = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let counts = || {
        ["step", "iter", "epoch"].iter().any(|word| lower.contains(word))
            && lower.contains("loss")
            && lower.bytes().any(|byte| byte.is_ascii_digit())
    };
    ENDS.iter().any(|end| lower.contains(end)) || counts()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_another_protocol_is_not_one_of_rdma() {
        for line in [
            "oserror: we couldn't connect to 'https://huggingface.co' to load this file",
            "mlflowexception: couldn't connect to server: connection refused",
            "error: couldn't connect to server",
        ] {
            assert!(is_other_connection(line, K::ExchangeFailed), "{line}");
        }
        for line in [
            "couldn't connect to 10.0.0.4:18515",
            "couldn't connect to gpu-2:18515.",
        ] {
            assert!(!is_other_connection(line, K::ExchangeFailed), "{line}");
        }
        assert!(is_tcp_of_ucx(
            "tcp_ep.c:1260 ucx  error tcp_ep 0x3c: send(110) failed"
        ));
        assert!(!is_tcp_of_ucx(
            "ib_mlx5_log.c:171 ucx  error transport retry count exceeded"
        ));
    }

    #[test]
    fn a_job_goes_on_while_it_counts_its_steps() {
        assert!(goes_on(b"step 1001 loss 2.401") && goes_on(b"Training finished after 20000 steps."));
        assert!(!goes_on(b"packet loss 4 %") && !goes_on(b"step 3 of the setup"));
    }
}
