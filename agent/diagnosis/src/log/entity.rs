//! What a line names: device and port, GIDs, peer, limits. Each is accepted by its own form, not by its place alone.

use std::net::{IpAddr, Ipv6Addr};

use rdma_health_kernel_log::is_address;

use super::{
    line::{Lower, after, is_word, number, word},
    status::vendor_error,
};
use crate::symptom::{Named, Transition};

/// The beginnings of the names that drivers, and the rules of a cloud, give to RDMA devices. A digit follows, at once or after more letters
/// (`mlx5_bond_0`, `rxe_eth0`).
const NAMES_OF_DRIVERS: &[&str] = &[
    "mlx4_",
    "mlx5_",
    "mthca",
    "bnxt_re",
    "irdma",
    "i40iw",
    "efa_",
    "rdmap",
    "hfi1_",
    "hfi2_",
    "qib",
    "qedr",
    "hns_",
    "erdma_",
    "mana_",
    "manae_",
    "ionic_",
    "ocrdma",
    "vmw_pvrdma",
    "usnic_",
    "xscale_",
    "cxgb4_",
    "cxgb3_",
    "siw",
    "rxe",
];
/// The same of udev's rules (rdma-core's `rdma_rename`), which name a device by its place, whatever its driver.
const NAMES_OF_PLACES: &[&str] = &[
    "rocep", "roceo", "rocex", "ibp", "ibs", "ibo", "ibx", "iwp", "iwo", "iws", "opap", "opao", "opas",
];
/// Modules, source files and the like that begin like a device.
const NOT_DEVICES: &[&str] = &[
    "mlx5_core",
    "mlx5_ib",
    "mlx4_core",
    "mlx4_ib",
    "mlx5_common",
    "mlx5_pci",
    "mlx5_ifc",
    "rxe_cfg",
];
/// Words before the name of a device of any form, such as one that the administrator gave.
const DEVICE_LABELS: &[&str] = &[
    " hca ",
    " hca '",
    "on dev ",
    " ib device ",
    "ibdev ",
    "ib_dev ",
    "infiniband ",
    " nic ",
    "rdma device ",
    "ca '",
    "device ",
];
/// The beginnings of names of other devices.
const OTHER_NAMES: &[&str] = &[
    "cuda", "gpu", "nvme", "sd", "eth", "en", "bond", "rank", "cpu", "numa", "pci", "errno", "node",
    "uverbs", "umad", "issm", "eno", "net", "lo", "wlan", "vf", "dev", "0x", "port", "veth", "br", "hip",
    "xpu", "npu",
];

/// Everything that a line names, except its error number.
pub(super) fn named(line: &Lower<'_>) -> Named {
    let (device, port) = device(line.text).map_or((None, None), |(name, port)| (Some(name), port));
    Named {
        port: port.or_else(|| device.as_ref().and(labelled_port(&line.lower))),
        device,
        peer: peer(line.text),
        gid_index: gid_index(&line.lower),
        // NCCL prints no space between `remoteGids` and the value.
        function: function(line.text),
        local_gid: gid(
            line.text,
            &["localGid ", "local GID ", "src_gid ", "sgid=", "sgid "],
        ),
        has_other_gids: false,
        remote_gid: gid(
            line.text,
            &[
                "remoteGids",
                "remoteGid ",
                "remote GID ",
                "dgid ",
                "dgid=",
                "dst_gid ",
            ],
        ),
        vendor_error: vendor_error(&line.lower),
        errno: None,
        transition: transition(&line.lower),
        gpu: None,
        memlock_bytes: memlock(&line.lower),
    }
}

/// The full address of a PCI function as a word: `0000:41:00.0`.
fn function(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| !c.is_ascii_hexdigit() && !matches!(c, ':' | '.'));
    let found = words.find_map(|word| {
        let word = word.trim_end_matches([':', '.']);
        is_address(word).then_some(word)
    });
    found.map(str::to_ascii_lowercase)
}

