//! Marks of the place where a job runs: the maker of its GPUs, and what started it. A remedy for other GPUs, or for a pod where there is
//! none, helps no one.

use std::sync::LazyLock;

use serde::Serialize;

use super::{entity::is_rdma_name, kernel, line::number, phrases::Phrases};
use crate::symptom::Family;

/// What lines of a log show of the place, whatever else they say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a mark that others do not exclude"
)]
pub struct Marks {
    /// Software for AMD's GPUs wrote it. What it shares with NVIDIA's says nothing: RCCL prints the names of NCCL and CUDA.
    pub amd: bool,
    /// Slurm started the job.
    pub slurm: bool,
    /// A person ran the tools of RDMA in a login session, not in a container.
    pub login: bool,
    /// The command of the job lifts the limit of locked memory.
    pub unlimited: bool,
    /// Transfers between the adapter and GPU memory are set up, so that the adapter could register that memory.
    pub gpu_direct: bool,
    /// A program or a part of the kernel wrote it that registers the memory of the host only.
    #[serde(skip)]
    pub host_memory: bool,
    /// The program uses the adapters of HPE Slingshot.
    #[serde(skip)]
    pub slingshot: bool,
    /// The kernel of a virtual machine on Hyper-V or Azure wrote a part of it.
    #[serde(skip)]
    pub hyperv: bool,
    /// The machine is a GB10 (DGX Spark), whose adapters are part of the board.
    #[serde(skip)]
    pub on_board: bool,
    /// A storage client lost a connection that it had, and tries again.
    #[serde(skip)]
    pub reconnects: bool,
    /// The job counted its steps, or ended as it should.
    #[serde(skip)]
    pub went_on: bool,
    /// A region of no bytes was registered.
    #[serde(skip)]
    pub empty_region: bool,
    /// The command that starts the container gives it the RDMA devices.
    #[serde(skip)]
    pub given: bool,
    /// A list of PCI functions has an RDMA adapter.
    #[serde(skip)]
    pub lists_adapter: bool,
    /// Lines show that the node which wrote them has an adapter: a driver or a list names it, a tool lists its port or its device nodes.
    #[serde(skip)]
    pub shows_adapter: bool,
    /// A list of device nodes has those of an RDMA device.
    #[serde(skip)]
    pub has_nodes: bool,
    /// Open MPI names the RDMA device that it found.
    #[serde(skip)]
    pub names_device: bool,
    /// A command of libfabric's tools selects the provider verbs.
    #[serde(skip)]
    pub provider_verbs: bool,
    /// The peer-memory module of NVIDIA is loaded: a list of modules has it, or it wrote a line itself.
    #[serde(skip)]
    pub peer_memory: bool,
    /// `show_gids` found none.
    #[serde(skip)]
    pub no_gids: bool,
    /// It is about the driver package of the adapters, or about the operator that installs it.
    #[serde(skip)]
    pub ofed: bool,
    /// The driver of the adapters was loaded, or loaded again.
    #[serde(skip)]
    pub reloads: bool,
    /// The GPU Operator's pod has the driver of the GPUs.
    #[serde(skip)]
    pub driver_pod: bool,
    /// The manager of the `NVLink` fabric found no switch of it.
    #[serde(skip)]
    pub no_nvswitch: bool,
    /// It names a model of adapters that current tools of the firmware do not know.
    #[serde(skip)]
    pub old_adapter: bool,
    /// The module or the tool of SoftRoCE is in it.
    #[serde(skip)]
    pub soft_roce: bool,
    /// The RDMA drivers above those of Ethernet that it names.
    #[serde(skip)]
    pub above: Above,
    /// The link layers of the ports that it names.
    pub layers: Layers,
    /// The family of the adapters, if it is not the one that most texts are about.
    pub family: Option<Family>,
}

/// RDMA drivers that a log names, of those whose adapters have a driver of Ethernet besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Above(u64);

impl Above {
    /// Adds those that a line in lower case names.
    fn add(&mut self, lower: &str) {
        for found in ABOVE.find(lower).filter(|found| found.begins(lower)) {
            self.0 |= 1_u64
                .checked_shl(u32::try_from(found.index).unwrap_or(u32::MAX))
                .unwrap_or(0);
        }
    }

    /// Whether it names any.
    pub(crate) fn is_any(self) -> bool {
        self.0 != 0
    }

