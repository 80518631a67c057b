//! The device, the port, the addresses that a line names.

use super::line::{after, device, number, word};
use crate::diagnosis::symptom::Named;

/// What a line names, wherever it does.
pub(super) fn names(text: &str) -> Named {
    let dev = [" on dev ", " hca ", "HCA 0 '", " device ", "infiniband "];
    let labelled = dev
        .iter()
        .find_map(|label| device(after(text, label)?).filter(|(name, _)| name != "for"));
    // UCX: `Local protection on mlx5_0:1/RoCE (synd`, `UCX  ERROR mlx5_5: ibv_create_srq() failed`.
    let on = || {
        let before = &text[..text.find(" (synd 0x")?];
        device(before.rsplit(' ').next()?)
    };
    let quoted = || device(after(after(text, "for HCA ")?, "'")?);
    let ucx = || {
        let rest = after(text, "UCX  ERROR ")?;
        let (name, _) = rest.split_once(": ibv_")?;
        device(name)
    };
    let nccl = || {
        // `NET/IB : mlx5_0:1 Got async event`.
        let before = &text[..text.find(" Got async event")?];
        device(before.rsplit(' ').next()?).filter(|(_, port)| port.is_some())
    };
    let found = on().or_else(quoted).or_else(ucx).or_else(nccl).or(labelled);
    let (device, port) = found.map_or((None, None), |(name, port)| (Some(name), port));
    // `local GID index 3, local GID ::`: the last one is the address.
    let gid = |labels: &[&str]| {
        labels
            .iter()
            .find_map(|label| word(text.rfind(label).map(|at| &text[at + label.len()..])?))
            .filter(|gid| gid.contains(':'))
            .map(|gid| gid.trim_end_matches('.').to_owned())
    };
    Named {
        device,
        port,
        peer: ["from peer "]
            .iter()
            .find_map(|label| word(after(text, label)?))
            .map(str::to_owned),
        gid_index: after(text, "GID index ")
            .and_then(number)
            .and_then(|n| n.try_into().ok()),
        // NCCL writes `remoteGids` and the value without a space between.
        local_gid: gid(&["localGid ", "local GID "]),
        remote_gid: gid(&["remoteGids", "remoteGid ", "remote GID ", "dgid "]),
        vendor_error: [
            "vendor err ",
            "vendor_err=",
            "vendor_err ",
            " vend 0x",
            "syndrom ",
        ]
        .iter()
        .find_map(|label| {
            let rest = after(text, label)?;
            if label.ends_with("0x") {
                number(&format!("0x{rest}"))
            } else {
                number(rest)
            }
        })
        .and_then(|code| code.try_into().ok()),
        errno: None,
        memlock_bytes: None,
    }
}
