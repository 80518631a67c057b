//! What lines before a failure show that it depends on.

use rdma_health_protocol::WcStatus;

use crate::{
    log::{GPU_WITHIN, connection, memory},
    symptom::{self, Gpu, Software, Symptom, SymptomKind},
};

/// What makes a line worth reading.
pub(super) const ANCHORS: &[&str] = &[PERFTEST_GID, UNMET, FUNCTIONS, PORTS_OF_NFS, OF_MOUNT];

/// The file of the kernel that takes the number of virtual functions.
const FUNCTIONS: &str = "sriov_numvfs";
/// The file of the kernel's NFS server that takes the transports.
const PORTS_OF_NFS: &str = "nfsd/portlist";
/// What a shell prints if the kernel does not take what was written. The file is named in the command before it.
const NOT_WRITTEN: &str = "write error: ";
/// What begins a line of the program that mounts NFS. It names the transport only in the command, or in the options that it tries (`mount -v`).
const OF_MOUNT: &str = "mount.nfs: ";
/// Number of lines after a command in which its error may follow.
const ERROR_WITHIN: u64 = 3;

/// What begins a line of perftest with the GID of an end.
const PERFTEST_GID: &str = "gid: ";
/// Number of lines after an empty GID in which the connection may fail.
const EMPTY_WITHIN: u64 = 8;
/// What libfabric's provider for EFA prints if the device cannot do what the program asks for; the call that fails follows.
const UNMET: &str = "efa_check_hints";
/// Number of lines after it in which the call may fail.
const UNMET_WITHIN: u64 = 16;

/// The last line of each kind.
#[derive(Debug, Default)]
pub(super) struct Nearby {
    /// It shows GPU memory, and whose.
    gpu: Option<(u64, Gpu)>,
    /// It ends a connection on purpose.
    ended: Option<u64>,
    /// In it, perftest shows a GID of zeros.
    empty_gid: Option<u64>,
    /// In it, the provider for EFA refuses the capabilities that a program requests.
    unmet: Option<u64>,
    /// It is a command that needs RDMA of the kernel: what a refusal shows, and the command.
    written: Option<(u64, SymptomKind, String)>,
}

impl Nearby {
    /// Adds the memory that a line in lower case shows.
    pub(super) fn add_memory(&mut self, lower: &str, number: u64) {
        if let Some(gpu) = memory::of_neighbour(lower) {
            self.gpu = Some((number, gpu));
        }
    }

    /// Adds what else a line in lower case shows. Returns whether it shows nothing besides.
    pub(super) fn add(&mut self, lower: &str, number: u64) -> bool {
        if is_empty_gid(lower) {
            self.empty_gid = Some(number);
            return true;
        }
        if lower.contains(UNMET) && lower.contains("unsupported") {
            self.unmet = Some(number);
        }
        if connection::is_ended(lower) {
            self.ended = Some(number);
        }
        if let Some(kind) = of_kernel(lower) {
            self.written = Some((number, kind, lower.trim().to_owned()));
        }
        false
    }

    /// What the refusal of such a command shows, with the command before it: `-bash: echo: write error: Numerical result out of range`.
    pub(super) fn not_written(&self, lower: &str, number: u64) -> Option<(SymptomKind, String)> {
        let (at, kind, command) = self.written.as_ref()?;
        let (kind, reason, within) = if let Some((_, reason)) = lower.split_once(NOT_WRITTEN) {
            (*kind, reason, ERROR_WITHIN)
        } else {
            // A mount over TCP may follow, whose command is not read.
            let (_, reason) = lower.split_once(OF_MOUNT).filter(|_| names_mount(command))?;
            (of_mount(reason)?, reason, 1)
        };
        let is_near = *at <= number && at + within >= number;
        is_near.then(|| (kind, format!("{command}: {}", reason.trim())))
    }

    /// The GPU whose memory one of the lines up to `line` shows, at most `within` lines before.
    pub(super) fn gpu_memory(&self, line: u64, within: u64) -> Option<Gpu> {
        let (at, gpu) = self.gpu?;
        (at + within >= line).then_some(gpu)
    }

    /// Completes what the line with this number shows by what lines before it show.
    pub(super) fn complete(&self, symptom: &mut Symptom, lower: &str, number: u64) {
        let follows = |at: Option<u64>, within: u64| at.is_some_and(|at| at + within >= number);
        if matches!(
            symptom.kind,
            SymptomKind::RegMrFailed | SymptomKind::RegMrNoMemory
        ) {
            let near = self.gpu_memory(number, GPU_WITHIN);
            symptom.named.gpu = memory::of_registration(lower).or(near);
        }
        if follows(self.empty_gid, EMPTY_WITHIN) && symptom.kind.is_of_connecting() {
            symptom.named.local_gid.get_or_insert_with(|| "::".to_owned());
            symptom.software.get_or_insert(Software::Perftest);
        }
        if follows(self.unmet, UNMET_WITHIN)
            && symptom.kind == SymptomKind::NoDevice
            && lower.contains("getinfo")
        {
            symptom.kind = SymptomKind::UnsupportedAdapter;
        }
        // Who ends a connection flushes what is still posted.
        if follows(self.ended, connection::WITHIN)
            && symptom.kind == SymptomKind::Completion(WcStatus::WrFlushErr)
        {
            symptom.grade = symptom::Grade::Note;
        }
    }
}

/// What it shows if a command that needs RDMA of the kernel is refused: a mount of NFS, or one that writes to a file: the number of virtual functions, or RDMA as a transport of NFS,
/// which is in a module.
fn of_kernel(lower: &str) -> Option<SymptomKind> {
    if names_mount(lower) && lower.contains("rdma") {
        return Some(SymptomKind::ModuleMissing);
    }
    let writes = ["echo ", "printf ", "tee "]
        .iter()
        .any(|word| lower.contains(word));
    if !writes {
        None
    } else if lower.contains(FUNCTIONS) {
        Some(SymptomKind::FunctionUnconfigured)
    } else {
        (lower.contains(PORTS_OF_NFS) && lower.contains("rdma")).then_some(SymptomKind::ModuleMissing)
    }
}

/// Whether a line is a command that mounts NFS, or the options that it tries.
fn names_mount(lower: &str) -> bool {
    let tries = lower.contains("mount.nfs") && lower.contains("options");
    tries || lower.contains("mount ") && (lower.contains("nfs") || lower.contains("port=20049"))
}

/// What the refusal of a mount over RDMA shows, after the name of the program.
fn of_mount(reason: &str) -> Option<SymptomKind> {
    const REASONS: [(&str, SymptomKind); 4] = [
        ("protocol not supported", SymptomKind::ModuleMissing),
        ("connection refused", SymptomKind::NoListener),
        ("connection timed out", SymptomKind::PeerUnreachable),
        ("no route to host", SymptomKind::RouteUnresolved),
    ];
    let named = REASONS.iter().find(|(words, _)| reason.contains(words));
    named.map(|(_, kind)| *kind)
}

/// Whether perftest shows that an end has an empty GID: ` GID: 00:00:…:00`.
fn is_empty_gid(lower: &str) -> bool {
    /// The bytes of a GID.
    const BYTES: usize = 16;
    lower.trim().strip_prefix(PERFTEST_GID).is_some_and(|gid| {
        gid.split(':').count() == BYTES && gid.bytes().all(|byte| matches!(byte, b'0' | b':'))
    })
}
