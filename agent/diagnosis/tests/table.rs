//! The table of causes is complete and consistent.

#![allow(missing_docs)]

use std::collections::BTreeSet;

use rdma_health_diagnosis::{CAUSES, symptom::SymptomKind};
use rdma_health_rules::{
    CATALOGUE,
    domain::{bounce, efa, gpu_aperture, measured, pci_payload, pci_stall, probe, reading},
};

#[test]
fn every_symptom_but_the_rarest_has_a_cause() {
    let explained: BTreeSet<_> = CAUSES
        .iter()
        .flat_map(|cause| cause.often.iter().chain(cause.sometimes))
        .copied()
        .collect();
    let not: Vec<_> = SymptomKind::all()
        .filter(|kind| !explained.contains(kind))
        .map(SymptomKind::id)
        .collect();
    // Statuses of features that NCCL does not use: datagram domains, memory windows, tag matching.
    let rare = [
        "IBV_WC_LOC_EEC_OP_ERR",
        "IBV_WC_BAD_RESP_ERR",
        "IBV_WC_LOC_RDD_VIOL_ERR",
        "IBV_WC_REM_INV_RD_REQ_ERR",
        "IBV_WC_REM_ABORT_ERR",
        "IBV_WC_INV_EECN_ERR",
        "IBV_WC_INV_EEC_STATE_ERR",
        "IBV_WC_TM_ERR",
        "IBV_WC_TM_RNDV_INCOMPLETE",
        // A line without a known meaning has no known cause.
        "unrecognised",
    ];
    assert_eq!(not, rare);
}

#[test]
fn every_rule_of_the_catalogue_belongs_to_a_cause_unless_listed() {
    let alone: Vec<_> = CATALOGUE
        .iter()
        .filter(|rule| !CAUSES.iter().any(|cause| cause.rules.contains(rule)))
        .map(|rule| rule.id)
        .collect();
    // Probes and counters show that something fails or waits, not why; unread facts may hide anything. Some settings show in no log of a job.
    let no_cause = [
        &pci_stall::PCI_STALLED,
        &pci_payload::PAYLOAD_MISMATCH,
        &gpu_aperture::APERTURE_SMALL,
        &bounce::BOUNCE_FULL,
        &efa::EFA_REMOTE_IMPAIRED,
        &probe::FAILED,
        &measured::BANDWIDTH_LOW,
        &measured::LATENCY_HIGH,
        &reading::FACTS_UNREADABLE,
    ]
    .map(|rule| rule.id);
    assert_eq!(alone, no_cause, "name the rule in the table of causes");
}

#[test]
fn a_case_of_a_rule_has_one_cause() {
    let mut seen = Vec::new();
    for cause in CAUSES {
        for case in cause.cases {
            assert!(
                !seen.contains(case),
                "{}: {case:?} also belongs to another cause",
                cause.id
            );
            seen.push(*case);
        }
    }
}

#[test]
fn causes_have_unique_ids_and_all_texts() {
    let ids: BTreeSet<_> = CAUSES.iter().map(|cause| cause.id).collect();
    assert_eq!(ids.len(), CAUSES.len());
    for cause in CAUSES {
        // `explain` accepts ids of rules, causes and symptoms in one argument.
        assert!(
            SymptomKind::named(cause.id).is_none() || cause.rules.iter().map(|rule| rule.id).eq([cause.id]),
            "{}",
            cause.id
        );
        for text in [cause.title, cause.explanation, cause.next_step] {
            assert!(!text.is_empty() && !text.contains("  "), "{}: {text}", cause.id);
        }
        assert!(
            cause.often.iter().all(|kind| !cause.sometimes.contains(kind)),
            "{}",
            cause.id
        );
    }
}
