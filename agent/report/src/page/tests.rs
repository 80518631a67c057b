//! Tests of the page's content.

use std::sync::Arc;

use rdma_health_diagnosis::{Diagnosis, diagnose};
use rdma_health_node::{
    Fact,
    history::{History, changes::Current},
};
use rdma_health_rules::{Severity, Subject};

use super::*;

fn rendered(view: &View) -> String {
    render(Some(view), PageOptions::default())
}

fn escaped(text: &str) -> String {
    let mut markup = Markup::default();
    markup.text(text);
    markup.into_string()
}

/// A view of a captured node.
fn judged(fixture: &str) -> View {
    let tree = rdma_health_tests::tree::fixture(fixture).unwrap();
    let root = rdma_health_kernel::Root::open(tree.path()).unwrap();
    let mut collector = rdma_health_kernel::collector::Collector::new(root, Vec::new());
    let soon = std::time::Instant::now() + std::time::Duration::from_secs(5);
    collector.refresh(rdma_health_kernel::collector::Refresh::All, soon);
    let node = rdma_health_node::Node::new(collector.facts());
    let verdict = rdma_health_rules::judge(&node, &rdma_health_rules::Expectations::default());
    let diagnosis = diagnose(&node, &verdict.findings, None);
    View {
        node,
        verdict: Arc::new(verdict),
        diagnosis: Arc::new(diagnosis),
        read_errors: Vec::new(),
        reader_threads: 1,
        revision: 0,
        generation: 0,
    }
}

#[test]
#[ignore = "writes pages to the directory PAGES; tests/page/check looks at them with a browser"]
fn pages_for_a_browser() {
    let directory = std::path::PathBuf::from(std::env::var_os("PAGES").unwrap());
    for (name, page) in [
        ("busy", rendered(&busy())),
        ("healthy", rendered(&judged("h100-connectx7"))),
        ("faulty", rendered(&judged("connectx7-gpu"))),
        ("functions", rendered(&judged("connectx6-vfs"))),
        ("explain", explanation("iommu-group-translated").unwrap()),
        ("not-read", render(None, PageOptions::default())),
    ] {
        std::fs::write(directory.join(format!("{name}.html")), page).unwrap();
    }
}

#[test]
fn each_port_has_its_own_network_device_beyond_ten_devices() {
    let mut view = judged("h100-connectx7");
    let Fact::Known(hcas) = &mut view.node.hcas else {
        panic!("no devices");
    };
    let mut tenth = hcas["mlx5_1"].as_ref().clone();
    tenth.name = "mlx5_10".into();
    hcas.insert("mlx5_10".into(), Arc::new(tenth));
    let page = rendered(&view);
    for hca in view.node.hcas() {
        let port = view.node.ports_of(hca).next().unwrap();
        let (_, row) = page.split_once(&format!("<tr><th scope=row>{port}<")).unwrap();
        let row = row.split("<tr>").next().unwrap();
        let address = hca.pci_address.known().unwrap();
        assert!(
            row.contains(address.as_str()),
            "{port} is not at {address}: {row}"
        );
    }
}

#[test]
fn a_device_that_is_gone_has_a_row_among_the_ports() {
    let mut view = judged("connectx7-gpu");
    let finding = &mut Arc::make_mut(&mut view.verdict).findings[0];
    finding.rule = rdma_health_rules::rule("device-lost").unwrap();
    finding.severity = Severity::Critical;
    finding.subject = Subject::device("mlx5_77");
    let page = rendered(&view);
    let (_, ports) = page.split_once("<h2 id=ports>").unwrap();
    let row = ports.split("<tr>").find(|row| row.contains("mlx5_77")).unwrap();
    assert!(row.contains("critical") && row.contains(">gone<"), "{row}");
}

