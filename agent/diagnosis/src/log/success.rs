//! What lines of a log show to have worked, and the complaints that it makes void.
//!
//! Programs complain while they try: of a provider that does not load before they select another one, of a module that they then do without,
//! of an adapter that they leave out. Such a complaint counts unless a later line shows that its purpose was reached.

mod contexts;
mod ports;
mod start;

use std::sync::LazyLock;

use rdma_health_protocol::Errno;

pub(super) use self::start::is_of_start;
use self::{contexts::Contexts, ports::Ports};
use super::{
    components, fabric,
    grade::{Level, level},
    line::number,
    phrases::Phrases,
    registration,
    waiting::{self, Waiting},
};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// What worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Success {
    /// libfabric, or a library over it, has a provider.
    Provider,
    /// A device plugin offers devices to the kubelet.
    Plugin,
    /// A device plugin has no devices to offer, so its report that the kubelet knows it does not count.
    NoPlugin,
    /// The adapter reaches GPU memory.
    GpuMemory,
    /// Mooncake's transfer engine listens over TCP, which its configuration selects.
    TcpEngine,
    /// The library has a transport, so what it tried before is not needed.
    Transport,
    /// Open MPI goes on without datagrams outside of MPI, for which it has other ways.
    NoDatagrams,
    /// opensm has an active port, and may have configured the fabric.
    Subnet,
    /// The program is set up and does its work.
    Served,
    /// perftest goes on with the MTU of the port.
    LowerMtu,
    /// A program of MPI passed its start: it has a way to reach the other ranks, whatever the library tried before.
    Started,
    /// A program writes as JSON that it ended, and how.
    Ended,
    /// MPI uses another transport in place of the one that found no adapter.
    Replaced,
    /// The ranks of a communicator of NCCL reached each other.
    Initialised,
    /// A connection over TCP came about at last.
    Connected,
}

/// Words, in lower case.
const WORDS: &[(&str, Success)] = &[
    ("selected provider is ", Success::Provider),
    ("using network aws libfabric", Success::Provider),
    ("using network libfabric", Success::Provider),
    ("provider: efa", Success::Provider),
    ("provider: verbs", Success::Provider),
    ("provider: psm", Success::Provider),
    ("provider: cxi", Success::Provider),
    ("provider: opx", Success::Provider),
    ("via net/libfabric", Success::Provider),
    ("via net/aws libfabric", Success::Provider),
    ("gets registered successfully at kubelet", Success::Plugin),
    ("registered device plugin", Success::Plugin),
    ("new resource server is created", Success::Plugin),
    ("exposing \"", Success::Plugin),
    ("exposing devices:", Success::Plugin),
    ("no devices in device pool", Success::NoPlugin),
    ("no rdma devices were found for resource", Success::NoPlugin),
    ("/gdrdma", Success::GpuMemory),
    ("(dmabuf) enabled", Success::GpuMemory),
    ("dma-buf is available", Success::GpuMemory),
    ("dma-buf support is enabled", Success::GpuMemory),
    ("dmabuf is supported", Success::GpuMemory),
    ("tcptransport: listen", Success::TcpEngine),
    ("tcptransport listen", Success::TcpEngine),
    // NIXL.
    ("was instantiated", Success::Transport),
    ("loaded backend plugin: ", Success::Transport),
    ("initialized nixl agent", Success::Transport),
    // Gluster, whose listeners are optional as long as there is one.
    ("continuing with succeeded transport", Success::Transport),
    // tgt, which serves iSCSI over TCP as well.
    ("adding target and exposing it", Success::Transport),
    ("bs_init(", Success::Transport),
    // NCCL.
    ("net/ib : using [", Success::Transport),
    ("using network ib", Success::Transport),
    ("sm port is up", Success::Subnet),
    ("entering master state", Success::Subnet),
    ("subnet up", Success::Subnet),
    ("will ignore the \"ud\" oob component", Success::NoDatagrams),
    ("changing to active mtu", Success::LowerMtu),
    ("hello world", Success::Started),
    ("hello, world", Success::Started),
    ("hello from ", Success::Started),
    ("\"status\": \"success\"", Success::Ended),
    ("\"status\":\"success\"", Success::Ended),
    ("another transport will be used instead", Success::Replaced),
    ("application startup complete", Success::Served),
    ("init complete", Success::Initialised),
    // A plugin of NCCL for TCP.
    ("connected after ", Success::Connected),
    ("test complete", Success::Served),
    ("transfer complete", Success::Served),
];

