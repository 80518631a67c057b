//! What lines show besides a failure: GUIDs of zeros that the tools of RDMA print (a virtual function without an own GUID cannot be used),
//! link-local GIDs, and GPUs.

use std::{collections::BTreeSet, sync::LazyLock};

use super::{
    MAX_NAMES, codes,
    entity::device,
    gid,
    line::{Lower, after, excerpt},
    passthrough::Passthrough,
    phrases::{Occurrence, Phrases},
    recognise::failure,
};
use crate::{
    job_view::AMPLE_MEMLOCK,
    symptom::{Family, Grade, Symptom, SymptomKind},
};

/// A GUID of zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZeroGuid {
    /// The number of its line.
    pub line: u64,
    /// The device, if this or an earlier line names it.
    pub device: Option<String>,
    /// Whether its port is of Ethernet, as far as the tool printed it below.
    pub is_ethernet: Option<bool>,
    /// The line.
    pub text: String,
}

/// Number of lines after the GUID of a device within which a tool prints the link layer of its first port.
const PORT_WITHIN: u64 = 24;

/// What Open MPI's transport openib says of an adapter that it does not use, in lower case.
const LEFT_OUT: &str = "initializing an openfabrics device";

/// What lines so far show.
#[derive(Debug, Default)]
pub(super) struct Shown {
    device: Option<String>,
    /// The first GUID of zeros.
    pub(super) zero: Option<ZeroGuid>,
    /// The first link-local GID of an Ethernet port, and the number of its line.
    pub(super) link_local: Option<(u64, String)>,
    /// The GID at index 0 in a list of all GIDs of a port, if it is link-local, and the number of its line.
    first_of_table: Option<(u64, String)>,
    /// The index of the first GID of an IPv4 address that `show_gids` lists with a network device, and the number of its line.
    pub(super) listed: Option<(u64, u32)>,
    /// The line in which Open MPI leaves out an adapter that its transport openib does not know.
    left_out: Option<u64>,
    /// What may have been given to a virtual machine.
    pub(super) passthrough: Passthrough,
    /// Whether a line names a GPU, or a library for GPUs.
    pub(super) gpu: bool,
    /// The limit of locked memory that a shell printed last, and the number of its line.
    pub(super) memlock: Option<PrintedLimit>,
    /// The line after the command that prints it.
    awaits_limit: Option<u64>,
    /// The modules of RDMA that `modprobe` did not find.
    pub(super) missing: BTreeSet<String>,
}

/// Signs of a GPU that are also within other words, as in `chip` and `Shmem`: they count where a word begins.
const SHORT: [&str; 4] = ["hip", "xpu", "hbm", "hmem"];

/// Whether what was found of [`GPU`] is a sign of a GPU.
fn is_of_gpu(text: &str, found: Occurrence) -> bool {
    let word = &text[found.start..found.end];
    let is_short = SHORT.iter().any(|short| short.eq_ignore_ascii_case(word));
    let is_within = text[..found.start].ends_with(|c: char| c.is_ascii_alphabetic());
    !(is_short && is_within || is_of_host_name(&text[found.end..]))
}

/// Whether a word is the beginning of a usual name of a host, `gpu-1` or `gpu012`, by what follows it.
fn is_of_host_name(rest: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let ends = |text: &str| !text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    let of_number = |text: &str, least: usize| digits(text) >= least && ends(&text[digits(text)..]);
    rest.strip_prefix('-').is_some_and(|number| of_number(number, 1)) || of_number(rest, 2)
}

/// A limit of locked memory that a shell printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintedLimit {
    /// The number of its line.
    pub line: u64,
    /// The limit in bytes; `None` if there is no limit.
    pub bytes: Option<u64>,
}

static GPU: LazyLock<Phrases> = LazyLock::new(|| {
    Phrases::new([
        "gpu", "cuda", "nccl", "nvidia", "nvshmem", "rocshmem", "rocm", "hip", "xpu", "hbm", "hmem",
        "peermem", "torch", "dmabuf", "dma-buf", "nixl", "mooncake", "deepep",
    ])
});

