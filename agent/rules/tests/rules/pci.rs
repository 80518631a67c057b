//! PCIe paths and links.

use rdma_health_rules::Profile;

use super::*;

const H100: &str = "h100-connectx7";
const NIC: &str = "0000:13:00.0";
const PORT_ABOVE_NIC: &str = "0000:12:00.0";

#[test]
fn redirection_between_a_gpu_and_its_nic_is_found_at_the_port_that_does_it() {
    let redirects = node(H100, |tree| configure(tree, PORT_ABOVE_NIC, 0x14e, &[0x1d, 0x00]));
    assert_eq!(
        of(&redirects, &auto(), "acs-redirect"),
        [format!("{PORT_ABOVE_NIC} warning")]
    );
    let finding = &findings(&redirects, &auto(), "acs-redirect")[0];
    assert_eq!(finding.evidence[0].value, "ACS control 0x001d");
    assert_eq!(of(&redirects, &profile(Profile::Rdma), "acs-redirect"), [""; 0]);
    // The root port above the switch is not on the way between them.
    let root = node(H100, |tree| configure(tree, "0000:10:01.0", 0x14e, &[0x1d, 0x00]));
    assert_eq!(of(&root, &auto(), "acs-redirect"), [""; 0]);
}

#[test]
fn a_virtual_machine_needs_redirection() {
    let redirects = node(H100, |tree| {
        configure(tree, PORT_ABOVE_NIC, 0x14e, &[0x1d, 0x00]);
        set(tree, "proc/cpuinfo", "flags\t: fpu hypervisor");
    });
    assert_eq!(of(&redirects, &auto(), "acs-redirect"), [""; 0]);
}

#[test]
fn a_gpu_whose_nics_are_all_on_the_other_side_is_found() {
    let lonely = node(H100, |tree| {
        for n in 0..4 {
            let name = format!("sys/class/infiniband/mlx5_{n}");
            assert!(tree.remove(&name));
        }
        // The functions are still there, but without RDMA devices.
        tree.remove("proc/1/net/route");
    });
    let gpus = ["0000:18:00.0", "0000:19:00.0", "0000:38:00.0", "0000:39:00.0"];
    let as_info = gpus.map(|gpu| format!("{gpu} info"));
    assert_eq!(of(&lonely, &auto(), "gpu-without-local-nic"), as_info);
    let as_warning = gpus.map(|gpu| format!("{gpu} warning"));
    assert_eq!(
        of(&lonely, &profile(Profile::GpuDirect), "gpu-without-local-nic"),
        as_warning
    );
}

#[test]
fn a_narrow_or_slow_link_is_compared_with_what_both_ends_can() {
    let narrow = node(H100, |tree| set(tree, &format!("{NIC}/current_link_width"), "8"));
    assert_eq!(of(&narrow, &auto(), "pci-link-degraded"), ["mlx5_0 warning"]);
    assert!(message(&narrow, &auto(), "pci-link-degraded").contains("8 instead of 16 lanes"));
    let slow = node(H100, |tree| {
        set(tree, &format!("{NIC}/current_link_speed"), "16.0 GT/s PCIe");
    });
    assert!(message(&slow, &auto(), "pci-link-degraded").contains("16 GT/s instead of 32 GT/s"));
    // A slot of the fourth generation: the card is at its best.
    let old_slot = node(H100, |tree| {
        set(tree, &format!("{NIC}/current_link_speed"), "16.0 GT/s PCIe");
        set(
            tree,
            &format!("{PORT_ABOVE_NIC}/max_link_speed"),
            "16.0 GT/s PCIe",
        );
    });
    assert_eq!(of(&old_slot, &auto(), "pci-link-degraded"), [""; 0]);
    // The switch's own link to the root port, which both the NICs and the GPUs below it share.
    let uplink = node(H100, |tree| set(tree, "0000:11:00.0/current_link_width", "8"));
    assert_eq!(
        of(&uplink, &auto(), "pci-link-degraded"),
        ["0000:11:00.0 warning"]
    );
    // An idle GPU lowers its speed, never its width.
    let gpu = node(H100, |tree| set(tree, "0000:18:00.0/current_link_width", "8"));
    assert_eq!(of(&gpu, &auto(), "pci-link-degraded"), ["0000:18:00.0 warning"]);
}

