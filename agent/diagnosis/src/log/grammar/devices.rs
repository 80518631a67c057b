//! What programs say that count or look for devices, GIDs and transports, and find none.

use crate::{
    log::{entity::is_rdma_name, line::is_word},
    symptom::SymptomKind::{self as K},
};

/// A device that went away while it was in use: `device mlx5_0 has been removed`, `rpcrdma: removing device mlx5_0 for 10.0.0.1:20049`. One that is removed
/// from something, such as a pod or a namespace, is still there.
pub(super) fn removed(lower: &str) -> Option<(K, usize)> {
    const GONE: [&str; 5] = [
        " has been removed",
        " was removed",
        " is being removed",
        " was unplugged",
        " has been unplugged",
    ];
    // The name may follow: `Device has been removed: mlx5_0`.
    let follows = GONE.iter().find_map(|words| {
        let at = lower.find(words).filter(|at| lower[..*at].ends_with("device"))?;
        let name = lower[at + words.len()..].strip_prefix(": ")?;
        let end = name
            .find(|c: char| !(c.is_ascii() && is_word(c as u8)))
            .unwrap_or(name.len());
        is_rdma_name(&name[..end]).then_some((K::DeviceGone, at))
    });
    if follows.is_some() {
        return follows;
    }
    let is_elsewhere = |rest: &str| rest.starts_with(" from") || rest.starts_with(" to ");
    let is_gone = |rest: &str| {
        GONE.iter()
            .any(|words| rest.strip_prefix(words).is_some_and(|rest| !is_elsewhere(rest)))
    };
    if !["removed", "removing device", "unplugged"]
        .iter()
        .any(|word| lower.contains(word))
    {
        return None;
    }
    let mut end = 0;
    lower
        .split_inclusive(|c: char| !(c.is_ascii() && is_word(c as u8)))
        .find_map(|word| {
            let begin = end;
            end += word.len();
            let name = word.trim_end_matches(|c: char| !(c.is_ascii() && is_word(c as u8)));
            let rest = &lower[begin + name.len()..];
            let is_removal =
                is_gone(rest) || lower[..begin].ends_with("removing device ") && rest.starts_with(" for ");
            (is_removal && is_rdma_name(name)).then_some((K::DeviceGone, begin))
        })
}

/// `No IB device found`, `no usable RDMA devices were detected`: what is counted is of RDMA, or its source file is, and none is there.
pub(super) fn no_device(lower: &str) -> Option<(K, usize)> {
    const NOUNS: [&str; 14] = [
        "port",
        "ports",
        "device",
        "devices",
        "hca",
        "hcas",
        "nic",
        "nics",
        "rnic",
        "rnics",
        "adapter",
        "adapters",
        "provider",
        "providers",
    ];
    const OF_RDMA: [&str; 17] = [
        "libfabric",
        "cxi",
        "hfi",
        "ofi",
        "ib",
        "rdma",
        "infiniband",
        "roce",
        "efa",
        "verbs",
        "ibverbs",
        "openfabrics",
        "iwarp",
        "hca",
        "hcas",
        "rnic",
        "rnics",
    ];
    const THERE: [&str; 6] = [
        "found",
        "detected",
        "available",
        "present",
        "discovered",
        "matched",
    ];
    /// The most words between `no` and what is counted.
    const BETWEEN: usize = 3;
    if let Some(at) = no_nic(lower) {
        return Some((K::NoDevice, at));
    }
    for found in places(lower, &["no ", "0 "]) {
        let at = found + 2;
        let words = || {
            lower[at..]
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| !word.is_empty())
        };
        let Some(noun) = words().take(BETWEEN + 1).position(|word| NOUNS.contains(&word)) else {
            continue;
        };
        let of_rdma =
            words().take(noun + 1).any(|word| OF_RDMA.contains(&word)) || has_source(&lower[..found]);
        // `ibv_get_device_list found 0 devices`: the call says whose devices they are.
        let of_rdma = of_rdma || lower[..found].contains("ibv_get_device_list");
        let is_there = words().skip(noun + 1).take(3).any(|word| THERE.contains(&word));
        // `no active RDMA device`, `Found 0 HCAs`.
        let is_usable = words().take(noun).any(|word| {
            matches!(
                word,
                "active"
                    | "usable"
                    | "available"
                    | "suitable"
                    | "matching"
                    | "compatible"
                    | "eligible"
                    | "capable"
            )
        });
        let is_counted = ["found", "returned", "returns", "detected"]
            .iter()
            .any(|verb| lower[..found].trim_end().ends_with(verb));
        // `0 HCAs found:` is all that ibv_devinfo prints.
        let is_list = is_there && lower[found..].starts_with("0 hca");
        let is_none = if lower[found..].starts_with('0') {
            is_counted || is_list
        } else {
            is_there || is_usable
        };
        // That a port is not active says that it is there.
        let is_port = words().nth(noun).is_some_and(|word| word.starts_with("port"));
        let is_inactive = is_port && lower[found..].contains("active");
        if of_rdma && is_none && !is_inactive {
            return Some((K::NoDevice, found));
        }
    }
    None
}

