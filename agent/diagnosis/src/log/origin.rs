//! Whether a line shows when, on which host or by which process it was written. A message that was quoted in a text has lost this.

use super::line::host;

/// Whether the line has a time, a host with a process, a rank or a process number.
pub(super) fn has(text: &str) -> bool {
    let trimmed = text.trim_start();
    has_time(text)
        || host(text).is_some()
        || has_process(text)
        || is_since_boot(trimmed)
        || is_klog(trimmed)
        || is_of_launcher(trimmed)
        || is_of_rank(trimmed)
        || is_event(trimmed)
}

/// The process as Open MPI names it, and where in its source it is: `[[12770,1],0][btl_openib_component.c:3227:handle_wc] from …`, and
/// `[0,1,63][…` before 1.3.
fn is_of_rank(trimmed: &str) -> bool {
    /// How far into a line it may begin: the host comes first.
    const WITHIN: usize = 80;
    let is_name = |at: usize| {
        let rest = trimmed[at..].trim_start_matches('[');
        let name = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b']'));
        let end = name.count();
        let place = rest
            .get(end..)
            .and_then(|rest| rest.strip_prefix('['))
            .and_then(|rest| rest.split_once(']'));
        rest[..end].contains(',') && place.is_some_and(|(place, _)| place.contains(".c:"))
    };
    let starts = trimmed.match_indices('[').map(|(at, _)| at);
    starts.take_while(|at| *at <= WITHIN).take(4).any(is_name)
}

/// Host and process as Open MPI prints them: `[n02:07711] mtl_ofi.h:98: …`.
fn is_of_launcher(trimmed: &str) -> bool {
    /// The fewest digits of a process number. A line of a source file may have fewer: `[rdma.c:61]`.
    const DIGITS: usize = 4;
    let tag = trimmed.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let Some((host, process)) = tag.and_then(|(tag, _)| tag.rsplit_once(':')) else {
        return false;
    };
    let is_host = host.starts_with(|c: char| c.is_ascii_alphabetic())
        && !host.contains(':')
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    let is_source = [".c", ".cc", ".cpp", ".h", ".py", ".go"]
        .iter()
        .any(|end| host.ends_with(end));
    is_host && !is_source && process.len() >= DIGITS && process.bytes().all(|byte| byte.is_ascii_digit())
}

/// An event of Kubernetes as `kubectl` lists it: `Warning  FailedScheduling  4m11s (x12 over 59m)  default-scheduler  …`.
fn is_event(trimmed: &str) -> bool {
    let mut words = trimmed.split_whitespace();
    let mut word = || words.next().unwrap_or_default();
    // `kubectl get events` puts the age first.
    let first = word();
    let (age, kind, reason) = if is_age(first) {
        (first, word(), word())
    } else {
        ("", first, word())
    };
    let is_reason = reason.len() > 4
        && reason.starts_with(|c: char| c.is_ascii_uppercase())
        && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
    matches!(kind, "Warning" | "Normal") && is_reason && (!age.is_empty() || is_age(word()))
}

/// How long ago something happened: `59m`, `4m11s`, `2d3h`, `<unknown>`.
fn is_age(word: &str) -> bool {
    let is_time = || {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with(['s', 'm', 'h', 'd'])
            && word
                .bytes()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b's' | b'm' | b'h' | b'd'))
    };
    word == "<unknown>" || is_time()
}

/// A time of day: `10:11:12`, or `10:11` at the beginning.
fn has_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    memchr::memchr_iter(b':', bytes).take(64).any(|at| {
        let minutes =
            at >= 2 && digit(at - 1) && digit(at - 2) && digit(at + 1) && digit(at + 2) && !digit(at + 3);
        // A GID has more digits between its colons, a MAC address more groups.
        let begins = at == 2 || at > 2 && matches!(bytes[at - 3], b' ' | b'T' | b'[' | b'(' | b'"');
        minutes && begins
    })
}

/// `pid 812`, `(pid=812`, `[rank3]`, `rank 3`, `PE 3`, `[812]: `, `libfabric:812:`, `[1,0]<stderr>`.
fn has_process(text: &str) -> bool {
    const LABELS: [&str; 10] = [
        "pid ",
        "pid=",
        "pid:",
        "PID ",
        "rank ",
        "rank=",
        "rank",
        "Rank ",
        "PE ",
        "libfabric:",
    ];
    let labelled = LABELS.iter().any(|label| {
        text.match_indices(label).take(8).any(|(at, _)| {
            let begins = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            let rest = text[at + label.len()..].trim_start_matches(' ');
            begins && rest.starts_with(|c: char| c.is_ascii_digit())
        })
    });
    let numbered = || {
        text.split('[').skip(1).take(8).any(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0
                && (part[digits..].starts_with("]: ")
                    || part[digits..].starts_with(',') && part.contains("]<std"))
        })
    };
    labelled || numbered()
}

/// The kernel's time since boot, or a time in seconds: `[ 8201.173] `.
fn is_since_boot(trimmed: &str) -> bool {
    // Mercury begins its lines with a hash.
    let bare = trimmed.strip_prefix("# ").unwrap_or(trimmed);
    let inner = bare.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    inner.is_some_and(|(inner, _)| {
        let (seconds, rest) = inner.trim().split_once('.').unwrap_or_default();
        let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        all_digits(seconds) && all_digits(rest)
    })
}

/// klog and glog: `E0331 12:03:04.222625 56060 file.cpp:281]`.
fn is_klog(trimmed: &str) -> bool {
    let bytes = trimmed.as_bytes();
    matches!(bytes.first(), Some(b'I' | b'W' | b'E' | b'F'))
        && bytes
            .get(1..5)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
        && bytes.get(5) == Some(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_program_shows_where_it_comes_from_and_a_quoted_one_does_not() {
        for line in [
            "2026-11-22T10:11:12 ERROR",
            "Jan 10 10:11:12 node kernel: ib0: x",
            "[ 8201.1] ib0: x",
            "# [1923.972185] mercury->cls: [error] na_ofi.c:2872",
            "n1:1:9 [0] NCCL WARN x",
            "[rank3]: x",
            "E0421 11:56:59.774282  709103 nixl_agent.cpp:259] x",
            "libfabric:4321:efa:domain:x():298<warn> y",
            "mlx5_core 0000:5e:00.0: f:580:(pid 0): x",
            "[1,0]<stderr>: x",
            "[n02.cluster:07711] *** x",
            "[[12770,1],0][btl_openib_component.c:3227:handle_wc] from n1 to: n2",
            "[n02][[5397,1],43][btl_openib.c:222:adjust_cq] x",
            "[0,1,63][btl_openib_component.c:587:mca_btl_openib_component_progress] x",
            "sshd[812]: x",
            "2144: PE 2144: MPICH WARNING: x",
            "  Warning  FailedScheduling  4m11s (x12 over 59m)  default-scheduler  x",
            "59m  Warning  FailedScheduling  pod/w-0  x",
        ] {
            assert!(has(line), "{line}");
        }
        for line in [
            "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr failed",
            "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4000> with status=12",
            "(section 12.7.38):",
            "[rdma.c:1075] x",
            "[btl_openib:retry-exceeded]",
            "Warning FailedScheduling means that no node has room",
            "localGid fe80::13:12ff:fe6f remoteGid ::",
            "pattern: \"mlx5_core .*: poll_health.*\"",
            "",
        ] {
            assert!(!has(line), "{line}");
        }
    }
}
