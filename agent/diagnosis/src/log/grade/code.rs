//! Failures that a line shows only by a code: a call and the error number that it returned.

use rdma_health_protocol::Errno;

use super::{
    super::{
        errors,
        line::{Lower, is_word, number, word},
        operation::{Operation, operation},
    },
    fails_before,
};

/// A negative number where programs print the error number of a call: `ibv_poll_cq: -5`, `returned -71`, `rc=-22`.
pub(super) fn negative(lower: &str) -> Option<usize> {
    const BEFORE: [&str; 11] = [
        ":",
        "=",
        "(",
        "[",
        "returned",
        "ret",
        "rc",
        "code",
        "with",
        " status",
        "() completed",
    ];
    const RETURNED: [&str; 12] = [
        "returned",
        "ret",
        "rc",
        "code",
        "with",
        "rc=",
        "ret=",
        "rc:",
        "ret:",
        "code=",
        " status",
        "() completed",
    ];
    let bytes = lower.as_bytes();
    memchr::memchr_iter(b'-', bytes).take(64).find(|at| {
        let digits = &bytes[at + 1..];
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let ends = digits
            .get(length)
            .is_none_or(|byte| !is_word(*byte) && !matches!(byte, b'.' | b'-' | b'%' | b':' | b'/'));
        // -1 is also "none": a NUMA node, a rank.
        let code: u32 = lower[at + 1..at + 1 + length].parse().unwrap_or(0);
        let before = lower[..*at].trim_end_matches(' ');
        let follows = *at == 0 || !is_word(bytes[at - 1]);
        // `pref = -2` of MPICH is a choice.
        let is_choice = before.ends_with("pref =") || before.ends_with("score =");
        // How a process ended.
        let is_of_exit = before.ends_with("exit status");
        // `LEVEL(-2)`, `[rank-2]`, `priority: -5` are numbers of other kinds.
        let is_returned = || RETURNED.iter().any(|word| before.ends_with(word)) || fails_before(before);
        follows
            && ends
            && !is_choice
            && !is_of_exit
            && (2..=133).contains(&code)
            && BEFORE.iter().any(|word| before.ends_with(word))
            && is_returned()
    })
}

/// The error number of a call where nothing else says that it failed: `ibv_reg_mr errno=ENOMEM`, `rdma_connect, errno: 110`. One that
/// asks to try again is none, and neither is one next to a call that returned 0.
pub(super) fn labelled(lower: &str) -> Option<usize> {
    const SIGNS: [char; 6] = [' ', '=', ':', '(', '\'', '"'];
    const NONE: [&str; 7] = ["= 0", "=0", "returned 0", "ret 0", "rc 0", "success", " ok"];
    let at = lower.match_indices("errno").map(|(at, _)| at).find(|at| {
        let value = &lower[at + "errno".len()..];
        let begins = *at == 0 || !is_word(lower.as_bytes()[at - 1]);
        let code = value.trim_start_matches(SIGNS);
        let named = || errors::named(&word(code)?.trim_end_matches(['.', ':']).to_ascii_uppercase());
        let numbered =
            || Some(Errno(i32::try_from(number(code)?).ok()?)).filter(|errno| errno.name().is_some());
        let errno = named().or_else(numbered);
        begins && code.len() < value.len() && errno.is_some_and(|errno| !is_passing(errno))
    })?;
    let before = &lower[..at];
    let is_none = NONE.iter().any(|words| before.contains(words));
    (!is_none && operation(before).is_some()).then_some(at)
}

/// The symbol of an error behind an operation: `rdma_connect: ECONNREFUSED`, `ibv_reg_mr_iova2 -> ENOMEM`. A manual says what a call returns
/// or may return.
pub(super) fn symbol(line: &Lower<'_>) -> Option<usize> {
    const MANUAL: [&str; 9] = [
        "returns ", "return ", " may ", " can ", " if ", " when ", " should ", "retry", "ignor",
    ];
    let errno = errors::symbol(line.text).filter(|errno| !is_passing(*errno))?;
    let at = line.text.find(errno.name()?)?;
    let lower = line.lower.as_str();
    let before = &lower[..at];
    let is_result = [':', '=', '>', '(', '-', '_'].contains(&before.trim_end().chars().next_back()?)
        || ["returned", "with", "error", "got"]
            .iter()
            .any(|word| before.trim_end().ends_with(word));
    let is_of_manual = MANUAL.iter().any(|word| lower.contains(word));
    (is_result && !is_of_manual && operation(before).is_some()).then_some(at)
}