/// Programs for GPUs call their adapters NICs: `[WARN] no NIC found, defaulting to empty`. What follows names a network card of any kind otherwise: `No NIC
/// found with MAC address …`.
fn no_nic(lower: &str) -> Option<usize> {
    const FORMS: [&str; 4] = [
        "no nic found",
        "no nics found",
        "no nic detected",
        "no nics detected",
    ];
    let at = FORMS
        .iter()
        .find_map(|form| places(lower, &[form]).next().map(|at| (at, form)));
    let (at, form) = at?;
    let rest = lower[at + form.len()..].trim_end();
    (rest.is_empty() || rest.starts_with([',', '.', ';', '!'])).then_some(at)
}

/// Whether a text in lower case names a source file that calls verbs: `gloo/transport/ibverbs/device.cc:118]`.
fn has_source(lower: &str) -> bool {
    let is_one = |word: &str| {
        let Some((path, _)) = word.split_once(':') else {
            return false;
        };
        let is_file = [".c", ".cc", ".cpp", ".cu", ".h", ".hpp"]
            .iter()
            .any(|end| path.ends_with(end));
        is_file
            && ["verbs", "rdma", "infiniband", "libfabric"]
                .iter()
                .any(|of| path.contains(of))
    };
    lower.split_whitespace().any(is_one)
}

/// `No suitable GID found on mlx5_1/1`, `no usable RoCE v2 GIDs available`.
pub(super) fn no_gid(lower: &str) -> Option<(K, usize)> {
    /// The most words between `no` and what is counted.
    const BETWEEN: usize = 4;
    const KINDS: [&str; 14] = [
        "mapped",
        "suitable",
        "usable",
        "valid",
        "matching",
        "routable",
        "active",
        "available",
        "such",
        "roce",
        "rocev2",
        "v2",
        "ipv4",
        "ib",
    ];
    const MISSING: [&str; 4] = [
        "gid not found",
        "gids not found",
        "gid is not found",
        "gid was not found",
    ];
    let missing = MISSING.iter().find_map(|words| lower.find(words)).filter(|at| {
        let kind = lower[..*at]
            .trim_end()
            .rsplit(|c: char| !c.is_ascii_alphanumeric())
            .next();
        kind.is_some_and(|kind| KINDS.contains(&kind) || matches!(kind, "v1" | "local"))
    });
    if let Some(at) = missing {
        return Some((K::NoGid, at));
    }
    if let Some(at) = exchanged_zero(lower) {
        return Some((K::NoGid, at));
    }
    unavailable_gid(lower).or_else(|| {
        places(lower, &["no "])
            .find(|at| {
                let words = || {
                    lower[*at..]
                        .split(|c: char| !c.is_ascii_alphanumeric())
                        .skip(1)
                        .filter(|word| !word.is_empty())
                };
                let Some(noun) = words()
                    .take(BETWEEN + 1)
                    .position(|word| matches!(word, "gid" | "gids"))
                else {
                    return false;
                };
                let is_of_gid = words().take(noun).all(|word| KINDS.contains(&word));
                let rest = || words().skip(noun + 1).take(2);
                // `no usable GID at index 3`, `no valid GID on mlx5_2`.
                let is_placed = || {
                    noun > 0
                        && words()
                            .nth(noun + 1)
                            .is_some_and(|word| matches!(word, "at" | "on" | "for"))
                };
                let is_missing =
                    rest().any(|word| matches!(word, "found" | "available" | "detected" | "table"));
                is_of_gid && (is_missing || is_placed())
            })
            .map(|at| (K::NoGid, at))
    })
}

