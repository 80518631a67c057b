//! What one line shows, by itself.

use std::cell::LazyCell;

use rdma_health_protocol::{Errno, WcStatus};

use crate::{
    log::{
        cufile, driver,
        entity::{is_rdma_name, named},
        errors::errno,
        events::{Event, event, is_of_efa, is_of_spdk},
        fabric, families, foreign, given_up,
        grade::{Grade, Level},
        grammar, install,
        kernel::is_of_kernel,
        line::{Lower, excerpt, host},
        loader,
        needless::{goes_on, has_other_path, has_substitute, is_needless},
        operation::{Operation, operation, special},
        status::{names_status, status},
    },
    symptom::{self, Software, Symptom, SymptomKind, Transition},
};

/// What a line shows, and where in the line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) kind: SymptomKind,
    at: usize,
    errno: Option<Errno>,
    /// The message is known.
    known: bool,
    /// The operation that failed without an error number in this line.
    pub(super) operation: Option<Operation>,
}

impl Reading {
    /// A message that is known.
    pub(super) fn of(kind: SymptomKind, at: usize) -> Self {
        Self {
            kind,
            at,
            errno: None,
            known: true,
            operation: None,
        }
    }

    /// The same in a text of another length.
    pub(super) fn within(self, text: &str) -> Self {
        Self {
            at: self.at.min(text.len()),
            ..self
        }
    }

    /// A failure that is not recognised.
    pub(super) fn unrecognised() -> Self {
        Self {
            known: false,
            ..Self::of(SymptomKind::Unrecognised, 0)
        }
    }
}

/// An attribute that a device did not set does not matter. That the device does not answer any longer does.
fn device_gone(lower: &str, at: usize, number: Option<Errno>) -> Option<Reading> {
    let is_gone = lower.contains("_ece") && matches!(number, Some(Errno::ENODEV | Errno::EIO));
    is_gone.then(|| Reading {
        errno: number,
        ..Reading::of(SymptomKind::DeviceGone, at)
    })
}

