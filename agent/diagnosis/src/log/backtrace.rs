//! Traces of a program that crashed: those of a debugger, of the C library, of UCX and of Ceph. The innermost function shows which library crashed.

use super::line::excerpt;

/// What prints the trace, and what the C library calls before: not where the program crashed.
const HANDLERS: [&str; 19] = [
    "waitpid",
    "ucs_debugger",
    "ucs_error",
    "ucs_handle_error",
    "ucs_debug",
    // The base of UCX, which reports what the parts above it found.
    "libucs.so",
    "ucs_fatal",
    "ucs_log",
    "signal handler",
    "handle_fatal_signal",
    "handle_oneshot_fatal",
    "killpg",
    "raise",
    "abort",
    "gsignal",
    "sigaction",
    "libc.so",
    "libpthread",
    "memcpy",
];
/// Beginnings of the functions of libraries of RDMA.
const FUNCTIONS: [&str; 17] = [
    "ucma_", "rdma_", "ibv_", "__ibv_", "mlx5_", "mlx4_", "irdma_", "bnxt_re_", "efa_", "hfi1_", "psm2_",
    "psm3_", "uct_", "ucp_", "vrb_", "rxm_", "rxd_",
];
/// Libraries of RDMA, and the names of classes that use it.
const NAMES: [&str; 20] = [
    "libibverbs",
    "librdmacm",
    "libmlx5",
    "libmlx4",
    "-rdmav",
    "libuct",
    "libucp",
    "libucm",
    "libfabric.so",
    "libpsm",
    "btl_openib",
    "mtl_ofi",
    "mtl_psm",
    "pml_ucx",
    "osc_ucx",
    "rdmaconnect",
    "rdmaworker",
    "rdmastack",
    "rdmadispatcher",
    "infiniband::",
];

/// What the traces so far show.
#[derive(Debug, Default)]
pub(super) struct Backtrace {
    /// The frame that decides whose crash it is was read.
    decided: bool,
    /// The number of the last frame.
    last: Option<u32>,
    /// The first crash in a library of RDMA: the frame and its line.
    found: Option<(String, u64)>,
}

impl Backtrace {
    /// Adds a line.
    pub(super) fn add(&mut self, text: &str, line: u64) {
        let Some((index, frame)) = frame(text) else {
            return;
        };
        if self.last.is_none_or(|last| index <= last) {
            self.decided = false;
        }
        self.last = Some(index);
        let lower = frame.to_ascii_lowercase();
        if lower.contains("signal handler called") {
            self.decided = false;
            return;
        }
        let is_unnamed = lower.starts_with("(()")
            || lower.is_empty()
            || lower.starts_with("?? ") && library(&lower).is_none();
        if self.decided || is_unnamed || HANDLERS.iter().any(|name| lower.contains(name)) {
            return;
        }
        self.decided = true;
        if is_of_rdma(&lower) {
            self.found.get_or_insert_with(|| (excerpt(text.trim(), 0), line));
        }
    }

    /// The first crash in a library of RDMA.
    pub(super) fn found(&self) -> Option<(&str, u64)> {
        self.found.as_ref().map(|(text, line)| (text.as_str(), *line))
    }
}

/// Whether a text is a frame of such a trace, in a library of RDMA.
pub(crate) fn is_frame(text: &str) -> bool {
    frame(text).is_some_and(|(_, frame)| is_of_rdma(&frame.to_ascii_lowercase()))
}

