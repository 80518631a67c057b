//! Connections that are not of RDMA: to web servers, databases and shells, and those of UCX over TCP.

use rdma_health_protocol::Errno;

use super::{components, success::FINISHED};
use crate::symptom::{
    Symptom,
    SymptomKind::{self as K},
};

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
/// Sources of transports over TCP, of UCX (besides its sockets) and of Mooncake, of `LNet` and that of RDS, and NCCL's plugins over TCP, in lower case.
const TCP: [&str; 14] = [
    "net/fastrak",
    "net/gpudirecttcpx",
    "net/fastsocket",
    "net_fastsocket.",
    "rds/tcp",
    // `LNet` over TCP.
    "starting up lni tcp",
    "socklnd",
    "ksocknal",
    "tcp_ep",
    "tcp_iface",
    "tcp_sockcm",
    "tcp_cm.c",
    "tcp_transport.cpp",
    "tcptransport",
];
/// What Kubernetes and its runtimes say of images, and stores of their space, in lower case: all words of a row.
const OTHER_LAYERS: [&[&str]; 13] = [
    // Programs of eBPF.
    &["map create", "memlock"],
    &["ebpf", "memlock"],
    &["pull image"],
    &["pulling image"],
    &["image pull"],
    &["errimagepull"],
    &["imagepullbackoff"],
    &["pull and unpack image"],
    &["allocate buffer for put"],
    &["no_available_handle"],
    &["store", "object not found"],
    &["store", "object_not_found"],
    // A unit of systemd that needs a GPU.
    &["gdrcopy.service", "failed"],
];
/// Words of what runs containers, in lower case: names of jobs follow.
const RUNTIMES: [&str; 11] = [
    "helm",
    "pod/",
    "probe failed",
    "kubelet",
    "container",
    "pod ",
    "pods ",
    "back-off",
    "job ",
    "deployment",
    "daemonset",
];
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

/// Whether a line in lower case reports a name of a host that has no address. The error number in it is that of the lookup.
pub(crate) fn names_no_address(lower: &str) -> bool {
    const WORDS: [&str; 5] = [
        "check dns",
        "name or service not known",
        "name resolution",
        "could not resolve host",
        "failed to get ip address",
    ];
    // That of librdmacm looks for a device, too.
    let asks = || lower.contains("getaddrinfo") && !lower.contains("rdma_getaddrinfo");
    WORDS.iter().any(|words| lower.contains(words)) || asks()
}

/// Whether a line in lower case reports that NVSHMEM did not connect its processes, which it does over TCP before it uses a transport.
pub(super) fn is_of_bootstrap(lower: &str, errno: Option<Errno>) -> bool {
    const TRANSPORTS: [&str; 9] = [
        "ibrc",
        "ibgda",
        "ibdevx",
        "ibv_",
        "transport",
        "mlx5",
        "libfabric",
        "rdma",
        "ucx",
    ];
    let is_of_connection = matches!(
        errno,
        Some(
            Errno::ETIMEDOUT
                | Errno::ECONNREFUSED
                | Errno::ECONNRESET
                | Errno::EHOSTUNREACH
                | Errno::ENETUNREACH
        )
    );
    lower.contains("nvshmem")
        && (is_of_connection || lower.contains("bootstrap"))
        && !TRANSPORTS.iter().any(|name| lower.contains(name))
}

/// Whether a line in lower case reports that the kernel does not know the transport that a program asked for: the module that has it is not
/// loaded.
pub(super) fn asks_unknown_transport(lower: &str, errno: Option<Errno>) -> bool {
    const OF: [&str; 6] = [
        "service",
        "transport",
        "socket",
        "listen",
        "address family",
        "protocol family",
    ];
    matches!(errno, Some(Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT))
        && OF.iter().any(|word| lower.contains(word))
}