/// How a job ends that did its work, in lower case.
pub(super) const FINISHED: [&str; 4] = [
    "training finished",
    "training complete",
    "finished training",
    "training done",
];

static FOUND: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(words()));

/// The words, which make a line worth reading.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    let others = waiting::ANCHORS
        .iter()
        .copied()
        .chain(["passed", "disabled", "port:", "port 2:"]);
    words().chain(others)
}

fn words() -> impl Iterator<Item = &'static str> {
    WORDS.iter().map(|(word, _)| *word).chain(FINISHED)
}

/// The last lines that show each success.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was seen so far, each independent of the others"
)]
pub(super) struct Successes {
    provider: Option<u64>,
    /// libfabric selected a provider without RDMA.
    tcp_provider: bool,
    plugin: Option<u64>,
    /// The kubelet knows a plugin.
    registered: Option<u64>,
    no_plugin: bool,
    gpu_memory: Option<u64>,
    tcp_engine: Option<u64>,
    transport: Option<u64>,
    no_datagrams: Option<u64>,
    served: Option<u64>,
    lower_mtu: Option<u64>,
    started: Option<u64>,
    /// A test passed, and none failed.
    passed: Option<u64>,
    failed: Option<u64>,
    waiting: Waiting,
    finished: Option<u64>,
    replaced: Option<u64>,
    initialised: Option<u64>,
    connected: Option<u64>,
    /// The job counted its steps, or ended as it should.
    pub(super) went_on: Option<u64>,
    /// The subnet manager has an active port.
    subnet: Option<u64>,
    /// A tool listed an active port.
    pub(super) active_port: bool,
    contexts: Contexts,
    ports: Ports,
    /// The job has one node only.
    pub(super) one_node: bool,
    /// The log shows no other host than one.
    pub(super) one_host: bool,
    /// It shows several ranks of NCCL on that host, no others, and no setting that asks for RDMA.
    pub(super) ranks_within: bool,
}

impl Successes {
    /// Adds what a line in lower case shows.
    pub(super) fn add(&mut self, lower: &str, line: u64) {
        self.waiting.add(lower, line);
        self.ports.add(lower, line);
        if fabric::lists_active_port(lower) {
            self.contexts.lists_active_port(line);
        }
        if registration::succeeded(lower) {
            self.registered = Some(line);
        }
        if lower.trim_end().ends_with(" passed") || lower.contains(" passed in ") {
            self.passed = Some(line);
        }
        if lower.trim_end().ends_with(" failed") || lower.contains(" failed, ") {
            self.failed = Some(line);
        }
        for found in FOUND.find(lower) {
            let rest = &lower[found.end..];
            match WORDS.get(found.index) {
                // The network of libfabric is whatever it selected before.
                Some((_, Success::Provider)) if self.tcp_provider || is_tcp(rest) => self.tcp_provider = true,
                Some((_, Success::Provider)) => self.provider = Some(line),
                // `exposing "0" devices`, `exposing devices:  []`.
                Some((_, Success::Plugin))
                    if number(rest) == Some(0) || rest.trim_start().starts_with("[]") =>
                {
                    self.no_plugin = true;
                }
                Some((_, Success::Plugin)) => self.plugin = Some(line),
                Some((_, Success::NoPlugin)) => self.no_plugin = true,
                Some((_, Success::GpuMemory)) => self.gpu_memory = Some(line),
                Some((_, Success::TcpEngine)) => self.tcp_engine = Some(line),
                Some((_, Success::Transport)) => self.transport = Some(line),
                Some((_, Success::Subnet)) if fabric::is_of_opensm(lower) => self.subnet = Some(line),
                Some((_, Success::NoDatagrams)) => self.no_datagrams = Some(line),
                Some((_, Success::Connected)) => self.connected = Some(line),
                Some((_, Success::Served)) => self.served = Some(line),
                Some((_, Success::LowerMtu)) => self.lower_mtu = Some(line),
                Some((_, Success::Started)) => self.started = Some(line),
                Some((_, Success::Replaced)) => self.replaced = Some(line),
                Some((_, Success::Initialised)) => {
                    self.served = Some(line);
                    self.initialised = Some(line);
                }
                Some((_, Success::Ended)) if names_end(lower) => self.finished = Some(line),
                Some((_, Success::Subnet | Success::Ended)) => {}
                // Behind these words are those of the end.
                None => self.finished = Some(line),
            }
        }
    }

