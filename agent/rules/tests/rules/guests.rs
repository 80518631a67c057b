//! A virtual machine sees neither the ports above its devices nor the adapter itself: nothing is asked of it that only its host can do.

use super::*;

const H100: &str = "h100-connectx7";
const NIC: &str = "0000:13:00.0";
const PORT_ABOVE_NIC: &str = "0000:12:00.0";
/// Registers of the configuration space of the fixture: the control register of PCI Express, and that of ACS.
const DEVICE_CONTROL: usize = 0x68;
const ACS_CONTROL: usize = 0x14e;

/// What one rule finds on a machine and in a virtual machine with the same change.
fn on_both(rule: &str, change: impl Fn(&mut Tree)) -> [Vec<Finding>; 2] {
    ["fpu", "fpu hypervisor"].map(|flags| {
        let node = node(H100, |tree| {
            set(tree, "proc/cpuinfo", &format!("flags\t: {flags}"));
            change(tree);
        });
        findings(&node, &auto(), rule)
    })
}

fn severities(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| finding.severity.name()).collect()
}

#[test]
fn what_only_the_host_sees_or_sets_is_not_judged_in_a_guest() {
    let small_range = |tree: &mut Tree| {
        let path = tree.path("/0000:18:00.0/vendor").replace("/vendor", "/resource");
        let text = "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n\
            0x0000380000000000 0x000038000fffffff 0x000000000014220c\n";
        tree.write(&path, text).unwrap();
    };
    let read_request = |tree: &mut Tree| configure(tree, NIC, DEVICE_CONTROL + 1, &[1 << 4]);
    let redirection = |tree: &mut Tree| configure(tree, PORT_ABOVE_NIC, ACS_CONTROL, &[0x1d, 0x00]);
    for (rule, [host, guest]) in [
        ("gpu-aperture-small", on_both("gpu-aperture-small", small_range)),
        (
            "pci-max-read-request",
            on_both("pci-max-read-request", read_request),
        ),
        ("acs-redirect", on_both("acs-redirect", redirection)),
    ] {
        assert_eq!(
            (severities(&host), severities(&guest)),
            (vec!["warning"], vec![]),
            "{rule}"
        );
    }
}

/// Removes an adapter as if the host had never given it to the machine.
fn take_adapter(tree: &mut Tree, hca: &str) {
    let function = take_device(tree, hca).unwrap();
    let address = function.rsplit('/').next().unwrap().to_owned();
    let paths: Vec<String> = tree.entries().map(|(path, _)| path.to_owned()).collect();
    for path in paths {
        if path.contains(&format!("/{address}/")) || path.ends_with(&format!("/{address}")) {
            tree.remove(&path);
        }
    }
}

/// Without a PCIe switch, the number of GPUs shows that an adapter is missing.
#[test]
fn a_guest_with_one_adapter_less_than_gpus_is_reported() {
    let without = |missing: &'static [&str]| {
        move |tree: &mut Tree| {
            for hca in ["mlx5_bond_0"].iter().chain(missing) {
                take_adapter(tree, hca);
            }
        }
    };
    let [host, guest] = on_both("hcas-missing", without(&["mlx5_3"]));
    assert!(
        guest[0]
            .message
            .starts_with("8 GPUs have 7 equal adapters: one is missing"),
        "{guest:?}"
    );
    assert!(host.iter().all(|finding| !finding.message.contains("8 GPUs")));
    for complete in [&[][..], &["mlx5_2", "mlx5_3"]] {
        let [_, guest] = on_both("hcas-missing", without(complete));
        assert!(guest.is_empty(), "{complete:?} {guest:?}");
    }
}

#[test]
fn a_slow_link_of_a_guest_is_information_because_the_port_above_is_not_the_real_one() {
    let [host, guest] = on_both("pci-link-degraded", |tree| {
        set(tree, &format!("{NIC}/current_link_width"), "8");
    });
    assert_eq!(severities(&host), ["warning"]);
    assert_eq!(severities(&guest), ["info"]);
}

#[test]
fn a_failed_adapter_of_a_guest_is_the_providers() {
    let [host, guest] = on_both("adapter-failed", |tree| {
        let line =
            format!("3,1,86300000000,-;mlx5_core {NIC}: device's health compromised - reached miss count\n");
        tree.write("dev/kmsg", line).unwrap();
        tree.write("proc/uptime", "87000.00 1.00\n").unwrap();
    });
    assert_eq!(
        (severities(&host), severities(&guest)),
        (vec!["critical"], vec!["critical"])
    );
    assert!(host[0].remedy.contains("mlxfwreset"), "{}", host[0].remedy);
    let remedy = &guest[0].remedy;
    assert!(
        remedy.contains("Stop and start the instance") && !remedy.contains("mlxfwreset"),
        "{remedy}"
    );
}