/// Whether a line in lower case reports that an address is on no RDMA device, which only the connection manager of RDMA asks.
pub(super) fn binds_to_no_device(lower: &str, errno: Option<Errno>) -> bool {
    const ASKS: [&str; 8] = [
        "bind addr",
        "bind to addr",
        "binding addr",
        "binding to addr",
        "bind error",
        "bind to rdma:",
        "resolve addr",
        "resolving addr",
    ];
    errno == Some(Errno::ENODEV) && ASKS.iter().any(|words| lower.contains(words))
}

/// Whether what is not there is something else than a device: a file of the program, as in `failed to write sriov result file: open
/// /etc/sriov/result.yaml: no such file or directory`, or what an operator asks the cluster for.
pub(super) fn misses_other_file(lower: &str) -> bool {
    const PLACES: [&str; 2] = ["/dev/", "/sys/"];
    // `hostdevice.go:87` wrote the line, and a device plugin is a program.
    let is_device = |name: &str| {
        lower.match_indices(name).any(|(at, _)| {
            let rest = lower[at + name.len()..].trim_start_matches('s');
            let begins = at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphanumeric();
            let is_other = [".go", " plugin", "-plugin", "plugin", "_plugin"];
            begins && !is_other.iter().any(|end| rest.starts_with(end))
        })
    };
    let is_path = |word: &str| {
        let word = word.trim_start_matches(['"', '\'', '(', '[', '`', '=', ':']);
        word.starts_with('/')
    };
    let is_in_place = || PLACES.iter().any(|place| lower.contains(place));
    lower.contains("no such file") && (misses_attribute(lower) || misses_statistics(lower))
        || lower.contains("no such file")
            && !is_in_place()
            && (!["device", "uverbs", "hca"].into_iter().any(is_device) || lower.split(' ').any(is_path))
}

/// Whether a line in lower case reports that counters could not be read, whose files a container or a driver may not have.
fn misses_statistics(lower: &str) -> bool {
    // The exporter of Prometheus goes on without.
    if lower.contains("collector failed") {
        return true;
    }
    ["counter", "statistic", " stats", "xstats"]
        .iter()
        .any(|what| lower.contains(what))
        && ["read", "get ", "query", "open "]
            .iter()
            .any(|verb| lower.contains(verb))
        && !lower.contains("/dev/infiniband")
}

/// Whether a line in lower case names an attribute of the PCI function of an RDMA device, which a kernel or a driver may not have:
/// `/sys/class/infiniband/mlx4_0/device/current_link_speed`.
fn misses_attribute(lower: &str) -> bool {
    let rest = lower.split_once("/sys/class/infiniband/").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split_once('/'))
        .is_some_and(|(_, attribute)| attribute.starts_with("device/"))
}

/// Whether a line in lower case is of a transport over TCP.
pub(super) fn is_of_tcp(lower: &str) -> bool {
    let of_ucx = || lower.contains(" sock.c:") && lower.contains("ucx");
    (TCP.iter().any(|source| lower.contains(source)) || of_ucx()) && !lower.contains("rdma")
}

/// Whether a transport over TCP in a line in lower case was given memory that the kernel does not read: EFAULT of a send is that of a GPU, which only
/// RDMA reads by itself.
pub(super) fn gives_gpu_memory(lower: &str, errno: Option<Errno>) -> bool {
    let is_transfer = ["write", "send", "read", "recv", "transfer"]
        .iter()
        .any(|word| lower.contains(word));
    is_transfer && (errno == Some(Errno::EFAULT) || lower.contains("bad address"))
}

/// Whether a symptom is one of a transport over TCP that was given memory of a GPU.
pub(crate) fn is_of_gpu_memory(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    symptom.kind == K::SocketFallback && gives_gpu_memory(&lower, symptom.named.errno)
}

