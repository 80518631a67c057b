//! Error numbers in a line: by the C library's text, by symbol, and by number.

mod library;

use std::{cell::LazyCell, sync::LazyLock};

use rdma_health_protocol::Errno;

use super::{
    grade::fails_before,
    kernel::is_of_kernel,
    line::{Lower, is_word, number},
    operation::operation,
    phrases::Phrases,
};

/// The texts of `strerror` in the C locale, in lower case, for the errors that verbs, their drivers and sockets return. A text that
/// contains another one comes first.
const TEXTS: &[(&str, Errno)] = &[
    ("operation not permitted", Errno::EPERM),
    ("no such file or directory", Errno::ENOENT),
    ("no such process", Errno::ESRCH),
    ("interrupted system call", Errno::EINTR),
    ("remote i/o error", Errno::EREMOTEIO),
    ("input/output error", Errno::EIO),
    ("no such device or address", Errno::ENXIO),
    ("argument list too long", Errno::E2BIG),
    ("bad file descriptor", Errno::EBADF),
    ("resource temporarily unavailable", Errno::EAGAIN),
    ("cannot allocate memory", Errno::ENOMEM),
    ("out of memory", Errno::ENOMEM),
    ("permission denied", Errno::EACCES),
    ("bad address", Errno::EFAULT),
    ("device or resource busy", Errno::EBUSY),
    ("file exists", Errno::EEXIST),
    ("no such device", Errno::ENODEV),
    ("invalid argument", Errno::EINVAL),
    ("too many open files", Errno::EMFILE),
    ("inappropriate ioctl for device", Errno::ENOTTY),
    ("no space left on device", Errno::ENOSPC),
    ("broken pipe", Errno::EPIPE),
    ("numerical result out of range", Errno::ERANGE),
    ("function not implemented", Errno::ENOSYS),
    ("no data available", Errno::ENODATA),
    ("timer expired", Errno::ETIME),
    ("protocol error", Errno::EPROTO),
    ("value too large for defined data type", Errno::EOVERFLOW),
    ("message too long", Errno::EMSGSIZE),
    ("protocol not available", Errno::ENOPROTOOPT),
    ("protocol not supported", Errno::EPROTONOSUPPORT),
    ("operation not supported", Errno::EOPNOTSUPP),
    ("address family not supported by protocol", Errno::EAFNOSUPPORT),
    ("address already in use", Errno::EADDRINUSE),
    ("cannot assign requested address", Errno::EADDRNOTAVAIL),
    ("network is down", Errno::ENETDOWN),
    ("network is unreachable", Errno::ENETUNREACH),
    ("connection reset by peer", Errno::ECONNRESET),
    ("software caused connection abort", Errno::ECONNABORTED),
    ("no buffer space available", Errno::ENOBUFS),
    ("endpoint is not connected", Errno::ENOTCONN),
    ("connection timed out", Errno::ETIMEDOUT),
    // The same in musl, and in the words of libraries such as PSM.
    ("operation timed out", Errno::ETIMEDOUT),
    ("connection refused", Errno::ECONNREFUSED),
    ("no route to host", Errno::EHOSTUNREACH),
    ("stale file handle", Errno::ESTALE),
    ("disk quota exceeded", Errno::EDQUOT),
    ("operation canceled", Errno::ECANCELED),
    ("memory page has hardware error", Errno::EHWPOISON),
    ("unknown error 524", Errno::ENOTSUPP),
];

/// Words before the number of an error. `failed with 110` and `error=14` are errors; `status 4` is not: it can be a completion status.
const LABELS: &[&str] = &[
    "errno",
    "errcode",
    "error",
    "err",
    "rc",
    "ret",
    "returned",
    "return",
    "failed",
    "failure",
    "failed with",
    "with",
    "code",
    "error code",
    "non-zero status",
    "result",
];

static FOUND: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(TEXTS.iter().map(|(text, _)| *text)));

/// Every text.
pub(super) fn texts() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(text, _)| *text)
}

/// The text of `strerror` for an error.
pub(crate) fn text(errno: Errno) -> Option<&'static str> {
    TEXTS
        .iter()
        .find(|(_, number)| *number == errno)
        .map(|(text, _)| *text)
}

