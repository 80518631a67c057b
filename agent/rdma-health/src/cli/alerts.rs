//! Recording rules and alerts for Prometheus, made from the catalogues of rules and causes.

use std::{fmt::Write, time::Duration};

use rdma_health_diagnosis::{CAUSES, domain_of};
use rdma_health_rules::{CATALOGUE, Domain, Rule, Severity};

/// The base of the addresses of runbooks; the chart replaces it.
const RUNBOOKS: &str = "https://github.com/rdma-health/rdma-health/blob/main/docs/runbooks";
/// What the rules begin with: series of nodes, with and without the label `node`.
const RECORDING: &str = include_str!("alerts/recording.yaml");
/// The annotations of `RDMAFleetProblem`.
const FLEET: &str = include_str!("alerts/fleet.yaml");
/// The alerts about the agent itself.
const OTHERS: &str = include_str!("alerts/others.yaml");
/// Rules whose problems have another alert.
const ELSEWHERE: &str = "helper-.*";
/// With more nodes of one cause, the alerts of the nodes do not even become pending. The conditions of `RDMAFleetProblem` are met, and
/// until it fires, Prometheus would run the queries in the templates of each alert: some milliseconds per node and evaluation.
const MANY_NODES: u32 = 200;

/// The devices and ports of a problem that has several. A message has no room for more than eight. RDMA devices come before the PCI addresses of
/// other functions. Matchers for missing labels would be slow: `vector(0)` stands for the findings without a device.
const DEVICES: &str = "{{ if not $labels.device }}{{ with printf \"label_replace(label_replace(max by (device, port) \
    (rdma_finding{cluster=%q,namespace=%q,job=%q,node=%q,domain=%q,cause=%q} or \
    rdma_finding{cluster=%q,namespace=%q,job=%q,instance=%q,domain=%q,cause=%q}) unless on (device) vector(0), \
    'order', 'a $1', 'device', '(.*)'), 'order', 'b $1', 'device', '([0-9a-f]+:.*)')\" $labels.cluster $labels.namespace $labels.job \
    $labels.node $labels.domain $labels.cause $labels.cluster $labels.namespace $labels.job $labels.node $labels.domain $labels.cause | \
    query | sortByLabel \"order\" }}\
    Found on {{ range $n, $one := . }}{{ if lt $n 8 }}{{ if $n }}, {{ end }}{{ .Labels.device }}{{ with .Labels.port }} port {{ . }}\
    {{ end }}{{ end }}{{ end }}{{ if gt (len .) 8 }} and others, {{ len . }} in all{{ end }}. {{ end }}{{ end }}";

/// The rules behind a problem: a cause such as `link-quality` has several, with different next steps. If there is one, `$key` is that rule, so
/// that the alert has its step. A rule of the same name as the cause adds nothing.
const RULES: &str = "{{ $key := $labels.cause }}\
    {{ $device := \"\" }}{{ with $labels.device }}{{ $device = printf \",device=%q\" . }}{{ end }}\
    {{ with printf \"group by (rule) (rdma_finding{cluster=%q,namespace=%q,job=%q,node=%q,cause=%q%s} or \
    rdma_finding{cluster=%q,namespace=%q,job=%q,instance=%q,cause=%q%s})\" $labels.cluster $labels.namespace $labels.job \
    $labels.node $labels.cause $device $labels.cluster $labels.namespace $labels.job $labels.node $labels.cause $device | \
    query | sortByLabel \"rule\" }}\
    {{ if eq (len .) 1 }}{{ $key = . | first | label \"rule\" }}{{ end }}\
    {{ if or (gt (len .) 1) (ne $key $labels.cause) }}\
    Found by {{ range $n, $one := . }}{{ if $n }}, {{ end }}{{ .Labels.rule }}{{ end }}; `rdma-health explain\
    {{ range . }} {{ .Labels.rule }}{{ end }}` has the steps. {{ end }}{{ end }}";

