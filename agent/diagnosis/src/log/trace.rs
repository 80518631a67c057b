//! Reports of the kernel that name what is concerned only in their call trace: memory that could not be allocated, tasks that hang, crashes.

use rdma_health_kernel_log::{
    EventKind, is_concerned, is_rdma_consumer, is_rdma_core, is_rdma_module, is_software_rdma,
};

use super::line::excerpt;
use crate::symptom::SymptomKind::{self as K};

/// Number of lines after the first one of a report in which its call trace follows.
pub(super) const WITHIN: u64 = 48;

/// First lines of such reports in lower case, all their phrases.
const HEADERS: &[(&[&str], K)] = &[
    (&["page allocation failure", "order:"], K::HostMemory),
    (&["task ", "blocked for more than", "seconds"], K::DeviceStalled),
    (&["soft lockup", "stuck for"], K::DriverCrashed),
    (&["self-detected stall on cpu"], K::DriverCrashed),
    // The firmware of the host reports a PCIe error, with the function some lines below.
    (&["[hardware error]:", "event severity: fatal"], K::PciFault),
    (&["[hardware error]:", "event severity: recoverable"], K::PciFault),
    // The kernel finds what a module does wrong while it loads.
    (&["warning: cpu:", " at "], K::ModuleMismatch),
    // Newer kernels name the CPU at the end: `WARNING: drivers/x.c:756 at f+0x1/0x2 [m], CPU#1: ksoftirqd/1/21`.
    (&["warning: ", ":", " at ", "+0x", ", cpu#"], K::ModuleMismatch),
];

/// How the end of a machine begins.
const PANIC: &str = "kernel panic - not syncing";

/// First lines of the report of a crash in lower case, or first calls of its trace, where the report is cut.
const CRASHES: &[&str] = &[
    "bug: unable to handle",
    "unable to handle kernel ",
    "kernel tried to execute ",
    "bug: kernel null pointer",
    "kernel bug at",
    "general protection fault",
    "bug: kasan: ",
    "oops: ",
    "page_fault_oops+",
    PANIC,
    // The debugger of POWER: `cpu 0x0: Vector: 300 (Data Access) at [c000001fd73436a0]`.
    ": vector: ",
];

/// Phrases of [`HEADERS`] and [`CRASHES`] that make a line worth reading.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    let headers = HEADERS.iter().filter_map(|(phrases, _)| phrases.last().copied());
    headers.chain(CRASHES.iter().copied()).chain(["call trace:"])
}

/// A report whose call trace is not read yet.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what its lines show, each independent of the others"
)]
pub(super) struct Report {
    pub(super) kind: K,
    pub(super) line: u64,
    pub(super) text: String,
    /// The first module that its trace names is where the kernel crashed. What lies deeper only called it.
    is_crash: bool,
    /// The work of a module of RDMA during which the kernel crashed.
    work: Option<String>,
    /// The task that crashed has the name of a user of RDMA.
    of_user: bool,
    /// A line says where the kernel crashed.
    placed: bool,
    /// A user of RDMA is among the modules that are loaded.
    loaded: bool,
    /// A call of its trace is in a module.
    in_module: bool,
    /// A module of RDMA of another source than the kernel's is among those that are loaded.
    with_package: bool,
    /// The kernel stopped the machine.
    is_panic: bool,
    /// The RDMA stack is among the modules that are loaded.
    with_stack: bool,
    /// A driver of a network card, whose name the trace does not show, found no memory for a packet.
    of_packets: bool,
}

/// A crash in a module that has nothing to do with RDMA. What called it may be one that has.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) text: String,
    pub(super) line: u64,
    /// The task or its work is of a user of RDMA.
    pub(super) of_user: bool,
}

impl Below {
    /// Whether a line of the trace shows that a user of RDMA called what crashed; `None` if the trace has ended.
    pub(super) fn is_called(&self, bytes: &[u8], line: u64) -> Option<bool> {
        if line > self.line + WITHIN {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok();
        let called = |text: &str| call(text).is_some_and(|(_, module)| is_rdma_consumer(module));
        Some(text.is_some_and(|text| !text.contains("? ") && called(text)))
    }
}

impl Report {
    /// The report that a line begins.
    pub(super) fn begin(text: &str, lower: &str, line: u64) -> Option<Self> {
        // What a program did is in the same words: `traps: app[4711] general protection fault ip:7f… in libmlx5.so.1[7f…]`.
        let is_of_program = lower.contains("traps: ");
        let is_crash = !is_of_program && CRASHES.iter().any(|phrase| lower.contains(phrase));
        let header = HEADERS
            .iter()
            .find(|(phrases, _)| phrases.iter().all(|phrase| lower.contains(phrase)));
        let kind = match header {
            Some((_, kind)) => *kind,
            None if is_crash => K::DriverCrashed,
            None => return None,
        };
        Some(Self::new(kind, text, line, is_crash))
    }

