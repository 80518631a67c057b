//! A setting of the job with a value that does not fit, whatever the program: `NCCL_IB_SUBNET_PREFIX_LEN=33 is out of range [1,32]`,
//! `Invalid value for PSM3_ADDR_FMT`; and the two ends of a connection that differ.

use crate::{
    log::{entity::is_rdma_name, grade::fails, line::is_word},
    symptom::SymptomKind::{self as K},
};

/// Words of the lines that are read here, in lower case.
pub(in crate::log) const ANCHORS: &[&str] = &["must be", "must not", "not a valid", "incorrect", "differ"];

/// How the settings of communication libraries begin, in lower case.
const SETTINGS: [&str; 25] = [
    "nccl_",
    "rccl_",
    "ofi_nccl_",
    "ucx_",
    "ucc_",
    "uccl_",
    "nvshmem_",
    "mscclpp_",
    "psm2_",
    "psm3_",
    "hfi_",
    "vma_",
    "mc_ib_",
    "mc_te_",
    "mc_gid_",
    "fi_opx_",
    "fi_efa_",
    "fi_cxi_",
    "fi_psm2_",
    "fi_psm3_",
    "fi_verbs_",
    "fi_ofi_",
    "ompi_mca_",
    "sharp_coll_",
    "rdmav_",
];
/// What is said of a value behind the name of its setting.
const REFUSED: [&str; 13] = [
    "not supported",
    "out of range",
    "is invalid",
    "invalid value",
    "must be",
    "must not be",
    "must have",
    "has to be",
    "not a valid",
    "is not valid",
    "not recognized",
    "expects ",
    "less than minimum",
];
/// What is said of a value before the name of its setting.
const WRONG: [&str; 7] = [
    "invalid",
    "bad",
    "unknown",
    "unsupported",
    "illegal",
    "wrong",
    "incorrect",
];
/// The program goes on with another value.
const REPLACED: [&str; 7] = [
    "using",
    "setting ",
    "ignor",
    "default",
    "falling back",
    "rectified",
    "adjust",
];
/// The most bytes between the name of a setting and what is said of it.
const NEAR: usize = 48;

/// A value of a setting that a program refuses.
pub(super) fn refused(lower: &str) -> Option<(K, usize)> {
    if REPLACED.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let mut end = 0;
    lower
        .split_inclusive(|c: char| !(c.is_ascii() && is_word(c as u8)))
        .find_map(|part| {
            let begin = end;
            end += part.len();
            let name = part.trim_end_matches(|c: char| !(c.is_ascii() && is_word(c as u8)));
            let is_setting = SETTINGS
                .iter()
                .any(|setting| name.len() > setting.len() && name.starts_with(setting));
            let is_refused = || {
                let behind = behind(&lower[begin + name.len()..]);
                let words = before(&lower[..begin]);
                // A call or a variable of the program has the same letters.
                let is_call = lower[begin + name.len()..].starts_with('(');
                // UCX names its settings without their prefix.
                let is_named =
                    is_setting || is_assigned(behind) && name.contains('_') && lower.contains(" ucx ");
                let is_refused = || REFUSED.iter().any(|words| behind.contains(words));
                // At the level of a warning UCX goes on without it.
                let is_lacking = || {
                    words.contains("not support") && is_assigned(behind) && !lower.contains(" ucx  warn ")
                        || is_setting
                            && ["not enough", "too few", "too many"]
                                .iter()
                                .any(|few| words.contains(few))
                };
                !is_call && is_named && (is_refused() || is_wrong(words) || is_lacking())
            };
            is_refused().then_some((K::SettingUnmatched, begin))
        })
}

/// Two settings of a program that do not fit together: `rdma_receive_queue_len (4096) > ms_async_rdma_receive_buffers(1024)`.
pub(super) fn pair(lower: &str) -> Option<(K, usize)> {
    let (before, after) = [" > ", " < "].iter().find_map(|sign| lower.split_once(sign))?;
    let before = before.trim_end();
    let first = valued(before).filter(|_| before.ends_with(')'))?;
    let second = valued(after)?;
    let of_rdma = [first, second]
        .iter()
        .any(|name| name.contains("rdma") || SETTINGS.iter().any(|setting| name.starts_with(setting)));
    let is_bound = ["max_cqe", "max_qp", "max_sge", "max_srq", "max_mr"]
        .iter()
        .any(|name| second.starts_with(name));
    (of_rdma && !is_bound).then(|| (K::SettingUnmatched, before.rfind(first).unwrap_or_default()))
}