/// Reads a line. `None`: it is not about RDMA, shows no failure, or quotes one. An error number in a line of a driver of the
/// kernel is not that of a call of the job.
pub(super) fn read_as_worded(line: &Lower<'_>, of_driver: bool) -> Option<Reading> {
    let lower = line.lower.as_str();
    let grade = line.grade();
    if grade.quoted {
        return commented(line, of_driver);
    }
    if let Some(shown) = cufile::find(lower) {
        return shown.map(|(kind, at)| of_kind(kind, at));
    }
    // What NCCL says of a plugin that does not load begins with the same words as what it says of one that is not there.
    // libfabric tries all of its providers, and informs about those that it cannot load.
    let tries = lower.contains("libfabric:") && grade.level == Some(Level::Info);
    let is_shown = !tries && (!grade.harmless || lower.contains("/plugin") || loader::is_misfit(lower));
    if let Some((kind, at)) = loader::find(lower).filter(|_| is_shown) {
        return Some(Reading::of(kind, at));
    }
    // What a module or its loader reports says what it is about.
    let row = families::find(lower)
        .filter(|(kind, _)| {
            let is_named = || grade.about_rdma || of_driver || names_topic(lower, *kind);
            !families::needs_topic(*kind) || is_named()
        })
        .filter(|(kind, _)| grade.about_rdma || !foreign::is_other_connection(lower, *kind));
    if grade.harmless || is_replaced(lower, grade, row) || foreign::is_of_other_layer(lower) {
        return None;
    }
    if foreign::is_of_tcp(lower) {
        return grade.is_failure().then(|| over_tcp(line));
    }
    if !(grade.about_rdma || row.is_some()) {
        return None;
    }
    // A driver crashed in one of its functions, which is not an operation of the job.
    if lower.contains("rip: 0010:") {
        return Some(in_driver());
    }
    if let Some(offer) = offer(lower) {
        return offer.map(|kind| Reading::of(kind, 0));
    }
    let informs = grade.level == Some(Level::Info);
    let is_registration = || row.is_some_and(|(kind, _)| kind == SymptomKind::RegMrFailed);
    let number = if of_driver && !is_registration() {
        None
    } else {
        errno(line).filter(|_| !grammar::is_status_of_library(lower))
    };
    // The status of a completion says more than that something failed.
    let completed = LazyCell::new(|| {
        status(line).filter(|status| {
            !informs || grade.failing && *status != WcStatus::WrFlushErr && names_status(lower)
        })
    });
    let called = LazyCell::new(|| called_in(line));
    if let Some((kind, at)) = row
        .filter(|(_, at)| !informs || families::is_of_information(lower, *at))
        .filter(|(kind, _)| {
            // The heading of a completion says less than its status in the same line.
            let is_heading = *kind == SymptomKind::JobFailed || families::is_heading(lower, *kind);
            let has_status = || completed.is_some() || is_of_efa(line);
            families::is_decisive(*kind) && !is_heading || !has_status()
        })
    {
        // A row of a program that names the error in the same line gives way to the operation with its error.
        let names_operation =
            || number.is_some() && called.is_some_and(|(operation, _)| operation != Operation::Call);
        let is_decisive = families::is_decisive(kind) && kind != SymptomKind::JobFailed;
        if is_decisive || !names_operation() {
            return Some(Reading {
                errno: number,
                ..Reading::of(refined(kind, number.or_else(|| in_time(lower))), at)
            });
        }
    }
    match event(line) {
        Some(Event::Harmless) => return None,
        Some(Event::Symptom(kind)) if !informs || is_of_spdk(lower) || is_of_ucx_client(lower) => {
            let kind = if is_of_efa(line) {
                kind
            } else {
                refined(kind, number)
            };
            return Some(Reading {
                errno: number,
                ..Reading::of(kind, 0)
            });
        }
        _ => {}
    }
    let gone = || given_up::find(lower, informs).filter(|_| row.is_none() && number.is_none());
    if let Some(kind) = completed.map(SymptomKind::Completion).or_else(gone) {
        return Some(Reading::of(kind, place(lower)));
    }
    if !(grade.is_failure() || names_call(lower)) {
        return None;
    }
    if let Some(kind) = driver::unserved(line, of_driver).or_else(|| grammar::of_others(lower)) {
        return Some(Reading::of(kind, 0));
    }
    if let Some(kind) = grammar::unfinished(lower).filter(|_| number.is_none()) {
        return Some(Reading::of(kind, 0));
    }
    match *called {
        Some((Operation::Harmless, at)) => device_gone(lower, at, number),
        Some((operation, at)) if !of_driver => failed_call(lower, operation, at, number),
        Some((Operation::Create, at)) => not_created(line, at),
        // A name that another device has: the kernel opens no files for a process here.
        _ if number == Some(Errno::ENFILE) && is_of_kernel(line.text) => unknown(lower, None),
        _ => unknown(lower, number.filter(|errno| !is_local(line, *errno))),
    }
}

/// Whether the kernel names an error number that is one of this host there, and neither of a peer nor of the adapter: it maps memory for DMA, registers
/// a module, or calls another part of itself.
fn is_local(line: &Lower<'_>, errno: Errno) -> bool {
    const LOCAL: [&str; 9] = [
        "register",
        "mapping",
        " map ",
        "alloc",
        "query",
        " cb ",
        "callback",
        "put_pages",
        "put_response",
    ];
    const MADE: [&str; 4] = ["alloc", "create", "reg_mr", "qp"];
    if !is_of_kernel(line.text) {
        return false;
    }
    let has = |words: &[&str]| words.iter().any(|word| line.lower.contains(word));
    match errno {
        Errno::ETIMEDOUT | Errno::ETIME => has(&LOCAL),
        Errno::ENOMEM => !has(&MADE),
        _ => false,
    }
}

/// A crash of a driver.
fn in_driver() -> Reading {
    Reading {
        known: false,
        ..Reading::of(SymptomKind::DriverCrashed, 0)
    }
}

