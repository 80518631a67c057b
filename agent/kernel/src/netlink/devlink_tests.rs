//! Names and bounds of health reporters and firmware.

use std::sync::Arc;

use super::*;
use crate::root::Root;

fn message(name: &str) -> ReporterMessage {
    ReporterMessage {
        bus_name: "pci".into(),
        dev_name: "0000:18:00.0".into(),
        port_index: None,
        health_reporter: ReporterNest {
            name: name.into(),
            state: 1,
            errors: 1,
            recoveries: 0,
            graceful_period: None,
            auto_recover: None,
            last_dump: Some(1_700_000_000_999_999_999),
        },
    }
}

fn read(names: &[String]) -> (Vec<Reporter>, Vec<String>) {
    let root = Root::replay(Arc::default(), true);
    let scope = Scope::new(&root);
    let functions = BTreeSet::from(["0000:18:00.0".to_owned()]);
    let messages = names.iter().map(|name| message(name)).collect();
    let mut devices = grouped(&scope, messages, &functions);
    let reporters = devices.remove("0000:18:00.0").unwrap().reporters;
    let misses = scope.finish().into_iter().map(|miss| miss.unread.to_string());
    (reporters, misses.collect())
}

#[test]
fn reporters_and_their_names_are_bounded_and_what_is_left_out_is_reported_once() {
    let (reporters, misses) = read(&["fw".into()]);
    assert_eq!(reporters[0].last_dump, Some(1_700_000_000));
    assert_eq!(misses, [""; 0]);
    let many: Vec<_> = (0..400).map(|n| format!("r{n}")).collect();
    let (reporters, misses) = read(&many);
    assert_eq!((reporters.len(), misses.len()), (64, 1));
    assert!(
        misses[0].contains("336 health reporters are left out"),
        "{misses:?}"
    );
    let (reporters, misses) = read(&[String::new(), "a\n\u{1b}[31m".into(), "x".repeat(3000)]);
    let names: Vec<_> = reporters
        .iter()
        .map(|reporter| reporter.name.chars().count())
        .collect();
    assert_eq!((names, misses.len()), (vec![5, 64], 1));
    assert_eq!(reporters[0].name, "a[31m");
}

#[test]
fn only_a_version_that_the_next_reset_changes_is_pending() {
    let versions = |list: &[(&str, &str)]| {
        list.iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    };
    let firmware = Firmware {
        running: versions(&[("fw", "28.39.1002"), ("fw.psid", "MT_0"), ("fw.mgmt", "1")]),
        stored: versions(&[("fw", "28.41.1000"), ("fw.psid", "MT_0"), ("fw.bundle_id", "7")]),
    };
    let pending: Vec<_> = firmware.pending().collect();
    assert_eq!(pending, [("fw", "28.39.1002", "28.41.1000")]);
    for none in ["", "N/A", "0.0.0", " 28.39.1002 "] {
        let firmware = Firmware {
            running: versions(&[("fw", "28.39.1002"), ("fw.psid", "MT_0")]),
            stored: versions(&[("fw", none), ("fw.psid", "MT_1")]),
        };
        assert_eq!(firmware.pending().count(), 0, "{none:?}");
    }
}

/// mlx5 has recovery for `fw_fatal`, and none for `fw`: the kernel's documents differ in these attributes.
#[test]
fn a_reporter_with_recovery_has_its_attributes() {
    let has_recovery = |graceful_period: Option<u64>, auto_recover: Option<u64>| {
        let mut message = message("fw");
        message.health_reporter.graceful_period = graceful_period;
        message.health_reporter.auto_recover = auto_recover;
        let root = Root::replay(Arc::default(), true);
        let functions = BTreeSet::from(["0000:18:00.0".to_owned()]);
        grouped(&Scope::new(&root), vec![message], &functions)["0000:18:00.0"].reporters[0].has_recovery
    };
    assert!(
        has_recovery(Some(0), Some(0)) && has_recovery(None, Some(1)) && has_recovery(Some(60_000), None)
    );
    assert!(!has_recovery(None, None));
}
