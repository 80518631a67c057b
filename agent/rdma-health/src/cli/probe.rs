//! `rdma-health probe`: measure loopback RDMA WRITE by hand.

use std::{io::Write, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use rdma_health_protocol::{Device, ProbeFailure, ProbeReport};
use tokio::sync::mpsc;

use super::{HelperArguments, Output, UNKNOWN, check::progress, environment::CONFIG, size};
use crate::{
    agent::probe_request,
    config::{self, Config, Overrides},
    helper::{Failure, Helper, Place},
    report,
};

/// `ibv_port_state` of a port that carries traffic.
const ACTIVE: u8 = 4;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Device or port to measure [default: every active port]
    #[arg(value_name = "DEVICE[:PORT]")]
    target: Option<String>,
    /// Size of one message
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Write at most this much
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<u64>,
    /// Never take longer than this for one port
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Writes outstanding at a time
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// GID index to use instead of the one that fits best
    #[arg(long, value_name = "N")]
    gid_index: Option<u32>,
    /// Measure even where the port carries traffic
    #[arg(long)]
    force: bool,
    /// Configuration file, for the defaults of the above
    #[arg(long, value_name = "FILE", env = CONFIG)]
    config: Option<PathBuf>,
    #[command(flatten)]
    helper: HelperArguments,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = config::load(arguments.config.as_deref(), &Overrides::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(measure(arguments, &config));
    // A helper that hangs must not hold us back.
    runtime.shutdown_background();
    result
}

async fn measure(arguments: &Arguments, config: &Config) -> anyhow::Result<ExitCode> {
    let place = Place::of(arguments.helper.given().as_ref().unwrap_or(&config.helper));
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
            let told = format!("{device} cannot be probed: {failure}");
            anstream::eprintln!("rdma-health: {}", report::printable(&told));
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
        if let Some(size) = arguments.size {
            request.message_size = u32::try_from(size)
                .map_err(|_| anyhow::anyhow!("--size: a message has at most 1GiB, found {size} bytes"))?;
        }
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
        serde_json::to_writer_pretty(&mut out, &reports)?;
        writeln!(out)?;
    }
    Ok(ExitCode::from(exit_code(&reports)))
}

/// 0 where every port passed, 2 where one failed, 3 where none failed and one was busy and so not measured.
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
            "there is none".to_owned()
        } else {
            format!("there is {}", names.join(", "))
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
        .ok_or_else(|| anyhow::anyhow!("no RDMA device is called \"{name}\"; {}", known()))?;
    let port = device.ports.iter().find(|port| port.number.to_string() == number);
    let port = port.ok_or_else(|| {
        let numbers: Vec<_> = device.ports.iter().map(|port| port.number.to_string()).collect();
        anyhow::anyhow!("{name} has no port \"{number}\"; it has {}", numbers.join(", "))
    })?;
    Ok(vec![(device.name.clone(), port.number)])
}