    /// Whether it names one of these.
    pub(crate) fn has(self, names: &[&str]) -> bool {
        let is_seen = |(place, name): (u32, &str)| {
            names.contains(&name) && self.0 & 1_u64.checked_shl(place).unwrap_or(0) != 0
        };
        (0..).zip(kernel::names_above()).any(is_seen)
    }
}

static ABOVE: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(kernel::names_above()));

/// Link layers that a log names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Layers {
    /// A port is InfiniBand.
    pub infiniband: bool,
    /// A port is Ethernet.
    pub ethernet: bool,
}

impl Layers {
    /// Whether every port that the log names is InfiniBand.
    pub(crate) fn is_infiniband(self) -> bool {
        self.infiniband && !self.ethernet
    }

    /// Whether every port that the log names is Ethernet.
    pub(crate) fn is_ethernet(self) -> bool {
        self.ethernet && !self.infiniband
    }
}

/// One of the marks.
#[derive(Debug, Clone, Copy)]
enum Mark {
    Amd,
    Slurm,
    GpuDirect,
    HostMemory,
    Slingshot,
    HyperV,
    OnBoard,
    Reconnects,
    Given,
    Listed,
    /// The number of a device node follows.
    DeviceNode,
    /// The name of a device follows.
    LocalDevice,
    ProviderVerbs,
    PeerMemory,
    /// Their number follows.
    Gids,
    Reloads,
    DriverPod,
    NoSwitch,
    OldAdapter,
    SoftRoce,
    Ofed,
    /// The length of a region follows.
    Length,
    /// The prompt of a shell; a command follows.
    Prompt,
    InfiniBand,
    Ethernet,
    /// An IPv4 address in the form of a GID follows.
    Ipv4Gid,
    /// The job runs without a limit of locked memory.
    Unlimited,
    /// A LID follows. RoCE has none, and prints 0.
    Lid,
    Family(Family),
}