#[test]
fn errors_that_lost_data_are_found_and_those_of_the_bus_scan_are_not() {
    let nonfatal = |line: &str| {
        node(H100, |tree| {
            let text = format!("Undefined 0\nDLP 0\n{line}\nTOTAL_ERR_NONFATAL 2");
            set(tree, &format!("{NIC}/aer_dev_nonfatal"), &text);
        })
    };
    assert_eq!(
        of(&nonfatal("TLP 2"), &auto(), "pci-aer-errors"),
        ["mlx5_0 warning"]
    );
    assert!(message(&nonfatal("TLP 2"), &auto(), "pci-aer-errors").contains("2 non-fatal"));
    assert_eq!(
        of(&nonfatal("UnsupReq 2"), &auto(), "pci-aer-errors"),
        ["mlx5_0 info"]
    );
    let corrected = node(H100, |tree| {
        set(
            tree,
            &format!("{NIC}/aer_dev_correctable"),
            "RxErr 7\nTOTAL_ERR_COR 7",
        );
    });
    assert_eq!(
        of(&corrected, &auto(), "pci-aer-errors"),
        [""; 0],
        "their rate is unknown"
    );
}

#[test]
fn a_small_read_request_is_judged_by_the_ports_rate() {
    let control = |size_code: u8| node(H100, |tree| configure(tree, NIC, 0x69, &[size_code << 4]));
    assert_eq!(
        of(&control(1), &auto(), "pci-max-read-request"),
        ["mlx5_0 warning"],
        "256 bytes"
    );
    assert_eq!(
        of(&control(2), &auto(), "pci-max-read-request"),
        ["mlx5_0 info"],
        "512 bytes"
    );
    assert_eq!(
        of(&control(5), &auto(), "pci-max-read-request"),
        [""; 0],
        "4096 bytes"
    );
    let virtual_functions = node("connectx6-vfs", |_| {});
    assert_eq!(of(&virtual_functions, &auto(), "pci-max-read-request"), [""; 0]);
}

#[test]
fn a_gpu_bound_to_vfio_is_not_judged() {
    let node = node("connectx7-gpu", |tree| {
        let links: Vec<_> = tree
            .entries()
            .filter(|(_, entry)| matches!(entry, Entry::Link { target, .. } if target.ends_with("drivers/nvidia")))
            .map(|(path, _)| path.to_owned())
            .collect();
        assert!(!links.is_empty());
        for path in links {
            let Some(Entry::Link { target, .. }) = tree.get(&path).cloned() else {
                panic!("no link {path}")
            };
            assert!(tree.remove(&path));
            let target = target.replace("drivers/nvidia", "drivers/vfio-pci");
            tree.insert(&path, Entry::Link { target }).unwrap();
        }
        // Translated, as a virtual machine needs it; the adapter is not.
        for adapter in ["7", "8"] {
            tree.write(&format!("sys/kernel/iommu_groups/{adapter}/type"), "identity\n")
                .unwrap();
        }
        tree.write("sys/kernel/iommu_groups/9/type", "DMA-FQ\n").unwrap();
    });
    for rule in [
        "iommu-group-translated",
        "acs-redirect",
        "gpu-without-local-nic",
        "peer-memory-missing",
    ] {
        let found = of(&node, &profile(Profile::GpuDirect), rule);
        assert_eq!(found, [""; 0], "{rule}");
    }
}

#[test]
fn many_corrected_errors_are_judged_by_their_rate_since_the_boot_and_by_equals() {
    const TEN_DAYS: u64 = 864_000;
    let counted = |total: u64, uptime: u64| {
        let node = node(H100, |tree| {
            let text = format!("RxErr 0\nBadTLP {total}\nTOTAL_ERR_COR {total}");
            set(tree, &format!("{NIC}/aer_dev_correctable"), &text);
            tree.write("proc/uptime", format!("{uptime}.00 1.00\n")).unwrap();
        });
        of(&node, &auto(), "pci-aer-errors")
    };
    assert_eq!(counted(520_279, TEN_DAYS), ["mlx5_0 warning"]);
    assert_eq!(counted(20_000, TEN_DAYS), [""; 0], "83 an hour");
    assert_eq!(counted(9_000, 3600), [""; 0], "few in all");
}

