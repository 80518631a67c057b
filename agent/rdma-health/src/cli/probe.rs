//! `rdma-health probe`: measure RDMA WRITE on request, in loopback or between two nodes (see `between`).

use std::{io::Write, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Args;
use rdma_health_config::{self as config, Config, Overrides};
use rdma_health_helper::{Failure, Helper};
use rdma_health_kernel::Root;
use rdma_health_node::{
    Node,
    node::Probe,
    words::{printable, write_json},
};
use rdma_health_protocol::{
    Device, HelperError, PortKey, ProbeFailure, ProbeReport, ProbeRequest, queue_pairs_for,
};
use rdma_health_report as report;
use rdma_health_rules::{
    Domain, Expectations, Finding, Severity, Subject, domain::measured::capacity, judge,
};
use rdma_health_time::now;
use serde::Serialize;
use tokio::sync::mpsc;

use super::{
    HelperArguments, Output, UNKNOWN, between,
    environment::{CONFIG, ROOT},
    gather::{progress, read_kernel},
    matrix, values,
};
use crate::{
    descriptors,
    helper::{place, probe_request, rate_of, verbs_fact},
};

/// Why a device that is implemented in software is not judged.
pub(super) const SOFTWARE: &str = "a device in software is as fast as the CPU";
/// `ibv_port_state` of a port that carries traffic.
const ACTIVE: u8 = 4;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Devices or ports to measure [default: every active port]
    #[arg(value_name = "DEVICE[:PORT]", value_parser = values::target)]
    pub(super) targets: Vec<String>,
    #[command(flatten)]
    between: between::BetweenArguments,
    #[command(flatten)]
    pub(super) sizes: Sizes,
    /// Index of the GID to use [default: the best RoCE v2 or InfiniBand GID]
    #[arg(long, value_name = "N", value_parser = values::gid_index, allow_negative_numbers = true)]
    pub(super) gid_index: Option<u32>,
    /// Measure a port even if it carries traffic
    #[arg(long)]
    pub(super) force: bool,
    /// Measure each port with the memory of each NUMA node, and report which own path is slow
    #[arg(long, conflicts_with_all = ["listen", "connect"])]
    matrix: bool,
    /// Root directory of the node: / on the node itself, /host in a container
    #[arg(long, value_name = "DIR", env = ROOT, default_value = "/")]
    pub(super) root: PathBuf,
    /// Configuration file: defaults of the flags above, expectations, verbs helper
    #[arg(long, value_name = "FILE", env = CONFIG)]
    config: Option<PathBuf>,
    #[command(flatten)]
    helper: HelperArguments,
    /// Format of the results
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(super) output: Output,
}

/// How much is written. The short flags are those of perftest.
#[derive(Debug, Args)]
pub(super) struct Sizes {
    /// Size of one message, such as 64KiB
    #[arg(short, long, value_name = "SIZE", value_parser = values::message_size)]
    size: Option<u32>,
    /// Most bytes to write, such as 1GiB; between two nodes in each direction of each rail
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    bytes: Option<u64>,
    /// Longest time that one port may take, such as 10s
    #[arg(long, value_name = "TIME", value_parser = values::probe_time)]
    duration: Option<Duration>,
    /// Number of outstanding writes on each queue pair
    #[arg(short = 't', long, value_name = "N", value_parser = values::depth)]
    depth: Option<u32>,
    /// Number of queue pairs [default: one for each 100 Gb/s of the port's rate, at most 16]
    #[arg(short, long, value_name = "N", value_parser = values::queue_pairs)]
    pub(super) queue_pairs: Option<u32>,
}

impl Sizes {
    /// Replaces what the configuration says by what the flags say.
    pub(super) fn apply(&self, request: &mut ProbeRequest) {
        request.message_size = self.size.unwrap_or(request.message_size);
        // Room for more than one message, whatever its size, unless the budget is given.
        request.byte_budget = self
            .bytes
            .unwrap_or(request.byte_budget.max(u64::from(request.message_size) * 4));
        if let Some(duration) = self.duration {
            request.time_budget_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        }
        request.depth = self.depth.unwrap_or(request.depth);
        request.queue_pairs = self.queue_pairs.unwrap_or(request.queue_pairs);
    }
}

impl Arguments {
    /// What the kernel shows of this node.
    pub(super) fn node(&self, config: &Config) -> anyhow::Result<Node> {
        Ok(read_kernel(self.root()?, config.exclude.clone()).0)
    }

