//! What a user has set is read as the library reads it.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use super::super::{Settings, rdma, tcp};
use super::*;
use crate::testing::{CURRENT, given, read, set};

fn with(variable: (&str, &str)) -> Settings {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    rdma(&node, &rails, &access, CURRENT, &set(&[variable]))
}

fn with_tcp(variable: (&str, &str)) -> String {
    let (node, access) = read("h100-connectx7");
    tcp(&node, &access, "TCP was requested", &set(&[variable]))
        .remarks
        .join("\n")
}

#[test]
fn a_pinned_index_that_is_right_now_is_no_fault_but_noted() {
    for right in ["3", "3abc", "0x3", "03"] {
        let settings = with(("NCCL_IB_GID_INDEX", right));
        assert_eq!(settings.remarks, Vec::<String>::new(), "{right}");
        let noted = |note: &String| note.contains("NCCL_IB_GID_INDEX=3 is right for every port now");
        assert!(settings.notes.iter().any(noted), "{right}: {:?}", settings.notes);
    }
    assert!(
        !with(("NCCL_IB_GID_INDEX", "-1"))
            .notes
            .iter()
            .any(|note| note.contains("GID_INDEX"))
    );
    let remarks = with(("NCCL_IB_GID_INDEX", "99999999999999999999")).remarks;
    assert!(
        remarks[0].contains("out of range: NCCL ignores it"),
        "{remarks:?}"
    );
}

/// NCCL compares an empty name with the names of its networks all the same.
#[test]
fn an_empty_name_of_a_network_stops_nccl() {
    const WHY: &str =
        "NCCL_NET is set but empty: no network of NCCL has this name, so NCCL does not start; unset it";
    assert_eq!(with(("NCCL_NET", "")).remarks, [WHY]);
    assert_eq!(with_tcp(("NCCL_NET", "")), WHY);
}

#[test]
fn a_plugin_that_can_use_rdma_disagrees_with_tcp() {
    let remarks = with_tcp(("NCCL_NET", "gIB"));
    assert!(
        remarks.contains("NCCL_NET is already set to 'gIB' and is kept"),
        "{remarks}"
    );
    assert!(remarks.contains("set it to Socket"), "{remarks}");
    assert_eq!(with_tcp(("NCCL_NET", "Socket")), "");
    assert_eq!(with(("NCCL_NET", "gIB")).remarks, Vec::<String>::new());
}

/// `device::rail` names the rail of any port.
#[test]
fn an_item_without_a_port_matches_every_port() {
    for list in ["=mlx5_1::1", "=mlx5_1:", "mlx5_1::", "=mlx5_1"] {
        assert_eq!(
            with(("NCCL_IB_HCA", list)).remarks,
            Vec::<String>::new(),
            "{list}"
        );
    }
    let remarks = with(("NCCL_IB_HCA", "=mlx5_1:x")).remarks.join("\n");
    assert!(remarks.contains("matches no active port"), "{remarks}");
}
