//! What is configured and not in use: arguments of the boot loader, modules, link types, partitions; and what limits programs.

use rdma_health_kernel::device_nodes::NodeMode;

use super::*;

const GPUS: &str = "connectx7-gpu-mended";
const MLX4: &str = "mlx4-dual-port";

/// The remedy of a GPU node that translates, with these files.
fn translated(files: &[(&str, &str)]) -> String {
    let node = node(GPUS, |tree| {
        tree.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n").unwrap();
        tree.write("proc/cmdline", "ro intel_iommu=on\n").unwrap();
        tree.write("etc/os-release", "ID=ubuntu\n").unwrap();
        for (path, text) in files {
            tree.write(path, text).unwrap();
        }
    });
    findings(&node, &auto(), "iommu-group-translated")
        .remove(0)
        .remedy
}

#[test]
fn an_argument_that_is_configured_is_not_to_be_written_again() {
    let grub = (
        "etc/default/grub",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"\n",
    );
    let old = ("boot/grub/grub.cfg", "\tlinux\t/vmlinuz ro intel_iommu=on\n");
    let new = (
        "boot/grub/grub.cfg",
        "\tlinux\t/vmlinuz ro intel_iommu=on iommu=pt\n",
    );
    let off = (
        "etc/default/grub.d/99-vm.cfg",
        "GRUB_CMDLINE_LINUX=\"iommu=nopt\"\n",
    );

    let forgotten = translated(&[grub, old]);
    assert!(
        forgotten.contains("iommu=pt is in /etc/default/grub already")
            && forgotten.contains("/boot/grub/grub.cfg does not have it"),
        "{forgotten}"
    );
    assert!(
        forgotten.contains("\nupdate-grub\n") && !forgotten.contains("echo"),
        "{forgotten}"
    );

    for files in [&[grub, new][..], &[new]] {
        let to_reboot = translated(files);
        assert!(
            to_reboot.starts_with("Reboot: iommu=pt is in /boot/grub/grub.cfg already"),
            "{to_reboot}"
        );
        assert!(
            to_reboot.ends_with("\nreboot") && !to_reboot.contains("update-grub"),
            "{to_reboot}"
        );
    }
    for files in [&[][..], &[old], &[grub, off]] {
        let to_write = translated(files);
        assert!(
            to_write.starts_with("Boot with iommu=pt"),
            "{files:?}: {to_write}"
        );
    }
}

#[test]
fn a_file_that_the_loader_does_not_read_is_written_again_by_each_distribution() {
    let bls = ("boot/loader/entries/a.conf", "options root=/dev/sda1 ro\n");
    let grub = ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"iommu=pt\"\n");
    let on_rhel = translated(&[grub, bls, ("etc/os-release", "ID=rhel\n")]);
    assert!(
        on_rhel.contains("grubby --update-kernel=ALL --args='iommu=pt'"),
        "{on_rhel}"
    );
    let on_suse = translated(&[grub, ("etc/os-release", "ID=sles\n")]);
    assert!(
        on_suse.contains("grub2-mkconfig -o /boot/grub2/grub.cfg"),
        "{on_suse}"
    );
    let of_kernel = translated(&[("etc/kernel/cmdline", "ro iommu=pt\n")]);
    assert!(of_kernel.contains("proxmox-boot-tool refresh"), "{of_kernel}");
}

/// An Ethernet adapter without an RDMA device, on a node with these files.
fn without_device(files: &[(&str, &str)]) -> Finding {
    let node = node("irdma-e810", |tree| {
        let devices: Vec<_> = tree
            .entries()
            .filter_map(|(path, _)| path.strip_suffix("/fw_ver")?.split_once("/infiniband/"))
            .map(|(_, name)| name.to_owned())
            .collect();
        for name in devices {
            take_device(tree, &name);
        }
        tree.write("proc/modules", "ice 1 0 - Live 0x0\n").unwrap();
        tree.write("proc/sys/kernel/osrelease", "6.8.0-41-generic\n")
            .unwrap();
        for (path, text) in files {
            tree.write(path, text).unwrap();
        }
    });
    findings(&node, &auto(), "rdma-modules-missing").remove(0)
}