/// Whether a plugin for GPU memory in a line in lower case could not register a buffer with what moves it: no connection failed.
pub(super) fn registers_memory(lower: &str) -> bool {
    [
        "buffer registration",
        "register buffer",
        "registering buffer",
        "register memory",
        "reg_mr",
        "regmr",
        "dmabuf",
        "dma-buf",
        "dma_buf",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

/// The IPv4 address in a line in lower case that is valid on one link only (169.254.0.0/16).
fn link_local(lower: &str) -> Option<&str> {
    const PREFIX: &str = "169.254.";
    lower.match_indices(PREFIX).find_map(|(at, _)| {
        let begins = at == 0 || !matches!(lower.as_bytes()[at - 1], b'0'..=b'9' | b'.');
        let rest = &lower[at..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let address = rest[..end].trim_end_matches('.');
        (begins && address.split('.').count() == 4).then_some(address)
    })
}

/// What stands for the interface of a link-local address.
pub(crate) const LINK_LOCAL: &str = "link-local";

/// The address in a line in lower case that a bridge for containers or virtual machines has on every host by default, or that is link-local, and
/// what has it.
pub(super) fn of_bridge(lower: &str) -> Option<(&str, &'static str)> {
    const BRIDGES: [(&str, &str); 3] = [
        ("172.17.0.1", "docker0"),
        ("192.168.122.1", "virbr0"),
        ("10.88.0.1", "podman0"),
    ];
    if let Some(address) = link_local(lower) {
        return Some((address, LINK_LOCAL));
    }
    BRIDGES.into_iter().find(|(address, _)| {
        lower.match_indices(address).any(|(at, _)| {
            let is_inside =
                |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.');
            let bytes = lower.as_bytes();
            !is_inside(at.checked_sub(1).and_then(|before| bytes.get(before)))
                && !is_inside(bytes.get(at + address.len()))
        })
    })
}

/// Whether a line in lower case reports that a connection to the address of such a bridge failed: the peer gave it as its own, and it leads to this host.
pub(super) fn connects_to_bridge(lower: &str) -> bool {
    lower.contains("connect") && of_bridge(lower).is_some()
}

/// Whether a line in lower case reports a failure of another layer, whatever names stand in it: of an image, or of the space of a store. The
/// image of what provides RDMA is none.
pub(super) fn is_of_other_layer(lower: &str) -> bool {
    let is_one = OTHER_LAYERS
        .iter()
        .any(|row| row.iter().all(|words| lower.contains(words)));
    is_one && components::find(lower).is_none()
}

/// A line in lower case without what people name: images and files in quotes, and where a line is of what runs containers the names of
/// jobs and pods (`rdma-bench-0`). A source file is what wrote the line, and a device file is one of RDMA.
pub(super) fn without_names(lower: &str) -> String {
    // The name of a claim says what it claims.
    let is_of_runtime = RUNTIMES.iter().any(|word| lower.contains(word)) && !lower.contains("claim");
    let is_path = |word: &str| {
        word.contains('/')
            // A command, or a sentence.
            && !word.contains(' ')
            && !["/dev/", "/sys/", "bin/", "init.d/", ".so", ".c", ".h", ".py"]
                .iter()
                .any(|part| word.contains(part))
    };
    let is_job = |word: &str| {
        const PARTS: [&str; 9] = [
            "sr-iov",
            "sriov-",
            "rdma-core",
            "rdma-cni",
            "device-plugin",
            "peer-mem",
            "peermem",
            "mlnx-",
            "rdma/",
        ];
        is_of_runtime && word.contains('-') && !PARTS.iter().any(|part| word.contains(part))
    };
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let mut out = String::with_capacity(lower.len());
    for (place, part) in lower.split(['"', '\'']).enumerate() {
        if place % 2 == 1 && is_path(part) {
            continue;
        }
        for word in part.split_inclusive(|c| !of_name(c)) {
            out.push_str(if is_job(word) { " " } else { word });
        }
        out.push(' ');
    }
    out
}

/// Whether a line shows that the job goes on: NCCL's communicator, a step of a training with its loss, or its end.
pub(super) fn goes_on(bytes: &[u8]) -> bool {
    let lower = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let counts = || {
        ["step", "iter", "epoch"].iter().any(|word| lower.contains(word))
            && lower.contains("loss")
            && lower.bytes().any(|byte| byte.is_ascii_digit())
    };
    lower.contains("init complete") || FINISHED.iter().any(|end| lower.contains(end)) || counts()
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
        assert!(is_of_tcp(
            "tcp_ep.c:1260 ucx  error tcp_ep 0x3c: send(110) failed"
        ));
        assert!(is_of_tcp(
            "tcp_transport.cpp:213] session::writebody failed. error: bad address"
        ));
        assert!(is_of_tcp(
            "[1575430973.9] [n1:70612:0]           sock.c:212  ucx  error send(fd=-1) failed: bad file descriptor"
        ));
        assert!(connects_to_bridge(
            "sock.c:260  ucx  error   connect(fd=41, dest_addr=172.17.0.1:45031) failed: connection refused"
        ));
        assert!(!connects_to_bridge(
            "connect(fd=41, dest_addr=172.17.0.12:45031) failed: connection refused"
        ));
        assert!(!connects_to_bridge("connect() to 10.172.17.0.1 failed"));
        assert!(!is_of_tcp(
            "ib_mlx5_log.c:171 ucx  error transport retry count exceeded"
        ));
    }

    #[test]
    fn a_failure_beside_a_name_is_not_one_of_what_it_is_named_after() {
        for line in [
            "warning  failed  kubelet  failed to pull image \"registry.local/rdma-bench:1.2\": not found",
            "store_py.cpp:495] failed to allocate buffer for put_parts operation",
        ] {
            assert!(is_of_other_layer(line), "{line}");
        }
        assert!(!is_of_other_layer(
            "warning  failed  kubelet  failed to pull image \"nvcr.io/nvidia/mellanox/doca-driver:25.04\": not found"
        ));
        for line in [
            "warning  backoff  kubelet  back-off restarting failed container rdma-perf in pod rdma-perf-0",
            "error: cannot open \"/etc/rdma/job.yaml\"",
            "container job-mlx5-test exited",
            "back-off 5m0s restarting failed container=trainer pod=rdma-train-0_ml(1a2b)",
            "helm: release \"rdma-shared-dev-plugin\" failed to upgrade",
        ] {
            let rest = without_names(line);
            assert!(!rest.contains("rdma") && !rest.contains("mlx5"), "{rest}");
        }
        for line in [
            "failed to open \"/dev/infiniband/uverbs0\"",
            "error in container: rdma device not found",
            "'/x/ibrc/ibrc.cpp': rdma failed",
            "command \"/usr/sbin/rdma system show\" failed",
            "kubelet: unable to get information for resourceclaim worker-0-rdma-h4lpr",
        ] {
            let rest = without_names(line);
            assert!(rest.contains("rdma") || rest.contains("infiniband"), "{rest}");
        }
    }

    #[test]
    fn a_file_that_is_missing_is_told_from_a_device() {
        for (line, expected) in [
            (
                "failed to write sriov result file: open /etc/sriov/result.yaml: no such file or directory",
                true,
            ),
            (
                "error fail to list nodes of the sriov pool: no such file or directory",
                true,
            ),
            (
                "failed to read device list /etc/rdma/list: no such file or directory",
                true,
            ),
            (
                "hostdevice.go:87] failed to get link for interface sriov0: no such file or directory",
                true,
            ),
            ("hfi: open /dev/hfi1_0: no such file or directory", false),
            (
                "cannot retrieve the mellanox device: no such file or directory",
                false,
            ),
            (
                "/opt/app/run: /sys/class/infiniband: no such file or directory",
                false,
            ),
            ("sriov: no such device", false),
            (
                "/sys/class/infiniband/mlx4_0/device/current_link_speed: no such file or directory",
                true,
            ),
            (
                "/sys/class/infiniband/mlx4_0/ports/1/state: no such file or directory",
                false,
            ),
        ] {
            assert_eq!(misses_other_file(line), expected, "{line}");
        }
    }

    #[test]
    fn a_job_goes_on_while_it_counts_its_steps() {
        assert!(goes_on(b"step 1001 loss 2.401") && goes_on(b"Training finished after 20000 steps."));
        assert!(!goes_on(b"packet loss 4 %") && !goes_on(b"step 3 of the setup"));
    }
}
