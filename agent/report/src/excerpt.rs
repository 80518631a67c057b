//! The message in a line of a log, without what stands before it: when, where and by which part of a program it was written. The number of the
//! line leads to the rest.

use rdma_health_node::words::printable;

/// Maximum length of an excerpt of a log line in characters.
const ROOM: usize = 140;
/// The most parts before a message: `Oct 24 15:02:11 n1 kernel: [ 5216.4] mlx5_core …`.
const MOST: usize = 8;
/// The fewest characters of a message.
const LEAST: usize = 12;
/// Names and levels of libraries that end what stands before a message.
const LEVELS: [&str; 10] = [
    "NCCL WARN ",
    "NCCL INFO ",
    "RCCL WARN ",
    "UCX  ERROR ",
    "UCX  WARN  ",
    "UCX  DIAG  ",
    "UCX  INFO  ",
    "<warn> ",
    "<info> ",
    " kernel: ",
];
/// How far from its beginning a line has these.
const WITHIN: usize = 160;

/// The first characters of the message in a line.
pub(super) fn excerpt(text: &str) -> String {
    let text = printable(text);
    let text = message(&text);
    let cut = text.char_indices().nth(ROOM).map_or(text.len(), |(at, _)| at);
    let dots = if cut < text.len() { "…" } else { "" };
    format!("{}{dots}", &text[..cut])
}

/// The message in a line.
pub(super) fn message(text: &str) -> &str {
    let behind = |text: &str| text.trim_start().chars().count() >= LEAST;
    let mut rest = text.trim_start();
    let level = LEVELS
        .iter()
        .filter_map(|level| Some((rest.find(level)?, level.len())))
        .filter(|(at, _)| *at <= WITHIN)
        .min();
    if let Some((at, length)) = level.filter(|(at, length)| behind(&rest[at + length..])) {
        rest = rest[at + length..].trim_start();
    }
    for _ in 0..MOST {
        let Some(next) = without_part(rest).filter(|next| behind(next)) else {
            break;
        };
        rest = next.trim_start();
    }
    rest
}

/// A text without the part that it begins with, if that is not of a message: a time, a process, a place in a source.
fn without_part(text: &str) -> Option<&str> {
    bracketed(text).or_else(|| {
        let (word, rest) = text.split_once(' ')?;
        let is_part = is_time(word) || is_klog(word) || is_place(word) || is_process(word);
        is_part.then_some(rest).or_else(|| dated(text))
    })
}

/// `[1516265731.5]`, `[n1:4417 :0]`, `[rank3]:`, `[ERROR]`. Anything else without a digit may be a part of the message.
fn bracketed(text: &str) -> Option<&str> {
    const LONGEST: usize = 64;
    const LEVELS: [&str; 5] = ["INFO", "WARN", "WARNING", "ERROR", "FATAL"];
    // Open MPI puts its job before the process: `[[40111,1],0]`.
    let end = closing(text)?;
    let (inner, rest) = (&text[1..end], &text[end + 1..]);
    let is_part = inner.len() <= LONGEST && inner.bytes().any(|byte| byte.is_ascii_digit());
    (is_part || LEVELS.contains(&inner)).then(|| rest.trim_start_matches(':'))
}

/// Where the bracket ends with which a text begins.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_u32;
    for (at, c) in text.char_indices() {
        match c {
            '[' => open += 1,
            ']' if open == 1 => return Some(at),
            ']' => open -= 1,
            _ if open == 0 => return None,
            _ => {}
        }
    }
    None
}

/// `15:02:11`, `10:11:12.123Z`, `2026-01-01`, `2026-01-01T10:11:12+00:00`, `2026/01/01`.
fn is_time(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_of_time = |byte: u8| {
        byte.is_ascii_digit() || matches!(byte, b':' | b'-' | b'/' | b'.' | b',' | b'T' | b'Z' | b'+')
    };
    digits >= 6
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.bytes().all(is_of_time)
        && word.contains([':', '-', '/'])
        && !word.contains("::")
        // A PCI address: `0000:3b:00.0`.
        && !word.starts_with("0000:")
}