/// The name of a setting with its value behind it in parentheses.
fn valued(text: &str) -> Option<&str> {
    let (name, value) = text.split_once('(')?;
    let (value, _) = value.split_once(')')?;
    let name = name.trim().rsplit([' ', ':']).next()?;
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = name.contains('_') && name.bytes().all(is_word);
    (is_number && is_name).then_some(name)
}

/// A failure that names the setting which avoids it: `tx has gaps. Try setting use_fastreg_gaps to 1: rc = -71`.
pub(super) fn advised(lower: &str) -> Option<(K, usize)> {
    const ADVICE: &str = "try setting ";
    let at = lower.find(ADVICE)?;
    let mut words = lower[at + ADVICE.len()..].split([' ', '=']);
    let name = words.next()?;
    let is_name = name.contains('_') && name.bytes().all(is_word);
    (is_name && matches!(words.next()?, "to" | "1" | "0") && fails(lower)).then_some((K::SettingAdvised, at))
}

/// Whether a name has its value behind it: `NCCL_IB_TC=300`.
fn is_assigned(behind: &str) -> bool {
    behind
        .strip_prefix('=')
        .is_some_and(|value| !value.starts_with([' ', '=']))
}

/// The text behind a name up to the end of its sentence.
fn behind(rest: &str) -> &str {
    let mut end = rest.len().min(NEAR);
    while !rest.is_char_boundary(end) {
        end -= 1;
    }
    let near = &rest[..end];
    near.split_once(". ").map_or(near, |(sentence, _)| sentence)
}

/// The text before a name, from the beginning of its clause.
fn before(text: &str) -> &str {
    let mut begin = text.len().saturating_sub(NEAR);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    let near = &text[begin..];
    near.rsplit([':', ';', '>']).next().unwrap_or(near)
}

/// Whether a value is wrong in the words before the name of its setting: `Invalid value provided through PSM2_ADDR_FMT`.
fn is_wrong(before: &str) -> bool {
    let mut words = before.split(|c: char| !c.is_ascii_alphanumeric());
    let is_wrong = words.any(|word| WRONG.contains(&word));
    is_wrong && words.any(|word| matches!(word, "value" | "setting" | "option" | "parameter"))
}

/// The two ends of a connection have other versions or settings: `Connect protocol (3.1) is incompatible with 4.0`, `epid address format is
/// incompatible with local …`, `Transport mismatch between local (CudaIpc) and remote (IB0) endpoints`.
pub(super) fn differs(lower: &str) -> Option<(K, usize)> {
    const DIFFER: [&str; 5] = [
        "mismatch",
        "incompatible",
        "does not match",
        "do not match",
        "differs from",
    ];
    /// What both ends agree on before they connect.
    const AGREED: [&str; 7] = [
        "protocol",
        "format",
        "version",
        "transport",
        "rail",
        "link layer",
        "mtu",
    ];
    const OF_RDMA: [&str; 15] = [
        "rdma",
        "qp",
        "psm",
        "epid",
        "hfi",
        "efa",
        "ucx",
        "nccl",
        "nixl",
        "mooncake",
        "nvshmem",
        "mscclpp",
        "usnic",
        "libfabric",
        "verbs",
    ];
    let at = DIFFER.iter().find_map(|words| lower.find(words))?;
    let words = || lower.split(|c: char| !c.is_ascii_alphanumeric());
    let has = |word: &str| words().any(|one| one == word);
    let of_both = has("local") && has("remote")
        || has("client") && has("server")
        || ["peer", "connect", "cm"].iter().any(|word| has(word));
    let is_agreed = AGREED.iter().any(|what| lower.contains(what));
    let of_rdma = || words().any(|word| OF_RDMA.iter().any(|name| word.starts_with(name)));
    (of_both && is_agreed && of_rdma()).then_some((K::PeerDiffers, at))
}

/// A port of the other link layer than the one that a program works with: `mlx5_0 port 1 is not an InfiniBand port`, `Unsupported link layer
/// Ethernet`.
pub(super) fn link_layer(lower: &str) -> Option<(K, usize)> {
    const WHOLE: [&str; 3] = [
        "is not an infiniband port",
        "unsupported link layer",
        "not a roce port",
    ];
    let of_layer = || {
        let at = lower.find("link layer ").or_else(|| lower.find("link_layer "))?;
        lower[at..].contains("not supported").then_some(at)
    };
    let of_device = || {
        let text = lower.trim_end().trim_end_matches('.');
        let at = text.strip_suffix("does not support infiniband")?.len();
        Some(at)
    };
    let at = WHOLE
        .iter()
        .find_map(|words| lower.find(words))
        .or_else(of_layer)
        .or_else(of_device)?;
    Some((K::UnsupportedAdapter, at))
}

