//! What each source of facts costs: an agent that reads all of them every second, in a virtual node with `SoftRoCE` devices.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use rdma_health_tests::virtual_node::{Options, VirtualNode, built, quote};

use super::table::median;

const DEVICES: u8 = 4;
/// Readings that are measured.
const READINGS: usize = 30;
/// Everything is emulated.
const PATIENCE: Duration = Duration::from_secs(120);
const SCRAPE: &str =
    "exec 3<>/dev/tcp/127.0.0.1/9880; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
/// Sources that ask the kernel by netlink, `drivers` by an ioctl of the helper. The others are files.
const ASKED: [&str; 8] = [
    "dcb",
    "devlink",
    "drivers",
    "interfaces",
    "links",
    "neighbours",
    "rdma",
    "transceivers",
];

pub(crate) fn measure() -> Result<()> {
    let product = built("rdma-health")?;
    let product = quote(product.to_str().context("the path of rdma-health is not UTF-8")?);
    println!("\nBooting a virtual node with {DEVICES} SoftRoCE devices …");
    let node = VirtualNode::boot(&Options {
        kernel_args: "iommu=pt".into(),
        nics: DEVICES,
        ..Options::default()
    })?;
    let _agent = node.spawn(&format!(
        "exec {product} agent --listen 127.0.0.1:9880 --no-probe --interval 1s"
    ))?;
    node.wait_until(
        PATIENCE,
        &format!("{{ {SCRAPE}; }} 2>/dev/null | grep -q rdma_health_source_read_seconds"),
    )?;
    let mut sources: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let first = scrape(&node)?;
    let mut last = first.clone();
    for _ in 0..READINGS {
        node.check("sleep 1")?;
        last = scrape(&node)?;
        for (name, seconds) in &last {
            if let Some(source) = name
                .strip_prefix("rdma_health_source_read_seconds{source=\"")
                .and_then(|rest| rest.strip_suffix("\"}"))
            {
                // All devices together.
                let source = source.split('/').next().unwrap_or(source);
                sources.entry(source.to_owned()).or_default().push(seconds * 1e3);
            }
        }
    }
    let rise = |name: &str| -> Result<f64> {
        let at = |scrape: &BTreeMap<String, f64>| scrape.get(name).copied();
        Ok(at(&last).context("no such metric")? - at(&first).context("no such metric")?)
    };
    let readings = rise("rdma_health_refresh_seconds_count{scope=\"all\"}")?;
    ensure!(readings > 0.0, "the agent read nothing in {READINGS} seconds");
    println!(
        "\nTime of each source, median of {READINGS} readings. All are read once a minute by default; a scrape reads the ports only."
    );
    let mut rows: Vec<_> = sources
        .into_iter()
        .map(|(source, mut times)| (median(&mut times), source))
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all: f64 = rows.iter().map(|(time, _)| time).sum();
    for (time, source) in &rows {
        let asked = if ASKED.contains(&source.as_str()) {
            "netlink"
        } else {
            "files"
        };
        println!(
            "  {source:<44} {time:>9.3} ms  {asked:<8} {:>5.1}%",
            100.0 * time / all
        );
    }
    let asked: f64 = rows
        .iter()
        .filter(|(_, source)| ASKED.contains(&source.as_str()))
        .map(|(time, _)| time)
        .sum();
    println!(
        "  {:<44} {asked:>9.3} ms  of {all:.3} ms: ratio {:.3}",
        "all but files",
        asked / all
    );
    println!(
        "  {:<44} {:>9.3} ms  with judging and a scrape: {:.4}% of a processor at one reading a minute",
        "CPU of the agent for each reading",
        rise("process_cpu_seconds_total")? / readings * 1e3,
        rise("process_cpu_seconds_total")? / readings / 60.0 * 100.0
    );
    Ok(())
}

/// The samples of a scrape, by name with labels.
fn scrape(node: &VirtualNode) -> Result<BTreeMap<String, f64>> {
    let text = node.check(&format!("{{ {SCRAPE}; }}"))?;
    Ok(text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)))
        .collect())
}
