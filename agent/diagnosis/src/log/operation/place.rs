//! Where the words of an operation stand: in a longer name, or in the name of the function or file that wrote the line.

use crate::log::{line::is_word, phrases::Occurrence};

/// Whether the words are the beginning of a longer name that is something else: the flag `UCP_MEM_MAP_FIXED`, the `qpair` of NVMe.
pub(super) fn is_longer(phrase: &str, rest: &str) -> bool {
    match phrase {
        "ucp_mem_map" => rest.starts_with('_'),
        "init qp" | "initialize qp" => rest.starts_with("air"),
        _ => false,
    }
}

/// Whether the words are in the name of the source file that wrote the line, which says nothing of what failed: `rdma_connection.cc:220]`.
pub(super) fn is_source(lower: &str, found: Occurrence) -> bool {
    let rest = lower[found.end..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    [".c:", ".cc:", ".cpp:", ".cu:", ".h:"]
        .iter()
        .any(|suffix| rest.starts_with(suffix))
}

/// Whether the words are the name of the function or file in which the program wrote the line, which is not what failed:
/// `vrb_create_ep():239<warn> rdma_resolve_addr failed`, `nvme_rdma.c: 690:nvme_rdma_resolve_addr: *ERROR*`.
pub(super) fn is_place(lower: &str, found: Occurrence) -> bool {
    let bytes = lower.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let end = bytes[found.end..]
        .iter()
        .position(|byte| !is_word(*byte))
        .map_or(bytes.len(), |length| found.end + length);
    let rest = &lower[end..];
    let has_line = rest.starts_with("():") && is_digit(end + 3) || rest.starts_with(':') && is_digit(end + 1);
    let is_file = [".c", ".cc", ".cpp", ".cu", ".h", ".py", ".rs", ".go"]
        .iter()
        .any(|suffix| {
            rest.strip_prefix(suffix)
                .is_some_and(|rest| rest.bytes().next().is_none_or(|byte| !is_word(byte)))
        });
    let begin = bytes[..found.start]
        .iter()
        .rposition(|byte| !is_word(*byte))
        .map_or(0, |at| at + 1);
    let follows_line = || {
        let before = lower[..begin].trim_end();
        let before = before
            .strip_suffix(':')
            .map(|before| before.trim_end_matches(|c: char| c.is_ascii_digit()));
        before.is_some_and(|before| {
            let file = before.trim_end().strip_suffix(':').unwrap_or_default();
            [".c", ".cc", ".cpp", ".cu", ".h"]
                .iter()
                .any(|suffix| file.ends_with(suffix))
        })
    };
    has_line || is_file || follows_line()
}

/// Whether the message behind the name of a function says only that one of its arguments is not valid, which neither the adapter nor a limit of
/// the host refused: `efa_mr_regattr_validate():93<warn> Unsupported flag type`.
pub(super) fn names_argument(lower: &str, end: usize) -> bool {
    const ARGUMENTS: [&str; 8] = [
        "flag",
        "type",
        "attr",
        "count",
        "size",
        "parameter",
        "argument",
        "pointer",
    ];
    const REFUSALS: [&str; 6] = [
        "invalid",
        "unsupported",
        "not supported",
        "bad ",
        "unknown",
        "mismatch",
    ];
    let rest = &lower[end..];
    let rest = rest.split_once(['>', ' ']).map_or(rest, |(_, message)| message);
    let has = |words: &[&str]| words.iter().any(|word| rest.contains(word));
    let is_of_signal = rest.contains("handler for sig");
    is_of_signal || has(&REFUSALS) && has(&ARGUMENTS) && !has(&["invalid argument", "errno", "error"])
}

#[cfg(test)]
mod tests {
    use super::super::operation;

    #[test]
    fn a_function_that_refuses_its_arguments_names_no_operation() {
        for line in [
            "libfabric:812:1764::efa:mr:efa_mr_regattr_validate():93<warn> unsupported flag type. requested[0x2a0] supported[0x1f]",
            "libfabric:812:1764::core:mr:ofi_ep_bind_valid():259<warn> invalid cq flags",
            "libfabric:812:1764::cxi:av:cxip_av_insert_auth_key_validate_args():543<warn> bad auth_key_size",
        ] {
            assert_eq!(operation(line).map(|(operation, _)| operation), None, "{line}");
        }
        let failed = "libfabric:812:1764::efa:mr:efa_mr_reg_impl():518<warn> unable to register mr of 4096 bytes: cannot allocate memory";
        assert!(operation(failed).is_some());
    }
}