/// The error with exactly this text.
pub(crate) fn of_text(text: &str) -> Option<Errno> {
    let lower = text.to_ascii_lowercase();
    TEXTS
        .iter()
        .find(|(words, _)| *words == lower)
        .map(|(_, errno)| *errno)
}

/// The error in a text: its `strerror` text, otherwise its symbol (`ENOMEM`), otherwise a number that is labelled as one
/// (`errno 19`, `RC: -12`, `(-104)`, `[110]`); one that is called `errno` comes before others. A positive number is an error only where
/// a function of the C library or of libibverbs returned it: the kernel's are negative, and other programs number their own errors.
pub(super) fn errno(line: &Lower<'_>) -> Option<Errno> {
    // At the same place, the longer text comes first in the table.
    let text = FOUND
        .first_in_text(&line.lower)
        .filter(|found| !is_of_program(&line.lower[found.end..]))
        .and_then(|found| TEXTS.get(found.index));
    text.map(|(_, errno)| *errno)
        .or_else(|| symbol(line.text))
        .or_else(|| labelled(line).and_then(|errno| library::meant(&line.lower, errno)))
        .or_else(|| twos_complement(&line.lower))
        .or_else(|| untranslated(&line.lower))
}

/// Whether the words of an error are those of the program itself, which had no memory of its own for something: `Cannot allocate memory for UCP
/// listener`. A pool of buffers is registered with the adapter. Or a library's own status has the same words: `Operation not permitted in
/// current state` is about the order of calls.
fn is_of_program(rest: &str) -> bool {
    let of_memory = rest
        .strip_prefix(" for ")
        .is_some_and(|what| !["pool", "buffer"].iter().any(|word| what.contains(word)));
    let of_state = [" in ", " while in ", " from "].iter().any(|word| {
        rest.strip_prefix(word).is_some_and(|what| {
            what.split([',', ';', '.', ':'])
                .next()
                .is_some_and(|what| what.contains("state"))
        })
    });
    of_memory || of_state
}

/// Whether a line in lower case has nothing but the text of an error, as a list of causes has: `0: Cannot allocate memory (os error 12)`.
pub(super) fn is_alone(lower: &str) -> bool {
    let text = lower.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = text.strip_prefix(": ").unwrap_or(lower);
    let text = text.split(" (os error ").next().unwrap_or(text);
    let text = text.trim_end_matches('.').trim();
    texts().any(|known| known == text)
}

/// The number for which a C library has no text: DPDK passes negative ones (`Unknown error -95`).
fn untranslated(lower: &str) -> Option<Errno> {
    let rest = lower.split_once("unknown error -")?.1;
    let errno = Errno(i32::try_from(number(rest)?).ok()?);
    errno.name().is_some().then_some(errno)
}

/// A negative error number that a driver prints in hexadecimal: `Failed to initialize RCFW: 0xffffff92` is -110.
fn twos_complement(lower: &str) -> Option<Errno> {
    lower.match_indices("0xffffff").find_map(|(at, _)| {
        let digits = &lower[at + 2..];
        let end = digits
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(digits.len());
        let value = u32::from_str_radix(digits.get(..end).filter(|digits| digits.len() == 8)?, 16).ok()?;
        let errno = Errno(value.wrapping_neg().try_into().ok()?);
        errno.name().is_some().then_some(errno)
    })
}

/// Whether a line names a function of libibverbs, or what perftest and others call them, or is libfabric's, and the kernel did not
/// write it.
fn is_of_user_space(lower: &str) -> bool {
    const KERNEL: [&str; 6] = [
        "lneterror",
        "lnet:",
        "nvmet",
        "nvme nvme",
        "scsi host",
        "kernel: ",
    ];
    !KERNEL.iter().any(|word| lower.contains(word))
        && (operation(lower).is_some() || lower.contains("libfabric:"))
}

/// An error by its symbol, as a separate word.
pub(super) fn symbol(text: &str) -> Option<Errno> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .find_map(|word| match word.as_bytes() {
            [b'E', _, _, ..] => named(word),
            [b'F', b'I', b'_', b'E', ..] => named(&word[3..]),
            [b'N', b'A', b'_', ..] | [b'H', b'G', b'_', ..] => of_mercury(&word[3..]),
            _ => None,
        })
}