/// Words, in lower case.
const WORDS: &[(&str, Mark)] = &[
    ("rccl version", Mark::Amd),
    ("mpi-rocm", Mark::Amd),
    ("/opt/rocm", Mark::Amd),
    ("hipmalloc", Mark::Amd),
    ("nvidia_peermem", Mark::PeerMemory),
    ("nvidia-peermem nv_", Mark::PeerMemory),
    ("rocm version", Mark::Amd),
    ("hip version", Mark::Amd),
    ("rocr version", Mark::Amd),
    ("+hip", Mark::Amd),
    ("hipify/", Mark::Amd),
    ("librccl", Mark::Amd),
    ("rocshmem", Mark::Amd),
    ("iommu=pt\" from kernel", Mark::Amd),
    ("hsa_force_fine_grain", Mark::Amd),
    ("hip error", Mark::Amd),
    ("hip failure", Mark::Amd),
    ("hip out of memory", Mark::Amd),
    ("amdgpu", Mark::Amd),
    ("(rocm)", Mark::Amd),
    ("registerrdmamemoryregion", Mark::Amd),
    ("mori_", Mark::Amd),
    ("mori-", Mark::Amd),
    ("libmori", Mark::Amd),
    ("slurmstepd:", Mark::Slurm),
    ("srun: ", Mark::Slurm),
    ("slurm_", Mark::Slurm),
    (":~$ ", Mark::Prompt),
    (" ~]$ ", Mark::Prompt),
    // Storage and file systems over RDMA, and GASNet's cache of regions, whose memory is that of the host.
    ("firehose", Mark::HostMemory),
    ("chapel", Mark::HostMemory),
    ("spdk", Mark::HostMemory),
    ("nvme_rdma", Mark::HostMemory),
    ("nvmf_", Mark::HostMemory),
    ("nvmet_rdma", Mark::HostMemory),
    ("rpcrdma", Mark::HostMemory),
    ("svcrdma", Mark::HostMemory),
    ("iser", Mark::HostMemory),
    ("ib_srp", Mark::HostMemory),
    ("kiblnd", Mark::HostMemory),
    ("smb_direct", Mark::HostMemory),
    ("smbd_", Mark::HostMemory),
    ("rtrs_", Mark::HostMemory),
    ("gf_rdma", Mark::HostMemory),
    ("ibvsocket", Mark::HostMemory),
    ("verbs rdma", Mark::HostMemory),
    ("rdmastack", Mark::HostMemory),
    (":cxi:", Mark::Slingshot),
    ("cxip_", Mark::Slingshot),
    ("cxil_", Mark::Slingshot),
    ("hv_pci", Mark::HyperV),
    ("hv_netvsc", Mark::HyperV),
    ("mana_ib", Mark::HyperV),
    (" mana ", Mark::HyperV),
    // The driver of the board for its adapters, and the names of the machine.
    ("cx7-pcie-hotplug", Mark::OnBoard),
    ("nvidia gb10", Mark::OnBoard),
    ("dgx spark", Mark::OnBoard),
    ("dgx_spark", Mark::OnBoard),
    ("/dev/infiniband", Mark::Given),
    ("--privileged", Mark::Given),
    ("network controller: mellanox", Mark::Listed),
    ("ethernet controller: mellanox", Mark::Listed),
    ("infiniband controller: mellanox", Mark::Listed),
    ("infiniband controller [0207]: mellanox", Mark::Listed),
    ("uverbs", Mark::DeviceNode),
    ("umad", Mark::DeviceNode),
    ("local device:", Mark::LocalDevice),
    ("-p verbs", Mark::ProviderVerbs),
    ("-p \"verbs", Mark::ProviderVerbs),
    ("n_gids_found=", Mark::Gids),
    ("nicclusterpolicy", Mark::Ofed),
    ("mofed", Mark::Ofed),
    ("mlnx_ofed", Mark::Ofed),
    ("mlnx-ofed", Mark::Ofed),
    ("ofa_kernel", Mark::Ofed),
    ("nv_peer_mem", Mark::Ofed),
    ("nvidia-peer-memory", Mark::Ofed),
    ("nvidia-driver-ctr", Mark::DriverPod),
    ("nvidia-peermem-ctr", Mark::DriverPod),
    ("nvidia-driver-daemonset", Mark::DriverPod),
    ("nv_warn_nothing_to_do", Mark::NoSwitch),
    ("infinihost", Mark::OldAdapter),
    ("connectx-2", Mark::OldAdapter),
    ("mt25204", Mark::OldAdapter),
    ("mt25208", Mark::OldAdapter),
    ("mt23108", Mark::OldAdapter),
    ("mt25408", Mark::OldAdapter),
    ("mt25418", Mark::OldAdapter),
    ("mt26428", Mark::OldAdapter),
    ("mt26438", Mark::OldAdapter),
    ("mt26448", Mark::OldAdapter),
    ("mt26478", Mark::OldAdapter),
    ("mt26488", Mark::OldAdapter),
    ("rxe_cfg", Mark::SoftRoce),
    ("rdma_rxe", Mark::SoftRoce),
    ("openibd restart", Mark::Reloads),
    ("loading hca driver", Mark::Reloads),
    ("modprobe mlx5_core", Mark::Reloads),
    ("fi_cxi_", Mark::Slingshot),
    ("vni_not_found", Mark::Slingshot),
    ("reconnecting in", Mark::Reconnects),
    ("reconnect attempt", Mark::Reconnects),
    ("starting error recovery", Mark::Reconnects),
    (" len: ", Mark::Length),
    ("/gdrdma", Mark::GpuDirect),
    (":1/ib", Mark::InfiniBand),
    (":1/roce", Mark::Ethernet),
    ("link layer: infiniband", Mark::InfiniBand),
    ("link_layer: infiniband", Mark::InfiniBand),
    ("link_layer:\t\tinfiniband", Mark::InfiniBand),
    ("link layer: ethernet", Mark::Ethernet),
    ("link_layer: ethernet", Mark::Ethernet),
    ("link_layer:\t\tethernet", Mark::Ethernet),
    ("roce detected", Mark::Ethernet),
    // An IPv4 address as a GID, which only RoCE v2 has, in the forms in which programs print GIDs.
    ("::ffff:", Mark::Ipv4Gid),
    ("00:00:ff:ff:", Mark::Ipv4Gid),
    ("00:00:255:255:", Mark::Ipv4Gid),
    ("0000:0000:ffff:", Mark::Ipv4Gid),
    ("ulimit -l unlimited", Mark::Unlimited),
    ("memlock=-1", Mark::Unlimited),
    (" lid: ", Mark::Lid),
    (" lid 0x", Mark::Lid),
    (" sm_lid ", Mark::Lid),
    // Adapters of Omni-Path and TrueScale have no other link layer.
    ("hfi1_0", Mark::InfiniBand),
    ("ib_qib", Mark::InfiniBand),
    ("habana", Mark::Family(Family::Gaudi)),
    ("hbldv_", Mark::Family(Family::Gaudi)),
    ("hcl_ibverbs", Mark::Family(Family::Gaudi)),
    ("hlthunk", Mark::Family(Family::Gaudi)),
    ("gaudi", Mark::Family(Family::Gaudi)),
    ("habanalabs", Mark::Family(Family::Gaudi)),
    // Only `hccn_tool -link -g` writes it so, and only what it prints first makes the line worth reading.
    ("hccn_tool", Mark::Family(Family::Ascend)),
    ("ascend_", Mark::Family(Family::Ascend)),
    ("/ascend/", Mark::Family(Family::Ascend)),
    ("hccl_", Mark::Family(Family::Ascend)),
    ("hccl(", Mark::Family(Family::Ascend)),
    ("hcclall", Mark::Family(Family::Ascend)),
    ("torch_npu", Mark::Family(Family::Ascend)),
    ("npu-smi", Mark::Family(Family::Ascend)),
    ("ei0002:", Mark::Family(Family::Ascend)),
    ("ei0006:", Mark::Family(Family::Ascend)),
    ("ei0009:", Mark::Family(Family::Ascend)),
    ("ei0013", Mark::Family(Family::Ascend)),
    ("hccl watchdog", Mark::Family(Family::Ascend)),
    ("ej0002:", Mark::Family(Family::Ascend)),
    ("srd_iface", Mark::Family(Family::Efa)),
    ("rdmap", Mark::Family(Family::Efa)),
    (
        "amazon.com, inc. elastic fabric adapter",
        Mark::Family(Family::Efa),
    ),
    (" efa_", Mark::Family(Family::Efa)),
    ("::efa:", Mark::Family(Family::Efa)),
    ("provider efa", Mark::Family(Family::Efa)),
    ("provider is efa", Mark::Family(Family::Efa)),
    ("-p efa", Mark::Family(Family::Efa)),
    ("efa devices", Mark::Family(Family::Efa)),
    ("aws-ofi-nccl", Mark::Family(Family::Efa)),
    ("efa-k8s-device-plugin", Mark::Family(Family::Efa)),
    ("ionic_", Mark::Family(Family::Ionic)),
    ("libionic", Mark::Family(Family::Ionic)),
    ("ionicdv", Mark::Family(Family::Ionic)),
    ("bnxt_re", Mark::Family(Family::Broadcom)),
];