    /// Adds a line, which may show where the session goes on.
    pub(super) fn add_prompt(&mut self, text: &str, line: u64) {
        self.contexts.add(text, line);
    }

    /// Whether a tool listed an active port where a symptom was printed.
    fn shows_port(&self, symptom: &Symptom) -> bool {
        self.active_port && !self.contexts.is_active_elsewhere(symptom.line)
    }

    /// Whether a program found another way after a line, or did its work.
    pub(super) fn went_on_after(&self, line: u64) -> bool {
        let done = [
            self.provider,
            self.transport,
            self.started,
            self.served,
            self.passed,
            self.finished,
            self.went_on,
        ];
        self.tcp_provider || done.into_iter().flatten().any(|success| success > line)
    }

    /// Lowers the complaints that a success makes void.
    pub(super) fn excuse(&self, symptoms: &mut [Symptom]) {
        let needs_plugin = symptoms
            .iter()
            .any(|symptom| symptom.kind == K::BackendFailed && symptom.grade > Grade::Note);
        for symptom in symptoms.iter_mut() {
            // Some devices of a list do not open: those of other containers, or ones that this one should have.
            if self.shows_port(symptom) && is_unopened(symptom) && symptom.count >= MANY {
                symptom.grade = symptom.grade.min(Grade::Degraded);
                continue;
            }
            if self.voids(symptom) || !needs_plugin && self.replaces(symptom) {
                symptom.grade = Grade::Note;
            }
            // A program of MPI that starts without its adapters, or without one of its libraries, goes on in another way.
            let is_missed = matches!(
                symptom.kind,
                K::CmUnavailable
                    | K::OpenFailed
                    | K::NoDevice
                    | K::ModuleMissing
                    | K::InitRefused
                    | K::CreateRefused
                    | K::CreateUnexplained
            );
            if is_missed && is_later(self.started, symptom) {
                symptom.grade = symptom.grade.min(Grade::Degraded);
            }
            self.outlast(symptom);
            // NCCL goes on with the devices that it could open.
            let is_left_out = symptom.kind == K::OpenFailed && symptom.software == Some(Software::Nccl);
            if is_left_out && is_later(self.transport, symptom) {
                symptom.grade = symptom.grade.min(Grade::Degraded);
            }
        }
        self.outlive(symptoms);
    }

    /// A port of InfiniBand whose physical link is up has a logical state, too, as soon as the function has one: it is down where a virtual
    /// function was not configured.
    pub(super) fn unconfigured(&self, symptoms: &mut [Symptom]) {
        let is_one = |symptom: &&mut Symptom| {
            let is_listed = |line| self.ports.is_unconfigured(line, self.active_port);
            symptom.kind == K::PortNotActive && symptom.line.is_some_and(is_listed)
        };
        for symptom in symptoms.iter_mut().filter(is_one) {
            symptom.kind = K::FunctionUnconfigured;
        }
    }

