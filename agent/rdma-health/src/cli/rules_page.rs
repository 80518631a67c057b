//! The rule catalogue and the table of causes as a page of documentation.

use std::fmt::Write;

use rdma_health_diagnosis::{CAUSES, Link, symptom::SymptomKind};
use rdma_health_rules::{CATALOGUE, Domain, Rule, Severity};

const HEAD: &str = "\
# Rules

<!-- Made from the catalogue in agent/rules by `UPDATE_DOCS=1 cargo test -p rdma-health`. -->

Each rule judges the facts of one node and reports findings. A finding has the id of its rule everywhere:
`rdma-health explain RULE`, `rdma_finding{rule=\"…\"}`, the reason of the Node condition.
[from-the-old-guides.md](from-the-old-guides.md) maps the checks of older guides to rules.

The severity of a finding follows from the profile of the node (`expect.profile`). The table shows the usual severity for each
profile, `-` if nothing is reported; the text of a rule lists its exceptions.

Each rule names who can write what it reads. What jobs that use a device, or any process on the node, can write or cause never
leads to a critical finding, and so never to a taint. A privileged pod is root of the host.
";

const CAUSES_HEAD: &str = "\
## Causes

A finding says what is wrong in one place; an error in a job's log says what failed. `rdma-health check` connects them: it ranks
each cause below by the findings that show it and by the facts that support or contradict it. `rdma-health explain CAUSE` explains
it.

With a log, the verdict covers both: a failed call or transfer in the log is critical, and a fallback to a slower transport is a
warning, even if nothing is wrong with the node. A log without such lines changes nothing.

| cause | what is wrong | shown by | often explains | sometimes explains |
| --- | --- | --- | --- | --- |
";

const SYMPTOMS_HEAD: &str = "\
## Symptoms

What `--log` recognises in the output of NCCL, UCX, PyTorch, perftest and the kernel, and how a failed probe is reported. NCCL
prints vendor errors in decimal: `vendor err 81` is 0x51, which mlx5 reports with a local protection error, and `129` is 0x81,
transport retry counter exceeded. A file is read to its end, however long. Of a pipe or device, which may never end, the first
1 GiB is read, and the report says if there was more.

| symptom | what it says | usual causes |
| --- | --- | --- |
";

/// `docs/rules.md`.
pub(super) fn markdown() -> String {
    let mut page = HEAD.to_owned();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        page,
        "\n| rule | auto | rdma | gpudirect | tcp-only | what it finds |"
    );
    let _ = writeln!(page, "| --- | --- | --- | --- | --- | --- |");
    for rule in CATALOGUE {
        let usual = rule.policy.usual;
        let severities = [usual.auto, usual.rdma, usual.gpudirect, usual.tcp_only];
        let _ = writeln!(
            page,
            "| [`{0}`](#{0}) | {1} | {2} |",
            rule.id,
            severities
                .map(|severity| severity.map_or("-", Severity::name))
                .join(" | "),
            cell(rule.title)
        );
    }
    for domain in Domain::ALL {
        let rules: Vec<_> = CATALOGUE.iter().filter(|rule| rule.domain == domain).collect();
        if !rules.is_empty() {
            let _ = writeln!(page, "\n## {}", domain.name());
            for rule in rules {
                section(&mut page, rule);
            }
        }
    }
    page.push('\n');
    page.push_str(CAUSES_HEAD);
    for cause in CAUSES {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            cause.id,
            cell(cause.title),
            codes(cause.rules.iter().map(|rule| rule.id)),
            codes(cause.often.iter().map(|kind| kind.id())),
            codes(cause.sometimes.iter().map(|kind| kind.id())),
        );
    }
    page.push('\n');
    page.push_str(SYMPTOMS_HEAD);
    for kind in SymptomKind::all() {
        let often = CAUSES
            .iter()
            .filter(|cause| cause.link(kind) == Some(Link::Often));
        let causes = codes(often.map(|cause| cause.id));
        let _ = writeln!(page, "| `{}` | {} | {causes} |", kind.id(), cell(kind.meaning()));
    }
    page
}

fn section(page: &mut String, rule: &Rule) {
    let _ = writeln!(
        page,
        "\n### {}\n\n**{}.** Condition reason `{}`.\n\n{}\n\n{}\n\n{}\n\n*False alarms:* {}\n\n*Inputs \
            written by:* {}.",
        rule.id,
        text(rule.title),
        rule.reason(),
        text(rule.explanation),
        severity(rule),
        remedy(rule),
        text(rule.false_alarms),
        rule.written_by()
    );
}

/// The usual severity, and a list of the exceptions.
fn severity(rule: &Rule) -> String {
    let lines: Vec<_> = rule.policy.lines().map(|line| text(&line)).collect();
    let separator = if lines.len() > 1 { "\n\n- " } else { "" };
    format!("*Severity:* {}{separator}{}", lines[0], lines[1..].join("\n- "))
}

fn remedy(rule: &Rule) -> String {
    let mut remedy = String::from("*What to do:*");
    for (n, (place, words)) in rule.remedy.parts().enumerate() {
        let _ = match (n, place) {
            (0, "") => writeln!(remedy, " {}", text(words)),
            (0, _) => write!(remedy, "\n\n- {place}: {}", text(words)),
            _ => write!(remedy, "\n- {place}: {}", text(words)),
        };
    }
    remedy.trim_end().to_owned()
}

fn codes<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Plain text in a page: what Markdown would take for markup is escaped.
fn text(plain: &str) -> String {
    let mut out = String::with_capacity(plain.len());
    for c in plain.chars() {
        if matches!(c, '<' | '*' | '_' | '[' | '`' | '|') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A text as it stands in a cell of a table.
fn cell(plain: &str) -> String {
    text(plain)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_in_docs_is_what_the_catalogue_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, markdown()).unwrap();
        }
        let on_disk = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            on_disk == markdown(),
            "docs/rules.md is outdated; run UPDATE_DOCS=1 cargo test -p rdma-health"
        );
    }
}