static FOUND: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(WORDS.iter().map(|(word, _)| *word)));

/// The words, which make a line worth reading.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    let words = WORDS.iter().map(|(word, _)| *word);
    words.chain(kernel::names_above())
}

/// Whether words of a line in lower case are advice to set the limit: `try setting ulimit -l unlimited`.
fn is_advice(lower: &str, at: usize) -> bool {
    [
        "try",
        "please",
        "should",
        "set ",
        "setting",
        "recommend",
        "check",
        "use ",
        "guess",
        "think",
        "need",
        "add ",
    ]
    .iter()
    .any(|word| lower[..at].contains(word))
}

/// Whether a line in lower case is advice that lists the modules of several vendors: `make sure nv_peer_mem, amdgpu plugin, or Intel Xe
/// driver is installed`. It says nothing about the place.
fn lists_vendors(lower: &str) -> bool {
    ["nv_peer_mem", "nvidia", "peermem", "intel", "habana"]
        .iter()
        .any(|name| lower.contains(name))
        && lower.contains("amdgpu")
}

/// Whether a user who is not root runs a tool of RDMA after a prompt: containers are entered as root, except those of Jupyter.
fn runs_tool(lower: &str, prompt: usize, command: usize) -> bool {
    const TOOLS: [&str; 9] = [
        "ibstat",
        "ibv_devinfo",
        "ibv_devices",
        "ibdev2netdev",
        "ibstatus",
        "show_gids",
        "rdma link",
        "lspci",
        "lsmod",
    ];
    let command = lower[command..].trim_start();
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    let user = lower[..prompt].trim_start().trim_start_matches('[');
    !user.starts_with("root@")
        && !user.starts_with("jovyan@")
        && TOOLS.iter().any(|tool| command.starts_with(tool))
}

/// Whether a line in lower case is a command that starts a container with what is named in it.
fn starts_container(lower: &str) -> bool {
    [
        "docker run",
        "podman run",
        "nerdctl run",
        "docker create",
        "podman create",
    ]
    .iter()
    .any(|command| lower.contains(command))
        && ["--device", "--privileged"]
            .iter()
            .any(|option| lower.contains(option))
}

