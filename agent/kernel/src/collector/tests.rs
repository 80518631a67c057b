//! Tests with a stuck job, whose thread waits for the test.

use std::{sync::mpsc, time::Duration};

use rdma_health_tests::tree;

use super::*;
use crate::{
    fact::Errno,
    recording::{Answer, Failure, Question, Recording},
};

const PATIENCE: Duration = Duration::from_secs(4);

/// Starts a job for `source` that runs until the sender is dropped.
fn stick(
    collector: &mut Collector,
    source: &str,
    part: impl FnOnce(&Scope<'_>) -> Part + Send + 'static,
) -> mpsc::Sender<()> {
    let (release, stuck) = mpsc::channel();
    collector.start(&mut BTreeSet::new(), source, move |scope| {
        let _ = stuck.recv();
        part(scope)
    });
    collector.pool.start();
    release
}

/// Waits until the job has ended.
fn join(collector: &mut Collector, source: &str) {
    let end = Instant::now() + PATIENCE;
    while collector.slots[source].started.is_some() && Instant::now() < end {
        collector.pool.wait(end);
        for outcome in collector.pool.outcomes() {
            collector.accept(outcome);
        }
    }
}

#[test]
fn a_source_that_hangs_does_not_affect_others() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    let host = LastRead::SOURCES.iter().find(|row| row.name == "host").unwrap();
    let release = stick(&mut collector, host.name, |scope| {
        Part::Facts((host.read)(scope, &Known::default()))
    });
    for _ in 0..2 {
        collector.refresh(Refresh::All, Instant::now() + PATIENCE);
        let node = collector.facts();
        let stale = node.sources.iter().filter(|(_, status)| status.stale);
        assert_eq!(stale.map(|(name, _)| &**name).collect::<Vec<_>>(), ["host"]);
        assert!(node.pci.functions.known().is_some());
        assert_eq!(node.host.kernel.unread().unwrap().kind, UnreadKind::Hung);
    }
    drop(release);
    join(&mut collector, "host");
    assert!(collector.facts().host.kernel.known().is_some());
}

#[test]
fn what_is_unread_of_a_device_stays_so_until_it_is_read_again() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let firmware = tree.path().join("sys/class/infiniband/mlx5_0/fw_ver");
    std::fs::write(firmware, b"\xff\xfe\n").unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    let unread = |collector: &Collector| {
        let facts = collector.facts();
        let unread = &facts.sources["infiniband/mlx5_0"].unread;
        unread
            .iter()
            .map(|unread| unread.source.clone())
            .collect::<Vec<_>>()
    };
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    let first = unread(&collector);
    assert!(first.iter().any(|source| source.ends_with("fw_ver")), "{first:?}");
    for what in [Refresh::Ports, Refresh::Ports, Refresh::All, Refresh::Ports] {
        collector.refresh(what, Instant::now() + PATIENCE);
        assert_eq!(unread(&collector), first, "{what:?}");
    }
}

#[test]
fn an_excluded_device_is_not_read_again_when_its_last_reading_ends() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    let release = stick(&mut collector, "infiniband/mlx5_0", |scope| {
        let mut reader = Box::new(HcaReader::new(scope, "mlx5_0"));
        let hca = reader.read(scope);
        Part::Hca(reader, hca)
    });
    collector.exclude(vec!["mlx5_0".into()]);
    drop(release);
    join(&mut collector, "infiniband/mlx5_0");
    assert!(collector.readers.is_empty());
    collector.refresh(Refresh::Ports, Instant::now() + PATIENCE);
    let node = collector.facts();
    assert!(!node.sources.contains_key("infiniband/mlx5_0"));
    assert!(node.hcas().all(|hca| hca.name != "mlx5_0"));
}

#[test]
fn a_counter_that_was_cut_off_once_is_read_again() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let path = tree
        .path()
        .join("sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence");
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    let mut read = |content: &str| {
        std::fs::write(&path, content).unwrap();
        collector.refresh(Refresh::All, Instant::now() + PATIENCE);
        let node = collector.facts();
        let hca = &node.hcas.known().unwrap()["mlx5_0"];
        let mut counters = hca.ports[&1].hw_counters.iter();
        let counter = counters.find(|counter| &*counter.name == "out_of_sequence");
        counter.unwrap().value.known().copied()
    };
    assert_eq!(read("17\n"), Some(17));
    assert_eq!(read(""), None);
    assert_eq!(read("1x"), None);
    assert_eq!(read("18\n"), Some(18));
}

#[test]
fn a_machine_without_sysfs_does_not_show_its_devices() {
    let names = |missing: &[&str]| {
        let mut recording = Recording::default();
        for directory in missing {
            let answer = Answer::Failed(Failure::Errno(Errno::NOENT));
            recording.insert(Question::List((*directory).to_owned()), answer);
        }
        let mut collector = Collector::new(Root::replay(Arc::new(recording), true), Vec::new());
        collector.refresh(Refresh::All, Instant::now() + PATIENCE);
        collector.facts().hcas
    };
    let all = ["/sys/class/infiniband", "/sys/class", "/sys/bus", "/sys/kernel"];
    let hcas = names(&all);
    let unread = hcas.unread().unwrap();
    assert!(unread.detail.contains("no sysfs is mounted here"), "{unread}");
    assert!(names(&all[..1]).is_absent(), "no RDMA device");
}