/// A reading of this kind, whose message is known unless it is not recognised.
fn of_kind(kind: SymptomKind, at: usize) -> Reading {
    if kind == SymptomKind::Unrecognised {
        return Reading::unrecognised();
    }
    Reading::of(kind, at)
}

/// A message with its error number behind the mark of a comment: a person wrote it, or quotes what a program printed.
fn commented(line: &Lower<'_>, of_driver: bool) -> Option<Reading> {
    let rest = line.text.trim_start().strip_prefix("//")?;
    let reading = read_as_worded(&Lower::of(rest.trim_start_matches('/')), of_driver)?;
    (reading.known && reading.errno.is_some()).then(Reading::unrecognised)
}

/// Whether a line names a package of RDMA, or a module of the GPU's driver that was refused for its signature.
fn names_topic(lower: &str, kind: SymptomKind) -> bool {
    install::names_package(lower) || kind == SymptomKind::ModuleUnsigned && lower.contains("nvidia")
}

/// Whether Open MPI names what failed in a list, and the error in the next line: `Function:    ibv_create_cq()`.
fn names_call(lower: &str) -> bool {
    lower.trim_start().starts_with("function:") && lower.trim_end().ends_with("()")
}

/// The operation that a line names. The kernel's own users of `rdma_cm` open no device, and need no module beyond it.
fn called_in(line: &Lower<'_>) -> Option<(Operation, usize)> {
    operation(&line.lower).filter(|(called, _)| *called != Operation::CmOpen || !is_of_kernel(line.text))
}

/// Whether a program warns of something that it does in another way, or counts what it did not find. A row of the vocabulary may show that it goes on without RDMA, or with copies.
fn is_replaced(lower: &str, grade: Grade, row: Option<(SymptomKind, usize)>) -> bool {
    let is_slower = || {
        row.is_some_and(|(kind, _)| matches!(kind, SymptomKind::SocketFallback | SymptomKind::GdrDisabled))
    };
    // An error at its own level may end the program nevertheless.
    let is_mild = grade.level == Some(Level::Warning) && has_substitute(lower)
        || grade.level != Some(Level::Error) && goes_on(lower);
    is_mild && !is_slower() || has_other_path(lower) || grammar::misses_no_port(lower)
}

/// What a failure of a transport over TCP shows.
fn over_tcp(line: &Lower<'_>) -> Reading {
    let kind = if foreign::connects_to_bridge(&line.lower) {
        SymptomKind::AddressUnresolved
    } else if errno(line) == Some(Errno::EADDRINUSE) {
        // A program cannot listen, whatever it transfers data with.
        SymptomKind::AddressInUse
    } else if foreign::gives_gpu_memory(&line.lower, errno(line)) {
        SymptomKind::SocketFallback
    } else if foreign::registers_memory(&line.lower) {
        SymptomKind::BackendFailed
    } else {
        SymptomKind::TcpError
    };
    let errno = errno(line).filter(|_| kind == SymptomKind::SocketFallback);
    Reading {
        errno,
        ..Reading::of(kind, 0)
    }
}

