//! The verbs helper.

use rdma_health_node::fact::{HelperTrouble, UnreadKind};

use super::{Case, Scales};

/// What to do about a helper that was built from other sources than this program.
const VERSIONS: &str = "Install rdma-health and rdma-health-verbs from one release, in the same image or package, and start both again: \
    kubectl -n rdma-health rollout restart daemonset, or systemctl restart. rdma-health --version and rdma-health-verbs --version show what is installed.";

/// What the helper's end or silence calls for.
pub(crate) fn helper(case: &Case<'_>, scales: &mut Scales) {
    let why = case.node.verbs.unread().map(|unread| &unread.kind);
    if why == Some(&UnreadKind::Helper(HelperTrouble::Version)) {
        scales.next_step = Some(VERSIONS.to_owned());
    }
}