/// What a line has that names a device or shows a GUID, or a link-local GID.
static WORTH: LazyLock<Phrases> = LazyLock::new(|| {
    let of_devices = [
        LEFT_OUT,
        "ca '",
        "hca_id:",
        "ibstat",
        "ibv_devinfo",
        "guid:",
        "link layer:",
        "link_layer:",
        "ulimit -",
        "max locked memory",
        "fatal: module ",
        "failed to find module",
    ];
    let of_gids = gid::LINK_LOCAL.into_iter().chain([gid::IPV4]);
    Phrases::new(of_devices.into_iter().chain(of_gids))
});

impl Shown {
    /// Adds a line. Most lines of a log show none of this, so each is searched before it is read.
    pub(super) fn add(&mut self, text: &str, number: u64) {
        self.gpu = self.gpu || GPU.find(text).any(|found| is_of_gpu(text, found));
        if self.awaits_limit == Some(number)
            && let Some(bytes) = limit(text)
        {
            self.memlock = Some(PrintedLimit { line: number, bytes });
        }
        self.passthrough.add(text);
        if !WORTH.occur(text) {
            return;
        }
        let lower = text.to_ascii_lowercase();
        if asks_limit(&lower) {
            self.awaits_limit = Some(number + 1);
        } else if let Some(bytes) = row(&lower) {
            self.memlock = Some(PrintedLimit { line: number, bytes });
        }
        if let Some(module) = codes::absent_module(&lower)
            && self.missing.len() < MAX_NAMES
            && codes::is_module_of_rdma(module)
            && !codes::is_former(module)
        {
            self.missing.insert(module.to_owned());
        }
        if lower.contains(LEFT_OUT) {
            self.left_out = self.left_out.or(Some(number));
        }
        if self.link_local.is_none() {
            self.link_local = gid::link_local(&lower).map(|gid| (number, gid.to_string()));
        }
        if self.first_of_table.is_none() {
            let first = gid::row(&lower).filter(|(index, gid)| *index == 0 && gid::is_of_mac(*gid));
            self.first_of_table = first.map(|(_, gid)| (number, gid.to_string()));
        }
        if self.listed.is_none() {
            self.listed = gid::listed(&lower).map(|index| (number, index));
        }
        if let Some(zero) = &mut self.zero {
            // The rows of the next device are not about this one.
            if zero.is_ethernet.is_none() && number <= zero.line + PORT_WITHIN {
                zero.is_ethernet = link_layer(&lower);
            }
            return;
        }
        if names_device(&lower)
            && let Some((name, _)) = device(text)
        {
            self.device = Some(name);
        }
        let of_efa = || self.device.as_deref().and_then(Family::of) == Some(Family::Efa);
        // An EFA has no GUID.
        if is_zero(&lower) && !of_efa() {
            self.zero = Some(ZeroGuid {
                line: number,
                device: self.device.clone(),
                is_ethernet: None,
                text: excerpt(text.trim(), 0),
            });
        }
    }
}

/// Whether a line in lower case ends with the command after which a shell prints the limit that applies: `$ ulimit -l`, then `8192`. With
/// `-H` it prints how far that may be raised.
fn asks_limit(lower: &str) -> bool {
    let Some((_, options)) = lower.rsplit_once("ulimit ") else {
        return false;
    };
    let mut letters = String::new();
    let all_options = options
        .trim_end_matches(['\'', '"', ' '])
        .split(' ')
        .all(|option| {
            option.strip_prefix('-').is_some_and(|option| {
                letters.push_str(option);
                !option.is_empty()
            })
        });
    all_options && letters.contains('l') && letters.chars().all(|letter| matches!(letter, 'l' | 's'))
}

/// A limit in KiB, as a shell prints it; `Some(None)` is none.
#[expect(clippy::option_option, reason = "no number, no limit, or a limit")]
fn limit(text: &str) -> Option<Option<u64>> {
    match text.trim() {
        "unlimited" => Some(None),
        text => Some(Some(text.parse::<u64>().ok()?.checked_mul(1024)?)),
    }
}

/// The limit in a row of `ulimit -a`: `max locked memory  (kbytes, -l) 64`; its unit is 1024 bytes.
#[expect(clippy::option_option, reason = "another row, no limit, or a limit")]
fn row(lower: &str) -> Option<Option<u64>> {
    let (before, value) = lower.split_once("-l)")?;
    before
        .trim_start()
        .starts_with("max locked memory")
        .then(|| limit(value))?
}

