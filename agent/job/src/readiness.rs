//! What a job still waits for.

use rdma_health_node::Node;

use crate::{
    given::Given,
    rails::{Origin, Prospect, Rails, Refused},
};

/// Why the job cannot start; empty if it can.
///
/// Every device that was given must be usable, or `at_least` this many ports if that is more. Without given devices, one
/// usable port is enough: a node can have unused ports.
pub fn missing(node: &Node, rails: &Rails<'_>, given: &Given, at_least: Option<usize>) -> Vec<Refused> {
    let mut missing: Vec<_> = match rails.origin {
        Origin::Given => blocking(rails).cloned().collect(),
        Origin::Visible if rails.is_empty() => rails.refused.clone(),
        Origin::Visible => Vec::new(),
    };
    if given.incomplete && !rails.is_empty() {
        missing.extend(given.problems.iter().map(|problem| Refused {
            what: "what this pod was given".into(),
            why: problem.clone(),
            prospect: Prospect::Never,
        }));
    }
    if missing.is_empty() && rails.is_empty() {
        missing.push(Refused {
            what: "RDMA devices".into(),
            why: none_usable(node, rails),
            prospect: Prospect::Later,
        });
    }
    if let Some(expected) = at_least.filter(|expected| rails.count() < *expected) {
        missing.push(Refused {
            what: "number of ports".into(),
            why: format!("{} usable, expected {expected}", rails.count()),
            prospect: Prospect::Later,
        });
        if rails.origin == Origin::Visible {
            missing.extend(blocking(rails).cloned());
        }
    }
    missing
}

/// Why no port can be used, in one line.
pub fn none_usable(node: &Node, rails: &Rails<'_>) -> String {
    if let Some(unread) = node.hcas.unread() {
        return format!("RDMA devices could not be read: {unread}");
    }
    if rails.refused.is_empty() {
        return "this container sees no RDMA device".into();
    }
    let refused: Vec<_> = rails
        .refused
        .iter()
        .map(|refused| format!("{}: {}", refused.what, refused.why))
        .collect();
    refused.join("; ")
}

/// The devices that the job needs and cannot use.
fn blocking<'a>(rails: &'a Rails<'_>) -> impl Iterator<Item = &'a Refused> {
    let needed = |refused: &&Refused| refused.prospect != Prospect::NotNeeded;
    rails.refused.iter().filter(needed)
}
