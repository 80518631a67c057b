//! What a job still waits for, and what it does without.

use rdma_health_node::Node;

use crate::rails::{Origin, Prospect, Rails, Refused, SOURCES};

/// Why the job cannot start; empty if it can.
///
/// Every device that was given must be usable, or `at_least` this many ports if that is more. Without given devices, one
/// usable port is enough: a node can have unused ports.
///
/// Waiting is of no use if one of these has [`Prospect::Never`].
pub fn missing(node: &Node, rails: &Rails<'_>, at_least: Option<usize>) -> Vec<Refused> {
    let too_few = at_least.is_some_and(|expected| rails.count() < expected);
    let mut missing: Vec<_> = match rails.origin {
        Origin::Given => rails
            .refused
            .iter()
            .filter(|refused| needed(refused))
            .cloned()
            .collect(),
        Origin::Visible if rails.is_empty() || too_few => candidates(rails),
        Origin::Visible => Vec::new(),
    };
    if missing.is_empty() && rails.is_empty() {
        missing.push(Refused {
            what: "RDMA devices".into(),
            why: none_usable(node, rails),
            prospect: Prospect::Later,
        });
    }
    missing.extend(rails.not_written.iter().cloned());
    if let Some(expected) = at_least.filter(|_| too_few) {
        missing.push(Refused {
            what: "number of ports".into(),
            why: format!("{} usable, expected {expected}", rails.count()),
            prospect: Prospect::Later,
        });
    }
    missing
}

/// Why a job that must use RDMA cannot start now; `None` if it can. What is only still to be written does not matter to a job that does not
/// wait.
pub fn unmet(node: &Node, rails: &Rails<'_>) -> Option<String> {
    if rails.is_empty() {
        return Some(none_usable(node, rails));
    }
    let missing = missing(node, rails, None);
    let missing = missing.iter().filter(|one| !rails.not_written.contains(one));
    let lines: Vec<_> = grouped(missing).iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Why no port can be used, in one line.
pub fn none_usable(node: &Node, rails: &Rails<'_>) -> String {
    if let Some(unread) = node.hcas.unread() {
        return format!("RDMA devices could not be read: {unread}");
    }
    if rails.refused.is_empty() {
        return "this container sees no RDMA device".into();
    }
    let refused = grouped(rails.refused.iter());
    let lines: Vec<_> = refused.iter().map(line).collect();
    lines.join("; ")
}

/// A problem with a source begins with its name.
fn line((what, why): &(String, &str)) -> String {
    if what == SOURCES {
        (*why).to_owned()
    } else {
        format!("{what}: {why}")
    }
}

/// What the job does without, although others can be used: a sentence for each reason, and whether someone should see to it.
pub fn unused(rails: &Rails<'_>) -> Vec<(String, bool)> {
    if rails.is_empty() {
        return Vec::new();
    }
    let sentence = |(what, why): (String, &str)| {
        if what == SOURCES {
            return why.to_owned();
        }
        let are = if what.contains(", ") { "are" } else { "is" };
        format!("{what} {are} not used: {why}")
    };
    let (important, rest): (Vec<_>, Vec<_>) = rails
        .refused
        .iter()
        .partition(|refused| rails.origin == Origin::Given || needed(refused));
    let important = grouped(important.into_iter()).into_iter().map(sentence);
    let rest = grouped(rest.into_iter()).into_iter().map(sentence);
    important
        .map(|line| (line, true))
        .chain(rest.map(|line| (line, false)))
        .collect()
}

/// The names of what is refused for the same reason, in order of the first of them, with the reason.
fn grouped<'r>(refused: impl Iterator<Item = &'r Refused>) -> Vec<(String, &'r str)> {
    let mut groups: Vec<(String, &str)> = Vec::new();
    for Refused { what, why, .. } in refused {
        match groups.iter_mut().find(|(_, known)| known == why) {
            Some((names, _)) => {
                names.push_str(", ");
                names.push_str(what);
            }
            None => groups.push((what.clone(), why)),
        }
    }
    groups
}

/// Visible devices of which one is enough. What cannot change matters only if nothing else can.
fn candidates(rails: &Rails<'_>) -> Vec<Refused> {
    let can_change = |refused: &&Refused| refused.prospect == Prospect::Later;
    if !rails.refused.iter().any(|refused| can_change(&refused)) && rails.is_empty() {
        return rails.refused.clone();
    }
    rails.refused.iter().filter(can_change).cloned().collect()
}

/// Whether the job needs it.
fn needed(refused: &Refused) -> bool {
    refused.prospect != Prospect::NotNeeded
}
