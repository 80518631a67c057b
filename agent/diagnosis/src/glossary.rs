//! Names of other libraries and terms of the field, as users paste them.
//!
//! Each list has its own file. The reasons of a rejected connection are those of `rdma_cma.h` and `ib_cm.h` (IBTA 12.6.7.2).

use rdma_health_protocol::Errno;

use crate::log::strerror;

/// A name and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The name, as the library or the field writes it. `N` in it stands for any number.
    pub name: &'static str,
    /// What kind of name it is.
    pub kind: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Rules, causes and symptoms to read about next.
    pub see: &'static [&'static str],
}

/// A name, its meaning, and what to read about next.
type Row = (&'static str, &'static str, &'static [&'static str]);

/// Defines a list of rows: `"NAME": "meaning" ["see", …];`.
macro_rules! rows {
    ($(#[$doc:meta])* $list:ident: $($name:literal: $meaning:literal $([$($see:literal),*])?;)*) => {
        $(#[$doc])*
        pub(super) static $list: &[super::Row] = &[$(($name, $meaning, &[$($($see),*)?])),*];
    };
}

mod counters;
mod efa;
mod field;
mod libraries;
mod settings;
mod system;

/// Every list with the kind of its names.
static CHAPTERS: &[(&str, &[Row])] = &[
    ("error of libfabric", libraries::FABRIC),
    ("error of EFA", efa::ERRORS),
    ("status of UCX", libraries::UCX),
    ("status", libraries::STATUS),
    ("term", field::FIELD),
    ("term", system::SYSTEM),
    ("state", system::STATES),
    ("state of a queue pair", system::QUEUE_STATES),
    ("counter", counters::COUNTERS),
    ("statistic", counters::STATISTICS),
    ("setting", settings::SETTINGS),
];

/// Families of names whose members are not all listed: how they begin, what kind they are, and where they are described.
static FAMILIES: &[(&str, &str, &str)] = &[
    (
        "NCCL_",
        "setting",
        "a variable of NCCL or of a program that uses it. This one is not known here; NCCL's documentation lists its variables",
    ),
    (
        "TORCH_NCCL_",
        "setting",
        "a variable of PyTorch. This one is not known here; PyTorch's documentation lists them",
    ),
    (
        "RCCL_",
        "setting",
        "a variable of RCCL. This one is not known here; RCCL's documentation lists its variables",
    ),
    (
        "UCX_",
        "setting",
        "a variable of UCX. This one is not known here; ucx_info -c -f lists them with their meanings",
    ),
    (
        "UCS_ERR_",
        "status",
        "a status of UCX. This one is not known here; ucs/type/status.h lists them",
    ),
    (
        "FI_EFA_",
        "setting",
        "a variable of libfabric's provider for EFA. This one is not known here; fi_info -e lists them",
    ),
    (
        "FI_",
        "setting",
        "a name of libfabric. This one is not known here; fi_info -e lists its variables",
    ),
    (
        "NVSHMEM_",
        "setting",
        "a variable of NVSHMEM. This one is not known here; nvshmem-info -a lists them",
    ),
    (
        "OMPI_MCA_",
        "setting",
        "a parameter of Open MPI. This one is not known here; ompi_info --all lists them",
    ),
    (
        "I_MPI_",
        "setting",
        "a variable of Intel MPI. This one is not known here; impi_info lists them",
    ),
    (
        "PSM",
        "setting",
        "a name of the library PSM of Omni-Path or Ethernet adapters. This one is not known here",
    ),
    (
        "MV2_",
        "setting",
        "a variable of MVAPICH2. This one is not known here; its user guide lists them",
    ),
    (
        "GLOO_",
        "setting",
        "a variable of Gloo. This one is not known here",
    ),
    (
        "MC_",
        "setting",
        "a variable of Mooncake. This one is not known here; its documentation lists them",
    ),
    (
        "MLX5_",
        "setting",
        "a name of the provider or driver of mlx5 adapters. This one is not known here",
    ),
    (
        "RDMAV_",
        "setting",
        "a variable of libibverbs. This one is not known here; its man pages list them",
    ),
    (
        "IBV_",
        "status",
        "a name of libibverbs. This one is not known here; verbs.h of rdma-core lists them",
    ),
    (
        "RDMA_CM_",
        "status",
        "a name of librdmacm. This one is not known here; its man pages list them",
    ),
];

/// Every term.
pub fn terms() -> impl Iterator<Item = Term> {
    let of_chapter = |(kind, rows): &(&'static str, &'static [Row])| {
        let kind = *kind;
        rows.iter().map(move |(name, meaning, see)| Term {
            name,
            kind,
            meaning,
            see,
        })
    };
    CHAPTERS.iter().flat_map(of_chapter)
}

/// A name in the form in which names are compared: without the case of letters, and without what separates their parts.
fn folded(name: &str) -> String {
    let is_part = |c: &char| !matches!(c, ' ' | '-' | '_');
    name.chars()
        .filter(is_part)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// The same with `n` for each number.
fn without_numbers(folded: &str) -> String {
    let mut out = String::with_capacity(folded.len());
    for c in folded.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('\u{1}') {
            out.push('\u{1}');
        }
    }
    out.replace('\u{1}', "n")
}

/// The reasons of a rejected connection (`enum ib_cm_rej_reason`).
const REJECTIONS: &[(u64, &str, &[&str])] = &[
    (1, "no queue pair is available", &["hca-resources"]),
    (3, "no resources are available", &["hca-resources"]),
    (
        4,
        "timeout: the other end did not answer in time",
        &["fabric-or-peer"],
    ),
    (5, "the request is not supported", &[]),
    (6, "the communication id is not valid", &[]),
    (
        8,
        "invalid service id: no program listens at this address and port",
        &["no-listener-answered", "no-listener"],
    ),
    (9, "the type of transport is not valid", &["connect-incompatible"]),
    (
        10,
        "stale connection: the peer still has an older connection with this queue pair",
        &["peer-failed"],
    ),
    (
        12,
        "the GID of the primary port is not valid",
        &["gid-index", "connect-invalid"],
    ),
    (13, "the LID of the primary port is not valid", &["addressing"]),
    (14, "the service level is not valid", &["addressing"]),
    (17, "the packet rate is not valid", &[]),
    (24, "use another port and another connection manager", &[]),
    (25, "use another port", &[]),
    (26, "the path MTU is not valid", &["mtu", "mtu-differs"]),
    (
        27,
        "the peer has not enough responder resources",
        &["hca-resources"],
    ),
    (
        28,
        "the program of the peer rejected it: read the log of the peer",
        &["peer-failed"],
    ),
    (29, "the number of RNR retries is not valid", &[]),
    (30, "the communication id is used twice", &[]),
];

/// The term with this name, in any case of letters.
pub fn named(text: &str) -> Option<Term> {
    /// More characters than any name has.
    const LONGEST: usize = 64;
    if text.len() > LONGEST {
        return None;
    }
    let name = folded(text);
    let of = |name: &str| terms().find(|term| folded(term.name) == name);
    let general = || {
        let general = without_numbers(&name);
        (general != name)
            .then(|| of(&general))
            .flatten()
            .filter(|term| term.name.contains('N'))
    };
    (!name.is_empty()).then(|| of(&name).or_else(general).or_else(|| spelled(text)))?
}

/// The state or counter that a text names in the spelling of a tool or a header: `IBV_PORT_ARMED`, `PORT_DOWN (1)`,
/// `LinkState:.......Initialize`, `SymbolErrorCounter:....0`, `symbol_error_counter: 65535`.
fn spelled(text: &str) -> Option<Term> {
    /// Labels before a state, folded.
    const LABELS: [&str; 10] = [
        "linklayer",
        "state",
        "portstate",
        "linkstate",
        "logicalstate",
        "physstate",
        "phystate",
        "physicalstate",
        "phylinkstate",
        "portphysstate",
    ];
    // Names with hyphens are those of this program, such as the symptom port-initializing.
    if text.contains('-') {
        return None;
    }
    let of = |kinds: &[&str], name: &str| {
        terms().find(|term| kinds.contains(&term.kind) && !name.is_empty() && folded(term.name) == name)
    };
    let (label, value) = match text.split_once(':') {
        Some((label, value)) => (folded(label), value),
        None => (String::new(), text),
    };
    let value = value
        .trim_start_matches(['.', ' ', '\t'])
        .split('(')
        .next()
        .unwrap_or_default();
    let value = folded(value.trim());
    let of_queue = value
        .strip_prefix("ibvqps")
        .or_else(|| value.strip_prefix("ibqps"));
    if let Some(name) = of_queue {
        let kinds = ["state of a queue pair", "term"];
        return of(&kinds, name).or_else(|| of(&kinds, &format!("qps{name}")));
    }
    let state = value
        .strip_prefix("ibvport")
        .or_else(|| value.strip_prefix("ibport"))
        .or_else(|| {
            value
                .strip_prefix("port")
                .filter(|rest| !rest.starts_with("conf"))
        });
    let state = match state.unwrap_or(&value) {
        "initialize" => "init",
        "training" => "portconfigurationtraining",
        state => state,
    };
    if label.is_empty() || LABELS.contains(&label.as_str()) {
        let found = of(&["state"], state);
        let is_prefixed = label.is_empty() && state.len() < value.len();
        if found.is_some() && (is_prefixed || !label.is_empty()) {
            return found;
        }
    }
    let counter = if label.is_empty() { value.as_str() } else { &label };
    let counter = counter.strip_suffix("counter").unwrap_or(counter);
    of(&["counter"], counter)
}

/// The family that a name belongs to which is not listed itself.
pub fn family(text: &str) -> Option<Term> {
    let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let of_driver = || {
        let begins = ["rx_", "tx_"].iter().any(|way| text.starts_with(way));
        (begins || text.ends_with("_phy")).then_some((
            "",
            "statistic",
            "a statistic of a network driver (ethtool -S DEVICE). This one is not known here; the documentation of the driver lists them",
        ))
    };
    let found = FAMILIES
        .iter()
        .find(|(beginning, ..)| text.starts_with(beginning))
        .copied();
    let (name, kind, meaning) = found.or_else(of_driver).filter(|_| is_name(text))?;
    Some(Term {
        name,
        kind,
        meaning,
        see: &[],
    })
}

/// An error of libfabric that is one of the C library: `FI_ENOMEM`.
pub(crate) fn of_fabric(text: &str) -> Option<Errno> {
    let upper = text.to_ascii_uppercase();
    strerror::named(upper.strip_prefix("FI_")?)
}

/// An error of libfabric's provider for EFA by its number: `prov_errno: 4116`, `4116`. The numbers below are the statuses of completions.
pub(crate) fn of_efa(lower: &str) -> Option<Term> {
    /// The number of the first row.
    const FIRST: usize = 4096;
    let label = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let number: usize = lower[label.len()..].parse().ok()?;
    let label = label
        .trim_end_matches([' ', ':', '=', '('])
        .trim_start_matches(['-', ' ']);
    let is_label = label.is_empty() || label.ends_with("prov_errno") || label.ends_with("prov errno");
    let (name, meaning, see) = efa::ERRORS.get(number.checked_sub(FIRST)?).filter(|_| is_label)?;
    Some(Term {
        name,
        kind: "error of EFA",
        meaning,
        see,
    })
}

/// The reason of a rejected connection by its number: what it means and what to read next.
pub fn rejection(number: u64) -> Option<(&'static str, &'static [&'static str])> {
    let found = REJECTIONS.iter().find(|(reason, ..)| *reason == number);
    found.map(|(_, meaning, see)| (*meaning, *see))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{cause, symptom::SymptomKind};

    #[test]
    fn states_and_counters_are_known_in_the_spelling_of_each_tool() {
        for (text, expected) in [
            ("PORT_ARMED", Some("ARMED")),
            ("PORT_INIT", Some("INIT")),
            ("PORT_DOWN (1)", Some("DOWN")),
            ("IBV_PORT_ACTIVE_DEFER", Some("ACTIVE_DEFER")),
            ("IB_PORT_ACTIVE", Some("ACTIVE")),
            ("phys_state: POLLING (2)", Some("Polling")),
            (
                "Physical state: PortConfigurationTraining",
                Some("PortConfigurationTraining"),
            ),
            ("LinkState:.......................Initialize", Some("INIT")),
            ("PhyLinkState: Training", Some("PortConfigurationTraining")),
            ("IBV_QPS_SQE", Some("SQE")),
            ("IBV_QPS_ERR", Some("QPS_ERR")),
            ("IBV_QPS_RTR", Some("RTR")),
            ("link_layer: Unspecified", Some("Unspecified")),
            ("SymbolErrorCounter", Some("symbol_error")),
            ("LinkDownedCounter:...............12", Some("link_downed")),
            (
                "symbol_error_counter: 65535 (threshold=10) (overflow)",
                Some("symbol_error"),
            ),
            ("PortRcvErrors:...................0", Some("port_rcv_errors")),
            ("port", None),
            ("port-initializing", None),
            ("status: Initialize", None),
            ("port_of_the_moon", None),
        ] {
            assert_eq!(named(text).map(|term| term.name), expected, "{text}");
        }
    }

    #[test]
    fn terms_are_unique_and_lead_to_names_that_exist() {
        let mut names = BTreeSet::new();
        for term in terms() {
            assert!(names.insert(folded(term.name)), "{}", term.name);
        }
        let of_terms = terms().flat_map(|term| term.see);
        for name in of_terms.chain(REJECTIONS.iter().flat_map(|(.., see)| *see)) {
            let is_known = rdma_health_rules::rule(name).is_some()
                || cause(name).is_some()
                || SymptomKind::named(name).is_some();
            assert!(is_known, "{name}");
        }
    }
}