/// The level and day of klog and glog, and the number of the thread behind the time: `E0331`.
fn is_klog(word: &str) -> bool {
    let digits = word.strip_prefix(['I', 'W', 'E', 'F']).unwrap_or_default();
    digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// `rc_iface.c:650`, `rdma_context.cpp:125]`.
fn is_place(word: &str) -> bool {
    let Some((file, line)) = word.trim_end_matches([']', ':']).rsplit_once(':') else {
        return false;
    };
    let is_file = [".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".py", ".go", ".rs"]
        .iter()
        .any(|end| file.ends_with(end));
    is_file && !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
}

/// `lnetctl[3065]:`, and a number alone, which is one of a thread or process.
fn is_process(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let named = word
        .strip_suffix("]:")
        .and_then(|word| word.rsplit_once('['))
        .is_some_and(|(_, number)| is_number(number));
    named || word.len() >= 4 && is_number(word)
}

/// `Oct 24 15:02:11 n1 lnetctl[3065]: …` of syslog, without date, host and process.
fn dated(text: &str) -> Option<&str> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = text.split(' ').next()?;
    let (head, rest) = text.split_once(": ")?;
    let words: Vec<&str> = head.split_whitespace().collect();
    // Month, day, time, host, process.
    let is_dated = MONTHS.contains(&month) && words.len() == 5 && is_time(words[2]);
    is_dated.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_message_is_left_out() {
        for (line, expected) in [
            (
                "n1:4417:4501 [0] ibvwrap.c:160 NCCL WARN Call to ibv_modify_qp failed with error",
                "Call to ibv_modify_qp failed with error",
            ),
            (
                "[1516265731.510362] [n1:4417 :0]       rc_iface.c:650  UCX  ERROR Failed to create TM XRQ: No route to host",
                "Failed to create TM XRQ: No route to host",
            ),
            (
                "Oct 24 15:02:11 node1 kernel: [ 5216.402731] uverbs_write: process 20417 changed security contexts",
                "uverbs_write: process 20417 changed security contexts",
            ),
            (
                "Feb 05 14:12:46 n9 lnetctl[3065]:   descr: \"couldn't query intf ib0\"",
                "descr: \"couldn't query intf ib0\"",
            ),
            (
                "E0331 12:03:04.222625 56060 rdma_endpoint.cpp:385] Failed to modify QP to RTR",
                "Failed to modify QP to RTR",
            ),
            (
                "libfabric:812:1760000000::efa:cq:efa_rdm_cq_readerr():120<warn> err: 5, prov_errno: 4124",
                "err: 5, prov_errno: 4124",
            ),
            (
                "2026-01-01T10:11:12.123Z ibv_open_device failed on mlx5_0",
                "ibv_open_device failed on mlx5_0",
            ),
            (
                "[[40111,1],0]: A high-performance Open MPI module was unable to find any relevant network interfaces",
                "A high-performance Open MPI module was unable to find any relevant network interfaces",
            ),
            (
                "[[7,1],1][btl_openib_component.c:1670:init_one_device] error obtaining device attributes for mlx4_0",
                "error obtaining device attributes for mlx4_0",
            ),
            // Parts of messages.
            (
                "0000:3b:00.0: probe of mlx5_core failed",
                "0000:3b:00.0: probe of mlx5_core failed",
            ),
            (
                "[DMA Read] Request device [06:00.0]",
                "[DMA Read] Request device [06:00.0]",
            ),
            ("12:11:10 short", "12:11:10 short"),
            (
                "fe80::1 is not reachable from mlx5_0",
                "fe80::1 is not reachable from mlx5_0",
            ),
        ] {
            assert_eq!(message(line), expected);
        }
    }
}
