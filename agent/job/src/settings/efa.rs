//! What keeps NCCL from EFA devices, which it reaches only through the plugin aws-ofi-nccl and libfabric.
//!
//! Sources: NCCL 2.30 (`src/plugin/net.cc`, `src/transport/net_ib`: only ports of InfiniBand and Ethernet), aws-ofi-nccl (`platform-aws.cpp`).

use super::{Draft, remedy};
use crate::rails::Rails;

const PROVIDER: &str = "FI_PROVIDER";
const PLUGIN: &str = "NCCL_NET_PLUGIN";
const NET: &str = "NCCL_NET";

pub(super) fn set(draft: &mut Draft<'_>, rails: &Rails<'_>) {
    if rails.efa.is_empty() {
        return;
    }
    let names: Vec<_> = rails.efa.iter().map(|hca| hca.name.as_str()).collect();
    let reason = format!(
        "EFA devices {}: libfabric carries the traffic, through the NCCL plugin aws-ofi-nccl",
        names.join(", ")
    );
    let provider = draft.user.value(PROVIDER);
    let is_excluded = provider.is_some_and(|list| !list.is_empty() && !offers_efa(list));
    let only_efa = rails.rails.is_empty();
    let wrong = match provider {
        None | Some("efa") => None,
        Some(_) if is_excluded && only_efa => Some(
            "libfabric does not offer the EFA devices to NCCL with this value, so NCCL uses TCP".to_owned(),
        ),
        Some(_) => Some("aws-ofi-nccl recognises EFA only if the value is efa".to_owned()),
    };
    let remedies = [PROVIDER, PLUGIN, NET].map(|name| remedy(draft, name));
    let [of_provider, of_plugin, of_net] = &remedies;
    if is_excluded
        && only_efa
        && let Some(set) = draft.user.as_set(PROVIDER)
    {
        draft.overruled.push(format!(
            "{set}: libfabric does not offer the EFA devices to NCCL, so NCCL uses TCP; {of_provider}"
        ));
    }
    draft.set_unless(
        PROVIDER,
        "efa".into(),
        reason,
        wrong.map(|wrong| format!("{wrong}; {of_provider}")),
    );
    if !only_efa {
        return;
    }
    let is_off = |value: &str| {
        value
            .split(',')
            .all(|item| item.is_empty() || item.eq_ignore_ascii_case("none"))
    };
    if draft.user.value(PLUGIN).is_some_and(is_off)
        && let Some(set) = draft.user.as_set(PLUGIN)
    {
        draft.overrule(format!(
            "{set}: NCCL does not load aws-ofi-nccl, without which it does not use EFA devices, and uses TCP; {of_plugin}"
        ));
    }
    if draft
        .user
        .value(NET)
        .is_some_and(|value| value.eq_ignore_ascii_case("ib"))
        && let Some(set) = draft.user.as_set(NET)
    {
        draft.stop(format!(
            "{set}: NCCL's own InfiniBand network does not use EFA devices, so NCCL does not start; {of_net}"
        ));
    }
}

/// Whether a filter of libfabric's providers leaves EFA in.
fn offers_efa(list: &str) -> bool {
    let (excludes, list) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    list.split([',', ';']).any(|item| item.trim() == "efa") != excludes
}