/// Whether a line in lower case is one of a list of device nodes, and names one whose number follows here: `uverbs0  umad0`, `crw-rw-rw- 1 root root 231, 192
/// Nov 1 09:00 /dev/infiniband/uverbs0`.
fn lists_node(lower: &str, at: usize) -> bool {
    let is_permissions = |word: &str| word.len() >= 10 && word.starts_with("crw");
    let is_node = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        ["uverbs", "umad", "issm", "rdma_cm", "by-path", "by-ibdev", "ucm"]
            .iter()
            .any(|node| name.starts_with(node))
    };
    let mut words = lower.split_whitespace();
    let is_list = words
        .next()
        .is_some_and(|first| is_permissions(first) || is_node(first) && words.all(is_node));
    is_list && lower[at..].starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a line in lower case shows that the module whose name is there is loaded: a row of `lsmod` with its size and number of users, the
/// list of users in the row of another module, or the name of a function of the module, which wrote the line.
fn is_loaded(lower: &str, start: usize, end: usize) -> bool {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let (before, rest) = (&lower[..start], &lower[end..]);
    let mut words = rest.split_whitespace();
    let has_size = before.trim().is_empty()
        && rest.starts_with([' ', '\t'])
        && words.next().is_some_and(is_number)
        && words.next().is_some_and(is_number);
    let mut row = before.split_whitespace().skip(1);
    let is_user = row.next().is_some_and(is_number)
        && row.next().is_some_and(is_number)
        && before.ends_with([',', ' ', '\t']);
    has_size || is_user || lower[start..end].ends_with(" nv_")
}

impl Marks {
    /// Adds what a line in lower case shows.
    pub(super) fn add(&mut self, lower: &str) {
        self.above.add(lower);
        for found in FOUND.find(lower) {
            match WORDS.get(found.index) {
                Some((_, Mark::Amd)) => self.amd |= !lists_vendors(lower),
                Some((_, Mark::Slurm)) => self.slurm = true,
                Some((_, Mark::Prompt)) => self.login |= runs_tool(lower, found.start, found.end),
                Some((_, Mark::GpuDirect)) => self.gpu_direct = true,
                Some((_, Mark::HostMemory)) => self.host_memory |= found.begins(lower),
                Some((_, Mark::Slingshot)) => self.slingshot = true,
                Some((_, Mark::Given)) => self.given |= starts_container(lower),
                Some((_, Mark::Ofed)) => self.ofed = true,
                Some((_, Mark::Listed)) => self.lists_adapter = true,
                Some((_, Mark::DeviceNode)) => self.has_nodes |= lists_node(lower, found.end),
                Some((_, Mark::LocalDevice)) => {
                    self.names_device |= is_rdma_name(lower[found.end..].trim());
                }
                Some((_, Mark::PeerMemory)) => self.peer_memory |= is_loaded(lower, found.start, found.end),
                Some((_, Mark::ProviderVerbs)) => self.provider_verbs = true,
                Some((_, Mark::Gids)) => self.no_gids = number(&lower[found.end..]) == Some(0),
                Some((_, Mark::Reloads)) => self.reloads = true,
                Some((_, Mark::DriverPod)) => self.driver_pod = true,
                Some((_, Mark::NoSwitch)) => self.no_nvswitch = true,
                Some((_, Mark::OldAdapter)) => self.old_adapter = true,
                Some((_, Mark::SoftRoce)) => self.soft_roce = true,
                Some((_, Mark::Reconnects)) => self.reconnects = true,
                Some((_, Mark::HyperV)) => self.hyperv = true,
                Some((_, Mark::OnBoard)) => self.on_board = true,
                // `Unable to register MR buf (Invalid argument): 0x7ffc94c94c40 len: 0`
                Some((_, Mark::Length)) => {
                    self.empty_region |= lower.contains("register") && number(&lower[found.end..]) == Some(0);
                }
                Some((_, Mark::InfiniBand)) => {
                    let follows = lower.as_bytes().get(found.end);
                    self.layers.infiniband |= !follows.is_some_and(u8::is_ascii_alphanumeric);
                }
                Some((_, Mark::Unlimited)) => self.unlimited |= !is_advice(lower, found.start),
                Some((_, Mark::Ethernet)) => self.layers.ethernet = true,
                Some((_, Mark::Ipv4Gid)) => self.layers.ethernet |= lower[..found.start].contains("gid"),
                Some((_, Mark::Lid)) => {
                    // 65535 is what a port has that no subnet manager has configured.
                    self.layers.infiniband |=
                        number(&lower[found.end..]).is_some_and(|lid| (1..0xffff).contains(&lid));
                }
                // The first that is named.
                Some((_, Mark::Family(family))) => self.family = self.family.or(Some(*family)),
                None => {}
            }
        }
    }
}
