//! `kubectl rdma-health drift`: in what nodes differ that should be alike.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    process::ExitCode,
};

use anyhow::bail;
use clap::Args;
use rdma_health_config::NodeName;
use rdma_health_kubernetes::Fleet;
use rdma_health_node::words::count;
use rdma_health_report::table;
use serde::Serialize;

use super::{
    ClusterArguments, FormatArguments,
    answer::{InventoryAnswer, MAX_INVENTORY},
    pool, report_missing,
};
use crate::cli::{Output, UNKNOWN};

/// The word for a fact that a node's agent does not report.
const NOT_REPORTED: &str = "not reported";
/// What is expected where no value is that of more than half of the nodes.
const NO_MAJORITY: &str = "no majority";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only nodes with these labels, as in kubectl get nodes --selector
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "")]
    selector: String,
    /// Compare with this node instead of with most nodes of the same pool
    #[arg(long, value_name = "NODE")]
    reference: Option<NodeName>,
    /// Label that names the pool of a node [default: that of Karpenter, EKS, GKE, AKS, OKE or OpenShift]
    #[arg(long, value_name = "KEY")]
    pool_label: Option<String>,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    format: FormatArguments,
}

/// One difference of one node.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Difference {
    node: String,
    pool: String,
    fact: String,
    value: String,
    expected: String,
    /// How many nodes have the expected value, and of how many.
    have_expected: usize,
    compared: usize,
}

type Facts = BTreeMap<String, String>;

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let cluster = &arguments.cluster;
    let fleet = Fleet::find(&cluster.options(), &arguments.selector, None).await?;
    let mut answers: Vec<Result<Facts, String>> = vec![Err("not asked".into()); fleet.nodes.len()];
    let take = |(n, answer): (usize, Result<Vec<u8>, String>)| {
        answers[n] = answer
            .and_then(|body| InventoryAnswer::parse(&body, &fleet.nodes[n].name))
            .map(|answer| answer.inventory);
    };
    fleet.ask("/api/v1/inventory", MAX_INVENTORY, take).await;
    let label = arguments.pool_label.as_deref();
    let mut pools = BTreeMap::<&str, Vec<(&str, &Facts)>>::new();
    let mut missing = Vec::new();
    for (node, answer) in fleet.nodes.iter().zip(&answers) {
        match answer {
            Ok(facts) => {
                let of_pool = pools.entry(pool(node, label)).or_default();
                of_pool.push((&node.name, facts));
            }
            Err(why) => missing.push((node.name.as_str(), why.as_str())),
        }
    }
    let reference = match &arguments.reference {
        Some(name) => {
            let all = pools.values().flatten();
            let found = all.into_iter().find(|(node, _)| *node == name.as_str());
            let Some((_, facts)) = found else {
                report_missing(&missing, fleet.nodes.len());
                bail!("the reference node {name} did not answer, or is not among the selected nodes");
            };
            Some((*facts).clone())
        }
        None => None,
    };
    let mut differences = Vec::new();
    for (pool, nodes) in &pools {
        differences.extend(compare(pool, nodes, reference.as_ref()));
    }
    let answered = fleet.nodes.len() - missing.len();
    let alone = alone(&pools, reference.is_some());
    let compared = answered - alone.len();
    let mut out = crate::cli::output::stdout();
    match arguments.format.output {
        Output::Text => text(&mut out, &differences, compared, &alone)?,
        Output::Json => {
            let asked = fleet.nodes.len();
            let unanswered: Vec<_> = missing
                .iter()
                .map(|(node, error)| serde_json::json!({"node": node, "error": error}))
                .collect();
            let document = serde_json::json!({
                "schema": 1, "asked": asked, "answered": answered, "differences": differences, "alone": alone,
                "unanswered": unanswered,
            });
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    drop(out);
    report_missing(&missing, fleet.nodes.len());
    let status = match (missing.is_empty() && compared > 0, differences.is_empty()) {
        (false, _) => UNKNOWN,
        (true, true) => 0,
        (true, false) => 1,
    };
    Ok(ExitCode::from(status))
}

/// The nodes that are the only ones of their pool that answered: without a reference, nothing can be compared with them.
fn alone<'a>(pools: &BTreeMap<&str, Vec<(&'a str, &Facts)>>, has_reference: bool) -> Vec<&'a str> {
    let single = |nodes: &Vec<(&'a str, &Facts)>| match nodes.as_slice() {
        [(node, _)] if !has_reference => Some(*node),
        _ => None,
    };
    pools.values().filter_map(single).collect()
}

