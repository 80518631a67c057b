//! Alerts and dashboards use no metric that does not exist, and every alert has its page.

use std::{collections::BTreeSet, fs, path::PathBuf};

/// Where alerts find their page unless the chart sets another address; the chart replaces this text.
const RUNBOOKS: &str = "https://github.com/rdma-health/rdma-health/blob/main/docs/runbooks/";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of our metrics in a text; names of recording rules, which have colons, are none.
fn metrics(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
        .filter(|word| {
            ["rdma_", "node_infiniband_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
        // A histogram has the name of its family, with a suffix.
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
        .collect()
}

/// The rules without the prose of templates, which names kernel modules such as `rdma_cm`.
fn without_prose(rules: &str) -> String {
    let actions = |line: &str| -> String {
        let mut inside = line.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
        let first = inside.next().map(|(action, _)| action.to_owned());
        first.map_or_else(
            || line.to_owned(),
            |first| inside.fold(first, |all, (action, _)| all + "\n" + action),
        )
    };
    rules.lines().map(actions).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_metric_of_rules_and_dashboards_is_in_the_catalogue() {
    let catalogue = read("docs/metrics.md");
    // Names and labels: what stands in backquotes, which is every second part.
    let known: BTreeSet<&str> = catalogue
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect();
    assert!(known.contains("rdma_verdict"), "the catalogue was not understood");
    let boards =
        ["fleet", "node", "ports", "agent"].map(|name| format!("dashboards/rdma-health-{name}.json"));
    for file in [&["dashboards/rules.yaml".to_owned()][..], &boards].concat() {
        let mut text = read(&file);
        if file.ends_with("rules.yaml") {
            text = without_prose(&text);
        }
        let used = metrics(&text);
        assert!(used.len() > 5, "{file}: {used:?}");
        let missing: Vec<_> = used.difference(&known).collect();
        assert!(
            missing.is_empty(),
            "{file} uses what docs/metrics.md does not have: {missing:?}"
        );
    }
}

#[test]
fn every_alert_has_a_page_and_every_page_an_alert() {
    let rules = read("dashboards/rules.yaml");
    let alerts: BTreeSet<String> = rules
        .lines()
        .filter_map(|line| Some(line.trim().strip_prefix("- alert: ")?.to_owned()))
        .collect();
    let pages: BTreeSet<String> = fs::read_dir(root().join("docs/runbooks"))
        .unwrap()
        .filter_map(|page| page.unwrap().path().file_stem()?.to_str().map(str::to_owned))
        .filter(|page| page != "README")
        .collect();
    assert_eq!(alerts, pages);
    for alert in &alerts {
        assert!(
            rules.contains(&format!("runbook_url: {RUNBOOKS}{alert}.md\n")),
            "{alert}"
        );
    }
}
