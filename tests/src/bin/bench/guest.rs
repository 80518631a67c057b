//! The probe compared with perftest, and an agent whose kernel does not answer: in a virtual node with `SoftRoCE` devices.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rdma_health_tests::virtual_node::{Options, VirtualNode, built, quote};
use serde_json::Value;

use super::table::{self, Target, median};

/// How often each is measured, by turns.
const PAIRS: usize = 8;
/// One bandwidth message, how many are outstanding, and how many are written.
const MESSAGE: u64 = 64 << 10;
const DEPTH: u32 = 128;
const MESSAGES: u64 = 1000;
/// How many small writes, of how many bytes, measure the latency.
const SAMPLES: u32 = 1000;
const SMALL: u32 = 8;
/// Everything is emulated.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn measure(probe: bool, hung: bool) -> Result<()> {
    let product = built("rdma-health")?;
    let product = quote(product.to_str().context("the path of rdma-health is not UTF-8")?);
    println!("\nBooting a virtual node with one SoftRoCE device, IOMMU in passthrough mode …");
    let node = VirtualNode::boot(&Options {
        kernel_args: "iommu=pt".into(),
        modules_added: vec!["fuse".into()],
        nics: 1,
        ..Options::default()
    })?;
    if probe {
        probes(&node, &product)?;
    }
    if hung {
        hang(&node, &product)?;
    }
    Ok(())
}

fn probes(node: &VirtualNode, product: &str) -> Result<()> {
    node.write_file(
        "/run/bench.yaml",
        format!("probe: {{latency_samples: {SAMPLES}, latency_size: {SMALL}}}\n"),
    )?;
    let (mut bandwidths, mut latencies, mut bytes) = ([vec![], vec![]], [vec![], vec![]], 0);
    for _ in 0..PAIRS {
        let report = ours(node, product)?;
        let number = |path: &str| {
            report
                .pointer(path)
                .and_then(Value::as_f64)
                .context("no such number")
        };
        bandwidths[0].push(number("/bandwidth/bytes_per_second")? / 1e6);
        latencies[0].push(number("/latency/median")? * 1e6);
        bytes = report
            .pointer("/bandwidth/bytes")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        let gid = report
            .pointer("/gid/index")
            .and_then(Value::as_u64)
            .context("no GID index")?;

        let common = format!("-d rxe0 -i 1 -x {gid} -F");
        let bandwidth = format!("ib_write_bw {common} -s {MESSAGE} -t {DEPTH} -n {MESSAGES} --report_gbits");
        // Bytes, iterations, peak, average, message rate.
        bandwidths[1].push(theirs(node, &bandwidth, MESSAGE, 3)? * 1e3 / 8.0);
        let latency = format!("ib_write_lat {common} -s {SMALL} -n {SAMPLES}");
        // Bytes, iterations, minimum, maximum, median, …
        latencies[1].push(theirs(node, &latency, SMALL.into(), 4)?);
    }
    ensure!(
        bytes == MESSAGE * MESSAGES,
        "the probe wrote {bytes} bytes, and not as many as perftest"
    );
    let [a, b] = bandwidths.each_ref().map(|values| spread(values));
    table::head(
        &format!("Loopback probe and perftest, medians of {PAIRS} pairs, rxe0 in an emulated machine"),
        "perftest",
    );
    let [ours, theirs] = bandwidths.each_mut().map(|values| median(values));
    let what = format!("bandwidth, {MESSAGES} x 64 KiB, depth {DEPTH} (ib_write_bw)");
    table::compare(&what, "MB/s", ours, theirs, Target::RatioAtLeast(0.97));
    let [c, d] = latencies.each_ref().map(|values| spread(values));
    let [ours, theirs] = latencies.each_mut().map(|values| median(values));
    let what = format!("latency, median of {SAMPLES} x {SMALL} B (ib_write_lat)");
    table::compare(&what, "us", ours, theirs, Target::RatioAtMost(1.05));
    println!("  (from the least to the most: bandwidth {a} and {b} MB/s, latency {c} and {d} us)");
    Ok(())
}

fn ours(node: &VirtualNode, product: &str) -> Result<Value> {
    // Its budget pays for the message that it verifies and for the latency part, too.
    let bytes = MESSAGE * (MESSAGES + 2);
    let script = format!(
        "{product} probe rxe0:1 --config /run/bench.yaml --size {MESSAGE} --bytes {bytes} --depth {DEPTH} \
         --duration 1m --force --output json"
    );
    let output = node.run_within(PATIENCE, &script)?;
    ensure!(
        output.status == 0,
        "{}{}",
        output.stdout_text(),
        output.stderr_text()
    );
    let reports: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    reports.into_iter().next().context("no report")
}

/// Runs a program of perftest against itself; returns a column of the line that begins with `size`.
fn theirs(node: &VirtualNode, command: &str, size: u64, column: usize) -> Result<f64> {
    let script = format!(
        "{command} >/run/server 2>&1 & until ss -Hltn sport = :18515 | grep -q .; do sleep 0.1; done\n\
         {command} 10.0.100.2; status=$?; wait; exit $status"
    );
    let output = node.run_within(PATIENCE, &script)?;
    let shown = output.stdout_text();
    ensure!(output.status == 0, "{command}: {shown}{}", output.stderr_text());
    for line in shown.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if words.first() == Some(&size.to_string().as_str())
            && let Some(number) = words.get(column)
        {
            return Ok(number.parse()?);
        }
    }
    bail!("{command} printed no result: {shown}")
}

fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{least:.1}–{most:.1}")
}

/// How long `/metrics` takes where every read of the tree hangs: the tree lies behind a file system in user space that is
/// stopped.
fn hang(node: &VirtualNode, product: &str) -> Result<()> {
    node.check("mkdir -p /mirror && bindfs / /mirror")?;
    let _agent = node.spawn(&format!(
        "exec {product} agent --root /mirror --listen 127.0.0.1:9880 --no-probe --interval 1h"
    ))?;
    let scrape = "exec 3<>/dev/tcp/127.0.0.1/9880; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
    let rate = "rdma_port_rate_bytes_per_second{device=\"rxe0\"";
    node.wait_until(
        PATIENCE,
        &format!("{{ {scrape}; }} 2>/dev/null | grep -qF '{rate}'"),
    )?;
    let time = || -> Result<f64> {
        let script = format!(
            "from=${{EPOCHREALTIME/./}}; {{ {scrape}; }} >/run/scrape; echo $((${{EPOCHREALTIME/./}} - from))"
        );
        let microseconds: f64 = node.check(&script)?.trim().parse()?;
        Ok(microseconds / 1e6)
    };
    let healthy = time()?;
    node.check("pkill -STOP bindfs")?;
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(time()?);
        node.check(&format!(
            "grep -qF '{rate}' /run/scrape && grep -qF 'source_stale{{source=\"infiniband\"}} 1' /run/scrape"
        ))
        .context("what was read before is not shown as stale")?;
    }
    node.check("pkill -CONT bindfs")?;
    let longest = times.iter().copied().fold(0.0, f64::max);
    println!("\nEvery read of the tree hung, in the same machine");
    println!(
        "  /metrics answers within {longest:.3} s (healthy: {healthy:.3} s), what it shows marked as stale  \
         at most 1 s: {}",
        table::word(longest <= 1.0)
    );
    Ok(())
}