/// Where a call that connects a queue pair, which returns 0 or the number of an error, returned another number: `ModifyQP(RTR) returned 22`.
pub(super) fn returned(lower: &str) -> Option<usize> {
    let at = lower.find(" returned ")?;
    let value = &lower[at + " returned ".len()..];
    let errno = Errno(i32::try_from(number(value)?).ok()?);
    let connects = operation(&lower[..at]).is_some_and(|(operation, _)| operation == Operation::Connect);
    (connects && errno.name().is_some()).then_some(at)
}

/// Where NVSHMEM prints what a call returned, if it is not 0: `ibgda.cpp:4417: non-zero status: 7 NVSHMEM_IBGDA_NUM_DCT must be …`.
pub(super) fn status_of_call(lower: &str) -> Option<usize> {
    const LABEL: &str = "non-zero status: ";
    let at = lower.find(LABEL)?;
    let value = lower[at + LABEL.len()..].trim_start_matches('-');
    (number(value)? != 0).then_some(at)
}

/// Whether a call is to be tried again after this error.
fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::EAGAIN | Errno::EINTR)
}

/// Where a call of libibverbs, librdmacm or libfabric returned -1: `ibv_open_device returned -1`, `rc = rdma_connect(id): -1`.
pub(super) fn minus_one(lower: &str) -> Option<usize> {
    const CALLS: [&str; 4] = ["ibv_", "rdma_", "mlx5dv_", "fi_"];
    lower.match_indices("-1").map(|(at, _)| at).find(|at| {
        let ends = lower
            .as_bytes()
            .get(at + 2)
            .is_none_or(|byte| !is_word(*byte) && *byte != b'.');
        let before = lower[..*at].trim_end();
        let returned = [
            " returned",
            " returns",
            " ret",
            " rc",
            " ret:",
            " rc:",
            " ret=",
            " rc=",
            ":",
            "=",
        ];
        let call = returned
            .iter()
            .find_map(|word| before.strip_suffix(word))
            .map(str::trim_end);
        let name = call.map(|call| match call.strip_suffix(')') {
            Some(call) => call.rsplit_once('(').map_or(call, |(name, _)| name),
            None => call,
        });
        let is_call = name.is_some_and(|name| {
            let name = name
                .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            CALLS
                .iter()
                .any(|prefix| name.starts_with(prefix) && name.len() > prefix.len())
        });
        ends && is_call
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_call_is_a_failure() {
        for line in [
            "client.c:214 ibv_reg_mr errno=enomem",
            "rdma_connect, errno: 110",
            "create cq (errno 12)",
            "ibv_open_device returned -1",
            "rc = rdma_connect(id, &param): -1",
            "ret = ibv_query_port() = -1",
        ] {
            assert!(labelled(line).or_else(|| minus_one(line)).is_some(), "{line}");
        }
        for line in [
            "ibv_reg_mr errno=0",
            "ibv_poll_cq errno=eagain",
            "ibv_query_port() = 0, errno=2",
            "the job set errno=12",
            "ibv_fork_init: rank -1",
            "mlx5_0: ibv_query_port numa node: -1",
        ] {
            assert!(labelled(line).or_else(|| minus_one(line)).is_none(), "{line}");
        }
        for (line, expected) in [
            ("rdma_connect: ECONNREFUSED", true),
            ("RDMA pool: ibv_reg_mr_iova2 -> ENOMEM", true),
            ("fi_mr_reg: -FI_ENOMEM", true),
            ("ModifyQP(RTR) returned 22", true),
            ("ibv_post_send returns ENOMEM if the queue is full", false),
            ("ibv_modify_qp returned 0", false),
            ("ibv_poll_cq returned 12", false),
            ("ibv_reg_mr: EAGAIN", false),
            ("the pool said ENOMEM", false),
        ] {
            let line = Lower::of(line);
            let found = symbol(&line).or_else(|| returned(&line.lower));
            assert_eq!(found.is_some(), expected, "{line:?}");
        }
    }
}