    /// The report of which a log shows only the trace: what happened is not known.
    pub(super) fn without_head(text: &str, lower: &str, line: u64) -> Option<Self> {
        let is_head = lower.trim_end().ends_with("call trace:");
        is_head.then(|| Self::new(K::ModuleMismatch, text, line, false))
    }

    fn new(kind: K, text: &str, line: u64, is_crash: bool) -> Self {
        Self {
            kind,
            line,
            text: excerpt(text, 0),
            is_crash,
            work: None,
            of_user: false,
            placed: false,
            loaded: false,
            in_module: false,
            with_package: false,
            is_panic: text.to_ascii_lowercase().contains(PANIC),
            with_stack: false,
            of_packets: false,
        }
    }

    /// The crash in a module that is not of RDMA, as far as this line shows it.
    pub(super) fn below(&self, bytes: &[u8]) -> Option<Below> {
        let text = std::str::from_utf8(bytes).ok()?;
        let is_other = call(text).is_some_and(|(_, module)| !is_rdma_module(module));
        (self.is_crash && is_other).then(|| Below {
            text: self.at(bytes),
            line: self.line,
            of_user: self.of_user || self.work.is_some(),
        })
    }

    /// Whether the log does not show where the kernel crashed, and the RDMA stack or a user of it was loaded.
    pub(super) fn is_unplaced(&self) -> bool {
        self.is_crash && !self.placed && (self.loaded || self.with_stack)
            || self.with_package && self.is_in_core()
            || self.is_panic
            || self.is_check_in_core()
            || self.of_packets
    }

    /// Whether a check of the kernel failed, or a processor hangs, in no module, while RDMA could be in use: the lists and counts that the kernel checks
    /// are those of its modules.
    fn is_check_in_core(&self) -> bool {
        let is_one = !self.is_crash && matches!(self.kind, K::ModuleMismatch | K::DriverCrashed);
        is_one && !self.in_module && (self.with_stack || self.of_user || self.work.is_some())
    }

    /// Whether the kernel crashed, and no line names a module in which it did: memory that a module damaged ends the kernel elsewhere.
    pub(super) fn is_in_core(&self) -> bool {
        self.is_crash && !self.in_module
    }

    /// Notes what a line says of the task that crashed.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.of_packets |=
            self.kind == K::HostMemory && memchr::memmem::find(bytes, b"alloc_skb+0x").is_some();
        let has_trace = self.is_crash || matches!(self.kind, K::ModuleMismatch | K::DriverCrashed);
        let Some(line) = std::str::from_utf8(bytes).ok().filter(|_| has_trace) else {
            return;
        };
        if let Some(work) = work_of_rdma(line) {
            self.work = Some(work.to_owned());
        }
        self.of_user |= is_task_of_user(line);
        self.placed |= is_call(line);
        self.in_module |= call(line).is_some();
        self.with_package |= has_package(line);
        self.loaded |= links_user(line);
        self.with_stack |= links_stack(line);
    }

    /// Whether a check of the kernel failed, and no module crashed.
    pub(super) fn is_warning(&self) -> bool {
        self.kind == K::ModuleMismatch && self.text.to_ascii_lowercase().contains("warning: ")
    }

    /// Whether its call trace has ended before this line, or shows that RDMA is not concerned.
    pub(super) fn has_ended(&self, bytes: &[u8], line: u64) -> bool {
        let is_elsewhere = || {
            let text = std::str::from_utf8(bytes).ok();
            text.and_then(call)
                .is_some_and(|(_, module)| !is_rdma_module(module) && !is_of_accelio(module))
        };
        let decides = self.is_crash || self.kind == K::ModuleMismatch;
        line > self.line + WITHIN || decides && is_elsewhere()
    }