/// What a failed operation in a line in lower case shows, whose name begins at `at`.
fn failed_call(lower: &str, operation: Operation, at: usize, number: Option<Errno>) -> Option<Reading> {
    if let Some(kind) = special(lower, operation, number) {
        return Some(Reading {
            errno: number,
            ..Reading::of(kind, at)
        });
    }
    let mut kind = operation.failed(number)?;
    // A provider of libfabric does not have the call; libibverbs did not look for a module.
    if kind == SymptomKind::ModuleMissing && lower[at..].starts_with("fi_") {
        kind = SymptomKind::BackendFailed;
    }
    // The device is there: `ibv_query_device failed, Permission denied`.
    if operation == Operation::Query
        && kind == SymptomKind::OpenFailed
        && matches!(number, Some(Errno::EACCES | Errno::EPERM))
    {
        kind = SymptomKind::NotPermitted;
    }
    // These programs create their queues with plain attributes: what is missing is locked memory.
    let plain = matches!(Software::of(lower), Some(Software::Nccl | Software::Mpi))
        || lower.contains("warn call to ibv_");
    if kind == SymptomKind::CreateUnexplained && plain {
        kind = SymptomKind::CreateFailed;
    }
    // The library failed before it asked the driver, which it does not fit: `error obtaining device attributes for mlx4_0 errno says Success`.
    if kind == SymptomKind::OpenFailed && number.is_none() && lower.contains("errno says success") {
        return Some(Reading::of(SymptomKind::VersionMismatch, at));
    }
    // The driver does not know what the program asks for: `Unsupported comp_mask for create_cq`.
    let is_unknown = ["unsupported", "not supported"]
        .iter()
        .any(|words| lower.contains(words));
    if matches!(kind, SymptomKind::CreateUnexplained | SymptomKind::CreateFailed)
        && number.is_none()
        && is_unknown
    {
        kind = SymptomKind::CreateRefused;
    }
    if kind == SymptomKind::Unrecognised {
        return Some(Reading {
            errno: number,
            known: false,
            ..Reading::of(kind, at)
        });
    }
    let awaits = number.is_none() && operation != Operation::Call;
    Some(Reading {
        kind,
        at,
        errno: number,
        known: operation != Operation::Call || number.is_some(),
        operation: awaits.then_some(operation),
    })
}

/// What a driver of the kernel shows that could not create a queue for a program. Where the adapter does not answer, other lines say so.
fn not_created(line: &Lower<'_>, at: usize) -> Option<Reading> {
    let errno = errno(line)
        .or_else(|| at_end(&line.lower))
        .filter(|errno| !matches!(*errno, Errno::ETIMEDOUT | Errno::EIO));
    let is_checked = ["size", "invalid", "check"]
        .iter()
        .any(|word| line.lower.contains(word));
    let kind = match errno {
        Some(errno) => Operation::Create.failed(Some(errno))?,
        None if is_checked => SymptomKind::CreateRefused,
        None => SymptomKind::CreateUnexplained,
    };
    Some(Reading {
        errno,
        known: false,
        ..Reading::of(kind, at)
    })
}

/// The error number that ends a message of a driver without a label: `mana_ib mana_0: Failed to create rc qp -22`.
fn at_end(lower: &str) -> Option<Errno> {
    let (_, digits) = lower.trim_end_matches(['.', ' ']).rsplit_once(" -")?;
    let number = digits.parse().ok().map(Errno)?;
    number.name().is_some().then_some(number)
}

/// What a failure shows that names neither a known message nor a call. `None` if words of RDMA stand in names only.
fn unknown(lower: &str, errno: Option<Errno>) -> Option<Reading> {
    let rest = foreign::without_names(lower);
    let kind = if foreign::names_no_address(lower) {
        SymptomKind::AddressUnresolved
    } else if lower.contains("lnet") && !lower.contains("o2ib") {
        // Of any of its networks.
        SymptomKind::Unrecognised
    } else if foreign::is_of_bootstrap(lower, errno) {
        SymptomKind::TcpError
    } else if foreign::asks_unknown_transport(lower, errno) {
        SymptomKind::ModuleMissing
    } else if foreign::binds_to_no_device(lower, errno) {
        SymptomKind::AddressUnresolved
    } else if errno == Some(Errno::ENOENT) && foreign::misses_other_file(lower) {
        SymptomKind::Unrecognised
    } else if errno == Some(Errno::ENOTCONN) && ["send", "write"].iter().any(|word| lower.contains(word)) {
        // The connection had ended before.
        SymptomKind::PeerClosed
    } else {
        errno.map_or(SymptomKind::Unrecognised, SymptomKind::of_call)
    };
    Grade::of(&Lower::of(&rest)).about_rdma.then(|| Reading {
        errno,
        known: false,
        ..Reading::of(kind, 0)
    })
}

