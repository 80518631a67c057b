//! One process, as an RDMA job sees the node: its limits, network namespace, RDMA devices, environment and libraries.
//!
//! Source: `/proc/PID/{comm,stat,status,limits,environ,maps,ns/net,net/dev,net/fib_trie,net/if_inet6}` (proc(5)), and
//! `/dev/infiniband` and `/sys/class/infiniband` below `/proc/PID/root`. The process and its container choose most of this, so
//! nothing here decides a finding: causes of a failure use it.

mod find;
mod network;

use std::{collections::BTreeMap, io, path::Path};

use rdma_health_protocol::{Gid, text::excerpt};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use find::{Found, Wanted, find};

use crate::{
    fact::{Fact, Unread},
    infiniband::{CLASS, LinkLayer, table},
    limits::{Memlock, memlock},
    recording::Failure,
    root::{Root, Scope},
};

/// Where device plugins put the character devices of RDMA devices.
pub const DEVICES: &str = "/dev/infiniband";
/// Maximum number of variables, devices and libraries that are kept, each.
const MAX_NAMES: usize = 128;
/// Maximum number of characters of a name or value that are kept.
const MAX_TEXT: usize = 256;
/// The prefixes of variables that set up RDMA: the libraries', and those of device plugins.
const VARIABLES: [&str; 10] = [
    "NCCL_",
    "RCCL_",
    "UCX_",
    "NVSHMEM_",
    "FI_",
    "OMPI_MCA_",
    "PCIDEVICE_",
    "RDMAV_",
    "IBV_",
    "MLX5_",
];
/// The variables whose values are kept, after the prefix of the library. The value of any other one is hidden: a user may put
/// anything into it. A `*` at the end stands for any rest.
const SHOWN: &str = "\
    NCCL_: ALGO BUFFSIZE COLLNET_ENABLE COMM_ID CROSS_NIC CUMEM_ENABLE DEBUG DEBUG_SUBSYS DMABUF_ENABLE GDRCOPY_ENABLE \
    GRAPH_FILE IB_* IGNORE_CPU_AFFINITY LL_THRESHOLD MAX_CTAS MAX_NCHANNELS MIN_CTAS MIN_NCHANNELS MNNVL_ENABLE NET \
    NET_FORCE_FLUSH NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_PLUGIN NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD \
    NTHREADS NVLS_ENABLE OOB_NET_ENABLE P2P_DISABLE P2P_LEVEL PROTO PXN_DISABLE RINGS SHM_DISABLE SOCKET_FAMILY \
    SOCKET_IFNAME SOCKET_NTHREADS TOPO_FILE TREE_THRESHOLD VERSION\n\
    RCCL_: *\n\
    UCX_: CUDA_* GID_INDEX IB_* LOG_LEVEL MAX_RNDV_RAILS MEMTYPE_CACHE NET_DEVICES PROTO_ENABLE RC_* RNDV_* SOCKADDR_TLS_PRIORITY \
    TCP_* TLS UD_* WARN_UNUSED_ENV_VARS\n\
    NVSHMEM_: BOOTSTRAP* DEBUG DISABLE_* ENABLE_NIC_PE_MAPPING HCA_* IB* REMOTE_TRANSPORT SYMMETRIC_SIZE\n\
    FI_: EFA_* LOG_LEVEL MR_* PROVIDER TCP_* VERBS_*\n\
    OMPI_MCA_: btl* mtl* osc* pml* oob*\n\
    PCIDEVICE_: *\n\
    RDMAV_: *\n\
    IBV_: *\n\
    MLX5_: *";
/// Replaces the value of another variable.
const HIDDEN: &str = "<hidden>";
/// Parts of names whose values are hidden whatever the variable.
const SECRETS: [&str; 7] = ["SECRET", "TOKEN", "PASS", "CREDENTIAL", "PRIVATE", "AUTH", "KEY"];

/// The beginnings of the names of libraries that matter to RDMA.
const LIBRARIES: [&str; 12] = [
    "libibverbs",
    "librdmacm",
    "libmlx5",
    "libmlx4",
    "libbnxt_re",
    "libirdma",
    "libefa",
    "libnccl",
    "librccl",
    "libucp",
    "libuct",
    "libfabric",
];

/// One process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its process id on the node.
    pub pid: u32,
    /// Its name, which it chooses.
    pub name: Fact<String>,
    /// Its memlock limit.
    pub memlock: Fact<Memlock>,
    /// Whether it has the capability `CAP_IPC_LOCK`, for which the limit does not apply.
    pub ipc_lock: Fact<bool>,
    /// Whether its network namespace is the host's.
    pub host_network: Fact<bool>,
    /// The network devices in its network namespace.
    pub netdevs: Fact<Vec<String>>,
    /// The IP addresses in its network namespace.
    pub addresses: Fact<Vec<std::net::IpAddr>>,
    /// The names in its `/dev/infiniband`; absent if it has none.
    pub device_files: Fact<Vec<String>>,
    /// The GIDs in use of each port that its `/sys` shows, by `mlx5_0:1`; absent if it shows no RDMA device.
    pub gids: Fact<BTreeMap<String, Vec<Gid>>>,
    /// Its environment at its start, as far as it sets up RDMA.
    pub environment: Fact<BTreeMap<String, String>>,
    /// The files of RDMA libraries that it has loaded.
    pub libraries: Fact<Vec<String>>,
}

impl Process {
    /// What could not be read.
    pub fn unread(&self) -> impl Iterator<Item = &Unread> {
        let all = [
            self.memlock.unread(),
            self.ipc_lock.unread(),
            self.host_network.unread(),
            self.netdevs.unread(),
            self.addresses.unread(),
            self.device_files.unread(),
            self.gids.unread(),
            self.environment.unread(),
            self.libraries.unread(),
        ];
        all.into_iter().flatten()
    }

