//! Reports that the kernel writes in several records: a crash or a hung task with its call trace, a GPU that left the bus, and an error that the
//! firmware of the machine reports.
//!
//! Where it happened is in a later record than what happened. Both are joined into one message, which means the same by itself, so that
//! one record of a saved log is enough. Each part has a form that leaves no room for a name that a process chose: the headings begin the
//! record, and calls fill it. The name of a task that hangs is left out.

use crate::{
    event::{Device, EventKind},
    gpu,
    hardware_error::{self, HardwareErrors},
    modules::{is_name, is_rdma_consumer, is_rdma_core, is_rdma_module},
    record::Record,
};

/// How many records after its heading the parts of a report are looked for.
const WITHIN: u32 = 96;
/// The same in seconds, where the records have times.
const SECONDS: u64 = 5;
/// The longest heading that is kept, in bytes.
const MAX_HEADING: usize = 128;

/// How the first record of a crash begins.
const CRASHES: [&str; 12] = [
    "BUG: unable to handle ",
    "BUG: kernel NULL pointer dereference",
    "BUG: KASAN: ",
    "kernel BUG at ",
    "general protection fault",
    "invalid opcode: ",
    "divide error: ",
    "stack segment: ",
    "Oops: ",
    "Internal error: ",
    "Unable to handle kernel ",
    "kernel tried to execute ",
];
/// The headings among them that follow the first one of the same crash.
const REPEATS: [&str; 2] = ["Oops: ", "Internal error: "];
/// How the record of a processor that does not leave a function begins.
const LOCKUPS: [&str; 2] = ["BUG: soft lockup", "watchdog: BUG: soft lockup"];
/// How the record of a task that hangs begins, and goes on after the task's name.
const HUNG: (&str, &str) = ("INFO: task ", " blocked for more than ");
/// How other reports with a call trace begin, which are about nothing that failed for good.
const OTHERS: [&str; 4] = ["WARNING: ", "INFO: ", "rcu: ", "sysrq: "];

/// A call in a trace: function, offset and size, and the module if it is in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// The function.
    pub function: &'a str,
    /// The module; `None` for the kernel itself.
    pub module: Option<&'a str>,
    /// The call as the kernel writes it: `mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]`.
    text: &'a str,
}

impl<'a> Call<'a> {
    /// `mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]`, and nothing else.
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_end();
        let (place, module) = match text.split_once(" [") {
            Some((place, rest)) => {
                // Newer kernels add the build id: `[mlx5_core 0123…]`.
                let inner = rest.strip_suffix(']')?;
                (place, Some(inner.split(' ').next()?))
            }
            None => (text, None),
        };
        let (function, rest) = place.split_once("+0x")?;
        let (offset, size) = rest.split_once("/0x")?;
        let is_hex =
            |text: &str| (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
        let is_function = !function.is_empty() && function.len() <= 512 && function.bytes().all(is_part);
        let is_call = is_function && is_hex(offset) && is_hex(size) && module.is_none_or(is_name);
        is_call.then_some(Self {
            function,
            module,
            text,
        })
    }

    /// The call at the end of a message that joins a report: `BUG: … in rxe_post_send+0x12f3/0x1880 [rdma_rxe]`.
    pub fn of_message(text: &'a str) -> Option<Self> {
        let (_, call) = text.rsplit_once(" in ")?;
        // KASAN of older kernels adds the address.
        let call = call.split_once(" at addr ").map_or(call, |(call, _)| call);
        Self::parse(call).or_else(|| work(call))
    }
}