#[test]
fn the_page_starts_with_the_verdict_and_the_next_step_as_check_does() {
    let mut view = judged("connectx7-gpu");
    let diagnosis = Arc::clone(&view.diagnosis);
    let page = rendered(&view);
    let place = |words: &str| {
        page.find(&escaped(words))
            .unwrap_or_else(|| panic!("{words} is not in {page}"))
    };
    let mut expected = vec![
        page.find("critical</span>").unwrap(),
        place(&format!("top cause: {}", diagnosis.causes[0].title)),
        place(
            diagnosis
                .next_step
                .as_ref()
                .unwrap()
                .lines()
                .next()
                .unwrap()
                .split('`')
                .next()
                .unwrap(),
        ),
    ];
    expected.extend(
        diagnosis
            .causes
            .iter()
            .map(|cause| place(&format!("/explain/{}", cause.id))),
    );
    expected.push(page.find("<h2 id=ports>Ports").unwrap());
    assert!(expected.is_sorted(), "{expected:?}: {page}");
    for finding in &view.verdict.findings {
        place(finding.message.split('`').next().unwrap());
    }
    // A healthy node has neither causes nor findings.
    view.node.hcas = rdma_health_node::Fact::Absent;
    Arc::make_mut(&mut view.verdict).findings.clear();
    view.diagnosis = Arc::new(Diagnosis::default());
    let page = rendered(&view);
    assert!(
        !page.contains("id=causes") && !page.contains("Next step"),
        "{page}"
    );
}

#[test]
fn the_page_has_the_name_of_the_node_in_kubernetes_and_that_of_the_host() {
    let view = judged("h100-connectx7");
    let host = view.node.host.hostname.known().unwrap().clone();
    let options = PageOptions {
        kubernetes_node: Some("gpu-17.example"),
        ..PageOptions::default()
    };
    let page = render(Some(&view), options);
    assert!(page.contains("<title>gpu-17.example: "), "{page}");
    assert!(page.contains(&format!("host {host}, ")), "{page}");
    assert!(
        !rendered(&view).contains(&format!("host {host}, ")),
        "once is enough"
    );
}

#[test]
fn before_the_first_reading_the_page_is_a_message() {
    assert!(render(None, PageOptions::default()).contains("has not been read yet"));
}

