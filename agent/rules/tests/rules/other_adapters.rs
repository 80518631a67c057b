//! Adapters without what rules expect of most: the ports of Gaudi, and Slingshot, which has no RDMA device.

use super::{adapter_events::logged, *};

#[test]
fn the_ports_of_gaudi_need_no_gid_of_roce_v2() {
    let with = |driver: &str| {
        let mut node = node("h100-connectx7", |_| {});
        with_hca(&mut node, "mlx5_6", |hca| {
            hca.driver = Fact::Known(driver.to_owned());
        });
        with_port(&mut node, "mlx5_6", |port| {
            if let Fact::Known(gids) = &mut port.gids {
                gids.retain(|gid| !gid.is_ipv4_mapped());
            }
        });
        of(&node, &auto(), "gid-missing")
    };
    assert_eq!(with("mlx5_core"), ["mlx5_6:1 warning"]);
    assert_eq!(with("habanalabs"), [""; 0]);
}

#[test]
fn a_node_with_gaudi_only_needs_no_rdma_cm() {
    let with = |driver: &str| {
        let mut node = node("infiniband-ndr", |tree| {
            let Some(Entry::File { content, .. }) = tree.get("proc/modules") else {
                panic!("no list of modules")
            };
            let text = String::from_utf8(content.clone()).unwrap();
            let kept: String = text
                .split_inclusive('\n')
                .filter(|line| !line.starts_with("rdma_ucm "))
                .collect();
            tree.write("proc/modules", kept).unwrap();
            tree.remove("sys/class/misc/rdma_cm");
        });
        let names: Vec<String> = node.hcas().map(|hca| hca.name.clone()).collect();
        for name in names {
            with_hca(&mut node, &name, |hca| {
                hca.driver = Fact::Known(driver.to_owned());
            });
        }
        let found = findings(&node, &auto(), "rdma-modules-missing");
        found
            .iter()
            .any(|finding| finding.message.starts_with("rdma_ucm is not loaded"))
    };
    assert!(with("mlx5_core"));
    assert!(!with("habanalabs") && !with("habanalabs_ib"));
}

#[test]
fn a_link_of_slingshot_that_went_down_is_a_warning_until_it_is_up_again() {
    let down = "cxi_ss1 0000:c1:00.0: cxi0[hsn0]: CXI_EVENT_LINK_DOWN";
    let up = "cxi_ss1 0000:c1:00.0: cxi0[hsn0]: CXI_EVENT_LINK_UP";
    let found = findings(&logged(&[(90_000, down)]), &auto(), "port-down");
    assert_eq!(found.len(), 1, "{found:?}");
    let finding = &found[0];
    assert_eq!(finding.severity.name(), "warning");
    assert!(
        finding
            .message
            .contains("the link went down and has not come up since"),
        "{}",
        finding.message
    );
    assert!(finding.remedy.contains("fmn-show-status") && finding.remedy.contains("cxi_stat"));
    let again = logged(&[(90_000, down), (90_100, up)]);
    assert_eq!(of(&again, &auto(), "port-down"), [""; 0]);
}
