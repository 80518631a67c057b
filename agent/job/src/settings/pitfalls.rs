//! What the user has set that works differently than it looks.

use super::{Draft, NcclVersion};
use crate::rails::Rails;

/// Remarks on the names and the GID index that the user has set.
pub(super) fn pitfalls(draft: &mut Draft<'_>, rails: &Rails<'_>, nccl: Option<NcclVersion>) {
    let user = draft.user;
    if let Some(index) = user.value("NCCL_IB_GID_INDEX") {
        let is_old = nccl.is_some_and(|version| version < NcclVersion::CHOOSES_GID);
        pinned_index(draft, rails, index, is_old);
    }
    if user
        .value("NCCL_IB_DISABLE")
        .is_some_and(|value| value.trim() == "1")
    {
        draft.remark("NCCL_IB_DISABLE=1 is set: NCCL uses TCP although RDMA would work");
    }
    if let Some(list) = user.value("NCCL_IB_HCA")
        && !list.trim_start_matches('^').starts_with('=')
    {
        for prefix in list
            .trim_start_matches('^')
            .split(',')
            .filter_map(|item| item.split(':').next())
        {
            let also: Vec<_> = rails
                .rails
                .iter()
                .map(|rail| rail.port.hca.name.as_str())
                .filter(|name| !prefix.is_empty() && *name != prefix && name.starts_with(prefix))
                .collect();
            if !also.is_empty() && rails.rails.iter().any(|rail| rail.port.hca.name == prefix) {
                draft.remark(format!(
                    "NCCL_IB_HCA without '=' matches prefixes: {prefix} also matches {}",
                    also.join(", ")
                ));
            }
        }
    }
}

/// A GID index for all ports. NCCL ignores an empty one, and reads what is not a number as 0 (`ncclLoadParam` calls `strtoll`).
fn pinned_index(draft: &mut Draft<'_>, rails: &Rails<'_>, value: &str, is_old: bool) {
    const ZERO: &str = "0, usually a link-local RoCE v1 GID";
    if value.is_empty() {
        return draft.remark(if is_old {
            format!("NCCL_IB_GID_INDEX is set but empty: NCCL before 2.21 then uses {ZERO}; unset it")
        } else {
            format!(
                "NCCL_IB_GID_INDEX is set but empty: NCCL from 2.21 on ignores it, and older versions use {ZERO}; unset it"
            )
        });
    }
    let Some(index) = integer(value) else {
        return draft.remark(format!(
            "NCCL_IB_GID_INDEX is '{value}', which is not a number: NCCL reads it as {ZERO}; unset it"
        ));
    };
    // A negative index leaves the choice to NCCL.
    if index < 0 && !is_old {
        return;
    }
    for rail in &rails.rails {
        if let Some(gid) = rail.gid.filter(|gid| i64::from(gid.index) != index) {
            draft.remark(format!(
                "NCCL_IB_GID_INDEX is {index}, but {} needs {}; unset it, so that NCCL finds the index on each port",
                rail.port, gid.index
            ));
        }
    }
}

/// A decimal or hexadecimal number with an optional sign.
pub(super) fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    // "--1" and "+-1" are not numbers.
    number
        .ok()
        .filter(|number| *number >= 0)
        .map(|number| sign * number)
}
