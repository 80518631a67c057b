//! What to do on each distribution: one block with the commands that exist there.

use super::*;

/// What to do about the finding of a rule on a node with this os-release(5).
fn remedy(fixture: &str, rule: &str, id: &str, change: impl FnOnce(&mut Tree)) -> String {
    let node = node(fixture, |tree| {
        tree.write("etc/os-release", format!("NAME=x\n{id}\n")).unwrap();
        change(tree);
    });
    findings(&node, &auto(), rule).remove(0).remedy
}

/// The only commands of each distribution that change kernel arguments, load modules, set sysctls and raise the memlock limit.
const COMMANDS: [(&str, [&str; 4]); 9] = [
    (
        "ID=ubuntu",
        [
            "update-grub",
            "modprobe -a ",
            "sysctl -p ",
            "LimitMEMLOCK=infinity",
        ],
    ),
    (
        "ID=rocky",
        [
            "grubby --update-kernel=ALL --args='iommu=pt'",
            "modprobe -a ",
            "sysctl -p ",
            "LimitMEMLOCK=infinity",
        ],
    ),
    (
        "ID=amzn",
        [
            "grubby --update-kernel=ALL",
            "modprobe -a ",
            "sysctl -p ",
            "LimitMEMLOCK=infinity",
        ],
    ),
    (
        "ID=fedora\nVARIANT_ID=coreos",
        [
            "rpm-ostree kargs --append-if-missing='iommu=pt'",
            "modprobe -a ",
            "sysctl -p ",
            "LimitMEMLOCK=infinity",
        ],
    ),
    (
        "ID=sles",
        [
            "grub2-mkconfig -o /boot/grub2/grub.cfg",
            "modprobe -a ",
            "sysctl -p ",
            "LimitMEMLOCK=infinity",
        ],
    ),
    (
        "ID=sl-micro",
        [
            "transactional-update grub.cfg",
            "modprobe -a ",
            "sysctl -p ",
            "LimitMEMLOCK=infinity",
        ],
    ),
    (
        "ID=flatcar",
        [
            "linux_append iommu=pt\"' >> /usr/share/oem/grub.cfg",
            "modprobe -a ",
            "sysctl -p ",
            "LimitMEMLOCK=infinity",
        ],
    ),
    (
        "ID=talos",
        [
            "{\"machine\":{\"install\":{\"extraKernelArgs\":[\"iommu=pt\"]}}}",
            "{\"machine\":{\"kernel\":{\"modules\":[{\"name\":\"rdma_ucm\"}]}}}",
            "{\"machine\":{\"sysctls\":{\"net.ipv4.conf.all.arp_ignore\":\"1\"",
            "baseRuntimeSpecOverrides",
        ],
    ),
    (
        "ID=bottlerocket",
        [
            "[settings.boot.kernel-parameters]\n\"iommu\" = [\"pt\"]",
            "apiclient set settings.kernel.modules.rdma_ucm.allowed=true",
            "[settings.kernel.sysctl]",
            "[settings.oci-defaults.resource-limits.max-locked-memory]",
        ],
    ),
];

#[test]
fn each_distribution_gets_the_commands_that_exist_there() {
    let one_subnet = |tree: &mut Tree| {
        let row = |netdev: &str| format!("{netdev}\t0000040A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n");
        let table = format!("Iface\tDestination\n{}{}", row("ens3f0"), row("ens3f1"));
        tree.write("proc/1/net/route", table).unwrap();
        kubelet(tree);
    };
    let without_ucm = |tree: &mut Tree| {
        without_module(tree, "rdma_ucm");
        tree.remove("sys/class/misc/rdma_cm");
    };
    for (id, [argument, module, sysctl, memlock]) in COMMANDS {
        for (fixture, rule, expected, change) in [
            (
                "connectx7-gpu",
                "iommu-group-translated",
                argument,
                &(|_: &mut Tree| {}) as &dyn Fn(&mut Tree),
            ),
            ("connectx7-gpu", "rdma-modules-missing", module, &without_ucm),
            ("irdma-e810", "same-subnet-arp", sysctl, &one_subnet),
            ("connectx7-gpu", "memlock-low", memlock, &|_| {}),
        ] {
            let text = remedy(fixture, rule, id, change);
            assert!(text.contains(expected), "{id}, {rule}: {text}");
            // No shell, no files that survive a reboot.
            if matches!(id, "ID=talos" | "ID=bottlerocket") {
                for command in ["modprobe", "systemctl", "/etc/", "grub"] {
                    assert!(
                        !text.lines().skip(1).any(|line| line.contains(command)),
                        "{id}, {rule}: {text}"
                    );
                }
            }
        }
    }
}