    /// Whether a line of its call trace shows that RDMA is concerned. A file system over RDMA that waits does so for its server; it is not
    /// the adapter that hangs.
    pub(super) fn concerns_rdma(&self, bytes: &[u8]) -> bool {
        let Ok(line) = std::str::from_utf8(bytes) else {
            return false;
        };
        if self.kind == K::PciFault {
            return line.contains("[Hardware Error]:") && line.contains("section_type: PCIe error");
        }
        if self.is_crash && is_thread_of_rdma(line) {
            return true;
        }
        // The function belongs to the kernel itself. The work that called it belongs to RDMA.
        if self.work.is_some()
            && line.contains("IP: ")
            && (is_nowhere(line) || is_call(line) && call(line).is_none())
        {
            return true;
        }
        // A driver that is built into the kernel has no module, but its functions have its name.
        if self.is_crash && call(line).is_none() && function(line).is_some_and(is_of_rdma) {
            return true;
        }
        if loads(line).is_some_and(is_rdma_core) {
            return matches!(self.kind, K::ModuleMismatch | K::DriverCrashed);
        }
        let Some((function, module)) = call(line) else {
            return false;
        };
        match self.kind {
            K::HostMemory => is_rdma_module(module),
            K::ModuleMismatch if is_in_stack(line) => true,
            // Drivers warn of much that they survive.
            K::ModuleMismatch => is_rdma_module(module) && !line.contains("? "),
            _ if self.is_crash => is_rdma_module(module) || is_of_accelio(module),
            _ => is_concerned(EventKind::ModuleHung, module, function),
        }
    }

    /// What it shows, whose trace concerns RDMA in this line. What a module that was loaded before warned of is not known.
    pub(super) fn kind_at(&self, bytes: &[u8]) -> K {
        let line = String::from_utf8_lossy(bytes);
        if self.kind != K::ModuleMismatch || loads(&line).is_some() {
            return self.kind;
        }
        // What the module only called may warn of what another one did.
        let is_own = || {
            let begins = call(&self.text).is_some() || is_in_stack(&self.text) || line.contains("IP: ");
            begins
                && (is_in_stack(&self.text) || call(&line).is_some_and(|(_, module)| is_rdma_module(module)))
        };
        if self.is_warning() && is_own() {
            K::DriverWarned
        } else {
            K::Unrecognised
        }
    }

    /// Its first line, with the call that shows where it happened, if that is in another line.
    pub(super) fn at(&self, bytes: &[u8]) -> String {
        let line = String::from_utf8_lossy(bytes);
        let place = line
            .rfind("+0x")
            .map(|at| line[..at].rfind([' ', ':']).map_or(0, |begin| begin + 1));
        match place.filter(|_| {
            let is_built_in = || self.work.is_none() && is_call(&line) && !is_call(&self.text);
            call(&self.text).is_none() && (call(&line).is_some() || is_built_in())
        }) {
            Some(begin) => format!("{} in {}", self.text.trim_end(), line[begin..].trim_end()),
            None => match &self.work {
                Some(work) => format!("{} in the work {work}", self.text.trim_end()),
                None => self.text.clone(),
            },
        }
    }
}

/// Whether the kernel jumped to no function: `RIP: 0010:0x0`.
fn is_nowhere(line: &str) -> bool {
    line.trim_end().ends_with(":0x0")
}

/// The function that a line of a trace names, if the call is certain: `? f+0x1/0x2` is what happens to be on the stack.
fn function(line: &str) -> Option<&str> {
    let (before, _) = line.split_once("+0x").filter(|_| is_call(line))?;
    let name = before.rsplit([' ', ':']).next()?;
    (!before.contains("? ")).then_some(name)
}

/// Whether a function has the name of a module of RDMA: `mana_detach`, `mlx5e_poll_tx_cq`, `__ib_drain_rq`.
fn is_of_rdma(function: &str) -> bool {
    let function = function.trim_start_matches('_');
    let mut ends = function
        .match_indices('_')
        .map(|(end, _)| &function[..end])
        .take(2);
    ends.any(|name| is_rdma_module(name) || is_software_rdma(name) || is_rdma_module(&format!("{name}_core")))
        || is_rdma_core(function)
}

/// Whether a line of a crash's report names a thread that does nothing but RDMA: the connections of ksmbd over SMB Direct, which has the port
/// 5445 for iWARP, Lustre's threads of o2ib, and those of RDS.
fn is_thread_of_rdma(line: &str) -> bool {
    const THREADS: [&str; 4] = ["ksmbd:r", "kiblnd_", "krdsd", "isert_"];
    let thread = line.split_once(" Comm: ").map(|(_, thread)| thread);
    thread.is_some_and(|thread| THREADS.iter().any(|name| thread.starts_with(name)))
}