    fn root(&self) -> anyhow::Result<Root> {
        Root::open(&self.root)
            .with_context(|| format!("cannot read the root directory {}", self.root.display()))
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = config::load(arguments.config.as_deref(), &Overrides::default())?;
    let runtime = descriptors::runtime()?;
    let result = runtime.block_on(async {
        let place = place(arguments.helper.given().as_ref().unwrap_or(&config.helper));
        let helper = Helper::keep(place, mpsc::channel(1).0);
        match between::Mode::of(&arguments.between)? {
            Some(mode) => between::run(mode, arguments, &config, helper).await,
            None => measure(arguments, &config, helper).await,
        }
    });
    // A helper that hangs must not delay the exit.
    runtime.shutdown_background();
    result
}

async fn measure(arguments: &Arguments, config: &Config, helper: Helper) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        arguments.root()?.is_live(),
        "a probe needs a running node; {} is a captured tree",
        arguments.root.display()
    );
    let answer = helper.devices().await?;
    let targets = choose(&arguments.targets, &working(&arguments.targets, &answer)?)?;
    let mut node = arguments.node(config)?;
    node.verbs = verbs_fact(Ok(answer));
    if arguments.matrix {
        return matrix::run(arguments, config, &helper, &targets, &node).await;
    }
    let mut out = super::output::stdout();
    for (n, (device, port)) in targets.iter().enumerate() {
        progress(&format!(
            "probing {device}:{port} ({} of {})",
            n + 1,
            targets.len()
        ));
        let mut request = probe_request(&config.probe, device, *port, rate_of(&node, device, *port));
        arguments.sizes.apply(&mut request);
        request.gid_index = arguments.gid_index;
        request.even_if_busy |= arguments.force;
        let report = helper.probe(request).await;
        progress("");
        let report = report?;
        if arguments.output == Output::Text {
            report::probe_text(&mut out, &report, limit(&node, &report))?;
            out.flush()?;
        }
        node.probes.push(Arc::new(Probe { time: now(), report }));
    }
    let judged = Judged::all(&node, config);
    if arguments.output == Output::Json {
        write_json(&mut out, &judged)?;
    } else {
        for judged in &judged {
            if let Some(why) = judged.unjudged_because {
                let port = printable(&judged.report.path.to_string());
                writeln!(out, "not judged: {port}: {why}")?;
            }
        }
        for finding in judged.iter().flat_map(|judged| &judged.findings) {
            let paint = report::colour(finding.severity);
            let line = format!("{} ({})", finding.message, finding.rule.id);
            writeln!(
                out,
                "{paint}{}{paint:#}: {}",
                finding.severity.name(),
                printable(&line)
            )?;
        }
    }
    Ok(ExitCode::from(exit_code(&judged)))
}

/// What a port that is not implemented in software can carry.
fn limit(node: &Node, report: &ProbeReport) -> Option<(u64, &'static str)> {
    let port = node.port(&report.path.from.device, report.path.from.port)?;
    (!port.hca.is_software()).then(|| capacity(node, &port))?
}

/// Why the speed of a port that passed is not judged.
fn not_judged(node: &Node, report: &ProbeReport, expectations: &Expectations) -> Option<&'static str> {
    let is_software = node
        .port(&report.path.from.device, report.path.from.port)
        .is_some_and(|port| port.hca.is_software());
    match limit(node, report) {
        _ if report.failure.is_some() || expectations.bandwidth_gbps.is_some() => None,
        None if is_software => Some(SOFTWARE),
        None => Some("the rate of the port could not be read"),
        Some((capacity, _)) => {
            let used = report.bandwidth.as_ref()?.queue_pairs;
            (used < queue_pairs_for(capacity))
                .then_some("more queue pairs are needed to fill the port (--queue-pairs)")
        }
    }
}

/// A result and what the rules say about it.
#[derive(Debug, Serialize)]
struct Judged {
    #[serde(flatten)]
    report: ProbeReport,
    /// What the port can carry in bits per second; `null` for a software device.
    capacity: Option<u64>,
    /// What limits it.
    limited_by: Option<&'static str>,
    /// Why nothing is said about its speed; `null` if it was judged, or failed.
    unjudged_because: Option<&'static str>,
    /// That it is slow. A failure is in the report itself.
    findings: Vec<Finding>,
}