/// The error that Mercury, the RPC library of DAOS and others, names without its first letter: `NA_HOSTUNREACH`, `HG_NOMEM`.
fn of_mercury(name: &str) -> Option<Errno> {
    match name {
        "TIMEOUT" => Some(Errno::ETIMEDOUT),
        "ACCESS" => Some(Errno::EACCES),
        "PERMISSION" => Some(Errno::EPERM),
        name => named(&format!("E{name}")),
    }
}

/// The error with this symbol (`ENOMEM`).
pub(crate) fn named(symbol: &str) -> Option<Errno> {
    // Aliases, and symbols that the C library prints for the same number.
    let symbol = match symbol {
        "EWOULDBLOCK" => "EAGAIN",
        "ENOTSUP" => "EOPNOTSUPP",
        symbol => symbol,
    };
    (1..=Errno::EHWPOISON.0)
        .map(Errno)
        .chain([Errno::ENOTSUPP])
        .find(|errno| errno.name() == Some(symbol))
}

/// A number after one of the labels, or a negative number in parentheses or brackets. A positive number after a label other than
/// `errno` only from a program in user space.
fn labelled(line: &Lower<'_>) -> Option<Errno> {
    let lower = line.lower.as_str();
    let positive = LazyCell::new(|| is_of_user_space(lower));
    let bytes = lower.as_bytes();
    let mut at = 0;
    let mut first_found = None;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(u8::is_ascii_digit))
        .map(|n| at + n)
    {
        let is_hexadecimal = lower[found..].starts_with("0x");
        let first = if is_hexadecimal { found + 2 } else { found };
        let end = bytes[first..]
            .iter()
            .position(|byte| !(byte.is_ascii_digit() || is_hexadecimal && byte.is_ascii_hexdigit()))
            .map_or(bytes.len(), |n| first + n);
        at = end;
        let starts_word = found == 0 || !is_word(bytes[found - 1]);
        // The end of a sentence, not a decimal point.
        let is_decimal = bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        let ends_word = bytes.get(end).is_none_or(|byte| !is_word(*byte)) && !is_decimal;
        if !(starts_word && ends_word) {
            continue;
        }
        let before = lower[..found].trim_end_matches(['-', '(', '[', ' ', '=', ':', ',', '\'', '"']);
        let is_negative = found > 0 && bytes[found - 1] == b'-' && found > 1 && !is_word(bytes[found - 2]);
        let is_enclosed = matches!(
            (
                lower[..found].trim_end_matches('-').as_bytes().last(),
                bytes.get(end)
            ),
            (Some(b'('), Some(b')')) | (Some(b'['), Some(b']'))
        );
        let is_labelled = before.len() < found
            && LABELS.iter().any(|label| {
                before.strip_suffix(label).is_some_and(|rest| {
                    rest.as_bytes().last().is_none_or(|byte| !is_word(*byte)) && !numbers_its_own(rest)
                })
            });
        // In hexadecimal only what is called an error number: other codes are the vendor's.
        if is_hexadecimal && !before.ends_with("errno") {
            continue;
        }
        // `rdma_resolve_addr, 98`, `ibv_modify_qp: 22`: what the call returned, at the end of the line.
        let ends_line = lower[end..].trim().is_empty();
        let is_returned = ends_line && before.len() < found && is_call(before) && *positive;
        // NVSHMEM prints its own statuses and error numbers alike; its own are at most 11.
        let is_own_status = before.ends_with("non-zero status") && end - found < 2;
        // How a program ended.
        let is_of_exit = ["exit code", "exit status"]
            .iter()
            .any(|label| before.ends_with(label));
        let is_of_library =
            is_negative && number(&lower[found..]).is_some_and(|value| library::is_status(before, value));
        if is_own_status || is_of_exit || is_of_library {
            continue;
        }
        // A negative number in brackets is an error; a positive one only at the end of the line: `Connection timed out [110]`.
        let is_sign_right = || is_negative || before.ends_with("errno") || *positive;
        // `LEVEL(-2)`, `[rank-2]`, `priority: -5` are numbers of other kinds.
        let is_behind_failure = || fails_before(&lower[..found]);
        // The kernel's form: `Can't create QP: -12, …`. -1 is not an error number there.
        let follows_message = is_negative
            && number(&lower[found..]).is_some_and(|value| value > 1)
            && lower[..found - 1].ends_with(": ")
            && before
                .as_bytes()
                .last()
                .is_some_and(|byte| is_word(*byte) || matches!(byte, b')'));
        let is_plain = follows_message || is_enclosed && is_negative;
        let is_completed = is_negative && before.ends_with(" completed");
        // Libraries have statuses of their own. The kernel's are those of completions, which are not negative, and error numbers: `wait status
        // -110`.
        let is_status = is_negative && before.ends_with(" status") && is_of_kernel(line.text);
        let is_one = is_labelled && is_sign_right()
            || is_completed
            || is_status
            || is_returned
            || is_plain && is_behind_failure();
        let value = number(&lower[found..]).and_then(|value| i32::try_from(value).ok());
        // Programs return a bare -1 for any failure. It is EPERM where it is called `errno`, and where a driver of the kernel returns it.
        let is_bare = value == Some(1) && is_negative && !before.ends_with("errno") && !names_function(lower);
        if let Some(errno) = value
            .map(Errno)
            .filter(|errno| is_one && !is_bare && errno.name().is_some())
        {
            if before.ends_with("errno") {
                return Some(errno);
            }
            first_found = first_found.or(Some(errno));
        }
    }
    first_found
}