/// Whether a line of a crash's report names a task of a user of RDMA: a thread of a target of iSER (`Comm: ISER-PSC-Net5`), SRP or NVMe.
fn is_task_of_user(line: &str) -> bool {
    const USERS: [&str; 8] = [
        "iser", "isert", "srpt", "nvmet", "ksmbd", "svcrdma", "rds", "rtrs",
    ];
    let Some((_, task)) = line.split_once(" Comm: ") else {
        return false;
    };
    let task = task.to_ascii_lowercase();
    let is_one = |name: &str| {
        task.strip_prefix(name)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    USERS.iter().any(|name| is_one(name))
}

/// Whether the kernel reports that a program crashed in a library of RDMA, by a line in lower case: `app[4711]: segfault at 0 ip 7f… sp 7f… error 4 in
/// mca_btl_openib.so[7f…+40000]`.
pub(super) fn is_crash_in_library(lower: &str) -> bool {
    const CRASHES: [&str; 4] = [
        "segfault at ",
        "general protection fault",
        "general protection ip:",
        "trap ",
    ];
    const LIBRARIES: [&str; 22] = [
        "ibverbs",
        "rdmacm",
        "ibumad",
        "ibmad",
        "mlx4",
        "mlx5",
        "efa-",
        "hfi1",
        "psm2",
        "psm3",
        "openib",
        "libucp",
        "libuct",
        "libucs",
        "libucm",
        "ucx",
        "libfabric",
        "nccl-net",
        "nvshmem",
        "bnxt_re",
        "irdma",
        "mtl_ofi",
    ];
    if !CRASHES.iter().any(|words| lower.contains(words)) {
        return false;
    }
    let file = lower
        .rsplit_once(" in ")
        .and_then(|(_, rest)| rest.split_once('['))
        .map(|(file, _)| file);
    file.is_some_and(|file| file.contains(".so") && LIBRARIES.iter().any(|name| file.contains(name)))
}

/// Whether a line lists the modules that are loaded, and a user of RDMA is among them.
fn links_user(line: &str) -> bool {
    const USERS: [&str; 2] = ["ksmbd", "smbdirect"];
    let modules = line.split_once("Modules linked in:").map(|(_, modules)| modules);
    modules.is_some_and(|modules| {
        modules.split_whitespace().any(|module| {
            let name = module.split('(').next().unwrap_or_default();
            is_rdma_consumer(name) || USERS.contains(&name)
        })
    })
}

/// Whether a line lists the modules that are loaded, and the core of the RDMA stack or what uses it is among them.
fn links_stack(line: &str) -> bool {
    let modules = line.split_once("Modules linked in:").map(|(_, modules)| modules);
    modules.is_some_and(|modules| {
        modules.split_whitespace().any(|module| {
            let name = module.split('(').next().unwrap_or_default();
            matches!(name, "ib_core" | "rdma_cm" | "ib_uverbs") || is_rdma_consumer(name)
        })
    })
}

/// Whether a report names a file of the RDMA stack of the kernel: `WARNING: CPU: 0 PID: 0 at …/drivers/infiniband/hw/ntrdma/ntrdma_qp.c:1683`.
fn is_in_stack(text: &str) -> bool {
    text.contains("drivers/infiniband/")
}

/// Whether a line lists a module of RDMA that another package than the kernel's brought: `mlx5_core(OE)`.
fn has_package(line: &str) -> bool {
    let modules = line.split_once("Modules linked in:").map(|(_, modules)| modules);
    modules.is_some_and(|modules| {
        modules.split_whitespace().any(|module| {
            let (name, flags) = module.split_once('(').unwrap_or((module, ""));
            flags.contains('O') && is_rdma_module(name)
        })
    })
}

/// Whether a module is of Accelio, whose modules carry messages over RDMA.
fn is_of_accelio(module: &str) -> bool {
    module.starts_with("xio_")
}

/// The work of a module of RDMA that a line of a crash's report names: `Workqueue: ib-comp-wq ib_cq_poll_work [ib_core]`.
fn work_of_rdma(line: &str) -> Option<&str> {
    let (_, work) = line.split_once("Workqueue: ")?;
    let work = work.trim_end();
    let (_, module) = work.strip_suffix(']')?.rsplit_once('[')?;
    is_rdma_module(module).then_some(work)
}

/// Whether a line of a report shows the instruction with which a check of the kernel ends (`ud2`): `Code: … 75 27 <0f> 0b 5b …`. Where the heading is cut, it is
/// a WARN rather than a crash.
pub(super) fn is_check(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"Code: ").is_some() && memchr::memmem::find(bytes, b"<0f> 0b").is_some()
}