    /// A program found no adapter that it can use where all ports that it listed are down.
    pub(super) fn all_down(&self, symptoms: &mut [Symptom]) {
        if self.active_port || !self.ports.are_down() {
            return;
        }
        let without = |symptom: &&mut Symptom| symptom.kind == K::NoDevice && symptom.line.is_some();
        for symptom in symptoms.iter_mut().filter(without) {
            symptom.kind = K::PortNotActive;
        }
    }

    fn voids(&self, symptom: &Symptom) -> bool {
        let before = |success| is_later(success, symptom);
        let is_mild = symptom.grade <= Grade::Degraded;
        match symptom.kind {
            // A line that is not recognised did not keep the job from its end.
            K::Unrecognised if before(self.finished) => true,
            // Nor did a warning of NCCL keep its ranks from each other.
            K::Unrecognised if symptom.software == Some(Software::Nccl) => before(self.initialised),
            // Within one node NCCL uses NVLink, PCIe or shared memory, whatever network it would have used.
            K::NoDevice
            | K::SocketFallback
            | K::RdmaDisabled
            | K::NoLibrary
            | K::NoProvider
            | K::GdrDisabled
                if self.one_node && is_mild =>
            {
                true
            }
            // NCCL informs, and does not warn, that it goes on without the library and the network between nodes.
            K::NoLibrary | K::SocketFallback if self.ranks_within && informs(symptom) => true,
            // The subnet manager waited for the link.
            K::PortNotActive if symptom.text.contains("SM port is down") => before(self.subnet),
            K::PortNotActive => {
                self.active_port && self.ports.are_unused() && symptom.grade == Grade::Degraded
            }
            // libfabric tries all of its providers, and all kinds of memory.
            K::BackendMissing | K::NoLibrary | K::NoDevice | K::Unrecognised
                if symptom.software == Some(Software::Libfabric) && tries(symptom) =>
            {
                before(self.provider)
            }
            // aws-ofi-nccl asks libfabric once for each kind of memory, and for each of its protocols.
            K::NoDevice if symptom.text.contains("No eligible providers were found") => before(self.provider),
            // The search for adapters warns, whatever transport is selected. Where RDMA is, an error follows.
            K::NoDevice
                if symptom.software == Some(Software::Mooncake)
                    && level(&symptom.text) == Some(Level::Warning) =>
            {
                before(self.tcp_engine)
            }
            // It leaves out an adapter without RDMA.
            K::ModuleMissing | K::CmUnavailable | K::NoDevice if is_of_plugin(symptom) => {
                before(self.plugin) && !self.no_plugin
            }
            K::CmUnavailable | K::OpenFailed | K::DeviceAbsent | K::NoDevice | K::Unrecognised
                if is_of_listener(symptom) =>
            {
                before(self.transport)
            }
            // A tool lists every device of the node, and opens those of its container.
            K::OpenFailed if is_unopened(symptom) => self.shows_port(symptom),
            // The scheduler found a node for the pod later.
            K::ResourceUnavailable if symptom.text.to_ascii_lowercase().contains("insufficient ") => {
                self.waiting.is_scheduled()
            }
            // The next attempt attached the pod's networks.
            K::NetworkAttachFailed | K::FunctionUnconfigured if self.waiting.is_attached(symptom.line) => {
                true
            }
            // The plugin has devices in another pool.
            K::ResourceUnavailable if offers_nothing(symptom) => self.plugin.is_some(),
            K::ResourceUnavailable if is_of_registration(symptom) => before(self.registered),
            // The pod of a component was restarted, or its driver was built, and it runs.
            K::DriverNotReady if self.waiting.runs_after(symptom.kind, symptom.line) => true,
            kind if components::find(&symptom.text.to_ascii_lowercase()).is_some()
                && self.waiting.runs_after(kind, symptom.line) =>
            {
                true
            }
            K::DriverNotReady if waiting::for_driver(&symptom.text.to_ascii_lowercase()).is_some() => {
                self.waiting.has_driver() || before(self.plugin)
            }
            K::MtuDiffers => before(self.lower_mtu) && symptom.text.contains("higher than active"),
            // Open MPI and MPICH try one library after the other, and UCX does not need what openib needs.
            K::OpenFailed | K::BackendFailed | K::RdmaDisabled if is_of_trial(symptom) => {
                before(self.started)
            }
            // iWARP has no queue pairs for datagrams.
            K::CreateUnexplained | K::CreateRefused | K::CreateFailed | K::UnsupportedAdapter => {
                before(self.no_datagrams)
            }
            // Without the module, memory of GPUs is registered through DMA-BUF.
            K::GdrDisabled if names_module(symptom) => self.gpu_memory.is_some(),
            _ => false,
        }
    }

