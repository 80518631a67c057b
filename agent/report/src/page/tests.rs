//! Tests of the page's content.

use super::*;

fn escaped(text: &str) -> String {
    let mut markup = Markup::default();
    markup.text(text);
    markup.into_string()
}

#[test]
fn the_page_starts_with_the_verdict_and_the_next_step_as_check_does() {
    let tree = rdma_health_tests::tree::fixture("connectx7-gpu").unwrap();
    let root = rdma_health_kernel::Root::open(tree.path()).unwrap();
    let mut collector = rdma_health_kernel::collector::Collector::new(root, Vec::new());
    let soon = std::time::Instant::now() + std::time::Duration::from_secs(5);
    collector.refresh(rdma_health_kernel::collector::Refresh::All, soon);
    let node = rdma_health_node::Node::new(collector.facts());
    let verdict = rdma_health_rules::judge(&node, &rdma_health_rules::Expectations::default());
    let diagnosis = diagnose(&node, &verdict.findings, None);
    let mut view = View {
        node,
        verdict: std::sync::Arc::new(verdict),
        diagnosis: std::sync::Arc::new(diagnosis.clone()),
        read_errors: Vec::new(),
        reader_threads: 1,
        revision: 0,
    };
    let page = render(Some(&view));
    let place = |words: &str| {
        page.find(&escaped(words))
            .unwrap_or_else(|| panic!("{words} is not in {page}"))
    };
    let mut expected = vec![
        page.find("critical</span>").unwrap(),
        place(&format!("top cause: {}", diagnosis.causes[0].title)),
        place(diagnosis.next_step.as_ref().unwrap()),
    ];
    expected.extend(diagnosis.causes.iter().map(|cause| place(cause.id)));
    expected.push(page.find("<h2>Ports").unwrap());
    assert!(expected.is_sorted(), "{expected:?}: {page}");
    for finding in &view.verdict.findings {
        place(&finding.message);
    }
    // A healthy node has neither causes nor findings.
    view.node.hcas = rdma_health_node::Fact::Absent;
    std::sync::Arc::make_mut(&mut view.verdict).findings.clear();
    let page = render(Some(&view));
    assert!(
        !page.contains("<h2>Causes") && !page.contains("Next step"),
        "{page}"
    );
}

#[test]
fn before_the_first_reading_the_page_is_a_message() {
    assert!(render(None).contains("has not been read yet"));
}

#[test]
fn the_page_shows_ports_and_probes() {
    let page = render(Some(&rdma_health_tests::view::rich(2, &[])));
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