/// A peer without LID and without GID, so that no packet can be addressed to it: `0000:000069:4bd5c0:00000000000000000000000000000000`, the form of
/// libibverbs' examples, or their `LID 0x0000, QPN 0x000011, PSN 0x17d96, GID ::`.
fn exchanged_zero(lower: &str) -> Option<usize> {
    const GID: &str = ":00000000000000000000000000000000";
    let in_words = || {
        let at = lower.find("lid 0x0000,")?;
        (lower.trim_end().ends_with("gid ::") && lower[..at].contains("address")).then_some(at)
    };
    let in_digits = || {
        let at = lower.find(GID)?;
        let word = lower[..at].rsplit(' ').next()?;
        let ends = !lower[at + GID.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
        (ends && word.split(':').any(|part| part == "0000")).then_some(at - word.len())
    };
    in_digits().or_else(in_words)
}

/// `Device erdma_0 GID 1 not available: Invalid argument [22]`, `Invalid gid[0] on mlx5_6:1`: the entry at an index.
fn unavailable_gid(lower: &str) -> Option<(K, usize)> {
    if let Some(at) = lower.find("invalid gid[") {
        return Some((K::NoGid, at));
    }
    // `invalid GID index 16 for port 1 (max index is 15)`.
    if let Some(at) = lower
        .find("invalid gid index ")
        .filter(|at| lower[*at..].contains("max"))
    {
        return Some((K::GidUnusable, at));
    }
    let at = lower.find("gid ")?;
    let rest = lower[at + "gid ".len()..].trim_start_matches(|c: char| c.is_ascii_digit());
    let is_index = rest.len() + "gid ".len() < lower.len() - at;
    let is_missing = [" not available", " is not available", " not found", " is invalid"]
        .iter()
        .any(|words| rest.starts_with(words));
    (is_index && is_missing).then_some((K::GidUnusable, at))
}

/// Where one of the words begins a word.
fn places<'a>(lower: &'a str, words: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
    words.iter().flat_map(move |word| {
        lower
            .match_indices(*word)
            .map(|(at, _)| at)
            .filter(|at| *at == 0 || !is_word(lower.as_bytes()[at - 1]))
    })
}

/// A directory of RDMA devices that does not exist: "`/sys/class/infiniband` not found", `/dev/infiniband does not exist`.
pub(super) fn no_directory(lower: &str) -> Option<(K, usize)> {
    const DIRECTORIES: [&str; 4] = [
        "/sys/class/infiniband_verbs",
        "/sys/class/infiniband",
        "/dev/infiniband",
        "/sys/class/infiniband_mad",
    ];
    const MISSING: [&str; 6] = [
        "not found",
        "is not found",
        "does not exist",
        "doesn't exist",
        "is missing",
        "not present",
    ];
    DIRECTORIES.iter().find_map(|directory| {
        let at = lower.find(directory)?;
        let rest = lower[at + directory.len()..].trim_start_matches(['/', '`', '\'', '"', ' ', ':']);
        let is_missing = MISSING.iter().any(|words| rest.starts_with(words));
        is_missing.then_some((K::NoDevice, at))
    })
}

