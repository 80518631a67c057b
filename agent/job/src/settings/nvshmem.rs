//! Which NICs NVSHMEM uses.
//!
//! Source: NVSHMEM 3.4 (`src/modules/transport/{ibrc,ibgda,ibdevx}`, `src/host/transport/transport.cpp`). `NVSHMEM_HCA_LIST` filters the devices,
//! and each process then takes those nearest to its GPU. With `NVSHMEM_ENABLE_NIC_PE_MAPPING` the processes take them in turn instead, which
//! is right only if their order is that of the GPUs; so it is not set, although the variable's description asks for it.

use super::{Draft, remedy};
use crate::rails::Rail;

const LIST: &str = "NVSHMEM_HCA_LIST";
const MAPPING: &str = "NVSHMEM_HCA_PE_MAPPING";
const IN_TURN: &str = "NVSHMEM_ENABLE_NIC_PE_MAPPING";
const PREFIX: &str = "NVSHMEM_HCA_PREFIX";
/// The default of `NVSHMEM_HCA_PREFIX`, and the driver that the transports IBGDA and IBDEVX need.
const MLX5: &str = "mlx5";

pub(super) fn set(draft: &mut Draft<'_>, rails: &[&Rail<'_>], ports: String, reason: &str) {
    let mapping = draft.user.value(MAPPING).filter(|mapping| !mapping.is_empty());
    if mapping.is_some() && draft.user.value(LIST).is_none() {
        draft.note(format!(
            "{MAPPING} is set: {LIST} is left out, because NVSHMEM ignores the mapping next to a list"
        ));
    } else {
        draft.set(
            LIST,
            ports,
            format!("{reason}; of these, each process uses the nearest to its GPU"),
        );
    }
    let in_turn = draft.user.value(IN_TURN).is_some_and(is_on);
    if in_turn && mapping.is_none() {
        let remedy = remedy(draft, IN_TURN);
        draft.remark(format!(
            "{IN_TURN} is set: the processes of a node take the ports in turn, and not the one that is nearest to their GPU; {remedy}"
        ));
    }
    prefix(draft, rails);
}

/// Devices of mlx5 that do not have `mlx5` in their names (`ibp24s0`, `rocep24s0`), which IBGDA then leaves out.
fn prefix(draft: &mut Draft<'_>, rails: &[&Rail<'_>]) {
    let is_mlx5 = |rail: &&&Rail<'_>| {
        let driver = rail.port.hca.driver.known();
        driver.is_none_or(|driver| driver.starts_with(MLX5))
    };
    let names: Vec<&str> = rails
        .iter()
        .filter(is_mlx5)
        .map(|rail| rail.port.hca.name.as_str())
        .collect();
    if names.iter().all(|name| name.contains(MLX5)) {
        return;
    }
    match common(&names) {
        Some(common) => draft.set(
            PREFIX,
            common,
            "with the default, mlx5, the transport IBGDA of NVSHMEM leaves out devices without it in their names",
        ),
        None => draft.remark(format!(
            "the transport IBGDA of NVSHMEM uses only devices with {PREFIX} in their names, and {} have no part in common: give them equal \
             names, or use NVSHMEM without IBGDA",
            names.join(", ")
        )),
    }
}

/// The letters with which all names begin.
fn common<'a>(names: &[&'a str]) -> Option<&'a str> {
    let first = names.first()?;
    let letters = first
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(first.len());
    let candidates = (2..=letters).rev().filter_map(|end| first.get(..end));
    let mut candidates = candidates.filter(|part| names.iter().all(|name| name.starts_with(part)));
    candidates.next()
}

/// A switch of NVSHMEM: `1`, `y`, `true`, `on`.
fn is_on(value: &str) -> bool {
    !matches!(value.chars().next(), None | Some('0' | 'n' | 'N' | 'f' | 'F'))
        && !value.eq_ignore_ascii_case("off")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_part_of_names_has_no_numbers() {
        for (names, expected) in [
            (&["ibp3s0", "ibp24s0"][..], Some("ibp")),
            (&["rocep3s0", "rocep3s0f1"], Some("rocep")),
            (&["ibp3s0", "ibs2"], Some("ib")),
            (&["ibp3s0", "mlx5_0"], None),
            (&["3s0"], None),
            (&[], None),
        ] {
            assert_eq!(common(names), expected, "{names:?}");
        }
    }
}