/// The transition of a queue pair that a line in lower case names: NCCL's `curr state RESET, next state INIT`, `to RTR`, the commands
/// of mlx5.
fn transition(lower: &str) -> Option<Transition> {
    const WORDS: [(&str, Transition); 27] = [
        ("next state init", Transition::Init),
        ("next state rtr", Transition::Rtr),
        ("next state rts", Transition::Rts),
        ("rst2init", Transition::Init),
        ("init2rtr", Transition::Rtr),
        ("rtr2rts", Transition::Rts),
        ("to state init", Transition::Init),
        ("to state rtr", Transition::Rtr),
        ("to state rts", Transition::Rts),
        ("to init", Transition::Init),
        ("to rtr", Transition::Rtr),
        ("to rts", Transition::Rts),
        ("->init", Transition::Init),
        ("->rtr", Transition::Rtr),
        ("->rts", Transition::Rts),
        ("to ibv_qps_init", Transition::Init),
        ("to ibv_qps_rtr", Transition::Rtr),
        ("to ibv_qps_rts", Transition::Rts),
        ("(rtr)", Transition::Rtr),
        ("(rts)", Transition::Rts),
        // The state as an argument, and behind the call.
        ("(ibv_qps_init)", Transition::Init),
        ("(ibv_qps_rtr)", Transition::Rtr),
        ("(ibv_qps_rts)", Transition::Rts),
        ("modify_qp init", Transition::Init),
        ("modify_qp rtr", Transition::Rtr),
        ("modify_qp rts", Transition::Rts),
        ("(init)", Transition::Init),
    ];
    // `RTR -> RTS` as well as `RTR->RTS`.
    let arrows = lower.contains("-> ").then(|| lower.replace("-> ", "->"));
    let lower = arrows.as_deref().unwrap_or(lower);
    let is_of_queue = ["qp", "queue pair", "2rtr", "2rts", "2init"]
        .iter()
        .any(|word| lower.contains(word));
    let ends = |word: &str| {
        after(lower, word).is_some_and(|rest| {
            rest.bytes()
                .next()
                .is_none_or(|byte| !is_word(byte) || byte == b'_')
        })
    };
    let found = WORDS.iter().find(|(word, _)| ends(word));
    found.filter(|_| is_of_queue).map(|(_, transition)| *transition)
}

/// The index of a GID: NCCL's `local GID index 3`, UCX's `sgix 3`, Mooncake's `GID_Index 3`, perftest's `GID index       : 3`.
pub(super) fn gid_index(lower: &str) -> Option<u32> {
    ["gid index", "gid_index", "sgix", "sgid_index"]
        .iter()
        .find_map(|label| {
            let rest = after(lower, label)?.trim_start_matches([' ', ':', '=', '\t', '(']);
            number(rest).and_then(|index| u32::try_from(index).ok())
        })
}

/// The soft memlock limit in bytes: libibverbs' `RLIMIT_MEMLOCK is 65536 bytes`, UCX's `(current: 64 KB)`.
fn memlock(lower: &str) -> Option<u64> {
    let bytes = after(lower, "rlimit_memlock is").and_then(number);
    let kib = || after(lower, "(current: ").and_then(number)?.checked_mul(1024);
    // Open MPI prints it whether it is the reason or not.
    let printed = || {
        let value = after(lower, "memlock limit:")?.trim_start();
        if value.starts_with("unlimited") {
            Some(u64::MAX)
        } else {
            number(value)
        }
    };
    bytes.or_else(kib).or_else(printed)
}

/// The first RDMA device in a line: a word of the form that drivers give, otherwise a word with a digit after a label.
pub(super) fn device(text: &str) -> Option<(String, Option<u8>)> {
    let separators = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                ',' | '('
                    | ')'
                    | '['
                    | ']'
                    | '\''
                    | '"'
                    | ';'
                    | '<'
                    | '>'
                    | '='
                    | '`'
                    | '/'
                    | '|'
                    | '{'
                    | '}'
            )
    };
    let mut named = text.split(separators).filter_map(split_port);
    if let Some((name, port)) = named.find(|(name, _)| has_known_form(name)) {
        return Some((name.to_owned(), port));
    }
    let lower = text.to_ascii_lowercase();
    DEVICE_LABELS.iter().find_map(|label| {
        let at = lower.find(label)? + label.len();
        let token = text.get(at..)?.split(separators).next()?;
        let (name, port) = split_port(token)?;
        is_plausible(name).then(|| (name.to_owned(), port))
    })
}

/// A name and its port: `mlx5_0:1`, `mlx5_0`, `mlx5_0:`.
fn split_port(token: &str) -> Option<(&str, Option<u8>)> {
    let token = token.trim_end_matches([':', '.', ',']);
    // libfabric's domains of an EFA: `rdmap16s27-rdm`, `rdmap16s27-dgrm`.
    let token = token.trim_end_matches("-rdm").trim_end_matches("-dgrm");
    let (name, port) = match token.split_once(':') {
        Some((name, port)) => {
            let digits = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
            (name, port[..digits].parse().ok())
        }
        None => (token, None),
    };
    (!name.is_empty() && name.len() <= 64).then_some((name, port))
}