/// Whether a line is a call of a trace of the kernel: ` ib_cm_init+0x3a5/0x8d0 [ib_cm]`, ` ? do_fork+0x1/0x20`.
pub(super) fn is_call(text: &str) -> bool {
    let Some((call, place)) = text.split_once("+0x") else {
        return false;
    };
    let (offset, size) = place.split_once("/0x").unwrap_or_default();
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = size.split([' ', '\r']).next().unwrap_or_default();
    !call.is_empty() && is_hex(offset) && is_hex(size)
}

/// The function and the module in a line of a call trace: ` mlx5_ib_create_cq+0x3a5/0x8d0 [mlx5_ib]`; in the heading of a report that names
/// the call: `BUG: KASAN: … in rxe_post_send+0x12f3/0x1880 [rdma_rxe] at addr …`.
pub(crate) fn call(line: &str) -> Option<(&str, &str)> {
    let (call, rest) = line.trim_end().rsplit_once('[')?;
    let (inner, after) = rest.split_once(']')?;
    let is_end = after.is_empty()
        || after.starts_with(" at addr ")
        || after.starts_with(", CPU#")
        || line.contains("BUG: KASAN:");
    let module = inner.split(' ').next()?;
    let (before, _) = call.rsplit_once("+0x").filter(|_| is_end)?;
    let function = before.rsplit([' ', ':']).next()?;
    // The room that the kernel leaves before a function.
    Some((function.strip_prefix("__pfx_").unwrap_or(function), module))
}