/// Whether a line in lower case names a PCI function, as those of drivers of the kernel do: `0000:3b:00.0: `.
fn names_function(lower: &str) -> bool {
    lower
        .split([' ', '[', '('])
        .any(|word| rdma_health_kernel_log::is_address(word.trim_end_matches([':', ',', ']', ')'])))
}

/// Whether the last word of a text is the name of a library that numbers its errors itself: `NCCL Error 2`, `CUDA error: 700`.
fn numbers_its_own(text: &str) -> bool {
    const LIBRARIES: [&str; 10] = [
        "nccl",
        "rccl",
        "hccl",
        "cuda",
        "hip",
        "gloo",
        "nvshmem",
        "ncclresult",
        "ncclresult_t",
        "nvml",
    ];
    let last = text
        .trim_end_matches([' ', ':'])
        .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next();
    last.is_some_and(|word| LIBRARIES.contains(&word))
}

/// Whether a text ends with the name of a call of libibverbs or librdmacm.
fn is_call(text: &str) -> bool {
    let name = text
        .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default();
    ["rdma_", "ibv_", "mlx5dv_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_status_is_an_error_of_the_kernel_only() {
        let kernel = Lower::of("[ 91.1] infiniband ionic_0: wait status -110");
        assert_eq!(errno(&kernel), Some(Errno::ETIMEDOUT));
        let library = Lower::of("nixl_agent.cpp:217] connect failed with status -12");
        assert_eq!(errno(&library), None);
    }

    #[test]
    fn a_number_that_a_program_sets_itself_is_not_one_of_the_system() {
        let of = |line: &str| errno(&Lower::of(line));
        // SPDK got no event in time.
        let connect = "nvme_rdma.c:1070:nvme_rdma_connect: *ERROR*: RDMA connect error";
        assert_eq!(of(&format!("{connect} -99")), Some(Errno::ETIMEDOUT));
        assert_eq!(of(&format!("{connect} -12")), Some(Errno::ENOMEM));
        assert_eq!(of("rdma_bind_addr failed: -99"), Some(Errno::EADDRNOTAVAIL));
        // Mooncake has numbers for a name, a socket, an answer and a refusal.
        let mooncake = "rdma_endpoint.cpp:100] Failed to handshake with 10.0.0.3";
        assert_eq!(of(&format!("{mooncake}, ret -101")), None);
        assert_eq!(of(&format!("{mooncake}, ret -110")), Some(Errno::ETIMEDOUT));
        assert_eq!(
            of(&format!("{mooncake}: Connection reset by peer [104]")),
            Some(Errno::ECONNRESET)
        );
    }

    #[test]
    fn the_words_of_a_library_before_its_number_win() {
        let of = |line: &str| errno(&Lower::of(line));
        assert_eq!(of("Failed to receive UCX worker address: Not found (-13)"), None);
        assert_eq!(
            of("UCX worker address failed: Permission denied (-13)"),
            Some(Errno::EACCES)
        );
    }

    #[test]
    fn errors_are_found_by_text_symbol_and_labelled_number() {
        for (line, expected) in [
            (
                "ibv_modify_qp failed with error No such device errno 19",
                Some(Errno::ENODEV),
            ),
            ("Couldn't allocate MR with error=14", Some(Errno::EFAULT)),
            (
                "rdma connection establishment failed (-104)",
                Some(Errno::ECONNRESET),
            ),
            (
                "Event: RDMA_CM_EVENT_REJECTED; error: -111.",
                Some(Errno::ECONNREFUSED),
            ),
            (
                "NET/OFI Unable to register memory (type = 2) for device 4. RC: -22",
                Some(Errno::EINVAL),
            ),
            (
                "infiniband efa_0: Failed to register mr [-12]",
                Some(Errno::ENOMEM),
            ),
            (
                "non-zero status: 110 ibv_modify_qp failed",
                Some(Errno::ETIMEDOUT),
            ),
            ("ibv_open_device: EACCES", Some(Errno::EACCES)),
            ("probe aborted: No such device or address", Some(Errno::ENXIO)),
            ("completion with status 12, vendor 129", None),
            (
                "smbd_create_id:621 rdma_resolve_addr() completed -113",
                Some(Errno::EHOSTUNREACH),
            ),
            ("rdma_write completed 22 requests", None),
            (
                "probe of PCI device 0000:3b:00.2 aborted: Unknown error -95",
                Some(Errno::EOPNOTSUPP),
            ),
            (
                "NA callback returned error (NA_HOSTUNREACH)",
                Some(Errno::EHOSTUNREACH),
            ),
            ("[error] NA_OFI plugin", None),
            ("fi_mr_reg: -FI_ENOMEM", Some(Errno::ENOMEM)),
            ("PSM2 can't open hfi unit: -1 (err=23)", None),
            ("Failed to initialize RCFW: 0xffffff92", Some(Errno::ETIMEDOUT)),
            ("rkey 0xffffff92aa of mlx5_0", None),
            (
                "kiblnd_create_conn()) Can't create QP: -12, send_wr: 32634",
                Some(Errno::ENOMEM),
            ),
            ("couldn't create QP. ErrCode: -12", Some(Errno::ENOMEM)),
            (
                "LNetError: kiblnd_tx_complete()) Tx -> 10.1.1.3@o2ib: failed 12",
                None,
            ),
            ("ibv_modify_qp returned 22", Some(Errno::EINVAL)),
            ("modify_qp to RTR failed, errno=0x6e", Some(Errno::ETIMEDOUT)),
            ("ibv_poll_cq: vendor error 0x6e", None),
            ("*ERROR*: rdma_resolve_addr, 98", Some(Errno::EADDRINUSE)),
            ("qp 0x6e of mlx5_0 has error flags=0x16", None),
            (
                "libfabric:4321:efa:domain:efa_domain_open():298<warn> init failed. err: 28",
                Some(Errno::ENOSPC),
            ),
            ("mlx5_12 port 1 has 22 GIDs", None),
            ("ERROR: the job ended", None),
            (
                "LEVEL(-2) sriov/sriov.go:354 configure VFs for device, failed before",
                None,
            ),
            ("[rank-2] store connection opened (-2)", None),
            ("the class of rdma0 has priority: -5", None),
            ("ibv_query_port (-19)", Some(Errno::ENODEV)),
            (
                "RuntimeError: NCCL Error 2 & ibv_modify_qp timeout (errno 110) during checkpoints",
                Some(Errno::ETIMEDOUT),
            ),
            (
                "ibv_modify_qp returned 5 in the wrapper, errno=110",
                Some(Errno::ETIMEDOUT),
            ),
            ("NCCL error: 5 after ibv_modify_qp", None),
            ("ibv_reg_mr was called, then CUDA error 1", None),
            ("ncclResult: 2 of ibv_reg_mr", None),
            ("mlx5_0 could not be opened. The level is (-2)", None),
            ("ibv_create_qp failed on mlx5_0 (rc=-1)", None),
            ("nvmf: *ERROR*: Failed to add transport to tgt.(-1)", None),
            ("ibv_reg_mr failed: errno -1", Some(Errno::EPERM)),
            ("ibv_reg_mr failed, errno 1", Some(Errno::EPERM)),
            ("fi_domain failed: -EPERM", Some(Errno::EPERM)),
            (
                "mlx5_core 0000:3b:00.0: firmware command failed, err -1",
                Some(Errno::EPERM),
            ),
        ] {
            assert_eq!(errno(&Lower::of(line)), expected, "{line}");
        }
    }
}