/// Whether a device has a name that a driver gives.
pub(crate) fn is_named_by_driver(name: &str) -> bool {
    NAMES_OF_DRIVERS
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

fn has_known_form(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let Some(beginning) = NAMES_OF_DRIVERS
        .iter()
        .chain(NAMES_OF_PLACES)
        .find(|beginning| name.starts_with(**beginning))
    else {
        return false;
    };
    let rest = &name[beginning.len()..];
    let by_slot = matches!(
        *beginning,
        "rocep"
            | "roceo"
            | "ibp"
            | "ibs"
            | "ibo"
            | "iwp"
            | "iwo"
            | "iws"
            | "opap"
            | "opao"
            | "opas"
            | "rdmap"
            | "siw"
            | "irdma"
            | "qib"
            | "mthca"
            | "i40iw"
            | "qedr"
            | "ocrdma"
            | "bnxt_re"
    );
    let first = rest.trim_start_matches('_').bytes().next();
    let begins = if by_slot {
        // A PCI domain comes first, in capitals: `rocepP1p3s0`.
        first.is_some_and(|byte| byte.is_ascii_digit() || byte == b'P') || rest.starts_with("_bond")
    } else {
        !rest.is_empty()
    };
    begins
        && name.bytes().all(plain)
        && rest.bytes().any(|byte| byte.is_ascii_digit())
        && rest.len() <= 32
        && !NOT_DEVICES.contains(&name)
        // A file: `mlx5_main.c4`.
        && !name.contains(".c") && !name.contains(".so") && !name.contains(".h")
}

/// Whether a word has the form of an RDMA device's name.
pub(super) fn is_rdma_name(name: &str) -> bool {
    has_known_form(name)
}

/// A name that an administrator could have given: letters first, a digit somewhere, not a name of something else.
fn is_plausible(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        && name.len() <= 32
        && !OTHER_NAMES.iter().any(|other| name.starts_with(other))
        && !NOT_DEVICES.contains(&name)
}

fn labelled_port(lower: &str) -> Option<u8> {
    let rest = [" port ", "port number ", " port="]
        .iter()
        .find_map(|label| after(lower, label))?;
    number(rest)
        .and_then(|port| u8::try_from(port).ok())
        .filter(|port| (1..=32).contains(port))
}

/// The GID after one of the labels. `local GID index 3, local GID ::`: the last one is the address.
fn gid(text: &str, labels: &[&str]) -> Option<String> {
    labels.iter().find_map(|label| {
        let at = text.rfind(label)?;
        let value = word(&text[at + label.len()..])?.trim_end_matches('.');
        if value.parse::<Ipv6Addr>().is_ok() {
            return Some(value.to_owned());
        }
        super::gid::parse(&value.to_ascii_lowercase()).map(|gid| gid.to_string())
    })
}

/// The peer: an address, or after `from peer` a host's name too. A port number is left out.
fn peer(text: &str) -> Option<String> {
    const LABELS: &[&str] = &[
        "peer ",
        "Peer: ",
        "peer: ",
        "peer=",
        "peer_nic: ",
        "peer_nic=",
        "rdma with ",
        "tx for ",
        "connection to ",
        "to node ",
        "remote address ",
        "connect to ",
        "connecting to ",
        "traddr=",
        "remote ",
        "dest ",
        "to host ",
    ];
    if let Some(host) = after(text, "from peer ").and_then(word) {
        return Some(host.to_owned());
    }
    LABELS.iter().find_map(|label| {
        let value = word(after(text, label)?)?.trim_end_matches(['.', ':']);
        let host = value.split('@').next()?;
        let without_port = host.rsplit_once(':').map_or(host, |(address, _)| address);
        let address = [host, without_port]
            .into_iter()
            .find(|value| value.parse::<IpAddr>().is_ok())?;
        Some(address.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Option<String> {
        device(text).map(|(name, port)| port.map_or(name.clone(), |port| format!("{name}:{port}")))
    }

    #[test]
    fn devices_are_accepted_by_their_form() {
        for (line, expected) in [
            ("NET/IB : Using [0]mlx5_0:1/RoCE", Some("mlx5_0:1")),
            (
                "Local protection on mlx5_2:1/RoCE (synd 0x4 vend 0x51)",
                Some("mlx5_2:1"),
            ),
            (
                "UCX  ERROR mlx5_1: ibv_modify_qp(UMR QP 0x2c5c) failed",
                Some("mlx5_1"),
            ),
            (
                "infiniband rocep33s0f0: mlx5_poll_one:527:(pid 0): Responder error cqe",
                Some("rocep33s0f0"),
            ),
            ("failed with error No such device errno 19", None),
            ("No space left on device errno 28", None),
            ("NET/IB : No device found.", None),
            ("mlx5_core 0000:41:00.0: mlx5_cmd_out_err:800:(pid 2)", None),
            ("unable to open device rail3", Some("rail3")),
            ("register buffer on device cuda:0 failed", None),
            (
                "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so'",
                None,
            ),
            ("RoCEv2 is not configured", None),
            ("RDMA device: mlx5_bond_5, LID: 0", Some("mlx5_bond_5")),
            ("NET/OFI Failed on rdmap16s27-rdm", Some("rdmap16s27")),
        ] {
            assert_eq!(name(line).as_deref(), expected, "{line}");
        }
    }
}