/// What a record is in a report with a call trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    /// A crash begins.
    Crash,
    /// A processor does not leave a function.
    Lockup,
    /// A task hangs.
    Hung,
    /// Another report begins, or this one has ended.
    End,
    /// The instruction that failed; `None` if it is in no known function.
    At(Option<Call<'a>>),
    /// A call of the trace that is certain.
    Called(Call<'a>),
    /// The work that the kernel did for a module: function and module, as the kernel writes them.
    Work(&'a str),
}

/// The function of a module in `Workqueue: events dtr_cma_connect_work_fn [drbd_transport_rdma]`, as [`Call`] without its place.
fn work(text: &str) -> Option<Call<'_>> {
    let (function, rest) = text.rsplit_once(" [")?;
    let module = rest.strip_suffix(']')?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let is_function = !function.is_empty() && function.len() <= 512 && function.bytes().all(is_part);
    (is_function && is_name(module)).then_some(Call {
        function,
        module: Some(module),
        text,
    })
}

impl<'a> Part<'a> {
    fn of(text: &'a str) -> Option<Self> {
        if CRASHES.iter().any(|begin| text.starts_with(begin)) {
            return Some(Self::Crash);
        }
        if LOCKUPS.iter().any(|begin| text.starts_with(begin)) {
            return Some(Self::Lockup);
        }
        if text.starts_with(HUNG.0) && text.contains(HUNG.1) {
            return Some(Self::Hung);
        }
        if let Some(at) = instruction(text) {
            return Some(at);
        }
        if OTHERS.iter().any(|begin| text.starts_with(begin)) || text.starts_with("---[ end trace") {
            return Some(Self::End);
        }
        if let Some(rest) = text.strip_prefix("Workqueue: ") {
            let (_, called) = rest.split_once(' ')?;
            return work(called.trim_end()).map(|call| Self::Work(call.text));
        }
        // `? f+0x1/0x2` is what happens to be on the stack.
        Call::parse(without_address(text)).map(Self::Called)
    }
}

/// `RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]`; `IP: [<ffffffffa06869ba>] f+0x6a/0x230 [m]` in older kernels; `pc : f+0x1/0x2 [m]` on
/// Arm; `NIP [c0080] f+0x1/0x2 [m]` on Power.
fn instruction(text: &str) -> Option<Part<'_>> {
    const LABELS: [&str; 6] = ["RIP: ", "EIP: ", "IP: ", "pc : ", "PC is at ", "NIP "];
    let rest = LABELS.iter().find_map(|label| text.strip_prefix(label))?;
    // What the program did that made the call.
    if rest.starts_with("0033:") || rest.starts_with("002b:") {
        return Some(Part::End);
    }
    let rest = rest.strip_prefix("0010:").unwrap_or(rest);
    let rest = rest.split(" RSP:").next().unwrap_or(rest);
    Some(Part::At(Call::parse(without_address(rest))))
}

/// A call without the addresses that older kernels write before it: `[<ffffffffa06869ba>] `.
fn without_address(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some((inner, after)) = rest.split_once(']') {
        let address = inner.trim_matches(['[', '<', '>']);
        if address.is_empty() || !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            break;
        }
        rest = after.trim_start();
    }
    rest
}

/// Whether a record may be a part of a report that [`Reports`] joins, so that a filter keeps it.
pub fn is_part(record: &Record<'_>) -> bool {
    gpu::begins_report(record.text).is_some()
        || gpu::goes_on(record.text)
        || hardware_error::is_part(record.text)
        || Part::of(record.text).is_some()
}

/// A report whose place is not known yet.
#[derive(Debug, Clone)]
struct Open {
    kind: EventKind,
    heading: String,
    time: Option<u64>,
    records: u32,
    /// What the kernel did when it happened.
    work: Option<String>,
    /// Its place is known: what follows repeats it.
    is_done: bool,
}

/// Joins the records of reports.
#[derive(Debug, Clone, Default)]
pub struct Reports {
    open: Option<Open>,
    /// The GPU about which the last record began to say something.
    gpu: Option<String>,
    /// What the firmware of the machine reports.
    hardware: HardwareErrors,
}

impl Reports {
    /// The next record. Returns the message of a report that is complete.
    pub fn add(&mut self, record: &Record<'_>) -> Option<String> {
        if let Some(joined) = self.of_gpu(record.text) {
            return joined;
        }
        if hardware_error::is_part(record.text) {
            return self.hardware.add(record.text);
        }
        // It is complete by itself.
        if joined(record.text).is_some() {
            self.open = None;
            return None;
        }
        let is_late = |open: &mut Open| {
            open.records += 1;
            let times = open.time.zip(record.time);
            open.records > WITHIN || times.is_some_and(|(begin, now)| now > begin + SECONDS)
        };
        if self.open.as_mut().is_some_and(is_late) {
            self.open = None;
        }
        let begin = |kind, heading| Open {
            kind,
            heading,
            time: record.time,
            records: 0,
            work: None,
            is_done: false,
        };
        match Part::of(record.text)? {
            Part::Crash => {
                let is_open = self
                    .open
                    .as_ref()
                    .is_some_and(|open| open.kind == EventKind::ModuleCrashed);
                let repeats = REPEATS.iter().any(|begin| record.text.starts_with(begin));
                if !(is_open && repeats) {
                    self.open = Some(begin(EventKind::ModuleCrashed, heading(record.text)));
                }
                None
            }
            Part::Lockup => {
                self.open = Some(begin(EventKind::ModuleHung, heading(record.text)));
                None
            }
            Part::Hung => {
                let seconds = seconds(record.text)?;
                let heading = format!("INFO: task blocked for more than {seconds} seconds");
                self.open = Some(begin(EventKind::ModuleHung, heading));
                None
            }
            Part::End => {
                self.open = None;
                None
            }
            Part::Work(call) => {
                self.open.as_mut()?.work = Some(call.to_owned());
                None
            }
            // A jump to an address outside of every function, `RIP: 0010:0x0`: only the work shows whose it was.
            Part::At(None) => {
                let is_crash = |open: &&mut Open| !open.is_done && open.kind == EventKind::ModuleCrashed;
                let open = self.open.as_mut().filter(is_crash)?;
                let call = work(open.work.as_deref()?)?;
                let is_of_rdma = is_concerned(open.kind, call.module?, call.function);
                open.is_done = is_of_rdma;
                is_of_rdma.then(|| format!("{} in {}", open.heading, call.text))
            }
            Part::At(Some(call)) | Part::Called(call) => {
                // A function of the kernel itself does what the first module of the trace asked for.
                let module = call.module?;
                let open = self.open.as_mut().filter(|open| !open.is_done)?;
                open.is_done = true;
                is_concerned(open.kind, module, call.function)
                    .then(|| format!("{} in {}", open.heading, call.text))
            }
        }
    }

