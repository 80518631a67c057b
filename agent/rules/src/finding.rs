//! A finding: one rule that fired, on one subject, with its evidence.

use std::borrow::Cow;

use rdma_health_node::{
    Node, Port,
    history::{Since, problem_key},
    words::and_more,
};
use serde::{Serialize, Serializer};

use crate::{Domain, Remedy, Rule};

/// The most pods that a finding names.
pub const MAX_PODS: usize = 64;

/// How severe a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, but nothing to do.
    Info,
    /// RDMA works but is slower or less certain than it should be.
    Warning,
    /// RDMA does not work as expected.
    Critical,
}

impl Severity {
    /// Every severity, lowest first.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// Its name in messages, labels and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What a finding is about. All empty: the node itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Subject {
    /// RDMA device by name, or a PCI address, or a process.
    pub device: Option<String>,
    /// Port of the device.
    pub port: Option<u8>,
}

impl Subject {
    /// The node itself.
    pub fn node() -> Self {
        Self::default()
    }

    /// A device.
    pub fn device(name: impl Into<String>) -> Self {
        Self {
            device: Some(name.into()),
            port: None,
        }
    }

    /// The subject that is displayed as `name`.
    pub fn named(name: &str) -> Self {
        let port = name
            .rsplit_once(':')
            .and_then(|(device, port)| Some((device, port.parse().ok()?)));
        match port {
            Some((device, port)) => Self::port(device, port),
            None if name == Self::node().to_string() => Self::node(),
            None => Self::device(name),
        }
    }

    /// A port of the node.
    pub fn of_port(port: &Port<'_>) -> Self {
        Self::port(&port.hca.name, port.number)
    }

    /// A port of a device.
    pub fn port(name: impl Into<String>, port: u8) -> Self {
        Self {
            device: Some(name.into()),
            port: Some(port),
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.device, self.port) {
            (Some(device), Some(port)) => write!(f, "{device}:{port}"),
            (Some(device), None) => f.write_str(device),
            (None, _) => f.write_str("node"),
        }
    }
}

/// One thing that was read and supports a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The file, or another source.
    pub source: String,
    /// What was read there.
    pub value: String,
}

/// Which of its cases a rule found, where it has several and their causes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingCase {
    /// `helper-unhealthy`: the helper is not installed or cannot be reached.
    HelperUnreachable,
    /// `helper-unhealthy`: libibverbs cannot be loaded.
    LibraryNotLoaded,
    /// `helper-unhealthy`: it runs and does not answer in time.
    HelperHung,
    /// `helper-unhealthy`: libibverbs finds no kernel part (`ib_uverbs`).
    KernelPartMissing,
    /// `helper-unhealthy`: it exited, is stopped, or its answers are invalid.
    HelperFailed,
    /// `iommu-cmdline-mismatch`: passthrough is configured and not active.
    PassthroughNotActive,
    /// `iommu-cmdline-mismatch`: passthrough is active and not configured.
    PassthroughNotConfigured,
    /// `port-module-fault`: the adapter or its module is too hot.
    TooHot,
    /// `port-module-fault`: the cable or transceiver is faulty.
    ModuleFaulty,
    /// `port-module-fault`: the cable or transceiver is faulty, and no port of the adapter is up.
    ModuleOff,
    /// `adapter-not-started`, `gpu-failed`: the firmware of the machine left no address range for it.
    NoAddressRange,
    /// `adapter-not-started`: another reason.
    NotStarted,
    /// `adapter-not-started`: a file that the driver loads into the adapter is missing.
    FirmwareFile,
    /// `adapter-not-started`: the firmware or the host has no resources left for it.
    WithoutResources,
    /// `adapter-not-started`, `driver-errors-logged`: the firmware refuses what the driver requests.
    Refused,
    /// `rdma-modules-missing`: the kernel refuses modules because of their signature.
    Unsigned,
    /// `rdma-modules-missing`, `adapter-not-started`: the module does not match the others, or the RDMA core that is loaded.
    ModuleRefused,
    /// `rdma-modules-missing`: another reason.
    ModuleMissing,
    /// `gpu-failed`: every reason but a missing address range.
    GpuFailed,
    /// `gpu-errors-logged`: an error of a GPU.
    GpuError,
    /// `gpu-errors-logged`: an error of a peer-memory module.
    PeerMemoryError,
    /// `device-lost`: a GPU.
    GpuLost,
    /// `device-lost`: an adapter.
    AdapterLost,
    /// `driver-errors-logged`: the adapter has no room for more registered memory.
    RegistrationRefused,
    /// `driver-errors-logged`: there is no address range for virtual functions.
    NoRoomForVfs,
    /// `driver-errors-logged`: a service of the kernel that uses RDMA reports a failure.
    OfService,
    /// `counter-errors`: errors of the signal or of the hardware of a link, or packets that were lost.
    LinkErrors,
    /// `counter-errors`: an Ethernet port only drops what it should send, or slows down.
    Congested,
    /// `counter-errors`: acknowledgements are missing and nothing else, or an InfiniBand port only drops what it should send.
    Unanswered,
    /// `driver-errors-logged`: all others.
    UnknownError,
}