#[test]
fn the_page_shows_ports_and_probes() {
    let page = rendered(&rdma_health_tests::view::rich(2, &[]));
    for part in [
        "node-1",
        "critical",
        "probe-failed",
        "IBV_WC_LOC_PROT_ERR",
        "mlx5_0:1",
        "400 Gb/s",
        "href=/metrics",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

/// A node with everything that the page draws: 16 devices with a day of traffic, and a finding that came and went.
fn busy() -> View {
    let counters = [
        ("counters", "port_rcv_data"),
        ("counters", "port_xmit_data"),
        ("counters", "symbol_error"),
    ];
    let mut view = rdma_health_tests::view::rich(16, &counters);
    let end = view.node.time;
    let mut history = History::default();
    for minute in (0..1440_u64).rev().filter(|minute| minute % 5 == 0) {
        let mut node = view.node.clone();
        // Its uptime does not advance, which would look like a clock that is set again and again.
        node.live = false;
        let Fact::Known(hcas) = &mut node.hcas else {
            panic!()
        };
        for (n, hca) in (1..).zip(hcas.values_mut()) {
            let port = Arc::make_mut(hca).ports.get_mut(&1).unwrap();
            for counter in &mut port.counters {
                let passed = 1440 - minute;
                // Traffic that differs from one point to the next draws the most.
                counter.value = Fact::Known(n * passed * passed * (passed / 10 % 7 + 1) * 1_000_000);
            }
        }
        history.record(&node, end - minute * 60);
    }
    let current = [Current {
        rule: "port-down",
        subject: "mlx5_3:1".into(),
        severity: "warning",
        message: "mlx5_3 port 1 was `DOWN`",
    }];
    history.changes.see("warning", &current, end - 7200, |_| false);
    history.changes.see("critical", &[], end - 3600, |_| false);
    view.node.history = Some(Arc::new(history));
    view
}

#[test]
fn the_page_of_a_large_node_is_small_and_shows_its_past() {
    let page = rendered(&busy());
    assert!(page.len() < 100_000, "{} bytes", page.len());
    for part in [
        "<title>node-1: critical - rdma-health</title>",
        "since at least </span><time datetime=\"2026-09-21T13:",
        "class=spark role=img",
        "Traffic of the last day: peak ",
        "resolved</span>",
        "<a href=\"/explain/port-down\"><code>port-down</code></a> mlx5_3:1",
        "was <code>DOWN</code>",
        "<svg xmlns=",
        "NUMA node 1",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn names_from_outside_cannot_become_markup() {
    const EVIL: &str = "\"><script>alert(1)</script><svg onload='x'>&";
    let mut view = busy();
    let mut host = (*view.node.host).clone();
    host.hostname = Fact::Known(EVIL.into());
    host.kernel = Fact::Known(EVIL.into());
    view.node.host = Arc::new(host);
    let Fact::Known(hcas) = &mut view.node.hcas else {
        panic!()
    };
    let mut hca = (**hcas.get("mlx5_0").unwrap()).clone();
    hca.name = EVIL.into();
    hca.firmware = Fact::Known(EVIL.into());
    let port = hca.ports.get_mut(&1).unwrap();
    if let Fact::Known(netdev) = &mut port.netdev {
        netdev.name = EVIL.into();
    }
    if let Fact::Known(state) = &mut port.state {
        state.name = EVIL.into();
        state.code = 1;
    }
    hcas.insert(EVIL.into(), Arc::new(hca));
    let mut history = History::clone(view.node.history.as_ref().unwrap());
    for event in &mut history.changes.events {
        (event.rule, event.subject, event.severity, event.message) =
            (EVIL.into(), EVIL.into(), EVIL.into(), format!("`{EVIL}"));
    }
    view.node.history = Some(Arc::new(history));
    view.verdict = Arc::new(rdma_health_rules::judge(
        &view.node,
        &rdma_health_rules::Expectations::default(),
    ));
    let page = rendered(&view);
    assert!(
        page.contains("&lt;script&gt;") && !page.contains("<script"),
        "{page}"
    );
    assert!(!page.contains("<svg onload"), "{page}");
}

#[test]
fn a_port_that_is_down_without_a_finding_is_not_red() {
    let mut view = rdma_health_tests::view::rich(2, &[]);
    Arc::make_mut(&mut view.verdict).findings.clear();
    view.diagnosis = Arc::new(Diagnosis::default());
    let Fact::Known(hcas) = &mut view.node.hcas else {
        panic!()
    };
    let port = Arc::make_mut(hcas.get_mut("mlx5_0").unwrap())
        .ports
        .get_mut(&1)
        .unwrap();
    if let Fact::Known(state) = &mut port.state {
        (state.code, state.name) = (1, "DOWN".into());
    }
    view.node.probes.clear();
    let page = rendered(&view);
    assert!(page.contains("<span class=\"status \">DOWN</span>"), "{page}");
    assert!(
        page.contains("class=\"idle\"") && !page.contains("class=\"down\""),
        "{page}"
    );
}

#[test]
fn only_a_proven_client_is_offered_names_and_addresses() {
    let view = rdma_health_tests::view::rich(1, &[]);
    let page = |may_read_all| {
        let options = PageOptions {
            may_read_all,
            refresh: Some(30),
            ..PageOptions::default()
        };
        render(Some(&view), options)
    };
    assert!(page(true).contains(">Snapshot</a>") && page(true).contains("http-equiv=refresh content=30"));
    assert!(page(false).contains("Anonymised snapshot"));
    assert!(
        !rendered(&view).contains("http-equiv"),
        "it refreshes on request only"
    );
}

#[test]
fn every_rule_and_cause_has_a_page_with_its_remedy() {
    for rule in rdma_health_rules::CATALOGUE {
        let page = explanation(rule.id).unwrap();
        assert!(
            page.contains("<h2>What to do</h2>") && page.contains(rule.reason().as_str()),
            "{}",
            rule.id
        );
        assert_eq!(explanation(&rule.reason()), Some(page), "as in a condition");
    }
    for cause in rdma_health_diagnosis::CAUSES {
        assert!(
            explanation(cause.id).unwrap().contains("<h2>Next step</h2>"),
            "{}",
            cause.id
        );
    }
    let page = explanation("iommu-group-translated").unwrap();
    for place in ["OpenShift", "Kubernetes", "Host"] {
        assert!(page.contains(&format!("<h3>{place}</h3>")), "{place}: {page}");
    }
    assert_eq!(explanation("<script>"), None);
}
