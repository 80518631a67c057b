//! Which line tells of what.
//!
//! The messages are those of NCCL 2.4 to 2.29 and RCCL (`transport/net_ib.cc`, `misc/ibvwrap.cc`), UCX 1.8 to 1.18
//! (`ib_mlx5_log.c`, `ib_md.c`), perftest, libibverbs, libmlx5 and the kernel's mlx5, IOMMU and module loader.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};

use super::{
    line::{after, device, excerpt, host, number, row, word},
    names::names,
    words::errno,
};
use crate::diagnosis::{
    completion::{WC_STATUSES, WcStatus},
    symptom::{Named, Symptom, SymptomKind},
};

/// What a line tells.
#[derive(Debug)]
pub(super) enum Found {
    Symptom(Box<Symptom>),
    Setting(String, String),
}

/// How to read the text from an anchor on.
#[derive(Debug, Clone, Copy)]
enum Read {
    /// NCCL's or libmlx5's `Got completion …`.
    Completion,
    /// `IBV_WC_…`.
    StatusName,
    /// The words of `ibv_wc_status_str`.
    StatusWords,
    /// perftest's `Failed status 12`.
    FailedStatus,
    /// UCX: `… on mlx5_0:1/RoCE (synd 0x4 vend 0x51 …)`.
    Syndrome,
    /// `ibv_reg_mr … failed …`.
    Call,
    /// `NCCL_… set to …`.
    Setting,
    /// `GPU Direct RDMA Disabled for …`.
    GpuDirect,
    /// `Got async event : …`.
    AsyncEvent,
    /// An unknown symbol, if the line says so.
    Symbol,
    /// A fault, if the line says so.
    Fault,
    /// `RLIMIT_MEMLOCK is 65536 bytes`.
    Memlock,
    /// mlx5's firmware command for a memory key.
    Mkey,
    /// The rows of a completion queue entry follow.
    Dump,
    /// The anchor says it all.
    Plain(SymptomKind),
}

/// What to look for, in any case of letters. Where several begin at one place, the first wins.
const ANCHORS: &[(&str, Read)] = {
    use Read::{
        AsyncEvent, Call, Completion, Dump, FailedStatus, Fault, GpuDirect, Memlock, Mkey, Plain, Setting,
        StatusName, StatusWords, Symbol, Syndrome,
    };
    use SymptomKind as K;
    &[
        ("got completion ", Completion),
        ("completion with error: ", StatusWords),
        ("failed status ", FailedStatus),
        ("(synd 0x", Syndrome),
        ("ibv_wc_", StatusName),
        ("ibv_", Call),
        ("fi_mr_reg", Call),
        ("nccl_", Setting),
        ("gpu direct rdma disabled", GpuDirect),
        ("got async event", AsyncEvent),
        ("ib_register_peer_memory_client", Symbol),
        ("dmar: [", Fault),
        ("io_page_fault", Fault),
        ("f_translation", Fault),
        ("rlimit_memlock is", Memlock),
        ("create_mkey", Mkey),
        ("dump error cqe", Dump),
        ("failed to modify qp", Plain(K::ConnectFailed)),
        ("couldn't allocate mr", Plain(K::RegMrFailed)),
        ("unable to open device", Plain(K::OpenFailed)),
        ("net/ib : no device found", Plain(K::NoDevice)),
        ("net/ib: no device found", Plain(K::NoDevice)),
        ("no ib devices found", Plain(K::NoDevice)),
        ("failed to open libibverbs", Plain(K::NoLibrary)),
        ("couldn't load driver", Plain(K::NoProvider)),
        ("no userspace device-specific driver found", Plain(K::NoProvider)),
        ("no socket interface found", Plain(K::NoSocketInterface)),
        ("no ip interface found", Plain(K::NoSocketInterface)),
        ("using network socket", Plain(K::SocketFallback)),
        ("via net/socket", Plain(K::SocketFallback)),
        ("health compromised", Plain(K::DeviceFatal)),
        ("caught collective operation timeout", Plain(K::CollectiveTimeout)),
        ("ncclsystemerror", Plain(K::JobFailed)),
        ("ncclremoteerror", Plain(K::JobFailed)),
        ("unhandled system error", Plain(K::JobFailed)),
    ]
};

/// The settings of NCCL that decide about RDMA.
const SETTINGS: [&str; 12] = [
    "NCCL_DMABUF_ENABLE",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_TIMEOUT",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_PLUGIN",
    "NCCL_P2P_DISABLE",
    "NCCL_SOCKET_IFNAME",
];

/// Recognises lines; remembers that the rows of a completion queue entry are due.
#[derive(Debug)]
pub(super) struct Recogniser {
    /// `None` never happens with the anchors above; a log would then tell nothing.
    anchors: Option<AhoCorasick>,
    dump: Option<DumpRows>,
}

