//! What names, numbers and lines that a user pastes stand for.

use rdma_health_diagnosis::{
    lookup::{Meaning, lookup},
    symptom::SymptomKind,
};
use rdma_health_protocol::{Errno, WcStatus};

#[test]
fn names_numbers_texts_and_lines_are_found() {
    let retry = Meaning::Symptom(SymptomKind::Completion(WcStatus::RetryExcErr));
    for text in [
        "IBV_WC_RETRY_EXC_ERR",
        "IBV_WC_RETRY_EXC_ERR(12)",
        "retry_exc_err",
        "status=12",
        "transport retry counter exceeded",
        "Transport Retry Counter Exceeded.",
    ] {
        assert_eq!(lookup(text).first(), Some(&retry), "{text}");
    }
    for text in [
        "ETIMEDOUT",
        "etimedout",
        "110",
        "-110",
        "errno 110",
        "Connection timed out",
    ] {
        assert!(lookup(text).contains(&Meaning::Errno(Errno::ETIMEDOUT)), "{text}");
    }
    for text in [
        "129",
        "0x81",
        "vendor err 129",
        "vendor_err=129",
        "vend 0x81",
        "syndrom 0x81",
    ] {
        let expected = Meaning::VendorError(0x81, WcStatus::RetryExcErr);
        assert!(lookup(text).contains(&expected), "{text}: {:?}", lookup(text));
    }
    let line = "h:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with error No such device errno 19";
    let found = lookup(line);
    let [Meaning::Line(symptom)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(symptom.kind, SymptomKind::ConnectNoDevice);
    for (text, expected) in [
        ("RNR retry counter exceeded", "IBV_WC_RNR_RETRY_EXC_ERR"),
        ("RDMA_CM_EVENT_UNREACHABLE", "peer-unreachable"),
        ("ADDR_ERROR", "address-unresolved"),
        ("IBV_EVENT_PORT_ERR", "port-error"),
        ("IBV_EVENT_DEVICE_FATAL", "device-fatal"),
        ("IBV_EVENT_QP_ACCESS_ERR", "queue-access-error"),
    ] {
        let found = lookup(text);
        let [Meaning::Symptom(kind)] = &found[..] else {
            panic!("{text}: {found:?}");
        };
        assert_eq!(kind.id(), expected, "{text}");
    }
    for (text, expected) in [
        ("RNR", "receiver not ready"),
        ("pfc", "pauses one priority"),
        ("FI_EAVAIL", "fi_cq_readerr"),
        ("UCS_ERR_ENDPOINT_TIMEOUT", "retries"),
        ("Xid 79", "fallen off the bus"),
        ("Xid: 95", "uncontained"),
        ("REJ reason 8", "invalid service id"),
        ("RDMA_CM_EVENT_REJECTED, reason 28", "rejected it"),
    ] {
        let found = lookup(text);
        let meaning = match found.first() {
            Some(Meaning::Term(term)) => term.meaning,
            Some(Meaning::Xid(_, Some(xid))) => xid.meaning,
            Some(Meaning::Rejection(_, meaning, _)) => meaning,
            other => panic!("{text}: {other:?}"),
        };
        assert!(meaning.contains(expected), "{text}: {meaning}");
    }
    assert_eq!(lookup("FI_ENOMEM"), [Meaning::Errno(Errno::ENOMEM)]);
    assert_eq!(lookup("Xid 9999"), [Meaning::Xid(9999, None)]);
    for harmless in [
        "IBV_EVENT_COMM_EST",
        "RDMA_CM_EVENT_ESTABLISHED",
        "mlx5_core 0000:14:00.0: mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684), err(-22)",
    ] {
        assert_eq!(lookup(harmless), [Meaning::Harmless(harmless.to_owned())]);
    }
    let xid = lookup("NVRM: Xid (PCI:0000:18:00): 79, pid=1, name=x, GPU has fallen off the bus.");
    assert!(
        matches!(&xid[..], [Meaning::Xid(79, Some(_)), Meaning::Line(_)]),
        "{xid:?}"
    );
    for text in ["weather", "", "4711", "step 100 loss 2.31"] {
        assert_eq!(lookup(text), [], "{text}");
    }
}

#[test]
fn a_number_of_a_library_and_an_event_with_its_error_are_found() {
    for (text, name) in [
        ("prov_errno: 4116", "FI_EFA_ERR_READ_POST"),
        ("4127", "FI_EFA_ERR_PEER_ABORTED"),
        ("rx_prio3_pause", "rx_prioN_pause"),
    ] {
        assert!(
            matches!(&lookup(text)[..], [Meaning::Term(term)] if term.name == name),
            "{text}: {:?}",
            lookup(text)
        );
    }
    for (text, kind) in [
        (
            "RDMA_CM_EVENT_UNREACHABLE, error -110",
            SymptomKind::PeerUnreachable,
        ),
        (
            "RDMA_CM_EVENT_ADDR_ERROR, error -19",
            SymptomKind::AddressUnresolved,
        ),
    ] {
        assert!(
            matches!(&lookup(text)[..], [Meaning::Line(symptom)] if symptom.kind == kind),
            "{text}: {:?}",
            lookup(text)
        );
    }
}

#[test]
fn rows_of_dumps_and_texts_of_efa_are_explained() {
    assert_eq!(
        lookup("00000000 00008813 10012abe 0dd0c1d3"),
        [
            Meaning::CqeSyndrome(0x13, WcStatus::RemAccessErr),
            Meaning::VendorError(0x88, WcStatus::RemAccessErr)
        ]
    );
    assert_eq!(lookup("00000000 00000000 00000000 00000000"), []);
    for text in [
        "Unresponsive receiver",
        "Unreachable remote (never received a response)",
    ] {
        assert_eq!(
            lookup(text),
            [Meaning::Symptom(SymptomKind::PeerUnreachable)],
            "{text}"
        );
    }
}

#[test]
fn that_a_line_looks_like_a_failure_comes_before_a_word_in_it() {
    let found = lookup("bnxt_re 0000:c1:00.0: Failed to allocate ctx");
    let is_failure = |meaning: &Meaning| matches!(meaning, Meaning::Line(symptom) if symptom.kind == SymptomKind::Unrecognised);
    assert!(found.first().is_some_and(is_failure), "{found:?}");
    assert!(
        found.iter().any(|meaning| matches!(meaning, Meaning::Term(_))),
        "{found:?}"
    );
}