    /// Reads a process of the node whose tree is at `path` and was opened as `root`.
    ///
    /// # Errors
    /// If the process does not exist, or ended while it was read.
    pub fn read(root: &Root, path: &Path, pid: u32) -> io::Result<Self> {
        let scope = Scope::new(root);
        let of = |name: &str| format!("/proc/{pid}/{name}");
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("there is no process {pid}"));
        let started = started(&scope, pid).ok_or_else(gone)?;
        // A captured tree has a directory at this place, the running machine a link, which leads to the process's own root.
        let own = root
            .is_live()
            .then(|| Root::open(&path.join(format!("proc/{pid}/root"))))
            .transpose();
        let (devices, gids) = match &own {
            Ok(None) => (
                scope.entries(&of(&format!("root{DEVICES}"))),
                gids(&scope, &of(&format!("root{CLASS}"))),
            ),
            Ok(Some(own)) => {
                let scope = Scope::new(own);
                (scope.entries(DEVICES), gids(&scope, CLASS))
            }
            Err(error) => {
                let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
                let unread = Failure::Errno(errno).into_unread(of("root"), 0);
                (unread.clone().into(), unread.into())
            }
        };
        let process = Self {
            pid,
            name: scope.optional(&of("comm")).map(|name| excerpt(&name, MAX_TEXT)),
            memlock: memlock(&scope, &of("limits")),
            ipc_lock: scope
                .optional_file(&of("status"))
                .and_then(|status| match ipc_lock(&status) {
                    Some(has) => Fact::Known(has),
                    None => scope.malformed(&of("status"), &status, "a line CapEff"),
                }),
            host_network: network::is_of_host(&scope, pid),
            netdevs: network::devices(&scope, pid),
            addresses: network::addresses(&scope, pid),
            device_files: devices.map(|names| {
                names
                    .iter()
                    .take(MAX_NAMES)
                    .map(|name| excerpt(name, MAX_TEXT))
                    .collect()
            }),
            gids,
            environment: scope
                .optional_bytes(&of("environ"))
                .map(|bytes| environment(&bytes)),
            libraries: scope.optional_bytes(&of("maps")).map(|bytes| libraries(&bytes)),
        };
        // The number may belong to another process by now.
        if self::started(&scope, pid) == Some(started) {
            Ok(process)
        } else {
            Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("process {pid} ended while it was read"),
            ))
        }
    }
}

/// When a process started, in clock ticks since boot: field 22 of `stat`, which follows the name in parentheses.
fn started(scope: &Scope<'_>, pid: u32) -> Option<u64> {
    let stat = scope.optional(&format!("/proc/{pid}/stat"));
    let (_, fields) = stat.known()?.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Whether the effective capabilities in `/proc/PID/status` include `CAP_IPC_LOCK` (bit 14).
fn ipc_lock(status: &str) -> Option<bool> {
    const CAP_IPC_LOCK: u32 = 14;
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> CAP_IPC_LOCK & 1 == 1)
}

/// The GID tables of the devices that a `/sys` shows.
fn gids(scope: &Scope<'_>, class: &str) -> Fact<BTreeMap<String, Vec<Gid>>> {
    scope.entries(class).map(|devices| {
        let mut found = BTreeMap::new();
        for device in devices.iter().take(MAX_NAMES) {
            let ports = scope.entries(&format!("{class}/{device}/ports"));
            for port in ports.known().into_iter().flatten().take(MAX_NAMES) {
                let path = format!("{class}/{device}/ports/{port}");
                let layer = scope.optional(&format!("{path}/link_layer"));
                let layer = layer.known().cloned().map(LinkLayer::from);
                if let Some(gids) = table(scope, &path, layer.as_ref()).known() {
                    found.insert(excerpt(&format!("{device}:{port}"), MAX_TEXT), gids.clone());
                }
            }
        }
        found
    })
}

fn environment(bytes: &[u8]) -> BTreeMap<String, String> {
    let variables = bytes.split(|byte| *byte == 0).filter_map(|variable| {
        let text = String::from_utf8_lossy(variable);
        let (name, value) = text.split_once('=')?;
        let matters = VARIABLES.iter().any(|prefix| name.starts_with(prefix));
        let value = if is_shown(name) { value } else { HIDDEN };
        matters.then(|| (excerpt(name, MAX_TEXT), excerpt(value, MAX_TEXT)))
    });
    variables.take(MAX_NAMES).collect()
}

/// Whether the value of a variable is kept.
fn is_shown(name: &str) -> bool {
    let is_secret = SECRETS
        .iter()
        .any(|secret| name.to_ascii_uppercase().contains(secret));
    let is_listed = SHOWN.lines().any(|line| {
        let mut words = line.split_whitespace();
        let prefix = words.next().and_then(|prefix| prefix.strip_suffix(':'));
        let Some(own) = prefix.and_then(|prefix| name.strip_prefix(prefix)) else {
            return false;
        };
        words.any(|word| match word.strip_suffix('*') {
            Some(beginning) => own.starts_with(beginning),
            None => own == word,
        })
    });
    // A partition key is not a secret.
    is_listed && (!is_secret || name.ends_with("_PKEY"))
}

fn libraries(bytes: &[u8]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().rposition(|byte| *byte == b'/') else {
            continue;
        };
        let name = String::from_utf8_lossy(&line[at + 1..]);
        let matters = LIBRARIES.iter().any(|library| name.starts_with(library));
        let name = excerpt(&name, MAX_TEXT);
        if matters && found.len() < MAX_NAMES && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests;