#[test]
fn what_loads_modules_at_boot_shows_that_rdma_is_wanted() {
    let severity = |path, text| without_device(&[(path, text)]).severity.name();
    let list = "etc/modules-load.d/storage.conf";
    assert_eq!(without_device(&[]).severity.name(), "info");
    assert_eq!(severity(list, "# RDMA\nib_uverbs\nrdma_ucm\n"), "warning");
    assert_eq!(severity(list, "irdma\n"), "warning");
    assert_eq!(severity("etc/modules", "rdma-cm\n"), "warning");
    assert_eq!(severity(list, "bonding\nmlx5_ib\n"), "info", "of another adapter");
    assert_eq!(
        severity("usr/lib/modules-load.d/rdma.conf", "ib_uverbs\n"),
        "info",
        "of a package"
    );
    assert_eq!(
        severity("etc/rdma/modules/rdma.conf", "ib_uverbs\n"),
        "info",
        "rdma-core has it"
    );
    assert_eq!(
        severity("etc/infiniband/openib.conf", "ONBOOT=yes\n"),
        "info",
        "for other adapters"
    );
    let found = without_device(&[(list, "irdma\n")]);
    assert!(
        found
            .message
            .contains("/etc/modules-load.d/storage.conf loads irdma at boot"),
        "{}",
        found.message
    );
}

#[test]
fn a_module_that_the_kernel_does_not_have_is_to_be_installed_first() {
    let list = "lib/modules/6.8.0-41-generic/modules.dep";
    let missing = without_device(&[(list, "kernel/drivers/net/ethernet/intel/ice/ice.ko.zst:\n")]);
    assert!(
        missing.message.contains("the running kernel has no such module"),
        "{}",
        missing.message
    );
    assert!(
        missing
            .remedy
            .starts_with("Install irdma for the kernel that runs"),
        "{}",
        missing.remedy
    );
    let builtin = "lib/modules/6.8.0-41-generic/modules.builtin";
    for files in [
        &[(
            list,
            "kernel/drivers/infiniband/hw/irdma/irdma.ko.zst: kernel/ib_core.ko.zst\n",
        )][..],
        &[
            (list, "kernel/a.ko:\n"),
            (builtin, "kernel/drivers/infiniband/hw/irdma/irdma.ko\n"),
        ],
        &[("lib/modules/6.5.0/modules.dep", "kernel/a.ko:\n")],
    ] {
        let there = without_device(files);
        assert!(
            there.remedy.starts_with("Load irdma"),
            "{files:?}: {}",
            there.remedy
        );
    }
}

#[test]
fn the_link_type_of_a_connectx3_is_compared_with_its_configuration() {
    let with = |actual: &str, configured: &str| {
        let node = node(MLX4, |tree| {
            let function = "sys/devices/pci0000:00/0000:00:03.0/0000:04:00.0";
            tree.write(&format!("{function}/mlx4_port1"), "ib\n").unwrap();
            tree.write(&format!("{function}/mlx4_port2"), actual).unwrap();
            tree.write("etc/rdma/mlx4.conf", configured).unwrap();
        });
        of(&node, &auto(), "link-type-differs")
    };
    assert_eq!(with("eth\n", "0000:04:00.0 ib ib\n"), ["mlx4_0:2 warning"]);
    assert_eq!(with("auto (eth)\n", "0000:04:00.0 ib ib\n"), ["mlx4_0:2 warning"]);
    assert_eq!(
        with("eth\n", "0000:04:00.0 eth eth\n"),
        [""; 0],
        "port 1 is ACTIVE"
    );
    assert_eq!(with("eth\n", "0000:04:00.0 ib auto\n"), [""; 0]);
    assert_eq!(with("eth\n", "0000:05:00.0 ib ib\n"), [""; 0], "another adapter");
}

#[test]
fn a_table_of_mlx4_that_is_smaller_than_the_memory_is_found() {
    let with = |segments: &str, pages: &str| {
        let node = node(MLX4, |tree| {
            let parameters = "sys/module/mlx4_core/parameters";
            tree.write(&format!("{parameters}/log_num_mtt"), segments)
                .unwrap();
            tree.write(&format!("{parameters}/log_mtts_per_seg"), pages)
                .unwrap();
            tree.write("proc/meminfo", "MemTotal:       131072000 kB\n")
                .unwrap();
        });
        findings(&node, &auto(), "registration-limit")
    };
    let found = with("20\n", "3\n").remove(0);
    assert!(
        found.message.contains("mlx4_core can map 32 GiB") && found.remedy.contains("Raise log_num_mtt"),
        "{found:?}"
    );
    assert!(with("0\n", "3\n").is_empty(), "the driver sizes it itself");
    assert!(with("22\n", "3\n").is_empty(), "128 GiB are enough");
}