impl Judged {
    /// Judges every probe of the node by the rules that also judge those of the agent.
    fn all(node: &Node, config: &Config) -> Vec<Self> {
        let findings = judge(node, &config.expect).findings;
        let one = |probe: &Probe| {
            let PortKey { device, port } = &probe.report.path.from;
            let (capacity, limited_by) = limit(node, &probe.report).unzip();
            let is_its = |finding: &&Finding| {
                finding.domain == Domain::Probe && finding.subject == Subject::port(device, *port)
            };
            Self {
                findings: match probe.report.failure {
                    Some(_) => Vec::new(),
                    None => findings.iter().filter(is_its).cloned().collect(),
                },
                unjudged_because: not_judged(node, &probe.report, &config.expect),
                report: probe.report.clone(),
                capacity,
                limited_by,
            }
        };
        node.loopbacks().map(one).collect()
    }
}

/// 0 if every port passed, 1 if one is slow, 2 if one failed, 3 if none is slow or failed and one was too busy to be measured.
fn exit_code(judged: &[Judged]) -> u8 {
    let failures: Vec<_> = judged
        .iter()
        .filter_map(|judged| judged.report.failure.as_ref())
        .collect();
    let is_busy = |failure: &&ProbeFailure| matches!(failure, ProbeFailure::Busy { .. });
    let is_slow = |finding: &Finding| finding.severity >= Severity::Warning;
    if !failures.iter().all(is_busy) {
        2
    } else if judged.iter().any(|judged| judged.findings.iter().any(is_slow)) {
        1
    } else if failures.is_empty() {
        0
    } else {
        UNKNOWN
    }
}

/// The devices that libibverbs can open. The others are reported, which is an error if the user named one.
fn working(targets: &[String], answer: &[Result<Device, HelperError>]) -> anyhow::Result<Vec<Device>> {
    let mut devices = Vec::new();
    for device in answer {
        let error = match device {
            Ok(device) => {
                devices.push(device.clone());
                continue;
            }
            Err(error) => error,
        };
        let device = error.device.clone().unwrap_or_default();
        let failure = Failure::Refused(error.clone());
        let is_named = targets
            .iter()
            .any(|target| target.split(':').next() == Some(&device));
        anyhow::ensure!(!is_named, "{device}: {failure}");
        if targets.is_empty() {
            let skipped = format!("{device} cannot be probed: {failure}");
            anstream::eprintln!("rdma-health: {}", printable(&skipped));
        }
    }
    Ok(devices)
}

/// The ports to measure.
fn choose(targets: &[String], devices: &[Device]) -> anyhow::Result<Vec<(String, u8)>> {
    if targets.is_empty() {
        let active: Vec<_> = devices
            .iter()
            .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
            .filter(|(_, port)| port.state == ACTIVE)
            .map(|(device, port)| (device.name.clone(), port.number))
            .collect();
        anyhow::ensure!(!active.is_empty(), "no RDMA port is active; {}", known(devices));
        return Ok(active);
    }
    let mut ports = Vec::new();
    for target in targets {
        for port in named(target, devices)? {
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
    }
    Ok(ports)
}

fn known(devices: &[Device]) -> String {
    let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    if names.is_empty() {
        "this node has no RDMA device".to_owned()
    } else {
        format!("this node has {}", names.join(", "))
    }
}

/// The ports that one argument names.
fn named(target: &str, devices: &[Device]) -> anyhow::Result<Vec<(String, u8)>> {
    if let Some(device) = devices.iter().find(|device| device.name == target) {
        let ports = device.ports.iter();
        return Ok(ports.map(|port| (device.name.clone(), port.number)).collect());
    }
    let (name, number) = target.rsplit_once(':').unwrap_or((target, ""));
    let device = devices
        .iter()
        .find(|device| device.name == name)
        .ok_or_else(|| anyhow::anyhow!("no RDMA device is named \"{name}\"; {}", known(devices)))?;
    let port = device.ports.iter().find(|port| port.number.to_string() == number);
    let port = port.ok_or_else(|| {
        let numbers: Vec<_> = device.ports.iter().map(|port| port.number.to_string()).collect();
        anyhow::anyhow!("{name} has no port \"{number}\"; it has {}", numbers.join(", "))
    })?;
    Ok(vec![(device.name.clone(), port.number)])
}