/// Whether a line in lower case is a row of `ulimit -a` with a limit that is enough for any job: a fact, and no warning.
pub(super) fn has_ample_memlock(lower: &str) -> bool {
    row(lower).is_some_and(|limit| limit.is_none_or(|bytes| bytes >= AMPLE_MEMLOCK)) || is_unlimited(lower)
}

/// Whether a line in lower case is the row of `/proc/PID/limits` with no limit: `max locked memory   unlimited   unlimited   bytes`.
fn is_unlimited(lower: &str) -> bool {
    let values = lower.trim_start().strip_prefix("max locked memory");
    values.is_some_and(|values| values.split_whitespace().next() == Some("unlimited"))
}

impl Shown {
    /// Changes symptoms that other lines explain.
    pub(super) fn settle(&self, symptoms: &mut [Symptom]) {
        self.fell_back(symptoms);
        self.without_address(symptoms);
    }

    /// The device with a GUID of zeros, where the log shows nothing else: `rdma_cm` and subnet managers do not find it.
    pub(super) fn without_guid(&self) -> Option<Symptom> {
        let zero = self.zero.as_ref()?;
        let mut found = failure(&Lower::of(&zero.text), SymptomKind::GuidZero, zero.line);
        found.named.device.clone_from(&zero.device);
        Some(found)
    }

    /// Open MPI uses TCP, and no other transport, in the place of the adapter that it left out.
    fn fell_back(&self, symptoms: &mut [Symptom]) {
        let Some(line) = self.left_out else {
            return;
        };
        let is_of_tcp = |symptom: &&mut Symptom| {
            symptom.line > Some(line)
                && symptom.kind == SymptomKind::TcpError
                && symptom.text.to_ascii_lowercase().contains("tcp_endpoint")
        };
        for symptom in symptoms.iter_mut().filter(is_of_tcp) {
            symptom.kind = SymptomKind::SocketFallback;
            symptom.grade = Grade::Degraded;
        }
    }

    /// libfabric's provider for verbs takes the GID at index 0 for its datagrams unless a setting names another one. If that is link-local,
    /// it makes no address handle for a peer with an address.
    fn without_address(&self, symptoms: &mut [Symptom]) {
        let Some((_, gid)) = &self.first_of_table else {
            return;
        };
        for symptom in symptoms {
            let lower = symptom.text.to_ascii_lowercase();
            let inserts = lower.contains("av_insert") || lower.contains("into address vector");
            if inserts && symptom.kind == SymptomKind::PeerUnreachable {
                symptom.kind = SymptomKind::GidUnusable;
                symptom.named.gid_index.get_or_insert(0);
                symptom.named.local_gid.get_or_insert_with(|| gid.clone());
            }
        }
    }
}

/// Whether the tools print GUIDs of the device in this line: `CA 'mlx5_7'`, `hca_id: mlx5_7`, `$ ibstat mlx5_7`.
fn names_device(lower: &str) -> bool {
    let trimmed = lower.trim_start();
    trimmed.starts_with("ca '")
        || trimmed.starts_with("hca_id:")
        || lower.contains("ibstat")
        || lower.contains("ibv_devinfo")
}

/// Whether a port is of Ethernet, by the row of a tool in lower case: `Link layer: Ethernet`, `link_layer:  InfiniBand`.
fn link_layer(lower: &str) -> Option<bool> {
    let value = ["link layer:", "link_layer:"]
        .iter()
        .find_map(|label| after(lower, label))?;
    match value.trim() {
        "ethernet" => Some(true),
        "infiniband" => Some(false),
        _ => None,
    }
}

/// Whether a line in lower case shows a GUID of zeros: `Node GUID: 0x0000000000000000`, `node_guid:  0000:0000:0000:0000`.
fn is_zero(lower: &str) -> bool {
    const LABELS: [&str; 4] = ["node guid:", "node_guid:", "port guid:", "port_guid:"];
    const DIGITS: usize = 16;
    LABELS.iter().any(|label| {
        after(lower, label).is_some_and(|value| {
            let value = value.trim();
            let value = value.strip_prefix("0x").unwrap_or(value);
            let zeros = value.bytes().filter(|byte| *byte == b'0').count();
            zeros == DIGITS && value.bytes().all(|byte| matches!(byte, b'0' | b':'))
        })
    })
}