/// The rows of a completion queue entry seen so far.
#[derive(Debug)]
struct DumpRows {
    line: u64,
    text: String,
    rows: u8,
    /// Lines that may still come.
    patience: u8,
}

impl Default for Recogniser {
    fn default() -> Self {
        let patterns = ANCHORS.iter().map(|(anchor, _)| anchor);
        let anchors = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostFirst)
            .build(patterns)
            .ok();
        Self { anchors, dump: None }
    }
}

impl Recogniser {
    /// What a line tells.
    pub(super) fn recognise(&mut self, bytes: &[u8], number: u64) -> Option<Found> {
        if let Some(found) = self.dump_row(bytes) {
            return Some(found);
        }
        let anchors = self.anchors.as_ref()?;
        anchors.find(bytes)?;
        let text = String::from_utf8_lossy(bytes);
        let mut found = None;
        for anchor in anchors.find_iter(text.as_bytes()) {
            let (name, read) = ANCHORS.get(anchor.pattern().as_usize())?;
            // Anchors are ASCII, so their ends are boundaries of characters.
            let (at, rest) = (anchor.start(), text.get(anchor.end()..).unwrap_or_default());
            if matches!(read, Read::Dump) || (matches!(read, Read::Completion) && is_dump(rest)) {
                self.dump = Some(DumpRows {
                    line: number,
                    text: excerpt(&text, at),
                    rows: 0,
                    patience: 8,
                });
                return None;
            }
            found = match read {
                Read::Setting => match setting(&text[at..]) {
                    Some(("NCCL_IB_DISABLE", "1")) => Some((SymptomKind::RdmaDisabled, Named::default())),
                    Some((name, value)) => return Some(Found::Setting(name.to_owned(), value.to_owned())),
                    None => None,
                },
                read => symptom(*read, name, &text, at, rest),
            }
            .map(|(kind, named)| (kind, named, at));
            if found.is_some() {
                break;
            }
        }
        let (kind, mut named, at) = found?;
        named.complete(names(&text));
        Some(found_symptom(
            kind,
            named,
            excerpt(&text, at),
            number,
            host(&text),
        ))
    }

    /// The fourth row of a completion queue entry holds the syndrome: `00000000 00008914 10000132 000045d2`.
    fn dump_row(&mut self, bytes: &[u8]) -> Option<Found> {
        let dump = self.dump.as_mut()?;
        let row = std::str::from_utf8(bytes).ok().and_then(row);
        match row {
            Some(_) => dump.rows += 1,
            None => dump.patience -= 1,
        }
        if dump.patience == 0 {
            self.dump = None;
            return None;
        }
        let (4, Some(row)) = (dump.rows, row) else {
            return None;
        };
        let dump = self.dump.take()?;
        let status = WcStatus::of_syndrome(u64::from(row[7]))?;
        let mut named = Named {
            vendor_error: Some(row[6].into()),
            ..Named::default()
        };
        named.complete(names(&dump.text));
        let kind = SymptomKind::Completion(status.number);
        Some(found_symptom(kind, named, dump.text, dump.line, None))
    }
}

fn found_symptom(kind: SymptomKind, named: Named, text: String, line: u64, host: Option<String>) -> Found {
    Found::Symptom(Box::new(Symptom {
        kind,
        grade: kind.grade(),
        source: format!("log line {line}"),
        line: Some(line),
        count: 1,
        text,
        named,
        hosts: host.into_iter().collect(),
    }))
}

/// libmlx5 ends the line there: `mlx5: host: got completion with error:`.
fn is_dump(rest: &str) -> bool {
    rest.trim_end().trim_start() == "with error:"
}