/// The processes whose memlock limit is low: pods and jobs inherit it.
const LIMITED: &str = "{{ with printf \"min by (process) ((rdma_memlock_limit_bytes{cluster=%q,namespace=%q,job=%q,node=%q} or \
    rdma_memlock_limit_bytes{cluster=%q,namespace=%q,job=%q,instance=%q}) < +Inf)\" $labels.cluster $labels.namespace $labels.job \
    $labels.node $labels.cluster $labels.namespace $labels.job $labels.node | query | sortByLabel \"process\" }}\
    Memlock limits: {{ range $n, $one := . }}{{ if lt $n 8 }}{{ if $n }}, {{ end }}{{ .Labels.process }} {{ .Value | humanize1024 }}B\
    {{ end }}{{ end }}. {{ end }}";

/// State, network device, rate and MTU of the port that a problem is about. The rate of a port that is not active is none that it has.
const PORT: &str = "{{ if $labels.port }}\
    {{ $port := printf \"cluster=%q,namespace=%q,job=%q,device=%q,port=%q\" $labels.cluster $labels.namespace $labels.job $labels.device $labels.port }}\
    {{ $node := $labels.node }}\
    {{ with printf \"rdma_port_state_id{%s,node=%q} or rdma_port_state_id{%s,instance=%q}\" $port $node $port $node | query }}\
    {{ $state := . | first | value }}The port is {{ if eq $state 1.0 }}DOWN{{ else if eq $state 2.0 }}INIT{{ else if eq $state 3.0 }}ARMED{{ else if eq $state 4.0 }}ACTIVE{{ else }}in state \
    {{ $state }}{{ end }}{{ if ge $state 4.0 }}{{ with printf \"8 * (rdma_port_rate_bytes_per_second{%s,node=%q} or rdma_port_rate_bytes_per_second{%s,instance=%q})\" \
    $port $node $port $node | query }} at {{ . | first | value | humanize }}b/s{{ end }}{{ end }}\
    {{ with printf \"rdma_port_link_info{%s,netdev!='',node=%q} or rdma_port_link_info{%s,netdev!='',instance=%q}\" $port $node $port $node | query }}, \
    network device {{ . | first | label \"netdev\" }}{{ end }}\
    {{ with printf \"rdma_port_mtu_bytes{%s,kind='netdev',node=%q} or rdma_port_mtu_bytes{%s,kind='netdev',instance=%q}\" $port $node $port $node | query }} with \
    an MTU of {{ . | first | value }}{{ end }}. {{ end }}{{ end }}";

/// The PCIe links that are narrower or slower than both of their ends support.
const PCI_LINKS: &str = "{{ if eq $labels.cause \"pci-path\" }}\
    {{ $node := printf \"cluster=%q,namespace=%q,job=%q,node=%q\" $labels.cluster $labels.namespace $labels.job $labels.node }}\
    {{ $instance := printf \"cluster=%q,namespace=%q,job=%q,instance=%q\" $labels.cluster $labels.namespace $labels.job $labels.node }}\
    {{ range printf \"(rdma_pci_link_width_lanes{%s,role='rdma'} or rdma_pci_link_width_lanes{%s,role='rdma'}) < rdma_pci_link_best_width_lanes\" $node $instance | query }}\
    The PCIe link of {{ .Labels.pci_address }} has {{ .Value }} lanes, fewer than it can. {{ end }}\
    {{ range printf \"(rdma_pci_link_speed_transfers_per_second{%s,role='rdma'} or rdma_pci_link_speed_transfers_per_second{%s,role='rdma'}) < rdma_pci_link_best_speed_transfers_per_second\" $node $instance | query }}\
    The PCIe link of {{ .Labels.pci_address }} runs at {{ .Value | humanize }}T/s, slower than it can. {{ end }}{{ end }}";

/// An alert about problems of nodes. Node conditions have the same names.
struct ProblemAlert {
    name: &'static str,
    domains: &'static [Domain],
    /// A part of the description: a query that shows the values behind it.
    value: &'static str,
}

