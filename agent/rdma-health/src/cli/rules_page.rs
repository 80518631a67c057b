//! The rule catalogue and the table of causes as a page of documentation.

use std::fmt::Write;

use rdma_health_rules::{
    CATALOGUE, Domain, Rule,
    diagnosis::{
        known::{CAUSES, Link},
        symptom::SymptomKind,
    },
};

const HEAD: &str = "\
# Rules

<!-- Made from the catalogue in agent/rules by `UPDATE_DOCS=1 cargo test -p rdma-health`. -->

Each rule looks at the facts of one node and tells findings. Its id is the name that a finding has everywhere:
`rdma-health explain RULE`, `rdma_finding{rule=\"…\"}`, the reason of the node's condition. The severity stands for the usual
case; the text says when it differs. What each old check has become is in [from-the-old-guides.md](from-the-old-guides.md).
";

const CAUSES_HEAD: &str = "\
## Causes

A finding says what is wrong in one place; an error in a job's log says what failed. `rdma-health check` joins both: it weighs
each cause below by the findings that show it and by the facts that speak for and against it. `rdma-health explain CAUSE` tells
more.

With a log, the verdict is that of both: an error in it that failed a call or a transfer is critical, a fallback to something slower
a warning, even where nothing is wrong with the node. A log without such lines changes nothing.

| cause | what is wrong | shown by | often explains | sometimes explains |
| --- | --- | --- | --- | --- |
";

const SYMPTOMS_HEAD: &str = "\
## Symptoms

What `--log` finds in the output of NCCL, UCX, PyTorch, perftest and the kernel, and what a failed probe is told as. NCCL prints
the vendor's error in decimal: its `vendor err 81` is 0x51, which mlx5 gives with a local protection error, and its `129` is 0x81,
a transport retry counter exceeded. A file is read to its end, however long; of a pipe or device, which need not end, the first
1 GiB, and the report says where there was more.

| symptom | what it says | usual causes |
| --- | --- | --- |
";

/// `docs/rules.md`.
pub(super) fn markdown() -> String {
    let mut page = HEAD.to_owned();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(page, "\n| rule | severity | what it finds |\n| --- | --- | --- |");
    for rule in CATALOGUE {
        let _ = writeln!(
            page,
            "| [`{0}`](#{0}) | {1} | {2} |",
            rule.id,
            rule.severity.name(),
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
            codes(cause.rules.iter().copied()),
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
        "\n### {}\n\n**{}.** Severity {}; condition reason `{}`.\n\n{}\n\n{}\n\n*False alarms:* {}",
        rule.id,
        text(rule.title),
        rule.severity.name(),
        rule.reason(),
        text(rule.explanation),
        remedy(rule),
        text(rule.false_alarms)
    );
}

fn remedy(rule: &Rule) -> String {
    let mut told = String::from("*What to do:*");
    for (n, (place, words)) in rule.remedy.parts().enumerate() {
        let _ = match (n, place) {
            (0, "") => writeln!(told, " {}", text(words)),
            (0, _) => write!(told, "\n\n- {place}: {}", text(words)),
            _ => write!(told, "\n- {place}: {}", text(words)),
        };
    }
    told.trim_end().to_owned()
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
            "docs/rules.md is old; run UPDATE_DOCS=1 cargo test -p rdma-health"
        );
    }
}