/// The kind of a refused connection by the transition that failed: each sets other attributes.
pub(in crate::log) fn by_transition(kind: SymptomKind, transition: Option<Transition>) -> SymptomKind {
    match (kind, transition) {
        // It needs no GID, whose network device may be elsewhere: the device itself is gone.
        (SymptomKind::ConnectNoDevice, Some(Transition::Init)) => SymptomKind::DeviceGone,
        // It needs no peer and no GID.
        (SymptomKind::ConnectInvalid | SymptomKind::ConnectFailed, Some(Transition::Init)) => {
            SymptomKind::InitRefused
        }
        // The connection has its GID and its peer by then.
        (SymptomKind::ConnectInvalid | SymptomKind::ConnectFailed, Some(Transition::Rts)) => {
            SymptomKind::RtsRefused
        }
        (kind, _) => kind,
    }
}

/// UCX's offer of other transports or devices than those that a setting names. `Some(None)`: RDMA is among them.
#[expect(
    clippy::option_option,
    reason = "no offer, an offer with RDMA, or one without"
)]
fn offer(lower: &str) -> Option<Option<SymptomKind>> {
    // Old versions of UCX name only the device: `device 'mlx5_3:1' is not available`.
    let unnamed = || {
        let (_, rest) = lower
            .split_once("ucx  warn  device '")
            .or_else(|| lower.split_once("network device '"))?;
        let (name, rest) = rest.split_once("' is not available")?;
        (rest.trim().is_empty() && is_rdma_name(name.split(':').next()?))
            .then_some(Some(SymptomKind::SettingUnmatched))
    };
    let has = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
    // UCX was built without them, or its modules for GPUs are not installed.
    let misses_gpu = |before: &str| {
        has(before, &["is not available", "are not available"])
            && before.contains("transport")
            && has(before, &["'cuda", "'rocm", "'gdr_copy", "'ze_"])
    };
    let Some((before, offered)) = lower.split_once("one or more of") else {
        // The offer may stand in the next line.
        let is_wrapped = lower.trim_end().ends_with("please use") && misses_gpu(lower);
        return if is_wrapped {
            Some(Some(SymptomKind::BackendMissing))
        } else {
            unnamed()
        };
    };
    if !has(before, &["is not available", "are not available"]) {
        return None;
    }
    if misses_gpu(before) {
        return Some(Some(SymptomKind::BackendMissing));
    }
    let words = || offered.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    if before.contains("transport") {
        const TRANSPORTS: [&str; 4] = ["rc", "dc", "ud", "ib"];
        let is_rdma = |word: &str| {
            TRANSPORTS.iter().any(|name| {
                word == *name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
            })
        };
        return Some((!words().any(is_rdma)).then_some(SymptomKind::NoDevice));
    }
    let has_device = words().any(is_rdma_name);
    Some(Some(if has_device {
        SymptomKind::SettingUnmatched
    } else {
        SymptomKind::NoDevice
    }))
}

/// The error number of a failure that says in words that it waited too long.
fn in_time(lower: &str) -> Option<Errno> {
    ["timed out waiting", "connect timeout", "connection timeout"]
        .iter()
        .any(|words| lower.contains(words))
        .then_some(Errno::ETIMEDOUT)
}