/// The module from another source than the kernel's that is being loaded: `Modules linked in: mlx5_core(OE+) mlx_compat(OE) …`.
fn loads(line: &str) -> Option<&str> {
    let (_, modules) = line.split_once("Modules linked in:")?;
    modules.split_whitespace().find_map(|word| {
        let (name, flags) = word.strip_suffix(')')?.split_once('(')?;
        (flags.contains('+') && flags.contains('O')).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use super::*;

    #[test]
    fn a_report_concerns_rdma_if_its_trace_does() {
        let failure = "[1.1] kworker/2:1: page allocation failure: order:9, mode:0x40cc0(GFP_KERNEL)";
        let report = Report::begin(failure, &failure.to_ascii_lowercase(), 1).unwrap();
        assert_eq!(report.kind, K::HostMemory);
        assert!(report.concerns_rdma(b"[1.1]  mlx5_ib_create_cq+0x3a5/0x8d0 [mlx5_ib]"));
        assert!(report.concerns_rdma(b"[1.1]  frwr_mr_init+0x3a5/0x8d0 [rpcrdma]"));
        assert!(!report.concerns_rdma(b"[1.1]  amdgpu_dm_commit+0x12/0x90 [amdgpu]"));
        assert!(!report.concerns_rdma(b"[1.1] Modules linked in: mlx5_core [last unloaded: mlx5_ib]"));
        let hung = "INFO: task dd:77 blocked for more than 120 seconds.";
        let report = Report::begin(hung, &hung.to_ascii_lowercase(), 1).unwrap();
        assert!(report.concerns_rdma(b" cmd_exec+0x3c9/0x8b0 [mlx5_core]"));
        assert!(!report.concerns_rdma(b" rpc_wait_bit_killable+0x1/0x2 [rpcrdma]"));
        assert!(!report.has_ended(b"", 20) && report.has_ended(b"", 200));
    }

    #[test]
    fn what_a_module_of_rdma_warned_of_is_not_known() {
        let header =
            "[ 2157.5] WARNING: CPU: 0 PID: 5342 at net/core/skbuff.c:7140 skb_splice_from_iter+0x173/0x320";
        let report = Report::begin(header, &header.to_ascii_lowercase(), 1).unwrap();
        let own = b"[ 2157.6]  siw_tx_hdt+0x695/0xa40 [siw]";
        assert!(report.concerns_rdma(own) && report.kind_at(own) == K::Unrecognised);
        assert!(!report.concerns_rdma(b"[ 2157.6]  ? siw_tx_hdt+0x695/0xa40 [siw]"));
        let place = b"RIP: 0010:siw_tx_hdt+0x695/0xa40 [siw]";
        assert!(report.concerns_rdma(place) && report.kind_at(place) == K::DriverWarned);
        for heading in [
            "WARNING: CPU: 7 PID: 23655 at include/linux/cpumask.h:106 irdma_cfg_ceq_vector+0x34c/0x3f0 [irdma]",
            "WARNING: CPU: 0 PID: 0 at /src/drivers/infiniband/hw/own/own_qp.c:16 own_send+0x384/0x9e0 [own]",
            "WARNING: drivers/infiniband/sw/rxe/rxe_comp.c:756 at rxe_completer+0x989/0xcc0 [rdma_rxe], CPU#1: ksoftirqd/1/21",
        ] {
            let report = Report::begin(heading, &heading.to_ascii_lowercase(), 1).unwrap();
            assert!(report.concerns_rdma(heading.as_bytes()), "{heading}");
            assert_eq!(report.kind_at(heading.as_bytes()), K::DriverWarned, "{heading}");
        }
        assert!(report.has_ended(b"[ 2157.6]  nf_hook_slow+0x1/0x30 [nf_tables]", 3));
        let loaded = b"Modules linked in: mlx5_core(OE+) mlx_compat(OE)";
        assert!(report.concerns_rdma(loaded) && report.kind_at(loaded) == K::ModuleMismatch);
    }

    #[test]
    fn a_crash_below_the_work_of_rdma_is_of_rdma() {
        let header = "[410.65] Oops: 0000 [#1] SMP";
        let begin = || Report::begin(header, &header.to_ascii_lowercase(), 1).unwrap();
        let mut report = begin();
        report.add(b"[410.66] Workqueue: ib-comp-wq ib_cq_poll_work [ib_core]");
        let place = b"[410.66] RIP: 0010:__queue_work+0x1b/0x340";
        assert!(!report.has_ended(place, 5) && report.concerns_rdma(place));
        assert!(
            report
                .at(place)
                .ends_with("in the work ib-comp-wq ib_cq_poll_work [ib_core]")
        );
        assert!(report.has_ended(b"[410.66] RIP: 0010:xfs_log_write+0x1b/0x340 [xfs]", 5));
        let mut report = begin();
        report.add(b"[410.66] Workqueue: events_unbound wb_workfn");
        assert!(!report.concerns_rdma(place));
        let mut report = begin();
        report.add(b"[410.66] Workqueue: ib-comp-wq ib_cq_poll_work [ib_core]");
        assert!(report.concerns_rdma(b"[410.66] RIP: 0010:0x0"));
    }

    #[test]
    fn the_functions_of_a_driver_without_a_module_have_its_name() {
        for header in [
            "[191.3] BUG: kernel NULL pointer dereference, address: 0000000000000098",
            "[  9.1] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000008",
        ] {
            let report = Report::begin(header, &header.to_ascii_lowercase(), 1).unwrap();
            for own in [
                "  mana_detach+0x17c/0x4f0",
                " mlx5e_poll_tx_cq+0x14c/0x438",
                " __ib_drain_rq+0x1/0x20",
            ] {
                assert!(report.concerns_rdma(own.as_bytes()), "{own}");
                assert!(report.at(own.as_bytes()).contains(own.trim_start()), "{own}");
            }
            for other in [
                "RIP: 0010:down_write+0x19/0x50",
                "  debugfs_remove+0x44/0x70",
                "  ? mana_detach+0x17c/0x4f0",
                "  ibs_op_event+0x1/0x20",
                "  pci_device_shutdown+0x3a/0x80",
            ] {
                assert!(!report.concerns_rdma(other.as_bytes()), "{other}");
            }
        }
        let header = "BUG: KASAN: use-after-free in mlx5e_stats_grp_sw_update_stats+0x465/0xf80";
        let report = Report::begin(header, &header.to_ascii_lowercase(), 1).unwrap();
        assert!(report.concerns_rdma(header.as_bytes()));
    }

    #[test]
    fn the_first_module_of_a_crash_decides_whose_it_is() {
        for header in [
            "BUG: unable to handle page fault for address: ffff9",
            "Oops: 0002 [#1] PREEMPT SMP",
            "  ? page_fault_oops+0x171/0x4c0",
        ] {
            let report = Report::begin(header, &header.to_ascii_lowercase(), 1).unwrap();
            assert_eq!(report.kind, K::DriverCrashed);
            let own = b"RIP: 0010:esw_port_metadata_get+0x19/0x30 [mlx5_core]";
            assert!(report.concerns_rdma(own) && !report.has_ended(own, 3));
            assert!(!report.has_ended(b"RIP: 0010:__list_del_entry_valid+0x19/0x30", 3));
            assert!(report.has_ended(b" nvme_queue_rq+0x1/0x30 [nvme]", 3));
        }
    }
}
