//! The catalogue as a page of documentation and as text.

use std::fmt::Write;

use super::groups;

const HEAD: &str = "\
# Metrics

<!-- Made from the catalogue in agent/rdma-health/src/metrics/catalogue by `UPDATE_DOCS=1 cargo test -p rdma-health`. -->

Everything that `/metrics` tells. Facts, findings and probes begin with `rdma_`, the agent itself with `rdma_health_`.

- A fact that the kernel does not offer, or that could not be read, has no series: there is never a zero in its place.
  `rdma_health_read_errors_total` counts the reads that failed, `rdma_health_source_stale` tells which facts are old.
- Cardinality is bounded by the hardware: no series per GID, pod or error text.
- Values of `_info` families are always 1.
";

/// `docs/metrics.md`.
pub(crate) fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for group in groups() {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {}\n", group.title);
        if !group.note.is_empty() {
            let _ = write!(page, "\n{}\n", group.note);
        }
        page.push_str("\n| name | type | unit | labels | what it tells |\n| --- | --- | --- | --- | --- |\n");
        for entry in group.entries {
            let labels: Vec<_> = entry.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} |",
                entry.name,
                entry.kind.name(),
                entry.unit,
                labels.join(" "),
                cell(entry.help),
            );
        }
    }
    page
}

/// The catalogue for a terminal: one family per line, its help below.
pub(crate) fn text() -> String {
    let mut page = String::new();
    for entry in groups().iter().flat_map(|group| &group.entries) {
        let labels = entry.labels.join(",");
        let _ = writeln!(
            page,
            "{}{{{labels}}} {}\n    {}",
            entry.name,
            entry.kind.name(),
            entry.help
        );
    }
    page
}

/// A text as it stands in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_in_docs_is_what_the_catalogue_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, markdown()).unwrap();
        }
        let on_disk = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            on_disk == markdown(),
            "docs/metrics.md is old; run UPDATE_DOCS=1 cargo test -p rdma-health"
        );
    }
}