    /// Whether the last record began what the next line of a file may go on with.
    pub fn has_begun(&self) -> bool {
        self.gpu.is_some()
    }

    /// The next line of a file that is not the beginning of a record: the rest of one with line breaks.
    pub fn add_rest(&mut self, line: &str) -> Option<String> {
        self.of_gpu(line.trim_start()).flatten()
    }

    /// What the driver of a GPU says in several lines; `None` if this is not one of them.
    #[expect(clippy::option_option, reason = "another record, a part, or the last part")]
    fn of_gpu(&mut self, text: &str) -> Option<Option<String>> {
        if let Some(address) = gpu::begins_report(text) {
            self.gpu = Some(address.to_owned());
            return Some(None);
        }
        let address = self.gpu.take()?;
        if !gpu::goes_on(text) {
            return None;
        }
        if gpu::is_lost(text) {
            return Some(Some(gpu::lost(&address)));
        }
        self.gpu = Some(address);
        Some(None)
    }
}

/// Whether a report about a place in a module concerns RDMA. A crash does wherever it is. A task that hangs in a driver or in the core
/// waits for the adapter. What uses RDMA waits for its server as well, unless it ends its own connection.
pub fn is_concerned(kind: EventKind, module: &str, function: &str) -> bool {
    const ENDS: [&str; 12] = [
        "free",
        "destroy",
        "shutdown",
        "remove",
        "disconnect",
        "drain",
        "teardown",
        "release",
        "exit",
        "unload",
        "stop",
        "close",
    ];
    if kind == EventKind::ModuleCrashed {
        return is_rdma_module(module);
    }
    let ends = || function.split(['_', '.']).any(|word| ENDS.contains(&word));
    is_rdma_core(module) || is_rdma_consumer(module) && ends()
}

/// The heading of a crash as it is kept: without the name of a process, which is in brackets, and without the number of the crash.
fn heading(text: &str) -> String {
    let text = text.split(" [").next().unwrap_or_default();
    let mut end = text.len().min(MAX_HEADING);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim_end().to_owned()
}

/// For how long a task hangs.
fn seconds(text: &str) -> Option<u32> {
    let (_, rest) = text.rsplit_once(HUNG.1)?;
    rest.split(' ').next()?.parse().ok()
}

/// The heading of a report as it is kept, without the process, and a message that joins a report; `None` for others.
pub(crate) fn shortened(text: &str) -> Option<String> {
    if joined(text).is_some() {
        return Some(text.to_owned());
    }
    match Part::of(text)? {
        Part::Hung => {
            let seconds = seconds(text)?;
            Some(format!("{}<hidden>{}{seconds} seconds.", HUNG.0, HUNG.1))
        }
        Part::Crash | Part::Lockup => Some(heading(text)),
        _ => None,
    }
}

/// What a message that joins a report says: `BUG: … in rxe_post_send+0x12f3/0x1880 [rdma_rxe]`.
pub(crate) fn joined(text: &str) -> Option<(EventKind, Device)> {
    if let Some(found) = hardware_error::joined(text) {
        return Some(found);
    }
    let (kind, call) = match Part::of(text)? {
        Part::Crash => (EventKind::ModuleCrashed, Call::of_message(text)?),
        Part::Lockup => (EventKind::ModuleHung, Call::of_message(text)?),
        Part::Hung => (EventKind::ModuleHung, of_hung(text)?),
        _ => return None,
    };
    let module = call.module?;
    is_concerned(kind, module, call.function).then(|| (kind, Device::Driver(module.to_owned())))
}

/// Where a task hangs, in a message without its name: `INFO: task blocked for more than 120 seconds in cmd_exec+0x3c9/0x8b0 [mlx5_core]`.
fn of_hung(text: &str) -> Option<Call<'_>> {
    let rest = text.strip_prefix("INFO: task blocked for more than ")?;
    let (seconds, call) = rest.split_once(" seconds in ")?;
    Call::parse(call).filter(|_| seconds.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
