//! A part of the fault bench: every tree, and the two machines that show the most. `make fault-bench` injects the rest.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use rdma_health_tests::fault_bench::{Outcome, Selection, field_cases, live, scenes::SCENES, table, trees};
use rdma_health_tests::virtual_node::built;

/// Every first guess is right, or wrong for a reason that the bench prints, and nothing else is called broken.
fn assert_passed(outcomes: &[Outcome]) {
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|outcome| !outcome.passed())
        .map(table::line)
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn scene(name: &str, only: &[&str]) -> Vec<Outcome> {
    let scene = SCENES.iter().find(|scene| scene.name == name).unwrap();
    let selection = Selection {
        only: only.iter().map(|word| (*word).to_owned()).collect(),
    };
    let program = built("rdma-health").unwrap();
    let mut outcomes = Vec::new();
    live::run(scene, program.parent().unwrap(), &selection, &mut |outcome| {
        outcomes.push(outcome);
    })
    .unwrap();
    outcomes
}

#[test]
fn every_fault_in_a_tree_is_named_and_no_healthy_tree_is_called_broken() {
    let program = built("rdma-health").unwrap();
    let mut outcomes = Vec::new();
    trees::run(&program, &Selection::default(), &mut |outcome| {
        outcomes.push(outcome);
    })
    .unwrap();
    assert!(
        outcomes.len() >= 55,
        "some trees were not asked about: {}",
        outcomes.len()
    );
    assert_passed(&outcomes);
}

/// Cases of public threads that get another answer than a reader of the thread would give. One that becomes right must leave the
/// list.
const FIELD_MISSES: [&str; 1] = ["perftest-efa-create-qp"];

#[test]
fn cases_of_public_threads_are_answered_and_no_sound_one_is_called_broken() {
    let program = built("rdma-health").unwrap();
    let (mut asked, mut failed) = (0, Vec::new());
    field_cases::run(&program, &Selection::default(), &mut |outcome| {
        asked += 1;
        if !outcome.passed() {
            failed.push(outcome);
        }
    })
    .unwrap();
    assert!(asked >= 150, "{asked}");
    let lines: Vec<_> = failed.iter().map(field_cases::FieldOutcome::line).collect();
    let mut names: Vec<_> = failed.iter().map(|outcome| outcome.case.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, FIELD_MISSES, "{}", lines.join("\n"));
}

#[test]
fn faults_of_links_addresses_and_limits_are_named_on_a_real_kernel() {
    let only = ["link-down", "gid", "mtu-lowered", "memlock-runtime", "idle-port"];
    let outcomes = scene("host", &only);
    assert!(outcomes.len() > only.len(), "{}", outcomes.len());
    assert_passed(&outcomes);
}

#[test]
fn redirection_between_real_ports_is_named_and_foreign_functions_are_not() {
    let outcomes = scene("bridges", &[]);
    assert!(outcomes.len() >= 5, "{}", outcomes.len());
    assert_passed(&outcomes);
}
