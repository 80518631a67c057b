//! What the agent and the verbs helper say to each other.
//!
//! The helper (`rdma-health-verbs`) is the only process that links libibverbs. The agent and the command line talk to
//! it in frames (see [`frame`]) that carry one [`Request`] or one [`Message`] each, over a Unix socket or over the
//! helper's standard input and output. Each side treats the other's bytes as untrusted: a frame has a maximum length,
//! every list has a maximum number of entries (see [`bounded`]), and a message that does not parse ends the connection.
//!
//! The facts that the helper reports ([`Device`], [`Gid`], [`ProbeReport`]) are plain data and become part of the node.

pub mod bounded;
mod end;
mod errno;
mod facts;
mod fingerprint;
pub mod frame;
mod gid;
mod host;
mod kubelet;
mod message;
mod path;
mod probe;
mod runtime;
mod status;
pub mod text;

pub use end::{
    ConnectRequest, END_IDLE, EndAddress, EndGid, MAX_ENDS, OfferRequest, OfferedEnd, QueuePairAddress,
    RegionAddress, Role,
};
pub use errno::Errno;
pub use facts::{Device, Gid, GidType, LinkLayer, MAX_GIDS, MAX_PORTS, Port};
pub use fingerprint::FINGERPRINT;
pub use gid::best_gid;
pub use host::{
    DriverStatistics, HostFile, HostFileName, LogPart, MAX_DRIVERS, MAX_HOST_FILE, MAX_HOST_FILES,
    MAX_LOG_RECORDS, MAX_MODULES, MAX_RECORD, MAX_SPACE, MAX_SPACES, MAX_STATISTICS, ModuleMemory,
    ModulePage, PciSpace, Statistic, bytes_of_digits,
};
pub use kubelet::{
    AllocatableResources, ClaimResource, ContainerDevices, ContainerResources, DynamicResource,
    KubeletAnswer, KubeletFailure, KubeletMethod, KubeletTrouble, ListPodResources, MAX_CONTAINERS,
    MAX_DEVICE_IDS, MAX_PODS, MAX_WORD, PodResources,
};
pub use message::{
    Ask, AsyncEvent, AsyncEventKind, Greeting, HelperError, MAX_DEVICES, Message, Reply, Request, Response,
};
pub use path::{MAX_NAME, Path, Peer, PortKey, RemotePort};
pub use probe::{
    Bandwidth, Completion, Latency, MAX_QUEUE_PAIRS, ProbeFailure, ProbeReport, ProbeRequest, Stage,
    queue_pairs_for,
};
pub use runtime::{MAX_RUNTIMES, MemlockLimit, RuntimeLimits};
pub use status::WcStatus;

/// The version of the conversation. The agent refuses any other, and another [`FINGERPRINT`]: the two binaries come from one build.
pub const PROTOCOL_VERSION: u32 = 7;