    /// Whether the job reached with other parts what it tried before with the one that the complaint is about.
    fn replaces(&self, symptom: &Symptom) -> bool {
        let before = |success| is_later(success, symptom);
        let is_done = || before(self.passed) && self.failed.is_none();
        match symptom.kind {
            // NIXL loads every plugin that it finds, and the job needs one of them.
            K::BackendMissing | K::Unrecognised | K::NoLibrary if is_plugin(symptom) => {
                before(self.transport) || before(self.served) || is_done()
            }
            // What is missing serves memory of GPUs: a test that passes does without.
            K::BackendMissing if level(&symptom.text) == Some(Level::Warning) => {
                is_done() || before(self.finished)
            }
            // NCCL asks for functions that only newer libraries have.
            K::LibraryMismatch if symptom.text.contains("NCCL INFO") => {
                // It needs none of those of the adapter's own library.
                symptom.text.contains("mlx5dv_") || before(self.transport) || before(self.served)
            }
            _ => false,
        }
    }

    /// An error of something else than RDMA ended the job, if nothing of RDMA failed, and the job did not go on.
    pub(super) fn end_by_other(&self, symptoms: &mut [Symptom]) {
        // Programs repeat such an error in words of their own.
        let repeated = symptoms
            .iter()
            .filter(|symptom| is_repeated(symptom))
            .filter_map(|symptom| symptom.line)
            .min();
        let may_repeat = |symptom: &Symptom| {
            symptom.kind == K::Unrecognised && repeated.is_some() && symptom.line > repeated
        };
        if symptoms
            .iter()
            .any(|symptom| symptom.grade > Grade::Note && !may_repeat(symptom))
        {
            return;
        }
        let worked = self
            .finished
            .max(self.went_on)
            .max(self.passed)
            .max(self.connected);
        for symptom in symptoms.iter_mut().filter(|symptom| symptom.kind.is_of_other()) {
            // The program itself had closed the connection.
            let is_closed = symptom.named.errno == Some(Errno::EBADF);
            if !is_closed && !is_later(worked, symptom) {
                symptom.grade = Grade::Unrecognised;
            }
        }
    }

    /// Lowers an event that the job outlived: it counted its steps after it, or only mentions it, and nothing else failed.
    fn outlive(&self, symptoms: &mut [Symptom]) {
        let is_event = |symptom: &Symptom| can_go_on(symptom.kind);
        let is_other = |kind: K| kind.is_of_other() || matches!(kind, K::RankFailed | K::JobFailed);
        let fails = |symptom: &Symptom| {
            symptom.grade >= Grade::Degraded && !is_event(symptom) && !is_other(symptom.kind)
        };
        if symptoms.iter().any(fails) {
            return;
        }
        for symptom in symptoms.iter_mut().filter(|symptom| is_event(symptom)) {
            let is_mentioned = symptom.kind == K::GidChanged && level(&symptom.text) == Some(Level::Info);
            if self.went_on > symptom.line || is_mentioned {
                symptom.grade = Grade::Note;
            }
        }
    }
}