/// The number of a frame, and what it names: `#7  0x0000ffff in ucma_process_addr_resolved (evt=0x1c)`, ` 3: (RDMAWorker::handle()+0xce) [0x7f…]`,
/// ` 4  /usr/lib64/libmlx5.so.1(+0x1234) [0x7f…]`, `[node1:812] [ 4] /usr/lib64/libibverbs.so.1(ibv_poll+0x1)[0x7f…]`.
fn frame(text: &str) -> Option<(u32, &str)> {
    let trimmed = text.trim();
    let rest = match trimmed.strip_prefix('[') {
        Some(rest) => rest.split_once("] [")?.1.trim_start(),
        None => trimmed.strip_prefix('#').unwrap_or(trimmed),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let index = rest[..end].parse().ok().filter(|index| *index < 1000)?;
    let rest = &rest[end..];
    let frame = rest
        .strip_prefix([']', ':'])
        .unwrap_or(rest)
        .strip_prefix(' ')?
        .trim_start();
    let is_of_gdb =
        trimmed.starts_with('#') && (frame.contains(" (") || frame.contains("signal handler called"));
    let has_place =
        frame.ends_with(']') && frame.contains("[0x") || frame.contains(" at ") && frame.contains("0x");
    let of_ucx = frame.starts_with("0x") && frame.contains("()");
    let name = match frame.split_once(" in ").filter(|_| is_of_gdb) {
        Some((_, name)) => name,
        None if of_ucx => frame.split_once(' ')?.1.trim_start(),
        None => frame,
    };
    (is_of_gdb || has_place || of_ucx).then_some((index, name))
}

/// The library of a function whose name or arguments a debugger does not know: `?? () from /usr/lib64/libmlx4-rdmav2.so`.
fn library(frame: &str) -> Option<&str> {
    frame.rsplit_once("() from ").map(|(_, library)| library)
}

/// Whether a frame in lower case is in a library of RDMA.
fn is_of_rdma(frame: &str) -> bool {
    let is_named = |text: &str| FUNCTIONS.iter().any(|name| text.starts_with(name));
    // The arguments of a function, and the file of its source, name other things.
    let file = library(frame).unwrap_or_else(|| frame.split('(').next().unwrap_or_default());
    let name = frame
        .split([' ', '('])
        .find(|word| !word.is_empty())
        .unwrap_or_default();
    let called = frame
        .split_once('(')
        .map(|(_, inner)| inner.split(['+', ')']).next().unwrap_or_default());
    is_named(name)
        || NAMES.iter().any(|part| file.contains(part))
        || called.is_some_and(|called| {
            frame.contains("[0x") && (is_named(called) || NAMES.iter().any(|part| called.contains(part)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Option<u64> {
        let mut trace = Backtrace::default();
        for (number, line) in (1..).zip(lines) {
            trace.add(line, number);
        }
        trace.found().map(|(_, line)| line)
    }

    #[test]
    fn the_innermost_function_shows_whose_crash_it_is() {
        let gdb = [
            "#0  0x0000ffffb62b0578 in waitpid () from /lib64/libpthread.so.0",
            "#5  0x0000ffffb678dbc4 in ucs_error_signal_handler (signo=11) at ../debug.c:957",
            "#6  <signal handler called>",
            "#7  0x0000ffffb64e6af8 in ucma_process_addr_resolved (evt=0x1c600070) at src/cma.c:2002",
            "#8  rdma_get_cm_event (channel=0x1c6376a0) at src/cma.c:2225",
        ];
        assert_eq!(found(&gdb), Some(4));
        let of_ceph = [
            " 1: (()+0x90da02) [0x7f4aa3403a02]",
            " 2: (()+0xf100) [0x7f4aa1471100]",
            " 3: (RDMAConnectedSocketImpl::submit(bool)+0xa3b) [0x7f4aa3638d7b]",
        ];
        assert_eq!(found(&of_ceph), Some(3));
        assert_eq!(
            found(&[
                "[n1:812] [ 0] /lib64/libpthread.so.0(+0xf630)[0x7f1]",
                "[n1:812] [ 1] /lib64/libmlx5.so.1(+0x1234)[0x7f2]"
            ]),
            Some(2)
        );
        let of_provider = [
            "#0  0x00007f4c566cf65b in raise () from /lib64/libpthread.so.0",
            "#1  0x00000000009bd1c4 in ?? ()",
            "#2  <signal handler called>",
            "#3  0x00007f4c52c88d71 in ?? () from /usr/lib64/libmlx4-rdmav2.so",
            "#4  0x00007f4c5536612f in ibv_create_cq () from /usr/lib64/libibverbs.so.1",
        ];
        assert_eq!(found(&of_provider), Some(4));
        let of_ucx =
            ["#0  0x00007fffe6bd9d5f in uct_base_iface_t_init (self=0x7eab60, params=0x7fffffffd930,"];
        assert_eq!(found(&of_ucx), Some(1));
        let of_check = [
            "    0  /opt/ucx/lib/libucs.so.0(ucs_fatal_error_message+0x51) [0x7f7c7f815171]",
            "    2  /opt/ucx/lib/ucx/libuct_ib.so.0(+0x1da86) [0x7f7c7e2c9a86]",
        ];
        assert_eq!(found(&of_check), Some(2));
        let of_copy = [
            " 2  /opt/ucx/lib/libucs.so.0(+0x31d16) [0x1554dc7add16]",
            " 3  /lib64/libc.so.6(+0xcfce3) [0x15553b422ce3]",
            " 4  /opt/ucx/lib/libucp.so.0(ucp_dt_pack+0x69) [0x1554dcc8d109]",
        ];
        assert_eq!(found(&of_copy), Some(3));
        let of_part = [
            "[c1:49144] [ 0] /lib64/libpthread.so.0(+0xf890)[0x7f6afcb45890]",
            "[c1:49144] [ 1] /opt/openmpi/lib/openmpi/mca_btl_openib.so(+0x1f3c5)[0x7f6af81873c5]",
        ];
        assert_eq!(found(&of_part), Some(2));
        // What the program did itself, and what only called the library.
        for other in [
            &[
                "#0  main (argc=1) at app.c:3",
                "#1  ibv_poll_cq (cq=0x1) at verbs.h:1",
            ][..],
            &[
                " 1: (Monitor::tick()+0x1) [0x7f4a]",
                " 2: (RDMAWorker::run()+0x1) [0x7f4b]",
            ],
            &["1: mlx5_0 port 1 is active", "2: ibv_devinfo"],
            &["#1 mlx5_0 is up"],
        ] {
            assert_eq!(found(other), None, "{other:?}");
        }
    }
}
