//! `rdma-health probe`: measure loopback RDMA WRITE on request.

use std::{io::Write, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use rdma_health_config::{self as config, Config, Overrides};
use rdma_health_helper::{Failure, Helper};
use rdma_health_node::words::{printable, write_json};
use rdma_health_protocol::{Device, ProbeFailure, ProbeReport};
use rdma_health_report as report;
use tokio::sync::mpsc;

use super::{HelperArguments, Output, UNKNOWN, environment::CONFIG, gather::progress, values};
use crate::helper::{place, probe_request};

/// `ibv_port_state` of a port that carries traffic.
const ACTIVE: u8 = 4;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Device or port to measure [default: every active port]
    #[arg(value_name = "DEVICE[:PORT]")]
    target: Option<String>,
    /// Size of one message, such as 64KiB
    #[arg(long, value_name = "SIZE", value_parser = values::message_size)]
    size: Option<u32>,
    /// Most bytes to write, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    bytes: Option<u64>,
    /// Longest time that one port may take, such as 10s
    #[arg(long, value_name = "TIME", value_parser = values::probe_time)]
    duration: Option<Duration>,
    /// Number of outstanding writes
    #[arg(long, value_name = "N", value_parser = values::depth)]
    depth: Option<u32>,
    /// Index of the GID to use [default: the best RoCE v2 or InfiniBand GID]
    #[arg(long, value_name = "N", value_parser = values::gid_index, allow_negative_numbers = true)]
    gid_index: Option<u32>,
    /// Measure a port even if it carries traffic
    #[arg(long)]
    force: bool,
    /// Configuration file: defaults of the flags above, verbs helper
    #[arg(long, value_name = "FILE", env = CONFIG)]
    config: Option<PathBuf>,
    #[command(flatten)]
    helper: HelperArguments,
    /// Format of the results
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = config::load(arguments.config.as_deref(), &Overrides::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(measure(arguments, &config));
    // A helper that hangs must not delay the exit.
    runtime.shutdown_background();
    result
}

async fn measure(arguments: &Arguments, config: &Config) -> anyhow::Result<ExitCode> {
    let place = place(arguments.helper.given().as_ref().unwrap_or(&config.helper));
    let helper = Helper::keep(place, mpsc::channel(1).0);
    let (devices, broken) = helper
        .devices()
        .await?
        .into_iter()
        .partition::<Vec<_>, _>(Result::is_ok);
    let devices: Vec<Device> = devices.into_iter().filter_map(Result::ok).collect();
    for error in broken.into_iter().filter_map(Result::err) {
        let device = error.device.clone().unwrap_or_default();
        let failure = Failure::Refused(error);
        let asked_for = arguments
            .target
            .as_deref()
            .map(|target| target.split(':').next() == Some(&device));
        anyhow::ensure!(asked_for != Some(true), "{device}: {failure}");
        if asked_for.is_none() {
            let skipped = format!("{device} cannot be probed: {failure}");
            anstream::eprintln!("rdma-health: {}", printable(&skipped));
        }
    }
    let targets = choose(arguments.target.as_deref(), &devices)?;
    let mut reports = Vec::new();
    let mut out = anstream::stdout().lock();
    for (n, (device, port)) in targets.iter().enumerate() {
        progress(&format!(
            "probing {device}:{port} ({} of {})",
            n + 1,
            targets.len()
        ));
        let mut request = probe_request(&config.probe, device, *port);
        request.message_size = arguments.size.unwrap_or(request.message_size);
        // Room for more than one message, whatever its size, unless the budget is given.
        request.byte_budget = arguments
            .bytes
            .unwrap_or(request.byte_budget.max(u64::from(request.message_size) * 4));
        if let Some(duration) = arguments.duration {
            request.time_budget_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        }
        request.depth = arguments.depth.unwrap_or(request.depth);
        request.gid_index = arguments.gid_index;
        request.even_if_busy |= arguments.force;
        let report = helper.probe(request).await;
        progress("");
        let report = report?;
        if arguments.output == Output::Text {
            report::probe_text(&mut out, &report)?;
            out.flush()?;
        }
        reports.push(report);
    }
    if arguments.output == Output::Json {
        write_json(&mut out, &reports)?;
    }
    Ok(ExitCode::from(exit_code(&reports)))
}

/// 0 if every port passed, 2 if one failed, 3 if none failed and one was too busy to be measured.
fn exit_code(reports: &[ProbeReport]) -> u8 {
    let failures: Vec<_> = reports
        .iter()
        .filter_map(|report| report.failure.as_ref())
        .collect();
    match failures.len() {
        0 => 0,
        _ if failures
            .iter()
            .all(|failure| matches!(failure, ProbeFailure::Busy { .. })) =>
        {
            UNKNOWN
        }
        _ => 2,
    }
}

/// The ports to measure.
fn choose(target: Option<&str>, devices: &[Device]) -> anyhow::Result<Vec<(String, u8)>> {
    let known = || {
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        if names.is_empty() {
            "this node has no RDMA device".to_owned()
        } else {
            format!("this node has {}", names.join(", "))
        }
    };
    let all = |device: &Device| {
        device
            .ports
            .iter()
            .map(|port| (device.name.clone(), port.number))
            .collect::<Vec<_>>()
    };
    let Some(target) = target else {
        let active: Vec<_> = devices
            .iter()
            .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
            .filter(|(_, port)| port.state == ACTIVE)
            .map(|(device, port)| (device.name.clone(), port.number))
            .collect();
        anyhow::ensure!(!active.is_empty(), "no RDMA port is active; {}", known());
        return Ok(active);
    };
    if let Some(device) = devices.iter().find(|device| device.name == target) {
        return Ok(all(device));
    }
    let (name, number) = target.rsplit_once(':').unwrap_or((target, ""));
    let device = devices
        .iter()
        .find(|device| device.name == name)
        .ok_or_else(|| anyhow::anyhow!("no RDMA device is named \"{name}\"; {}", known()))?;
    let port = device.ports.iter().find(|port| port.number.to_string() == number);
    let port = port.ok_or_else(|| {
        let numbers: Vec<_> = device.ports.iter().map(|port| port.number.to_string()).collect();
        anyhow::anyhow!("{name} has no port \"{number}\"; it has {}", numbers.join(", "))
    })?;
    Ok(vec![(device.name.clone(), port.number)])
}