const PROBLEMS: &[ProblemAlert] = &[
    ProblemAlert {
        name: "RDMAIommuProblem",
        domains: &[Domain::Iommu],
        value: "Linux {{ with printf \"node:rdma_kernel:timestamp{cluster=%q,namespace=%q,job=%q,node=%q}\" $labels.cluster \
            $labels.namespace $labels.job $labels.node | query }}{{ . | first | label \"kernel\" }}{{ else }}of unknown \
            release{{ end }} is running. ",
    },
    ProblemAlert {
        name: "RDMADeviceProblem",
        domains: &[Domain::Kernel, Domain::Pci, Domain::Modules, Domain::Sriov],
        value: PCI_LINKS,
    },
    ProblemAlert {
        name: "GPUDirectProblem",
        domains: &[Domain::GpuDirect],
        value: "",
    },
    ProblemAlert {
        name: "RDMALinkProblem",
        domains: &[Domain::Link],
        value: PORT,
    },
    ProblemAlert {
        name: "RDMANetworkProblem",
        domains: &[Domain::Gids, Domain::Network],
        value: PORT,
    },
    ProblemAlert {
        name: "RDMALimitsProblem",
        domains: &[Domain::Limits],
        value: LIMITED,
    },
    ProblemAlert {
        name: "RDMAProbeProblem",
        domains: &[Domain::Probe],
        value: "{{ with printf \"rdma_probe_bandwidth_bytes_per_second{node=%q,device=%q} / \
            rdma_probe_baseline_bandwidth_bytes_per_second{node=%q,device=%q}\" $labels.node $labels.device $labels.node \
            $labels.device | query }}The last probe reached {{ . | first | value | humanizePercentage }} of the median of earlier \
            ones. {{ end }}",
    },
    ProblemAlert {
        name: "RDMAReadingProblem",
        domains: &[Domain::Reading],
        value: "",
    },
];

