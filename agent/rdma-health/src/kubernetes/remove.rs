//! Takes everything of ours off the Nodes, when the product is uninstalled.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tracing::{info, warn};

use super::{
    api::{Access, Api, Node},
    failure::Failure,
    labels::{TAINT, Wish},
};
use crate::metrics::OwnMetrics;

/// How often one look is repeated where agents may still be writing, and how many quiet ones in a row suffice.
const PAUSE: Duration = Duration::from_secs(5);

/// Removes conditions, labels and taint from one Node, or from all. With `settle` it looks again and again until nothing
/// of ours was there for so long, since agents that are being deleted may write once more. A Node that refuses does not
/// keep the others from being cleaned.
///
/// # Errors
/// The first failure, with what lacks; the others have been cleaned then, unless the API server is away.
pub(crate) async fn remove(access: Access, node: Option<&str>, settle: Duration) -> Result<usize, Failure> {
    let mut api = Api::new(access, Arc::new(OwnMetrics::new()));
    let mut cleaned = 0;
    let mut quiet = Duration::ZERO;
    loop {
        let nodes = match node {
            Some(name) => vec![api.node(name).await?],
            None => api.nodes().await?,
        };
        let (mut found, mut refused) = (0, None);
        for node in nodes.iter().filter(|node| has_ours(node)) {
            let name = &node.metadata.name;
            match clean(&mut api, node).await {
                Ok(()) => {
                    info!(node = name, "conditions removed");
                    found += 1;
                }
                // It was deleted since it was listed, and what it said with it.
                Err(failure) if failure.status() == Some(404) => {}
                Err(failure @ Failure::Refused(_)) => {
                    warn!(node = name, %failure, "not cleaned");
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
    // Nothing of ours is left where we apply nothing.
    api.apply(name, &[], &BTreeMap::new(), "", false).await?;
    if node.is_tainted(TAINT) {
        api.taint(name, TAINT, &Wish::Without).await?;
    }
    Ok(())
}

fn has_ours(node: &Node) -> bool {
    !node.ours().0.is_empty() || node.is_tainted(TAINT)
}