/// The differences of the nodes of one pool: from the reference, else from the value that more than half of them have. Where no value is so
/// frequent, nothing is expected, and every node is listed.
fn compare(pool: &str, nodes: &[(&str, &Facts)], reference: Option<&Facts>) -> Vec<Difference> {
    let mut keys: BTreeSet<&String> = nodes.iter().flat_map(|(_, facts)| facts.keys()).collect();
    keys.extend(reference.into_iter().flat_map(BTreeMap::keys));
    let of =
        |facts: &'_ Facts, key: &String| facts.get(key).cloned().unwrap_or_else(|| NOT_REPORTED.to_owned());
    let mut differences = Vec::new();
    for key in keys {
        let mut counts = BTreeMap::<String, usize>::new();
        for (_, facts) in nodes {
            *counts.entry(of(facts, key)).or_default() += 1;
        }
        let most = counts.iter().find(|(_, count)| **count * 2 > nodes.len());
        let expected = match (reference, most) {
            (Some(reference), _) => of(reference, key),
            (None, Some((value, _))) => value.clone(),
            (None, None) if counts.is_empty() => continue,
            (None, None) => NO_MAJORITY.to_owned(),
        };
        for (node, facts) in nodes {
            let value = of(facts, key);
            if value != expected {
                differences.push(Difference {
                    node: (*node).to_owned(),
                    pool: pool.to_owned(),
                    fact: key.clone(),
                    value,
                    have_expected: counts.get(&expected).copied().unwrap_or_default(),
                    compared: nodes.len(),
                    expected: expected.clone(),
                });
            }
        }
    }
    differences
}

fn text(
    out: &mut impl Write,
    differences: &[Difference],
    compared: usize,
    alone: &[&str],
) -> std::io::Result<()> {
    let differing: BTreeSet<_> = differences.iter().map(|one| &one.node).collect();
    if !alone.is_empty() {
        let some = alone.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        let more = if alone.len() > 5 { ", …" } else { "" };
        writeln!(
            out,
            "{} not compared, without another of the same pool: {some}{more}",
            count(alone.len(), "node")
        )?;
    }
    if compared == 0 {
        return if alone.is_empty() {
            writeln!(out, "No node answered: nothing is compared.")
        } else {
            writeln!(out, "Nothing is compared.")
        };
    }
    if differing.is_empty() {
        return writeln!(out, "{} compared: no difference", count(compared, "node"));
    }
    let differ = if differing.len() == 1 { "differs" } else { "differ" };
    writeln!(
        out,
        "{} compared: {} {differ}",
        count(compared, "node"),
        differing.len()
    )?;
    writeln!(out)?;
    let lines: Vec<_> = differences
        .iter()
        .map(|one| {
            vec![
                one.node.clone(),
                one.pool.clone(),
                one.fact.clone(),
                one.value.clone(),
                match one.expected.as_str() {
                    NO_MAJORITY => format!("{NO_MAJORITY} of {}", one.compared),
                    expected => format!("{expected} ({} of {})", one.have_expected, one.compared),
                },
            ]
        })
        .collect();
    let head = ["NODE", "POOL", "FACT", "VALUE", "EXPECTED"];
    table::write(out, &head.map(str::to_owned), &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(firmware: &str) -> Facts {
        [("kernel", "6.1"), ("firmware", firmware)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn a_node_without_another_of_its_pool_is_not_compared() {
        let one = facts("28.43");
        let pools: BTreeMap<&str, Vec<(&str, &Facts)>> = [
            ("h100", vec![("a", &one), ("b", &one)]),
            ("h200", vec![("c", &one)]),
        ]
        .into();
        assert_eq!(alone(&pools, false), ["c"]);
        assert!(
            alone(&pools, true).is_empty(),
            "the reference is compared with it"
        );
        let mut out = Vec::new();
        text(&mut out, &[], 2, &["c"]).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "1 node not compared, without another of the same pool: c\n2 nodes compared: no difference\n"
        );
    }

    #[test]
    fn a_node_differs_from_most_or_from_the_reference() {
        let (new, old, bare) = (facts("28.43"), facts("28.39"), Facts::new());
        let nodes = [("a", &new), ("b", &new), ("c", &old), ("d", &bare), ("e", &new)];
        let found = |reference| {
            let all = compare("gpu", &nodes, reference);
            let words =
                |one: &Difference| format!("{} {} {} {}", one.node, one.fact, one.value, one.have_expected);
            all.iter().map(words).collect::<Vec<_>>()
        };
        assert_eq!(
            found(None),
            [
                "c firmware 28.39 3",
                "d firmware not reported 3",
                "d kernel not reported 4"
            ]
        );
        assert_eq!(
            found(Some(&old))[..2],
            ["a firmware 28.43 1", "b firmware 28.43 1"]
        );
        assert_eq!(compare("gpu", &[], None), []);
        // Two values of half of the nodes, and one that is most frequent without being that of most.
        let (third, fourth) = (facts("28.33"), facts("28.31"));
        let several = [
            ("a", &new),
            ("b", &new),
            ("c", &old),
            ("d", &third),
            ("e", &fourth),
        ];
        assert_eq!(compare("gpu", &several, None).len(), 5);
        let tie = compare("gpu", &[("a", &new), ("b", &old)], None);
        let mut out = Vec::new();
        text(&mut out, &tie, 2, &[]).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            tie.len() == 2 && out.matches("no majority of 2").count() == 2,
            "{out}"
        );
    }
}
