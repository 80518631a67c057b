//! The reasons of conditions: each is on its page, with what may repair the fault, and none that was published goes away.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use rdma_health_rules::{CATALOGUE, Repair};

const HEAD: &str = "\
# Reasons of conditions

<!-- Made from the catalogue in agent/rules by `UPDATE_DOCS=1 cargo test -p rdma-health`. -->

A controller that decides by the reason of a [condition](conditions.md), such as NVSentinel, can rely on these
(a `reasonRegex` of Karpenter is a proposal and not in a release):
**a reason never changes its name or its meaning, and none is removed.** New reasons appear with new rules. Treat a reason that you do
not know like \"a person must decide\".

The last column is the most that automation can do about the fault:

- **reboot, once**: the device, driver or firmware is in a state that a reboot clears. If the reason comes back, a person must look.
- **replace the node**: a reboot does not clear it. Another machine does not have it.
- **neither: change the configuration**: every node made from the same image has it. A replacement has it too, at once.
- **neither: cable, switch or fabric**: another node in the same place has it too.
- **a person must decide**: it depends on the case.

This table is advice. The agent repairs nothing. The reason of a finding below `kubernetes.severity` (warning by default) is in no condition:
that of a rule that only informs, such as `FirmwarePending`, never is.

| reason | rule | what is wrong | what helps |
| --- | --- | --- | --- |
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for repair in Repair::ALL {
        for rule in CATALOGUE.iter().filter(|rule| rule.repair() == repair) {
            writeln!(
                page,
                "| `{}` | [{1}](rules.md#{1}) | {2} | {3} |",
                rule.reason(),
                rule.id,
                rule.title.replace('|', "\\|").replace('_', "\\_"),
                repair.name()
            )
            .unwrap();
        }
    }
    page
}

fn reasons(page: &str) -> BTreeSet<&str> {
    let cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.collect()
}

#[test]
fn a_published_reason_stays_and_every_reason_is_on_the_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reasons.md");
    let published = fs::read_to_string(&path).unwrap_or_default();
    let (published, now) = (published.as_str(), page());
    let gone: Vec<_> = reasons(published).difference(&reasons(&now)).copied().collect();
    assert!(
        gone.is_empty(),
        "reasons never change, and these are gone: {gone:?}"
    );
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &now).unwrap();
    } else {
        assert!(
            published == now,
            "docs/reasons.md is outdated; run UPDATE_DOCS=1 cargo test -p rdma-health"
        );
    }
}