/// A kind that the error number makes more precise.
fn refined(kind: SymptomKind, errno: Option<Errno>) -> SymptomKind {
    match (kind, errno) {
        // The kernel's storage clients return EIO for any refusal of the other end.
        (SymptomKind::ConnectFailed, Some(Errno::EIO)) => kind,
        // An address for which a device is found, and no one answers, is a connection that fails.
        (SymptomKind::ConnectFailed, Some(errno))
        | (
            SymptomKind::AddressUnresolved,
            Some(errno @ (Errno::ETIMEDOUT | Errno::EHOSTUNREACH | Errno::ENETUNREACH)),
        ) => SymptomKind::of_connect(errno),
        // The connection manager of the peer knows no such service.
        (
            SymptomKind::CmFailed | SymptomKind::PeerClosed | SymptomKind::ConnectRefused,
            Some(Errno::ECONNREFUSED),
        ) => SymptomKind::NoListener,
        (SymptomKind::PeerClosed, Some(Errno::ETIMEDOUT)) => SymptomKind::PeerUnreachable,
        (
            SymptomKind::PeerClosed,
            Some(
                Errno::ENETDOWN
                | Errno::ENETUNREACH
                | Errno::EHOSTUNREACH
                | Errno::EADDRNOTAVAIL
                | Errno::EACCES
                | Errno::EPERM,
            ),
        ) => errno.map_or(kind, SymptomKind::of_connect),
        // What the system answered says more than what the program guesses: `no RDMA devices available, is ib_uverbs loaded?`.
        (
            SymptomKind::OpenFailed | SymptomKind::NoDevice | SymptomKind::ModuleMissing,
            Some(Errno::EPERM | Errno::EACCES),
        ) => SymptomKind::NotPermitted,
        (SymptomKind::AddressUnresolved, Some(Errno::EADDRINUSE)) => SymptomKind::AddressInUse,
        (SymptomKind::CmFailed, Some(errno)) => match SymptomKind::of_connect(errno) {
            // The kernel's storage clients return EIO for any refusal of the other end.
            SymptomKind::ConnectFailed | SymptomKind::DeviceGone => kind,
            other => other,
        },
        (SymptomKind::RegMrFailed, Some(Errno::ENOMEM)) => SymptomKind::RegMrNoMemory,
        // A row assumes that memory is missing; the error number says what else it is.
        (
            SymptomKind::CreateFailed,
            errno @ Some(Errno::EAGAIN | Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS),
        ) => Operation::Create.failed(errno).unwrap_or(kind),
        // The device is there: there was no memory for what a program needs of it.
        (SymptomKind::OpenFailed, Some(Errno::ENOMEM)) => SymptomKind::NoMemory,
        // A device that is there refused a question.
        (SymptomKind::NoDevice, Some(Errno::EINVAL)) => SymptomKind::Unrecognised,
        (kind, _) => kind,
    }
}

/// Where a long line about a completion becomes interesting.
fn place(lower: &str) -> usize {
    ["completion", "status", "retry", "error"]
        .iter()
        .filter_map(|word| lower.find(word))
        .min()
        .unwrap_or_default()
}

/// Whether UCX names, as a diagnostic, the event that ended a connection attempt of a client. Its next way is TCP.
fn is_of_ucx_client(lower: &str) -> bool {
    lower.contains("ucx  diag") && lower.contains("got error event rdma_cm_event_")
}

pub(super) fn symptom(line: &Lower<'_>, reading: Reading, number: u64) -> Symptom {
    let mut named = named(line);
    named.errno = reading.errno;
    let kind = by_transition(reading.kind, named.transition);
    // A program that informs and continues: NCCL falls back to TCP.
    let goes_on = matches!(
            kind,
            SymptomKind::NoDevice | SymptomKind::BackendMissing | SymptomKind::LibraryMismatch
        ) && line.lower.contains("nccl info ")
        // Intel MPI tries its transports one after the other. Old versions of NCCL name themselves only in their source file.
        || kind == SymptomKind::NoLibrary
            && [" nccl ", "misc/ibvwrap.", "mpi startup()"]
                .iter()
                .any(|program| line.lower.contains(program));
    Symptom {
        kind,
        grade: if kind == SymptomKind::SocketFallback && foreign::gives_gpu_memory(&line.lower, named.errno) {
            symptom::Grade::Failure
        } else if goes_on
            || is_of_ucx_client(&line.lower)
            || kind == SymptomKind::PortNotActive && fabric::lists_port_down(&line.lower)
        {
            symptom::Grade::Degraded
        } else if kind == SymptomKind::PciRoom && is_needless(&line.lower)
            || kind == SymptomKind::ModuleMissing && fabric::is_without_manager(&line.lower)
        {
            symptom::Grade::Note
        } else {
            kind.grade()
        },
        source: format!("log line {number}"),
        line: Some(number),
        count: 1,
        text: excerpt(line.text, reading.at),
        known: reading.known,
        named,
        software: Software::of(&line.lower).or_else(|| is_of_kernel(line.text).then_some(Software::Kernel)),
        hosts: host(line.text).into_iter().collect(),
    }
}