/// The expression of a recorded series, in one line.
pub(super) fn recorded(name: &str) -> Option<String> {
    let lines = || RECORDING.lines().chain(OTHERS.lines());
    let is_it = |line: &str| line.trim_start().strip_prefix("- record: ") == Some(name);
    let of_rule = lines().skip_while(|line| !is_it(line)).skip(1);
    let own = of_rule.take_while(|line| !line.trim_start().starts_with(['-', '#']));
    let words: Vec<_> = own
        .take_while(|line| !line.trim_start().starts_with("labels:"))
        .flat_map(str::split_whitespace)
        .filter(|word| !matches!(*word, "expr:" | ">-"))
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// `dashboards/rules.yaml`.
pub(super) fn rules() -> String {
    let mut text = RECORDING.to_owned();
    write_fleet_alerts(&mut text);
    text.push_str("  - name: rdma-health.problems\n    rules:\n");
    for alert in PROBLEMS {
        for severity in [Severity::Critical, Severity::Warning] {
            // Domains that wait equally long share an alert.
            let mut waits: Vec<Duration> = alert
                .domains
                .iter()
                .map(|domain| domain.alert_after(severity))
                .collect();
            waits.dedup();
            for wait in waits {
                let domains: Vec<_> = alert
                    .domains
                    .iter()
                    .filter(|domain| domain.alert_after(severity) == wait)
                    .map(|domain| domain.name())
                    .collect();
                write_alert(&mut text, alert, severity, &domains, wait);
            }
        }
    }
    let others = OTHERS
        .replace("RUNBOOKS", RUNBOOKS)
        .replace("MANY_NODES", &MANY_NODES.to_string());
    text.push_str(&others);
    text
}

/// How many minutes a problem of a domain lasts before the alert of its node fires.
fn minutes(domain: Domain, severity: Severity) -> u64 {
    domain.alert_after(severity).as_secs() / 60
}

/// Matches the labels of problems of some domains and of a severity.
fn matchers(domains: &[&str], severity: Severity) -> String {
    let severity = severity.name();
    match domains {
        [one] => format!("domain=\"{one}\", severity=\"{severity}\""),
        several => format!("domain=~\"{}\", severity=\"{severity}\"", several.join("|")),
    }
}

/// `RDMAFleetProblem`: its severity is that of its worst node, and it waits as long as the alert of such a node, less a minute, so that
/// the alerts of the nodes do not fire together with it.
fn write_fleet_alerts(text: &mut String) {
    const ON: &str = "and on (cluster, namespace, job, cause)";
    const KEPT: u64 = 10;
    text.push_str(
        "  - name: rdma-health.fleet
    rules:
      # Many nodes with one cause are one problem, for example a kernel that was rolled out. The alerts of these nodes are left out.
      # It has the severity of its worst node, and fires a minute before the alert of that node would. Where that alert waits longer
      # than `for`, the cause must be found in each evaluation of the minutes before; one may be missing. If fewer nodes are left, the
      # alert keeps firing until those of the nodes fire.
",
    );
    let mut annotations = FLEET
        .replace("RUNBOOKS", RUNBOOKS)
        .replace("TITLE", &titles(|_| true))
        .replace("COMMON", &shared());
    let waiting = |severity, is_wanted: &dyn Fn(u64) -> bool| -> Vec<&str> {
        let domains = Domain::ALL.into_iter();
        domains
            .filter(|domain| is_wanted(minutes(*domain, severity)))
            .map(Domain::name)
            .collect()
    };
    let longest = |severity| {
        Domain::ALL
            .map(|domain| minutes(domain, severity))
            .into_iter()
            .max()
    };
    for severity in [Severity::Critical, Severity::Warning] {
        let wait = Domain::ALL
            .map(|domain| minutes(domain, severity))
            .into_iter()
            .min()
            .unwrap_or_default();
        let soon = matchers(&waiting(severity, &|minutes| minutes == wait), severity);
        let late = matchers(&waiting(severity, &|minutes| minutes > wait), severity);
        // How much longer than `for` the alerts of some domains wait, and how much longer than `keep_firing_for` they need.
        let more = longest(severity).unwrap_or_default() - wait;
        let hold = longest(Severity::Warning).unwrap_or_default() + 2 - KEPT;
        let slow_domains = waiting(Severity::Warning, &|minutes| minutes + 2 > KEPT).join("|");
        let unless = match severity {
            Severity::Critical => "",
            _ => {
                "
          unless on (cluster, namespace, job, cause) node:rdma_problem:max{severity=\"critical\"}"
            }
        };
        let severity = severity.name();
        let wait = wait - 1;
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            text,
            "      - alert: RDMAFleetProblem
        expr: >-
          (cause:rdma_fleet_nodes:count {ON} node:rdma_problem:max{{{soon}}}
          or cause:rdma_fleet_nodes:count {ON} node:rdma_problem:max{{{late}}}
          and cause:rdma_fleet_nodes:count offset {more}m
          {ON} (count_over_time(cause:rdma_fleet_nodes:count[{more}m])
          >= on (cluster, namespace, job) group_left () count_over_time(cluster:rdma_nodes:count[{more}m]) - 1)
          or cause:rdma_nodes:count {ON} node:rdma_problem:max{{domain=~\"{slow_domains}\", severity=~\"warning|critical\"}}
          and cause:rdma_fleet_nodes:count offset {hold}m unless cause:rdma_fleet_nodes:count
          {ON} ALERTS{{alertname=\"RDMAFleetProblem\", alertstate=\"firing\", instance=\"\", severity=\"{severity}\"}}){unless}
        for: {wait}m
        keep_firing_for: {KEPT}m
        labels: {{component: rdma, severity: {severity}}}
{annotations}"
        );
        "        annotations: *RDMAFleetProblem\n".clone_into(&mut annotations);
    }
}

fn write_alert(
    text: &mut String,
    alert: &ProblemAlert,
    severity: Severity,
    domains: &[&str],
    wait: Duration,
) {
    let ProblemAlert { name, value, .. } = alert;
    let these = matchers(domains, severity);
    let elsewhere = if alert.domains.contains(&Domain::Reading) {
        format!(", cause!~\"{ELSEWHERE}\"")
    } else {
        String::new()
    };
    let minutes = wait.as_secs() / 60;
    // A problem that is critical now and then is a warning all the time, until its critical alert fires.
    let problems = if severity == Severity::Critical {
        format!("node:rdma_problem:max{{{these}{elsewhere}}}")
    } else {
        const ON: &str = "on (cluster, namespace, job, node, cause, device, port)";
        let critical = these.replace(severity.name(), Severity::Critical.name());
        format!(
            "max without (severity) (node:rdma_problem:max{{{these}{elsewhere}}}
          or node:rdma_problem:max{{{critical}{elsewhere}}} and {ON} last_over_time(node:rdma_problem:max{{{these}{elsewhere}}}[10m]))
          unless {ON} (node:rdma_problem:max{{severity=\"critical\"}}
          and {ON} ALERTS{{alertname=\"{name}\", alertstate=\"firing\", severity=\"critical\"}})"
        )
    };
    let severity = severity.name();
    let _ = write!(
        text,
        "      - alert: {name}
        expr: >-
          {problems}
          unless on (cluster, namespace, job, cause) (cause:rdma_fleet_nodes:count
          and on (cluster, namespace, job, cause) ALERTS{{alertname=\"RDMAFleetProblem\", alertstate=\"firing\", instance=\"\"}}
          or cause:rdma_fleet_nodes:count > {MANY_NODES})
        for: {minutes}m
        keep_firing_for: 10m
        labels: {{component: rdma, severity: {severity}}}
"
    );
    if severity == Severity::Critical.name() {
        let title = titles(|of| alert.domains.contains(&of));
        let subject = "{{ $labels.node }}{{ with $labels.device }}, {{ . }}{{ end }}{{ with $labels.port }} port {{ . }}{{ end }}";
        let step = steps(|of| alert.domains.contains(&of));
        let count = "{{ $value }} finding{{ if ne $value 1.0 }}s{{ end }}";
        let since = "{{ with printf \"node:rdma_cause_since:min{cluster=%q,namespace=%q,job=%q,node=%q,cause=%q}\" \
            $labels.cluster $labels.namespace $labels.job $labels.node $labels.cause | query }} since {{ . | first | value | \
            humanizeTimestamp }}{{ end }}";
        let _ = write!(
            text,
            "        annotations: &{name}
          summary: >-
            {title} ({{{{ $labels.cause }}}}) on {subject}
          description: >-
            {count} of cause {{{{ $labels.cause }}}}{since}. {DEVICES}{value}{RULES}Next step: {step} `rdma-health check` on the node
            prints evidence and commands, and `rdma-health explain {{{{ $labels.cause }}}}` explains the cause.
          runbook_url: {RUNBOOKS}/{name}.md
"
        );
    } else {
        let _ = writeln!(text, "        annotations: *{name}");
    }
}

/// A template that writes what nodes may share that have the cause in the label `cause`.
fn shared() -> String {
    const HOST: &str = "the kernel, the driver or the firmware";
    let of = |text: &CauseText| match text.domain {
        Some(Domain::Link) => "a switch, a rack, a kind of cable or the subnet manager",
        Some(Domain::Gids | Domain::Network) => "the network configuration, a switch or the driver",
        Some(Domain::Limits) => "the configuration of the container runtime or of systemd",
        Some(Domain::Probe) => "the driver, the firmware or a switch",
        Some(Domain::Reading) => "the version or the permissions of rdma-health",
        _ => HOST,
    };
    by_cause("$labels.cause", |_| true, of, HOST)
}

/// A template that writes the title of the cause in the label `cause`.
fn titles(is_here: impl Fn(Domain) -> bool) -> String {
    by_cause("$labels.cause", is_here, |text| text.title, "Problem")
}

/// A template that writes what to do about the cause or the rule in `$key`.
fn steps(is_here: impl Fn(Domain) -> bool) -> String {
    by_cause(
        "$key",
        is_here,
        |text| text.step,
        "Read the findings of the node.",
    )
}

/// What an alert says about a cause.
struct CauseText {
    id: &'static str,
    title: &'static str,
    step: &'static str,
    domain: Option<Domain>,
    /// The domains of the causes that a rule shows.
    shows: Vec<Domain>,
}

/// A template that writes a text of a cause or a rule. Any rule may be a cause if no known cause claims it, and may show a cause of another domain.
fn by_cause(
    key: &str,
    is_here: impl Fn(Domain) -> bool,
    of: fn(&CauseText) -> &'static str,
    unknown: &str,
) -> String {
    let causes = CAUSES.iter().map(|cause| CauseText {
        id: cause.id,
        title: cause.title,
        step: cause.next_step,
        domain: domain_of(cause.id),
        shows: Vec::new(),
    });
    let shows = |rule: &&'static Rule| {
        let causes = CAUSES.iter().filter(|cause| cause.rules.contains(rule));
        causes.filter_map(|cause| domain_of(cause.id)).collect()
    };
    let rules = CATALOGUE.iter().map(|rule| CauseText {
        id: rule.id,
        title: rule.title,
        step: rule.remedy.any,
        domain: Some(rule.domain),
        shows: shows(rule),
    });
    let mut by_text: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for text in causes.chain(rules) {
        // A cause without rules explains what probes measure.
        let mut domains = text
            .shows
            .iter()
            .copied()
            .chain([text.domain.unwrap_or(Domain::Probe)]);
        if !domains.any(&is_here) || seen.contains(&text.id) {
            continue;
        }
        seen.push(text.id);
        let text_of = of(&text);
        match by_text.iter_mut().find(|(known, _)| *known == text_of) {
            _ if text_of == unknown => {}
            Some((_, ids)) => ids.push(text.id),
            None => by_text.push((text_of, vec![text.id])),
        }
    }
    let mut template = String::new();
    for (text, ids) in by_text {
        let otherwise = if template.is_empty() { "" } else { "else " };
        let _ = write!(template, "{{{{ {otherwise}if eq {key}");
        for id in ids {
            let _ = write!(template, " \"{id}\"");
        }
        let _ = write!(template, " }}}}{text}");
    }
    let _ = write!(template, "{{{{ else }}}}{unknown}{{{{ end }}}}");
    template
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_rules_in_dashboards_are_what_the_catalogues_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards/rules.yaml");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, rules()).unwrap();
        }
        let on_disk = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            on_disk == rules(),
            "dashboards/rules.yaml is outdated; run UPDATE_DOCS=1 cargo test -p rdma-health"
        );
    }

    #[test]
    fn every_step_is_a_sentence() {
        // Other sentences follow.
        let causes = CAUSES.iter().map(|cause| (cause.id, cause.next_step));
        let rules = CATALOGUE.iter().map(|rule| (rule.id, rule.remedy.any));
        let open: Vec<_> = causes
            .chain(rules)
            .filter(|(_, step)| !step.ends_with('.'))
            .map(|(id, _)| id)
            .collect();
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn every_domain_has_one_alert() {
        for domain in Domain::ALL {
            let alerts = PROBLEMS.iter().filter(|alert| alert.domains.contains(&domain));
            assert_eq!(alerts.count(), 1, "{domain:?}");
        }
    }

    #[test]
    fn the_page_of_an_alert_lists_its_rules() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks");
        let mut missing = Vec::new();
        for alert in PROBLEMS {
            let page = std::fs::read_to_string(folder.join(format!("{}.md", alert.name))).unwrap();
            let (_, after) = page.split_once("**Rules").unwrap();
            let (listed, _) = after.split_once("**Impact").unwrap();
            let causes = CAUSES.iter().filter(|cause| {
                let domain = domain_of(cause.id);
                domain.is_some_and(|domain| alert.domains.contains(&domain))
            });
            let shown: Vec<_> = causes
                .flat_map(|cause| cause.rules.iter().map(|rule| rule.id))
                .collect();
            let rules = CATALOGUE
                .iter()
                .filter(|rule| alert.domains.contains(&rule.domain) || shown.contains(&rule.id))
                .map(|rule| rule.id)
                // The helper has another alert.
                .filter(|id| !id.starts_with("helper-") || alert.domains.contains(&Domain::Reading))
                .filter(|id| !listed.contains(&format!("`{id}`")));
            missing.extend(rules.map(|id| (alert.name, id)));
        }
        assert!(missing.is_empty(), "{missing:?}");
    }
}