/// A kubelet that runs as a service of the host.
fn kubelet(tree: &mut Tree) {
    let status = "Name:\tkubelet\nState:\tS (sleeping)\nUid:\t0\t0\t0\t0\nNSpid:\t900\n";
    for (file, content) in [
        ("comm", "kubelet\n"),
        ("status", status),
        ("cgroup", "0::/system.slice/kubelet.service\n"),
        (
            "limits",
            &include_str!("../limits.txt").replace("SOFT", "unlimited"),
        ),
    ] {
        tree.write(&format!("proc/900/{file}"), content).unwrap();
    }
}

#[test]
fn a_node_of_openshift_gets_a_machine_config() {
    let text = remedy("connectx7-gpu", "iommu-group-translated", "ID=rhcos", |_| {});
    assert!(
        text.contains("oc apply -f -") && !text.contains("rpm-ostree"),
        "{text}"
    );
}

#[test]
fn a_system_that_is_not_an_image_is_not_one_of_openshift() {
    let missing = |system: &str| {
        let node = node("infiniband-ndr", |tree| {
            assert!(take_device(tree, "mlx5_0").is_some() && take_device(tree, "mlx5_1").is_some());
            tree.write("etc/os-release", format!("{system}\n")).unwrap();
            tree.write("proc/modules", "mlx5_core 1 0 - Live 0x0\n").unwrap();
        });
        findings(&node, &auto(), "rdma-modules-missing").remove(0).remedy
    };
    for system in ["ID=rocky", "ID=centos", "ID=alinux", "ID=rhel", "ID=ubuntu"] {
        let text = missing(system);
        assert!(
            !text.contains("MachineConfig") && text.contains("modprobe"),
            "{system}: {text}"
        );
    }
    let text = missing("ID=rhcos");
    assert!(text.contains("MachineConfig"), "{text}");
}

#[test]
fn the_description_of_the_distribution_counts_before_the_kernel() {
    // A kernel of RHEL on another distribution.
    let text = remedy("connectx7-gpu", "iommu-group-translated", "ID=flatcar", |_| {});
    assert!(!text.contains("grubby"), "{text}");
    // A distribution that is not known.
    let text = remedy("connectx7-gpu", "iommu-group-translated", "ID=weather", |_| {});
    assert!(text.contains("grubby"), "{text}");
}

#[test]
fn a_gpu_driver_without_nvidia_peermem_gets_a_remedy_that_exists_for_it() {
    let with = |version: &str| {
        let node = node("h100-connectx7", |tree| {
            tree.write(
                "proc/modules",
                "nvidia 1 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\nmlx_compat 1 0 - Live 0x0\n",
            )
            .unwrap();
            tree.write(
                "proc/driver/nvidia/version",
                format!("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Fri May 31 09:35:42 UTC 2024\n"),
            )
            .unwrap();
        });
        findings(&node, &auto(), "peer-memory-missing").remove(0).remedy
    };
    let old = with("450.51.06");
    assert!(
        old.contains("modprobe nv_peer_mem")
            && !old.contains("modprobe nvidia_peermem")
            && !old.contains("5.12"),
        "{old}"
    );
    assert!(!with("535.104.05").contains("nv_peer_mem"));
}

#[test]
fn remedies_do_not_overwrite_the_files_of_others() {
    let translated = remedy("connectx7-gpu", "iommu-group-translated", "ID=ubuntu", |_| {});
    assert!(
        translated.contains("> /etc/default/grub.d/99-iommu-pt.cfg"),
        "{translated}"
    );
    let bounce = remedy("connectx7-gpu-mended", "dma-bounce-full", "ID=ubuntu", |tree| {
        let line = "mlx5_core 0000:18:00.0: swiotlb buffer is full (sz: 65536 bytes), total 32768 (slots), used 32765 (slots)";
        tree.write("dev/kmsg", format!("4,900,9000000,-;{line}\n"))
            .unwrap();
    });
    assert!(
        !bounce.contains("update-grub") || bounce.contains("> /etc/default/grub.d/99-swiotlb-524288.cfg"),
        "{bounce}"
    );
}
