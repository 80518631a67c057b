//! Takes everything of ours off the Nodes, when the product is uninstalled.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tracing::info;

use super::{
    api::{Access, Api, Node},
    failure::Failure,
    labels::{TAINT, Wish},
};
use crate::metrics::OwnMetrics;

/// How often one look is repeated where agents may still be writing, and how many quiet ones in a row suffice.
const PAUSE: Duration = Duration::from_secs(5);

/// Removes conditions, labels and taint from one Node, or from all. With `settle` it looks again and again until nothing
/// of ours was there for so long, since agents that are being deleted may write once more.
///
/// # Errors
/// The first failure, with what lacks.
pub(crate) async fn remove(access: Access, node: Option<&str>, settle: Duration) -> Result<usize, Failure> {
    let mut api = Api::new(access, Arc::new(OwnMetrics::new()));
    let mut cleaned = 0;
    let mut quiet = Duration::ZERO;
    loop {
        let nodes = match node {
            Some(name) => vec![api.node(name).await?],
            None => api.nodes().await?,
        };
        let mut found = 0;
        for node in nodes.iter().filter(|node| has_ours(node)) {
            let name = &node.metadata.name;
            // Nothing of ours is left where we apply nothing.
            api.apply(name, &[], &BTreeMap::new(), "", false).await?;
            if node.is_tainted(TAINT) {
                api.taint(name, TAINT, &Wish::Without).await?;
            }
            info!(node = name, "conditions removed");
            found += 1;
        }
        cleaned += found;
        quiet = if found > 0 { Duration::ZERO } else { quiet + PAUSE };
        if settle.is_zero() || quiet > settle {
            return Ok(cleaned);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn has_ours(node: &Node) -> bool {
    !node.ours().0.is_empty() || node.is_tainted(TAINT)
}