/// A port that a setting names and the device does not have, or that has no link: `Device mlx5_0 port 7 is out of range (1-2)`, `Port state is
/// not up for mlx5_0 port 1`.
pub(super) fn port(lower: &str) -> Option<(K, usize)> {
    const NOT_UP: [&str; 3] = [
        "port state is not up",
        "port state is not running",
        "port state is not active",
    ];
    if let Some(at) = NOT_UP.iter().find_map(|words| lower.find(words)) {
        return Some((K::PortNotActive, at));
    }
    let at = lower.find("port ").or_else(|| lower.find("port_num "))?;
    let rest = lower[at..].trim_start_matches(|c: char| !c.is_ascii_digit());
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let of_device = || {
        let mut words = lower.split(|c: char| !(c.is_ascii() && is_word(c as u8)));
        lower.contains("port_num ") || words.any(is_rdma_name)
    };
    (rest.starts_with(" is out of range") && of_device()).then_some((K::SettingUnmatched, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_not_be_there_or_have_no_link() {
        for (line, expected) in [
            (
                "device mlx5_0 port 7 is out of range (1-2)",
                Some(K::SettingUnmatched),
            ),
            (
                "error: port_num 3 is out of range (max 2)",
                Some(K::SettingUnmatched),
            ),
            ("port 70000 is out of range", None),
            (
                "psm3: port state is not up for mlx5_0 port 1",
                Some(K::PortNotActive),
            ),
        ] {
            assert_eq!(port(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_one_of_a_setting() {
        for line in [
            "net/ib: nccl_ib_subnet_prefix_len=33 is out of range [1,32]",
            "non-zero status: 7 nvshmem_ibgda_rc_map_by=foo is not supported.",
            "nvshmem_ibgda_num_requests_in_batch must not be larger than qp depth.",
            "h1.77 invalid value provided through psm2_addr_fmt",
            "vma_tx_max_inline  must be smaller or equal to 884 [1024]",
            "fi_opx_multi_hfi expects exactly 2 comma-separated values",
            "[1.2] [h1:77:0] ib_md.c:12 ucx  error ib_pci_relaxed_ordering=n is invalid",
            "[1.2] [h1:77:0] dc.c:12 ucx  error mlx5_0 does not support ucx_dc_mlx5_lag=on",
        ] {
            assert_eq!(
                refused(line).map(|(kind, _)| kind),
                Some(K::SettingUnmatched),
                "{line}"
            );
        }
        for line in [
            "invalid value for psm3_path_rec ('foo') using: none",
            "nccl_ofi_freelist_entry_alloc(): invalid handle",
            "nccl_ib_hca set to mlx5_0",
            "ucx_perftest: failed to connect",
        ] {
            assert_eq!(refused(line), None, "{line}");
        }
    }

    #[test]
    fn settings_may_not_fit_together() {
        assert!(
            pair("infiniband init rdma_receive_queue_len (4096) > ms_async_rdma_receive_buffers(1024).")
                .is_some()
        );
        assert!(pair("rxe0: rxe_cq_chk_attr: cqe(65536) > max_cqe(32767)").is_none());
        assert!(pair("steps_done (5) > steps_max(3)").is_none());
        assert!(
            refused("not enough hca devices are defined with mscclpp_hca_devices: mlx5_0,mlx5_1").is_some()
        );
        assert!(advised("tx has gaps, failed. try setting use_fastreg_gaps to 1: rc = -71").is_some());
        assert!(advised("for more speed, try setting use_fastreg_gaps to 1").is_none());
    }

    #[test]
    fn two_ends_differ_in_what_they_agree_on() {
        for line in [
            "psm3: connect protocol (3.1) is incompatible with 4.0",
            "psm3: remote connect (h2) epid address format ipv6 (3) is incompatible with local epid address format ipv4 (2)",
            "mscclpp: transport mismatch between local (cudaipc) and remote (ib0) endpoints",
            "ucx: incompatible client server connection establishment protocol",
            "libfabric:1:2::rxm: cm version mismatch",
        ] {
            assert_eq!(
                differs(line).map(|(kind, _)| kind),
                Some(K::PeerDiffers),
                "{line}"
            );
        }
        for line in [
            "sgl[7]: local length 7 does not match remote length 9",
            "rdma: the protocol version of the driver does not match",
            "http: peer protocol mismatch",
        ] {
            assert_eq!(differs(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_may_need_the_other_link_layer() {
        assert!(link_layer("mlx5_0 port 1 is not an infiniband port").is_some());
        assert!(link_layer("link layer 2 not supported (expected ethernet)").is_some());
        assert!(link_layer("link_layer: ethernet").is_none());
    }
}
