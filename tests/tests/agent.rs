//! The product on a real kernel: one virtual node with four HCAs, and every fault that its user could meet.
//!
//! The agent reads everything once an hour here, so it learns of every change in between from the kernel.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use rdma_health_protocol::{self as protocol, Peer, ProbeFailure, ProbeReport};
use rdma_health_tests::{
    run_acts,
    running::free_address,
    scrape::{Scrape, get, wait_until},
    virtual_node::{Forward, Iommu, Job, Options, VirtualNode, built},
};

const GUEST_PORT: u16 = 14791;
/// Generous: the machine is emulated, and others may use this one.
const SOON: Duration = Duration::from_secs(60);

struct Stage<'a> {
    node: &'a VirtualNode,
    agent: Job<'a>,
    address: SocketAddr,
}

impl Stage<'_> {
    fn wait(&self, what: &str, condition: impl Fn(&Scrape) -> bool) -> Scrape {
        match wait_until(self.address, SOON, what, condition) {
            Ok(scrape) => scrape,
            Err(error) => panic!(
                "{error:#}\nthe agent's log:\n{}",
                self.agent.stderr().unwrap_or_default()
            ),
        }
    }

    /// Waits for a line of the agent's log, without any scrape that would make it read.
    fn log_says(&self, from: usize, words: &str) -> usize {
        let end = Instant::now() + SOON;
        loop {
            let log = self.agent.stderr().unwrap();
            if let Some(at) = log[from..].find(words) {
                return from + at + words.len();
            }
            assert!(Instant::now() < end, "the log does not say \"{words}\":\n{log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn log_length(&self) -> usize {
        self.agent.stderr().unwrap().len()
    }
}

/// The program under test, where the guest sees it.
fn product() -> String {
    built("rdma-health").unwrap().display().to_string()
}

#[test]
fn the_agent_sees_each_fault_as_it_happens() {
    let host_port = free_address().unwrap().port();
    let node = VirtualNode::boot(&Options {
        iommu: Iommu::Intel,
        nics: 4,
        forward: Some(Forward {
            host: host_port,
            guest: GUEST_PORT,
        }),
        modules_added: vec!["fuse".into()],
        ..Options::default()
    })
    .unwrap();
    let product = product();
    let config = "interval: 1h\nprobe:\n  interval: 1h\n  byte_budget: 1MiB\n  latency_samples: 50\n";
    node.write_file("/run/rdma-health/config.yaml", config).unwrap();
    let agent = node
        .spawn(&format!(
            "exec {product} agent --listen 0.0.0.0:{GUEST_PORT} --config /run/rdma-health/config.yaml"
        ))
        .unwrap();
    let mut stage = Stage {
        node: &node,
        agent,
        address: SocketAddr::from(([127, 0, 0, 1], host_port)),
    };

    run_acts!(
        &mut stage,
        repair,
        [
            facts_findings_and_four_probes_are_exported,
            a_link_that_goes_down_and_up_is_noticed_without_a_scrape,
            an_address_that_goes_away_fails_the_next_probe,
            a_device_deleted_during_a_probe_ends_the_probe,
            a_killed_helper_is_started_again,
            a_stopped_helper_is_killed_and_metrics_still_answer,
            a_low_memlock_limit_fails_at_reg_mr,
            a_device_node_that_is_missing_is_told,
            a_helper_behind_a_socket_serves_as_well,
            two_helpers_measure_between_their_ends,
            a_port_in_use_is_told,
            a_kernel_that_does_not_answer_holds_nothing_up,
            a_configuration_is_taken_over_and_a_bad_one_is_not,
            the_agent_ends_when_asked_and_leaves_no_helper,
        ]
    );
}

/// Undoes what any of the acts does to the node. Nothing of it harms a node that is whole.
fn repair(stage: &mut Stage<'_>) {
    let script = "ip link set eth1 mtu 1500 up; ip addr replace 10.0.102.2/24 dev eth2
        test -e /sys/class/infiniband/rxe3 || rdma link add rxe3 type rxe netdev eth3
        mv /dev/uverbs1.away /dev/infiniband/uverbs1; chmod 666 /dev/infiniband/uverbs1
        pkill -KILL bindfs; pkill -KILL -f 'root /mirror'; umount -l /mirror; pkill -KILL -f 'rdma-health probe'; pkill -KILL -f 'rdma-health-verbs serve'";
    if let Err(error) = stage.node.run(script) {
        eprintln!("the node could not be mended: {error:#}");
    }
}

fn facts_findings_and_four_probes_are_exported(stage: &Stage<'_>) {
    let scrape = stage.wait("four ports probed", |scrape| {
        scrape.count("rdma_probe_success", &[]) == 4
    });
    for device in ["rxe0", "rxe1", "rxe2", "rxe3"] {
        let device = format!("device=\"{device}\"");
        let value = |name: &str| scrape.value(name, &[&device]);
        assert_eq!(value("rdma_probe_success"), Some(1.0), "{device}");
        assert!(value("rdma_probe_bandwidth_bytes_per_second").unwrap() > 0.0);
        assert_eq!(value("rdma_port_state_id"), Some(4.0));
        let translated = ["rule=\"iommu-group-translated\"", "severity=\"warning\"", &device];
        assert_eq!(scrape.value("rdma_finding", &translated), Some(1.0), "{device}");
    }
    assert_eq!(get(stage.address, "/readyz", SOON).unwrap().status, 200);
    let page = get(stage.address, "/", SOON).unwrap();
    for shown in ["iommu-translation", "DMA-FQ", "iommu=pt", "href=/metrics"] {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    let traffic = scrape.value("rdma_port_statistic_total", &["device=\"rxe0\"", "sent_pkts"]);
    assert!(
        traffic.unwrap() > 0.0,
        "the probe's packets are counted by the kernel"
    );
}

fn a_link_that_goes_down_and_up_is_noticed_without_a_scrape(stage: &Stage<'_>) {
    let from = stage.log_length();
    stage.node.check("ip link set eth1 down").unwrap();
    let from = stage.log_says(from, "rule=\"port-down\"");
    let scrape = Scrape::of(stage.address, SOON).unwrap();
    let finding = [
        "rule=\"port-down\"",
        "severity=\"critical\"",
        "device=\"rxe1\"",
        "port=\"1\"",
    ];
    assert_eq!(scrape.value("rdma_finding", &finding), Some(1.0));
    assert_eq!(
        scrape.value("rdma_port_state_id", &["device=\"rxe1\""]),
        Some(1.0)
    );
    assert_eq!(
        scrape.value("rdma_probe_success", &["device=\"rxe1\""]),
        None,
        "it says nothing of a port that is down"
    );
    stage.node.check("ip link set eth1 up").unwrap();
    stage.log_says(from, "resolved: ");
    stage.wait("rxe1 probed again", |scrape| {
        scrape.value("rdma_probe_success", &["device=\"rxe1\""]) == Some(1.0)
            && scrape.value("rdma_finding", &["rule=\"port-down\""]).is_none()
    });
}

fn an_address_that_goes_away_fails_the_next_probe(stage: &Stage<'_>) {
    let gids = ["device=\"rxe2\"", "RoCE v2"];
    stage.node.check("ip addr flush dev eth2").unwrap();
    let scrape = stage.wait("probe of rxe2 failed", |scrape| {
        scrape.value("rdma_probe_success", &["device=\"rxe2\""]) == Some(0.0)
    });
    assert_eq!(
        scrape.value("rdma_finding", &["rule=\"probe-failed\"", "device=\"rxe2\""]),
        Some(1.0)
    );
    let check = stage.node.run(&format!("{} check", product())).unwrap();
    assert_eq!(check.status, 1, "{}", check.stdout_text());
    stage.node.check("ip addr add 10.0.102.2/24 dev eth2").unwrap();
    stage.wait("probe of rxe2 passed again", |scrape| {
        scrape.value("rdma_probe_success", &["device=\"rxe2\""]) == Some(1.0)
            && scrape.count("rdma_port_gids", &gids) > 0
    });
}

fn a_device_deleted_during_a_probe_ends_the_probe(stage: &Stage<'_>) {
    let product = product();
    let probe = stage
        .node
        .spawn(&format!(
            "exec {product} probe rxe3 --bytes 100GiB --duration 1m --force"
        ))
        .unwrap();
    let sent = "/sys/class/infiniband/rxe3/ports/1/hw_counters/sent_pkts";
    let before: u64 = stage
        .node
        .check(&format!("cat {sent}"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    stage
        .node
        .wait_until(SOON, &format!("test $(cat {sent}) -gt {}", before + 500))
        .unwrap();
    stage.node.check("rdma link delete rxe3").unwrap();
    assert_eq!(probe.wait(SOON).unwrap(), 2);
    let shown = probe.stdout().unwrap();
    assert!(shown.contains("rxe3:1") && shown.contains("failed"), "{shown}");
    stage.wait("rxe3 is gone", |scrape| {
        scrape.count("rdma_device_info", &["device=\"rxe3\""]) == 0
    });
    stage
        .node
        .check("rdma link add rxe3 type rxe netdev eth3")
        .unwrap();
    stage.wait("rxe3 is back and probed", |scrape| {
        scrape.value("rdma_probe_success", &["device=\"rxe3\""]) == Some(1.0)
    });
}

fn a_killed_helper_is_started_again(stage: &Stage<'_>) {
    let restarts = |scrape: &Scrape| scrape.value("rdma_health_helper_restarts_total", &["reason=\"ended\""]);
    let before = restarts(&Scrape::of(stage.address, SOON).unwrap()).unwrap();
    stage
        .node
        .check("pkill -KILL -f 'rdma-health-verbs stdio'")
        .unwrap();
    stage.wait("the helper is back", |scrape| {
        restarts(scrape) == Some(before + 1.0) && scrape.value("rdma_health_helper_up", &[]) == Some(1.0)
    });
}

fn a_stopped_helper_is_killed_and_metrics_still_answer(stage: &Stage<'_>) {
    let hung = |scrape: &Scrape| scrape.value("rdma_health_helper_restarts_total", &["reason=\"hung\""]);
    let before = hung(&Scrape::of(stage.address, SOON).unwrap()).unwrap();
    let stopped = stage
        .node
        .check("pid=$(pgrep -f 'rdma-health-verbs stdio'); kill -STOP $pid; echo $pid")
        .unwrap();
    // Any change makes the agent ask; the answer does not come.
    stage.node.check("ip link set eth1 mtu 1400").unwrap();
    stage.wait("the stopped helper is given up and replaced", |scrape| {
        hung(scrape) == Some(before + 1.0) && scrape.value("rdma_health_helper_up", &[]) == Some(1.0)
    });
    stage
        .node
        .check(&format!("! kill -0 {}", stopped.trim()))
        .unwrap();
    stage.node.check("ip link set eth1 mtu 1500").unwrap();
}

fn a_low_memlock_limit_fails_at_reg_mr(stage: &Stage<'_>) {
    let product = product();
    let limited = format!(
        "ulimit -l 8192; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
         {product} probe rxe0:1 --size 8MiB --output json"
    );
    let output = stage.node.run(&limited).unwrap();
    assert_eq!(
        output.status,
        2,
        "{} {}",
        output.stdout_text(),
        output.stderr_text()
    );
    let shown = output.stdout_text();
    assert!(
        shown.contains("\"stage\": \"reg_mr\"") && shown.contains("ENOMEM"),
        "{shown}"
    );
}

fn a_device_node_that_is_missing_is_told(stage: &Stage<'_>) {
    let product = product();
    stage
        .node
        .check("mv /dev/infiniband/uverbs1 /dev/uverbs1.away")
        .unwrap();
    let output = stage
        .node
        .run(&format!("{product} check --probe --output json"))
        .unwrap();
    stage
        .node
        .check("mv /dev/uverbs1.away /dev/infiniband/uverbs1")
        .unwrap();
    let shown = output.stdout_text();
    assert_eq!(output.status, 2, "{shown}");
    assert!(shown.contains("\"facts-unreadable\""), "{shown}");
    assert!(shown.contains("of rxe1\""), "{shown}");
    let probed = shown.matches("\"stage\": \"done\"").count();
    assert_eq!(probed, 3, "the others are probed all the same: {shown}");
    stage.node.check("chmod 000 /dev/infiniband/uverbs1").unwrap();
    let as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let output = stage
        .node
        .run(&format!("{as_nobody} {product} probe rxe1"))
        .unwrap();
    stage.node.check("chmod 666 /dev/infiniband/uverbs1").unwrap();
    let shown = output.stderr_text();
    assert_eq!(output.status, 3, "{shown}");
    assert!(
        shown.contains("rxe1: ") && shown.contains("Permission denied"),
        "{shown}"
    );
}

fn a_helper_behind_a_socket_serves_as_well(stage: &Stage<'_>) {
    let product = product();
    let helper = built("rdma-health-verbs").unwrap().display().to_string();
    let socket = "/run/rdma-health/verbs.sock";
    let server = stage
        .node
        .spawn(&format!("exec {helper} serve --socket {socket}"))
        .unwrap();
    stage.node.wait_until(SOON, &format!("test -S {socket}")).unwrap();
    let probe = format!("{product} probe rxe0 --bytes 1MiB --helper-socket {socket}");
    let output = stage.node.run(&probe).unwrap();
    assert_eq!(output.status, 0, "{}", output.stderr_text());
    assert!(output.stdout_text().contains("passed"));
    // A worker that is stopped in mid-probe: we give up, and the supervisor kills what we cannot reach.
    let worker = "pgrep -P $(pgrep -f 'rdma-health-verbs serve')";
    stage.node.wait_until(SOON, &format!("! {worker}")).unwrap();
    // It waits in the guest, because the probe can end before a command from here gets there.
    let stop = format!("until pid=$({worker}); do sleep 0.1; done; kill -STOP $pid; echo $pid");
    let stop = stage.node.spawn(&stop).unwrap();
    let long = format!("{product} probe rxe0 --bytes 100GiB --duration 3s --helper-socket {socket}");
    let long = stage.node.spawn(&format!("exec {long}")).unwrap();
    assert_eq!(stop.wait(SOON).unwrap(), 0);
    let pid = stop.stdout().unwrap();
    assert_eq!(long.wait(SOON).unwrap(), 3);
    assert!(long.stderr().unwrap().contains("did not respond"));
    stage
        .node
        .wait_until(SOON, &format!("! kill -0 {}", pid.trim()))
        .unwrap();
    server.signal("TERM").unwrap();
    assert_eq!(server.wait(SOON).unwrap(), 0);
}

/// Two processes, as on two nodes; the kernel's `SoftRoCE` carries the data within one device only.
fn two_helpers_measure_between_their_ends(stage: &Stage<'_>) {
    let driver = built("two_ends").unwrap().display().to_string();
    let helper = built("rdma-health-verbs").unwrap().display().to_string();
    let measure = |more: &str| -> [ProbeReport; 2] {
        let out = stage
            .node
            .check(&format!("{driver} {helper} rxe0 rxe0 {more}"))
            .unwrap();
        let reports: Vec<_> = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        reports.try_into().unwrap()
    };
    let [writer, responder] = measure("");
    assert_eq!((writer.stage, writer.failure), (protocol::Stage::Done, None));
    assert_eq!(
        (responder.stage, responder.failure),
        (protocol::Stage::Done, None)
    );
    assert!(matches!(&writer.path.to, Peer::Remote(peer) if peer.node == "another"));
    assert_eq!(writer.latency.unwrap().samples, 100);
    assert!(writer.bandwidth.unwrap().bytes_per_second > 0.0);
    // The end that responds expects other bytes than those that arrive, and both ends learn of it.
    let reports = measure("--expect-other-bytes");
    // Both sequences are random: the first byte of one in 256 pairs is equal, their first words never are.
    for report in &reports {
        assert_eq!(report.stage, protocol::Stage::Verify);
        assert!(
            matches!(report.failure, Some(ProbeFailure::Corrupted { offset: ..8 })),
            "{report:?}"
        );
    }
    assert_eq!(reports[0].failure, reports[1].failure);
}

fn a_port_in_use_is_told(stage: &Stage<'_>) {
    let product = product();
    let output = stage
        .node
        .run(&format!("{product} agent --listen 0.0.0.0:{GUEST_PORT}"))
        .unwrap();
    assert_eq!(output.status, 3);
    let shown = output.stderr_text();
    assert!(shown.contains("14791") && shown.contains("in use"), "{shown}");
}

/// The kernel's files behind a file system in user space, which can be stopped: then every read hangs, as it does behind
/// a driver that waits for its device.
fn a_kernel_that_does_not_answer_holds_nothing_up(stage: &Stage<'_>) {
    let product = product();
    let node = stage.node;
    node.check("mkdir -p /mirror && bindfs / /mirror").unwrap();
    // With `make sanitize`, the search for leaks at the end would wait for the threads that hang.
    let agent = node
        .spawn(&format!(
            "exec env ASAN_OPTIONS=detect_leaks=0 {product} agent --root /mirror --listen 127.0.0.1:9880 --no-probe --interval 1h"
        ))
        .unwrap();
    // Behind a file system that is stopped, a scrape that waited for it would never end.
    let scrape =
        "exec 3<>/dev/tcp/127.0.0.1/9880; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; timeout 20 cat <&3";
    let rate = "rdma_port_rate_bytes_per_second{device=\"rxe0\"";
    // Each read goes through user space, which takes a busy host a minute for the first reading.
    node.wait_until(5 * SOON, &format!("{{ {scrape}; }} | grep -qF '{rate}'"))
        .unwrap();
    node.check("pkill -STOP bindfs").unwrap();
    for _ in 0..3 {
        let shown = node.check(scrape).unwrap();
        assert!(
            shown.contains("rdma_health_source_stale{source=\"infiniband\"} 1"),
            "{shown}"
        );
        assert!(
            shown.contains(rate),
            "what was read before is still shown: {shown}"
        );
    }
    // One thread for each source that hangs (the list of devices, four devices), however often a scrape asks.
    let threads = || {
        node.check(&format!("{{ {scrape}; }} | grep '^rdma_health_reader_threads '"))
            .unwrap()
    };
    let before = threads();
    for _ in 0..3 {
        assert_eq!(threads(), before);
    }
    node.check("pkill -CONT bindfs").unwrap();
    let fresh = "rdma_health_source_stale{source=\"infiniband\"} 0";
    node.wait_until(5 * SOON, &format!("{{ {scrape}; }} | grep -qF '{fresh}'"))
        .unwrap();
    node.check("pkill -STOP bindfs").unwrap();
    node.check(scrape).unwrap();
    agent.signal("TERM").unwrap();
    assert_eq!(
        agent.wait(SOON).unwrap(),
        0,
        "a read that hangs does not keep the agent"
    );
    node.check("pkill -KILL bindfs; umount -l /mirror").unwrap();
}

fn a_configuration_is_taken_over_and_a_bad_one_is_not(stage: &Stage<'_>) {
    let write = |text: &str| {
        stage
            .node
            .write_file("/run/rdma-health/config.yaml", text)
            .unwrap();
    };
    write("interval: 1h\nexclude: [rxe1]\nprobe: {enabled: false}\n");
    stage.wait("rxe1 is left out", |scrape| {
        scrape.count("rdma_device_info", &[]) == 3
    });
    write("interval: soon\n");
    stage.wait("the bad configuration is reported", |scrape| {
        scrape.value("rdma_health_config_last_reload_successful", &[]) == Some(0.0)
    });
    let scrape = Scrape::of(stage.address, SOON).unwrap();
    assert_eq!(
        scrape.count("rdma_device_info", &[]),
        3,
        "the previous one stays active"
    );
}

fn the_agent_ends_when_asked_and_leaves_no_helper(stage: &Stage<'_>) {
    stage.agent.signal("TERM").unwrap();
    assert_eq!(stage.agent.wait(SOON).unwrap(), 0);
    stage
        .node
        .wait_until(SOON, "! pgrep -f 'rdma-health-verbs stdio'")
        .unwrap();
}
