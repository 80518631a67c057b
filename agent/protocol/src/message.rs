//! Requests, replies and events.

use serde::{Deserialize, Serialize};

use crate::{
    ConnectRequest, Device, DriverStatistics, HostFile, KubeletAnswer, KubeletMethod, LogPart, MAX_DRIVERS,
    MAX_HOST_FILES, MAX_MODULES, MAX_RUNTIMES, MAX_SPACES, ModuleMemory, OfferRequest, OfferedEnd, PciSpace,
    ProbeReport, ProbeRequest, RuntimeLimits, bounded,
};

/// The most devices of a node, virtual functions included.
pub const MAX_DEVICES: usize = 4096;

/// What the agent asks. `id` comes back in the [`Response`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the agent, echoed by the helper.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub ask: Ask,
}

/// The question in a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask", content = "with")]
pub enum Ask {
    /// All devices with their ports and GID tables. A device that cannot be opened is reported in its place.
    Devices,
    /// The memlock limits of container runtimes and the kubelet. `ENOSYS` from a helper that does not see the host's `/proc`.
    Runtimes,
    /// The configuration spaces of bridges, network functions and accelerators, as far as the agent's reader uses them.
    PciSpaces,
    /// The memory of transceivers, as far as the agent's reader uses it.
    Modules,
    /// The statistics of the drivers of network devices, as far as the agent's reader uses them.
    Statistics,
    /// The files of the host that a container does not have. `ENOSYS` from a helper that does not see the host's `/proc`.
    HostFiles,
    /// The kernel log from this sequence number on.
    KernelLog(u64),
    /// What the kubelet of this node answers about pods and their devices; one question at a time.
    Kubelet(KubeletMethod),
    /// Run one loopback probe; one at a time.
    Probe(ProbeRequest),
    /// Open one end of a connection.
    Offer(OfferRequest),
    /// Connect an end to the other one.
    Connect(ConnectRequest),
    /// Let the connected end of this number do its part of the measurement, and close it. One writes at a time.
    Measure(u64),
}

/// What the helper sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "message", content = "with")]
pub enum Message {
    /// The first frame on every connection.
    Greeting(Greeting),
    /// The answer to a request.
    Response(Response),
    /// Something happened on a device; not asked for.
    Event(AsyncEvent),
}

/// How the helper introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`crate::PROTOCOL_VERSION`] of the helper.
    pub protocol: u32,
    /// The helper's own version.
    pub version: String,
    /// [`crate::FINGERPRINT`] of the helper; 0 from one that has none.
    #[serde(default)]
    pub fingerprint: u64,
}

/// The answer to one [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The request's.
    pub id: u64,
    /// What came of it.
    pub reply: Reply,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply", content = "with")]
pub enum Reply {
    /// To [`Ask::Devices`]: what each device said, in order of name.
    Devices(
        #[serde(deserialize_with = "bounded::list::<_, _, MAX_DEVICES>")] Vec<Result<Device, HelperError>>,
    ),
    /// To [`Ask::Runtimes`], in order of process id.
    Runtimes(#[serde(deserialize_with = "bounded::list::<_, _, MAX_RUNTIMES>")] Vec<RuntimeLimits>),
    /// To [`Ask::PciSpaces`], in order of address.
    PciSpaces(#[serde(deserialize_with = "bounded::list::<_, _, MAX_SPACES>")] Vec<PciSpace>),
    /// To [`Ask::Modules`].
    Modules(#[serde(deserialize_with = "bounded::list::<_, _, MAX_MODULES>")] Vec<ModuleMemory>),
    /// To [`Ask::Statistics`].
    Statistics(#[serde(deserialize_with = "bounded::list::<_, _, MAX_DRIVERS>")] Vec<DriverStatistics>),
    /// To [`Ask::HostFiles`]: those that exist.
    HostFiles(#[serde(deserialize_with = "bounded::list::<_, _, MAX_HOST_FILES>")] Vec<HostFile>),
    /// To [`Ask::KernelLog`].
    KernelLog(LogPart),
    /// To [`Ask::Kubelet`].
    Kubelet(KubeletAnswer),
    /// To [`Ask::Probe`] and [`Ask::Measure`]. What the end that responds measured is `None`.
    Probe(Box<ProbeReport>),
    /// To [`Ask::Offer`]: the end, or how far it got.
    Offer(Result<OfferedEnd, Box<ProbeReport>>),
    /// To [`Ask::Connect`]: `None` where the end is connected, else how far it got; it is closed then.
    Connect(Option<Box<ProbeReport>>),
    /// The request could not be carried out at all.
    Failed(HelperError),
}

/// A verbs call that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperError {
    /// The device it was made on; `None` where it was made on none.
    pub device: Option<String>,
    /// The call (`ibv_open_device`).
    pub call: String,
    /// The number, as in `errno.h`.
    pub errno: i32,
}

/// An asynchronous event of a device (`ibv_get_async_event`), or its removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsyncEvent {
    /// The device's name.
    pub device: String,
    /// Port number, for events of a port.
    pub port: Option<u8>,
    /// What happened.
    pub kind: AsyncEventKind,
}

/// What happened to a device or port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsyncEventKind {
    /// `IBV_EVENT_PORT_ACTIVE`.
    PortActive,
    /// `IBV_EVENT_PORT_ERR`.
    PortError,
    /// `IBV_EVENT_GID_CHANGE`.
    GidChange,
    /// `IBV_EVENT_LID_CHANGE`.
    LidChange,
    /// `IBV_EVENT_PKEY_CHANGE`.
    PkeyChange,
    /// `IBV_EVENT_SM_CHANGE`.
    SmChange,
    /// `IBV_EVENT_CLIENT_REREGISTER`.
    ClientReregister,
    /// `IBV_EVENT_DEVICE_FATAL`, which the kernel also sends to those who hold a device that goes away.
    DeviceFatal,
    /// A device that was there is no longer listed.
    DeviceRemoved,
    /// A device that was not there is listed.
    DeviceAdded,
    /// Any other event.
    Other,
}
