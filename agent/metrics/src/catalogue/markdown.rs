//! The catalogue as a page of documentation and as text.

use std::fmt::Write;

use rdma_health_instrument::Group;
use rdma_health_node::UnreadKind;

use crate::families::FIXED;

const HEAD: &str = "\
# Metrics

<!-- Generated from the tables in agent/metrics/src/families and the families of each part of the agent: \
`UPDATE_DOCS=1 cargo test -p rdma-health`. -->

Every metric of `/metrics`.

- Names: `rdma_` and a subject for facts, findings and probes of the node (`rdma_port_state_id`); `rdma_health_` for the agent
  itself. Prometheus' own names for the process (`process_`). No name is one that another common exporter uses with other
  labels: `rdma_exporter`, `dcgm-exporter`, `sriov-network-metrics-exporter`, the Prometheus node exporter. The only exception
  is `node_infiniband_`, which is exported on request and equals the node exporter's.
- Units: seconds, bytes and their combinations, in the name. Counters end in `_total`. `_info` metrics are always 1.
- A fact that the kernel does not offer, or that could not be read, has no series and is never replaced by zero.
  `rdma_health_read_errors_total` counts failed reads; `rdma_health_source_stale` marks outdated facts.
- The hardware limits the number of series: there are none per GID, pod or error text.
- A client that accepts `application/openmetrics-text`, as every current Prometheus does, gets OpenMetrics 1.0 with units;
  others get the text format 0.0.4. The series are the same.
- `fixed_metrics: false` (`--no-fixed-metrics`) leaves out the families marked *fixed*, which do not change while the node runs.
  No alert needs them; panels of dashboards about PCIe links and IOMMU groups are empty without them.
- Join by `device`: `rdma_device_info` has model, firmware, slot, rail and PCI address of each device. For example, ports that are
  down, with NIC model and rail:
  `(rdma_port_state_id == 1) * on (node, instance, device) group_left (model, firmware, slot, rail) rdma_device_info`.
";

/// `docs/metrics.md`.
pub fn markdown(groups: &[Group]) -> String {
    let mut page = HEAD.to_owned();
    for group in groups {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {}\n", group.title);
        if !group.note.is_empty() {
            let _ = write!(page, "\n{}\n", group.note);
        }
        page.push_str("\n| name | type | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n");
        for entry in &group.entries {
            let labels: Vec<_> = entry.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} |",
                entry.name,
                entry.kind.name(),
                entry.unit,
                labels.join(" "),
                cell(&format!("{}{}", fixed(entry.name), entry.help())),
            );
        }
    }
    page.push_str(
        "\n## Kinds of failed reads\n\nThe label `kind`, and `kind` of a fact that could not be read in JSON: an errno symbol \
         (`EINVAL`; `errno N` for a rare one), or one of these.\n\n| kind | meaning |\n| --- | --- |\n",
    );
    for (kind, meaning) in UnreadKind::ALL {
        let _ = writeln!(page, "| `{kind}` | {meaning} |");
    }
    page
}

fn fixed(name: &str) -> &'static str {
    if FIXED.contains(&name) { "*Fixed.* " } else { "" }
}

/// The catalogue for a terminal: one family per line, its help below.
pub fn text(groups: &[Group]) -> String {
    let mut page = String::new();
    for entry in groups.iter().flat_map(|group| &group.entries) {
        let labels = entry.labels.join(",");
        let _ = writeln!(
            page,
            "{}{{{labels}}} {}\n    {}",
            entry.name,
            entry.kind.name(),
            entry.help()
        );
    }
    page
}

/// A text as it stands in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