#[test]
fn a_limit_of_a_cgroup_is_found_where_it_was_reached() {
    let with = |file: &str, text: &str| {
        let node = node(GPUS, |tree| {
            let group = "sys/fs/cgroup/kubepods.slice";
            tree.write(
                &format!("{group}/rdma.max"),
                "mlx5_0 hca_handle=8 hca_object=max\nmlx5_9 hca_handle=0\n",
            )
            .unwrap();
            tree.write(&format!("{group}/rdma.{file}"), text).unwrap();
        });
        of(&node, &auto(), "registration-limit")
    };
    assert_eq!(with("events", "mlx5_0 hca_handle.max=2\n"), ["mlx5_0 warning"]);
    assert_eq!(
        with("current", "mlx5_0 hca_handle=8 hca_object=4000\n"),
        ["mlx5_0 warning"]
    );
    assert_eq!(with("current", "mlx5_0 hca_handle=7 hca_object=4000\n"), [""; 0]);
}

#[test]
fn a_network_device_of_a_partition_that_its_port_is_not_in_is_found() {
    let with = |key: &str, flags: &str| {
        let node = node(MLX4, |tree| {
            let devices = "sys/devices/pci0000:00/0000:00:03.0/0000:04:00.0/net";
            tree.write(&format!("{devices}/ib0/type"), "32\n").unwrap();
            let ports = "sys/devices/pci0000:00/0000:00:03.0/0000:04:00.0/infiniband/mlx4_0/ports";
            tree.write(&format!("{ports}/1/pkeys/0"), "0xffff\n").unwrap();
            for (file, text) in [
                ("type", "32"),
                ("parent", "ib0"),
                ("pkey", key),
                ("flags", flags),
                ("carrier", "0"),
            ] {
                tree.write(&format!("sys/class/net/storage/{file}"), format!("{text}\n"))
                    .unwrap();
            }
        });
        findings(&node, &auto(), "partition-key-missing")
    };
    let found = with("0x8001", "0x1003").remove(0);
    assert!(
        found
            .message
            .starts_with("storage is for partition key (P_Key) 0x8001, which mlx4_0:1"),
        "{found:?}"
    );
    assert!(found.remedy.contains("to partition 0x8001"), "{found:?}");
    assert!(with("0x7fff", "0x1003").is_empty(), "the port has it");
    assert!(with("0x8001", "0x1002").is_empty(), "it was not set up");
}

#[test]
fn a_device_node_that_only_root_can_open_is_found() {
    let with = |mode, group| {
        let mut node = node(GPUS, |_| {});
        Arc::make_mut(&mut node.modules).node_modes = Fact::Known(vec![NodeMode {
            path: "/dev/infiniband/uverbs0".to_owned(),
            device: Some("mlx5_0".to_owned()),
            mode,
            group,
        }]);
        of(&node, &auto(), "uverbs-node-missing")
    };
    assert_eq!(with(0o666, 0), [""; 0]);
    assert_eq!(with(0o600, 0), ["mlx5_0 warning"]);
    assert_eq!(with(0o660, 0), ["mlx5_0 warning"]);
    assert_eq!(with(0o660, 110), ["mlx5_0 info"], "a site may want that");
}

#[test]
fn nouveau_that_is_loaded_keeps_the_driver_of_nvidia_away() {
    let with = |modules: &str| {
        let node = node(GPUS, |tree| {
            let gpus: Vec<_> = tree
                .entries()
                .filter(|(path, entry)| {
                    let is_nvidia = matches!(entry, Entry::Link { target } if target.ends_with("/nvidia"));
                    path.ends_with("/driver") && is_nvidia
                })
                .map(|(path, _)| path.to_owned())
                .collect();
            for path in gpus {
                tree.remove(&path);
            }
            tree.write(
                "proc/modules",
                format!("ib_core 1 0 - Live 0x0\nib_uverbs 1 0 - Live 0x0\n{modules}"),
            )
            .unwrap();
        });
        findings(&node, &auto(), "gpu-without-driver").remove(0).remedy
    };
    assert!(with("nouveau 1 0 - Live 0x0\n").starts_with("Keep nouveau from being loaded"));
    assert!(!with("").contains("nouveau"));
}