/// Whether the name of a provider of libfabric that follows is one without RDMA: `tcp, fabric is 10.0.0.0/16 (found 1 nics)`.
fn is_tcp(rest: &str) -> bool {
    ["tcp", "sockets", "udp"]
        .iter()
        .any(|name| rest.starts_with(name))
}

/// Whether a line in lower case names the end of a run: `"key": "run_stop"`, `"event":"training_end"`.
fn names_end(lower: &str) -> bool {
    ["stop\"", "end\"", "finish", "complete", "done\""]
        .iter()
        .any(|word| lower.contains(word))
}

/// Whether programs repeat an error of something else than RDMA in the lines after it: of shared memory, of the start of NVSHMEM, of an NPU.
fn is_repeated(symptom: &Symptom) -> bool {
    let is_of_npu = || {
        let lower = symptom.text.to_ascii_lowercase();
        ["aicpu", "aicore"].iter().any(|name| lower.contains(name))
    };
    match symptom.kind {
        K::SharedMemory => true,
        K::TcpError => symptom.software == Some(Software::Nvshmem),
        K::ComputeError => is_of_npu(),
        _ => false,
    }
}

/// Whether NCCL reports it at the level of information.
fn informs(symptom: &Symptom) -> bool {
    symptom.text.contains("NCCL INFO ")
}

/// Whether a success came after the line of a symptom.
fn is_later(success: Option<u64>, symptom: &Symptom) -> bool {
    symptom.line.is_some() && success > symptom.line
}

/// Whether a program can go on after it: a GID was added, or a function that newer libraries have is missing.
pub(super) fn can_go_on(kind: K) -> bool {
    matches!(kind, K::GidChanged | K::LibraryMismatch)
}

/// Whether the core of libfabric complains, or what loads a provider, and not a provider about a call of the job.
fn tries(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    lower.contains(":core:") || lower.contains("dlopen")
}

/// Whether a library could not load one of its plugins: `Failed to load plugin from …/libplugin_GDS.so`.
fn is_plugin(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    lower.contains("load plugin") || lower.contains("libplugin_")
}

/// Whether it is about one of the libraries that MPI tries at its start: PSM3 finds an interface that it cannot use, `openib` no way to
/// connect.
fn is_of_trial(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    [
        "psm",
        "udp socket",
        "ofi libfabric library call",
        "openfabrics connection schemes",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

/// Whether Gluster reports it of one of its transports.
fn is_of_listener(symptom: &Symptom) -> bool {
    [
        "0-rpc-transport",
        "0-rdma.management",
        "0-rpc-service",
        "tgtd:",
        "librdmacm",
    ]
    .iter()
    .any(|name| symptom.text.contains(name))
}

/// From how many devices on that do not open the few others may be too few.
const MANY: u64 = 4;

/// Whether `ibv_devinfo` and the like could not open a device that they list.
fn is_unopened(symptom: &Symptom) -> bool {
    symptom.kind == K::OpenFailed && symptom.text.trim() == "Failed to open device"
}

/// Whether the kubelet does not know a device plugin, or lost it.
fn is_of_registration(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    registration::failed(&lower).is_some() || registration::lost(&lower).is_some()
}

/// Whether a device plugin has nothing to offer in one of its pools.
fn offers_nothing(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    lower.contains("no devices in device pool, skip") || registration::offers_nothing(&lower).is_some()
}

/// Whether a device plugin of Kubernetes reports it.
fn is_of_plugin(symptom: &Symptom) -> bool {
    const FORMS: [&str; 4] = [
        "creating new device",
        "are rdma modules loaded",
        "no rdma devices available for rdma capable device",
        "missing rdma device spec",
    ];
    let lower = symptom.text.to_ascii_lowercase();
    FORMS.iter().any(|form| lower.contains(form))
}

/// Whether it is about a module of the kernel, and not about an adapter.
fn names_module(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    ["peermem", "peer_mem", "peer-mem"]
        .iter()
        .any(|name| lower.contains(name))
}