#[test]
fn a_device_that_sends_larger_packets_than_its_port_accepts_is_found() {
    // Bits 7:5 of Device Control: 2 is 512 bytes, 0 is 128.
    let sizes = |nic: u8, port: u8| {
        node(H100, |tree| {
            configure(tree, NIC, 0x68, &[nic << 5]);
            configure(tree, PORT_ABOVE_NIC, 0x68, &[port << 5]);
        })
    };
    let mismatch = sizes(2, 0);
    assert_eq!(of(&mismatch, &auto(), "pci-payload-mismatch"), ["mlx5_0 warning"]);
    let message = message(&mismatch, &auto(), "pci-payload-mismatch");
    assert!(
        message.contains("up to 512 bytes") && message.contains("accepts 128"),
        "{message}"
    );
    assert_eq!(of(&sizes(0, 2), &auto(), "pci-payload-mismatch"), [""; 0]);
}

#[test]
fn a_gpu_with_a_small_range_for_its_memory_is_found() {
    let ranges = |last: &str| {
        node(H100, |tree| {
            let path = tree.path("/0000:18:00.0/vendor").replace("/vendor", "/resource");
            let text = format!(
                "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n0x0000380000000000 {last} 0x000000000014220c\n"
            );
            tree.write(&path, text).unwrap();
        })
    };
    let small = ranges("0x000038000fffffff");
    assert_eq!(
        of(&small, &auto(), "gpu-aperture-small"),
        ["0000:18:00.0 warning"]
    );
    assert!(message(&small, &auto(), "gpu-aperture-small").contains("256 MiB"));
    assert_eq!(
        of(&ranges("0x0000381fffffffff"), &auto(), "gpu-aperture-small"),
        [""; 0]
    );
}

#[test]
fn a_graphics_card_of_amd_for_computing_is_a_gpu_and_is_compared_with_an_equal_one() {
    const SMALL: &str = "0x0000380000000000 0x000038000fffffff 0x000000000014220c\n";
    const LARGE: &str = "0x0000380000000000 0x00003807ffffffff 0x000000000014220c\n";
    let cards = |device: &str, first: &str| {
        node("h100-connectx7", |tree| {
            let gpus: Vec<_> = tree
                .entries()
                .filter(|(_, entry)| matches!(entry, Entry::Link { target, .. } if target.ends_with("drivers/nvidia")))
                .map(|(path, _)| path.strip_suffix("/driver").unwrap().to_owned())
                .collect();
            for (number, gpu) in gpus.iter().enumerate() {
                let text = if number == 0 { first } else { LARGE };
                tree.write(&format!("{gpu}/vendor"), "0x1002\n").unwrap();
                tree.write(&format!("{gpu}/device"), format!("{device}\n"))
                    .unwrap();
                tree.write(&format!("{gpu}/class"), "0x030000\n").unwrap();
                tree.write(&format!("{gpu}/resource"), text).unwrap();
                if number == 0 {
                    assert!(tree.remove(&format!("{gpu}/driver")));
                }
            }
        })
    };
    let professional = cards("0x7551", SMALL);
    assert_eq!(
        of(&professional, &auto(), "gpu-aperture-small"),
        ["0000:18:00.0 warning"]
    );
    let found = &findings(&professional, &auto(), "gpu-aperture-small")[0];
    assert!(
        found.message.contains("an equal GPU shows 32 GiB") && !found.remedy.contains("nvidia-smi"),
        "{} {}",
        found.message,
        found.remedy
    );
    let found = findings(&professional, &auto(), "gpu-without-driver");
    assert!(
        found[0].message.contains("7 of 8") && found[0].remedy.contains("amdgpu"),
        "{}",
        found[0].message
    );
    assert_eq!(
        of(&cards("0x7551", LARGE), &auto(), "gpu-aperture-small"),
        [""; 0]
    );
    // A card that only shows a picture.
    for rule in ["gpu-aperture-small", "gpu-without-driver"] {
        assert_eq!(of(&cards("0x68f9", SMALL), &auto(), rule), [""; 0], "{rule}");
    }
}
