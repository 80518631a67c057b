//! docs/from-the-old-guides.md names rules, metrics and commands: each must exist.

use std::{collections::BTreeSet, path::Path};

use clap::Parser;
use rdma_health_diagnosis::cause;
use rdma_health_rules::{CATALOGUE, rule};

use super::Cli;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/from-the-old-guides.md");
    std::fs::read_to_string(path).unwrap()
}

/// What stands between backticks.
fn codes(page: &str) -> impl Iterator<Item = &str> {
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn every_rule_that_the_page_names_exists_and_every_rule_has_a_place_in_it() {
    let page = page();
    let linked: BTreeSet<_> = page
        .split("(rules.md#")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|id| *id != "causes")
        .collect();
    for id in &linked {
        assert!(rule(id).is_some(), "{id}");
        assert!(
            page.contains(&format!("[`{id}`](rules.md#{id})")),
            "{id} is called by another name"
        );
    }
    // Rules that no guide had a check for.
    let new = [
        "device-access-denied",
        "dma-bounce-full",
        "driver-unexpected",
        "facts-unreadable",
        "registration-limit",
        "gpu-aperture-small",
        "hcas-missing",
        "helper-unhealthy",
        "pci-payload-mismatch",
        "softroce-in-use",
        "uverbs-node-missing",
        "vf-port-down",
    ];
    let left: Vec<_> = CATALOGUE
        .iter()
        .map(|rule| rule.id)
        .filter(|id| !linked.contains(id))
        .collect();
    for id in left {
        assert!(new.contains(&id), "{id}: which old check does it replace?");
    }
    assert!(page.contains("`fabric-or-peer`") && cause("fabric-or-peer").is_some());
}

#[test]
fn every_metric_that_the_page_names_exists() {
    let known = rdma_health_metrics::catalogue::markdown(&crate::agent::catalogue());
    let page = page();
    let named: BTreeSet<_> = codes(&page).filter(|code| code.starts_with("rdma_")).collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        assert!(known.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn every_command_that_the_page_names_is_one() {
    let page = page();
    let named: BTreeSet<_> = codes(&page)
        .filter(|code| code.starts_with("rdma-health "))
        .collect();
    assert!(named.len() > 4, "{named:?}");
    for command in named {
        // A command may stand for itself, without what it needs.
        let parsed = Cli::try_parse_from(command.split_whitespace());
        let bare = command.split_whitespace().count() == 2;
        let missing = |error: &clap::Error| error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
        assert!(
            parsed.as_ref().is_ok() || bare && parsed.as_ref().is_err_and(missing),
            "{command}: {parsed:?}"
        );
    }
}

#[test]
fn the_page_puts_right_what_guides_say_of_strict_translation() {
    assert!(page().contains("`DMA` is translation with strict\ninvalidation, not passthrough."));
}
