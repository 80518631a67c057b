//! What Prometheus and Alertmanager make of the nodes, line by line.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rdma_health_tests::{notifications::Notifications, scrape};
use serde_json::Value;

/// How long Prometheus may take to start on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The width of a line, in columns.
const WIDTH: usize = 120;

/// The alerts as far as they are printed.
pub(crate) struct Alerts {
    prometheus: SocketAddr,
    received: Notifications,
    started: Instant,
    /// The state of each alert that is pending or firing.
    states: BTreeMap<String, String>,
    notifications: usize,
    /// Whether the last notification said that the alerts are over.
    resolved: bool,
    printed: String,
}

impl Alerts {
    pub(crate) fn new(prometheus: SocketAddr, received: Notifications) -> Self {
        Self {
            prometheus,
            received,
            started: Instant::now(),
            states: BTreeMap::new(),
            notifications: 0,
            resolved: false,
            printed: String::new(),
        }
    }

    /// Since Prometheus was started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether Alertmanager sent a notification.
    pub(crate) fn notified(&self) -> bool {
        self.notifications > 0
    }

    /// Whether Alertmanager's last notification said that the alerts are over, and Prometheus has none that fires.
    pub(crate) fn resolved(&self) -> bool {
        self.resolved && !self.states.values().any(|state| state == "firing")
    }

    /// All that was printed.
    pub(crate) fn printed(&self) -> &str {
        &self.printed
    }

    /// Prints what changed since the last call.
    pub(crate) fn print_news(&mut self) -> Result<()> {
        let states = match self.states() {
            Ok(states) => states,
            Err(_) if self.elapsed() < PATIENCE => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let mut news = Vec::new();
        for (alert, state) in &states {
            if self.states.get(alert) != Some(state) {
                news.push(format!("Prometheus: {alert} is {state}"));
            }
        }
        for alert in self.states.keys().filter(|alert| !states.contains_key(*alert)) {
            news.push(format!("Prometheus: {alert} is over"));
        }
        for line in news {
            self.print(&line);
        }
        self.states = states;
        let new: Vec<_> = self
            .received
            .so_far()
            .iter()
            .skip(self.notifications)
            .cloned()
            .collect();
        self.notifications += new.len();
        for notification in &new {
            self.resolved = text(&notification["status"]) == "resolved";
            self.print_notification(notification);
        }
        Ok(())
    }

    /// The alerts of Prometheus that are pending or firing, by name and node. Alerts about the agents themselves are left out while
    /// they are pending: the agents and Prometheus have just started.
    fn states(&self) -> Result<BTreeMap<String, String>> {
        let answer = scrape::get(self.prometheus, "/api/v1/alerts", Duration::from_secs(10))?;
        let reply: Value = serde_json::from_str(&answer.body).context("the answer of Prometheus")?;
        let alerts = reply["data"]["alerts"].as_array().context("no list of alerts")?;
        let state = |alert: &Value| {
            let (labels, state) = (&alert["labels"], text(&alert["state"]));
            let name = text(&labels["alertname"]);
            let starting = name.starts_with("RDMAHealth") && state == "pending";
            (!starting).then(|| (format!("{name} of {}", text(&labels["node"])), state.to_owned()))
        };
        Ok(alerts.iter().filter_map(state).collect())
    }

    fn print_notification(&mut self, notification: &Value) {
        let (status, receiver) = (text(&notification["status"]), text(&notification["receiver"]));
        for alert in notification["alerts"].as_array().into_iter().flatten() {
            let (labels, annotations) = (&alert["labels"], &alert["annotations"]);
            self.print(&format!(
                "Alertmanager notifies {receiver}: {} {}",
                status.to_uppercase(),
                text(&labels["alertname"])
            ));
            for (name, value) in [
                ("severity", &labels["severity"]),
                ("node", &labels["node"]),
                ("cause", &labels["cause"]),
                ("summary", &annotations["summary"]),
                ("description", &annotations["description"]),
                ("runbook", &annotations["runbook_url"]),
            ] {
                let first = format!("          {name:<12} ");
                let options = textwrap::Options::new(WIDTH)
                    .initial_indent(&first)
                    .subsequent_indent("                       ")
                    .break_words(false);
                self.print_lines(&textwrap::fill(text(value), options));
            }
        }
    }

    /// Prints a line with the time since Prometheus was started.
    pub(crate) fn print(&mut self, line: &str) {
        self.print_lines(&format!("[{:>3} s] {line}", self.elapsed().as_secs()));
    }

    fn print_lines(&mut self, lines: &str) {
        anstream::println!("{lines}");
        self.printed += lines;
        self.printed.push('\n');
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// Further arguments of Prometheus, for its pages in a browser.
pub(crate) fn pages(prometheus: SocketAddr) -> Result<Vec<String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("prometheus-pages");
    let found = Command::new(script).stderr(Stdio::inherit()).output()?;
    ensure!(
        found.status.success(),
        "the pages of Prometheus are missing and could not be downloaded"
    );
    let folder = String::from_utf8(found.stdout)?;
    Ok(vec![
        format!("--web.local-assets={}", folder.trim_end()),
        format!("--web.external-url=http://{prometheus}/"),
    ])
}