/// `Fail to find available RDMA device mlx5_7`, `could not find an RDMA GID`, `Failed to find device mlx5_9`: what was looked for stands after the
/// verb.
pub(super) fn not_found(lower: &str) -> Option<(K, usize)> {
    const VERBS: [&str; 5] = ["fail", "failed", "unable", "could", "cannot"];
    /// The most words between the verb and what is looked for.
    const WITHIN: usize = 5;
    let at = lower.find(" find ")?;
    let failed = lower[..at]
        .rsplit(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(2)
        .any(|word| VERBS.contains(&word));
    let words = || {
        lower[at + " find ".len()..]
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(WITHIN)
    };
    let of_rdma = words().any(|word| {
        matches!(
            word,
            "rdma" | "ib" | "infiniband" | "roce" | "gid" | "libfabric" | "ofi"
        )
    });
    let is_named = || {
        let mut names = lower[at..].split_whitespace().take(WITHIN);
        names.any(|name| is_rdma_name(name.trim_matches(|c: char| !c.is_ascii_alphanumeric())))
    };
    let kind = words().find_map(|word| match word {
        "device" | "devices" | "hca" | "nic" | "provider" | "providers" => Some(K::NoDevice),
        // UCX_IB_ROCE_SUBNET_LIST and its like select by the address.
        "gid" if lower.contains("subnet list") => Some(K::SettingUnmatched),
        "gid" => Some(K::NoGid),
        _ => None,
    })?;
    (failed && (of_rdma || is_named())).then_some((kind, at))
}

/// `RDMA device not found: mlx5_29`, `IB device mlx5_29 does not exist`: a program looked for a device by the name that a setting gives.
pub(in crate::log) fn unknown_name(lower: &str) -> Option<(K, usize)> {
    const NOUNS: [&str; 4] = ["device", "hca", "nic", "rnic"];
    const MISSING: [&str; 5] = [
        "not found",
        "is not found",
        "was not found",
        "does not exist",
        "doesn't exist",
    ];
    // The devices of pods, which no setting of a job names.
    const OF_PODS: [&str; 5] = [
        "kubelet",
        "noderesources",
        "resourceclaim",
        "sandbox",
        "plugin type",
    ];
    let bare = |word: &str| {
        let is_around = |c: char| matches!(c, '\'' | '"' | '`' | ',' | '.' | '(' | ')' | '[' | ']');
        is_rdma_name(word.trim_matches(is_around).split(':').next().unwrap_or_default())
    };
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if !has(&["not found", " exist"]) || has(&OF_PODS) {
        return None;
    }
    NOUNS.iter().find_map(|noun| {
        let at = places(lower, &[noun]).find(|at| {
            let rest = &lower[at + noun.len()..];
            let Some(rest) = rest.strip_prefix(' ') else {
                return false;
            };
            let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
            let is_before = || bare(first) && MISSING.iter().any(|words| after.starts_with(words));
            let is_after = || {
                MISSING.iter().any(|words| {
                    let named = rest.strip_prefix(words).and_then(|rest| rest.strip_prefix(':'));
                    named.is_some_and(|named| named.split_whitespace().next().is_some_and(bare))
                })
            };
            is_before() || is_after()
        })?;
        // The other end does not list the adapter that this end asks for.
        let is_of_peer = ["peer ", "remote "].iter().any(|end| lower[..at].ends_with(end));
        Some((
            if is_of_peer {
                K::PeerDiffers
            } else {
                K::SettingUnmatched
            },
            at,
        ))
    })
}

/// UCX's `no active messages transport to NODE: rc_mlx5/mlx5_0:1 - Destination is unreachable, …`: it lists the transports that it has, and why
/// each does not lead there. If none of them is of RDMA, it found no device that it may use.
pub(in crate::log) fn no_transport(lower: &str) -> Option<(K, usize)> {
    const RDMA: [&str; 5] = ["rc_", "dc_", "ud_", "srd_", "gga_"];
    let at = lower.find(" transport to ")?;
    let begins = lower[..at].rfind("no ")?;
    let is_ucx = lower[..begins].contains("ucx") && at - begins < 60;
    let transports = || lower[at..].split([' ', ',']).filter(|word| word.contains('/'));
    // UCX has TCP and shared memory wherever it runs. Without them, its settings left them out.
    if transports().all(|word| word.starts_with("self/")) {
        let is_none = is_ucx
            && ["unsupported operation", "unreachable"]
                .iter()
                .any(|reason| lower[at..].contains(reason));
        // Devices are there, and none of them has what the program asks for.
        let kind = if lower[begins..at].contains("atomic") {
            K::UnsupportedAdapter
        } else {
            K::SettingUnmatched
        };
        return is_none.then_some((kind, begins));
    }
    let has_rdma = transports().any(|word| RDMA.iter().any(|name| word.starts_with(name)));
    let kind = if has_rdma { K::PeerUnreachable } else { K::NoDevice };
    is_ucx.then_some((kind, begins))
}
