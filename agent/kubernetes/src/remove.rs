//! Removes the agent's conditions, labels and taints from the Nodes when the product is uninstalled.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rdma_health_instrument::Registry;
use tracing::{info, warn};

use super::{
    api::{Access, Api, Node},
    failure::Failure,
    labels::{TAINT, TaintChange},
};
use crate::Metrics;

/// Time between two passes while agents may still be writing.
const PAUSE: Duration = Duration::from_secs(5);

/// Removes the agent's conditions, labels and taint from one Node, or from all. It repeats until all Nodes have been
/// clean for the time `settle`, because agents that are being deleted may write again. If the server rejects the change
/// of one Node, the other Nodes are cleaned all the same.
///
/// # Errors
/// The first failure. The other Nodes are clean then, unless the API server is unreachable.
pub async fn remove(access: Access, node: Option<&str>, settle: Duration) -> Result<usize, Failure> {
    let mut api = Api::new(access, Arc::new(Metrics::new(&Registry::new())));
    let mut cleaned = 0;
    let mut quiet = Duration::ZERO;
    loop {
        let nodes = match node {
            Some(name) => vec![api.node(name).await?],
            None => api.nodes().await?,
        };
        let (mut found, mut refused) = (0, None);
        for node in nodes.iter().filter(|node| has_own_state(node)) {
            let name = &node.metadata.name;
            match clean(&mut api, node).await {
                Ok(()) => {
                    info!(node = name, "removed conditions, labels and taint");
                    found += 1;
                }
                // The Node was deleted after it was listed.
                Err(failure) if failure.status() == Some(404) => {}
                Err(failure @ Failure::Refused(_)) => {
                    warn!(node = name, %failure, "cannot remove conditions, labels and taint");
                    refused = refused.or(Some(failure));
                }
                Err(failure) => return Err(failure),
            }
        }
        if let Some(failure) = refused {
            return Err(failure);
        }
        cleaned += found;
        quiet = if found > 0 { Duration::ZERO } else { quiet + PAUSE };
        if settle.is_zero() || quiet > settle {
            return Ok(cleaned);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn clean(api: &mut Api, node: &Node) -> Result<(), Failure> {
    let name = &node.metadata.name;
    // Server-side apply of nothing removes everything that this manager owns.
    api.apply(name, &[], &BTreeMap::new(), "", false).await?;
    if node.is_tainted(TAINT) {
        api.taint(name, TAINT, &TaintChange::Remove).await?;
    }
    Ok(())
}

fn has_own_state(node: &Node) -> bool {
    // Names of aliases are not known here, but the server knows who wrote a condition.
    node.has_applied_state() || node.is_tainted(TAINT)
}
