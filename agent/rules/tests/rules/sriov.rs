//! Virtual functions.

use rdma_health_rules::Profile;

use super::*;

const VFS: &str = "connectx6-vfs";

#[test]
fn fewer_virtual_functions_than_configured_or_expected_are_found() {
    let missing = node(VFS, |tree| {
        let link = path(tree, "/virtfn2");
        assert!(tree.remove(&link));
    });
    assert_eq!(of(&missing, &auto(), "vfs-missing"), ["mlx5_0 warning"]);
    let whole = node(VFS, |_| {});
    let expect = |vfs| Expectations {
        vfs: Some(vfs),
        ..auto()
    };
    assert_eq!(of(&whole, &expect(4), "vfs-missing"), [""; 0]);
    assert_eq!(of(&whole, &expect(8), "vfs-missing"), ["node critical"]);
    assert!(
        message(&whole, &expect(8), "vfs-missing")
            .contains("4 virtual functions of RDMA devices, expected are 8")
    );
    assert_eq!(
        of(&node("bnxt-re", |_| {}), &expect(8), "vfs-missing"),
        ["node critical"]
    );
}

#[test]
fn a_virtual_function_without_driver_is_found_unless_somebody_wants_it_so() {
    let unbound = |autoprobe: &str| {
        node(VFS, |tree| {
            let driver = path(tree, "/0000:41:00.4/driver");
            assert!(tree.remove(&driver) && tree.remove("sys/class/infiniband/mlx5_3"));
            set(tree, "/0000:41:00.0/sriov_drivers_autoprobe", autoprobe);
        })
    };
    assert_eq!(
        of(&unbound("1"), &auto(), "vf-without-driver"),
        ["mlx5_0 warning"]
    );
    assert!(message(&unbound("1"), &auto(), "vf-without-driver").contains("0000:41:00.4"));
    assert_eq!(of(&unbound("0"), &auto(), "vf-without-driver"), ["mlx5_0 info"]);
    assert_eq!(
        of(&unbound("1"), &profile(Profile::TcpOnly), "vf-without-driver"),
        [""; 0]
    );
}

#[test]
fn a_zero_guid_or_hardware_address_is_found() {
    let guid = node(VFS, |tree| set(tree, "/mlx5_2/node_guid", "0000:0000:0000:0000"));
    assert_eq!(of(&guid, &auto(), "vf-guid-zero"), ["mlx5_2 warning"]);
    assert_eq!(
        of(&guid, &auto(), "guid-invalid"),
        [""; 0],
        "one fault, one finding"
    );
    let mac = node(VFS, |tree| {
        set(tree, "/net/ens1f0v1/address", "00:00:00:00:00:00");
    });
    assert_eq!(of(&mac, &auto(), "vf-mac-zero"), ["mlx5_2:1 warning"]);
}

#[test]
fn what_the_physical_function_forbids_is_found() {
    let down = node(VFS, |tree| set(tree, "/sriov/1/link_state", "Down"));
    assert_eq!(of(&down, &auto(), "vf-trust"), ["mlx5_2 warning"]);
    let changed = |trust: &str| {
        node(VFS, |tree| {
            set(tree, "/net/ens1f0v0/address", "5a:12:00:00:00:77");
            set(tree, "/sriov/0/trust", trust);
        })
    };
    assert_eq!(of(&changed("OFF"), &auto(), "vf-trust"), ["mlx5_1 warning"]);
    assert_eq!(of(&changed("ON"), &auto(), "vf-trust"), [""; 0]);
}