fn symptom(read: Read, anchor: &str, text: &str, at: usize, rest: &str) -> Option<(SymptomKind, Named)> {
    let mut named = Named::default();
    let kind = match read {
        Read::Completion => {
            // `status=4`, `status=IBV_WC_LOC_PROT_ERR(4)`, `error 4`.
            let status = match after(rest, "status=") {
                Some(value) => number(value).map_or_else(|| WcStatus::named(word(value)?), WcStatus::of),
                None => WcStatus::of(number(after(rest, "error ")?)?),
            };
            SymptomKind::Completion(status?.number)
        }
        Read::StatusName => {
            SymptomKind::Completion(WcStatus::named(&word(rest)?.to_ascii_uppercase())?.number)
        }
        Read::StatusWords => {
            let lower = rest.to_ascii_lowercase();
            let lower = lower.trim_start_matches("work request ");
            // `Work Request Flushed Error` in newer libraries.
            if lower.starts_with("flushed error") {
                SymptomKind::Completion(5)
            } else {
                let status = WC_STATUSES.iter().find(|status| lower.starts_with(status.words));
                SymptomKind::Completion(status?.number)
            }
        }
        Read::FailedStatus => SymptomKind::Completion(WcStatus::of(number(rest)?)?.number),
        Read::Syndrome => {
            let syndrome = number(&format!("0x{rest}"))?;
            SymptomKind::Completion(WcStatus::of_syndrome(syndrome)?.number)
        }
        Read::Call => call(anchor, rest, &mut named)?,
        Read::GpuDirect => {
            if rest.contains("distance ") {
                SymptomKind::GdrTooFar
            } else {
                SymptomKind::GdrDisabled
            }
        }
        Read::AsyncEvent => {
            let event = rest.to_ascii_lowercase();
            if event.contains("port error") {
                SymptomKind::PortError
            } else if ["fatal", "catastrophic"].iter().any(|word| event.contains(word)) {
                SymptomKind::DeviceFatal
            } else {
                return None;
            }
        }
        Read::Symbol => ["nknown symbol", "disagrees about"]
            .iter()
            .any(|words| text.contains(words))
            .then_some(SymptomKind::PeerMemorySymbol)?,
        Read::Fault => {
            let told = anchor != "dmar: [" || rest.to_ascii_lowercase().contains("fault");
            told.then_some(SymptomKind::IommuFault)?
        }
        Read::Memlock => {
            named.memlock_bytes = number(rest);
            SymptomKind::MemlockWarning
        }
        Read::Mkey => rest
            .contains("limits exceeded")
            .then_some(SymptomKind::ResourceLimit)?,
        Read::Plain(kind) => {
            if kind == SymptomKind::OpenFailed {
                (named.device, named.port) =
                    device(rest).map_or((None, None), |(name, port)| (Some(name), port));
            }
            named.errno = errno(&text[at..]);
            match (kind, named.errno) {
                (SymptomKind::RegMrFailed, Some(12)) => SymptomKind::RegMrNoMemory,
                (SymptomKind::ConnectFailed, Some(errno)) => connect(errno),
                (kind, _) => kind,
            }
        }
        Read::Setting | Read::Dump => return None,
    };
    Some((kind, named))
}

/// A failed call of libibverbs: `reg_mr failed with error Cannot allocate memory`.
fn call(anchor: &str, rest: &str, named: &mut Named) -> Option<SymptomKind> {
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    let (name, told) = rest.split_at(end);
    let failed = told.get(..400).unwrap_or(told).find("fail")?;
    named.errno = errno(&told[failed..]);
    named.memlock_bytes = after(told, "(current: ")
        .and_then(number)
        .and_then(|kib| kib.checked_mul(1024));
    let name = name.strip_prefix("exp_").unwrap_or(name);
    let kind = match (name, named.errno) {
        (
            "query_ece" | "set_ece" | "fork_init" | "close_device" | "destroy_qp" | "destroy_cq"
            | "dealloc_pd",
            _,
        ) => return None,
        (_, Some(5 | 19)) => SymptomKind::DeviceGone,
        _ if anchor == "fi_mr_reg" || name.starts_with("reg_") => match named.errno {
            Some(12) => SymptomKind::RegMrNoMemory,
            _ => SymptomKind::RegMrFailed,
        },
        (
            "create_qp" | "create_qp_ex" | "create_cq" | "create_cq_ex" | "create_srq" | "create_srq_ex"
            | "alloc_pd",
            _,
        ) => SymptomKind::CreateFailed,
        ("open_device", _) => SymptomKind::OpenFailed,
        ("modify_qp" | "create_ah", errno) => errno.map_or(SymptomKind::ConnectFailed, connect),
        _ => SymptomKind::CallFailed,
    };
    Some(kind)
}

/// What kind of failure to connect an error number is.
pub(crate) fn connect(errno: i32) -> SymptomKind {
    match errno {
        22 => SymptomKind::ConnectInvalid,
        61 => SymptomKind::ConnectNoData,
        100 | 101 | 113 => SymptomKind::ConnectUnreachable,
        110 => SymptomKind::ConnectTimedOut,
        5 | 19 => SymptomKind::DeviceGone,
        _ => SymptomKind::ConnectFailed,
    }
}

/// A setting that matters: `NCCL_IB_HCA set to mlx5`, `NCCL_IB_GID_INDEX set by environment to 3.`
fn setting(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let value = rest
        .strip_prefix(" set by environment to ")
        .or_else(|| rest.strip_prefix(" set to "))?;
    let end = value.find(char::is_whitespace).unwrap_or(value.len());
    let value = value[..end].trim_end_matches('.');
    let plain = !value.is_empty() && value.len() <= 200 && value.bytes().all(|b| b.is_ascii_graphic());
    (plain && SETTINGS.contains(&name)).then_some((name, value))
}