/// One rule that fired, on one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule; its id in JSON.
    #[serde(serialize_with = "rule_id")]
    pub rule: &'static Rule,
    /// Which of the rule's cases this is, where it has several.
    #[serde(skip)]
    pub case: Option<FindingCase>,
    /// How severe it is here.
    pub severity: Severity,
    /// What part of RDMA it concerns.
    pub domain: Domain,
    /// What it is about.
    pub subject: Subject,
    /// What is wrong, in one sentence that names the subject.
    pub message: String,
    /// What was read that shows it.
    pub evidence: Vec<Evidence>,
    /// The pods that have the device, or a virtual function of it, as `NAMESPACE/POD`; at most [`MAX_PODS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// What to do on this node. Lines after the first are commands.
    pub remedy: String,
    /// What to do by place: the rule's, unless this case needs another.
    #[serde(skip)]
    pub places: Remedy,
    /// What words of the remedy stand for, where that is not the subject.
    #[serde(skip)]
    pub values: Vec<(&'static str, String)>,
}

// serde's `serialize_with` hands over a reference to the field, which is a reference itself.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn rule_id<S: Serializer>(rule: &&'static Rule, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rule.id)
}

impl Finding {
    /// Its key in the history.
    pub fn key(&self) -> String {
        problem_key(self.rule.id, &self.subject)
    }

    /// What is wrong, and whom it affects: [`Finding::message`] with pods that have the device.
    pub fn message_with_pods(&self) -> Cow<'_, str> {
        const SHOWN: usize = 4;
        self.message_naming(SHOWN)
    }

    /// The same with at most `most` pods, for a text of bounded length.
    pub fn message_naming(&self, most: usize) -> Cow<'_, str> {
        if self.pods.is_empty() {
            return (&*self.message).into();
        }
        let plural = if self.pods.len() == 1 { "" } else { "s" };
        let (shown, rest) = self.pods.split_at(most.min(self.pods.len()));
        let more = and_more(rest.len());
        format!("{}; used by pod{plural} {}{more}", self.message, shown.join(", ")).into()
    }

    /// Since when every reading has shown it; `None` without a history that has it.
    pub fn since(&self, node: &Node) -> Option<Since> {
        node.history.as_ref()?.since(&self.key(), node.time)
    }

    /// Whether the remedy is the catalogue's, which serves all of the rule's cases, and this is but one of them.
    pub fn is_remedy_for_several_cases(&self) -> bool {
        let is_usual = matches!(
            self.case,
            Some(
                FindingCase::NotStarted
                    | FindingCase::LinkErrors
                    | FindingCase::UnknownError
                    | FindingCase::AdapterLost
                    | FindingCase::ModuleMissing
                    | FindingCase::GpuFailed
                    | FindingCase::GpuError
            )
        );
        self.case.is_some() && !is_usual && self.places == self.rule.remedy
    }
}
