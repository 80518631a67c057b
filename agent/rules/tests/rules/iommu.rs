//! What changed the mode of the IOMMU, and what it blocked.

use rdma_health_node::history::History;
use rdma_health_rules::Profile;

use super::*;

const FIELD: &str = "connectx7-gpu-mended";

fn translated(tree: &mut Tree) {
    tree.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n").unwrap();
}

fn log(tree: &mut Tree, line: &str) {
    tree.write("dev/kmsg", format!("6,1,1,-;{line}\n")).unwrap();
}

#[test]
fn memory_encryption_that_keeps_passthrough_off_is_named() {
    let line = "AMD Memory Encryption Features active: SME";
    let active = node(FIELD, |tree| {
        translated(tree);
        log(tree, line);
    });
    assert_eq!(of(&active, &auto(), "iommu-memory-encryption"), ["node warning"]);
    assert_eq!(of(&active, &auto(), "iommu-cmdline-mismatch"), ["node warning"]);
    let requested = |flags: &str| {
        node(FIELD, |tree| {
            translated(tree);
            tree.write("proc/cmdline", "ro mem_encrypt=on iommu=pt\n")
                .unwrap();
            tree.write("proc/cpuinfo", format!("flags\t: fpu {flags}\n"))
                .unwrap();
        })
    };
    assert_eq!(
        of(&requested("sme"), &auto(), "iommu-memory-encryption"),
        ["node warning"]
    );
    assert_eq!(
        of(&requested(""), &auto(), "iommu-memory-encryption"),
        [""; 0],
        "the processor cannot"
    );
    let harmless = node(FIELD, |tree| log(tree, line));
    assert_eq!(
        of(&harmless, &auto(), "iommu-memory-encryption"),
        [""; 0],
        "nothing is translated"
    );
}

#[test]
fn faults_of_rdma_devices_are_counted_and_others_are_not() {
    let refused = |address: &str| {
        node(FIELD, |tree| {
            let line = format!(
                "DMAR: [DMA Write NO_PASID] Request device [{address}] fault addr 0xff [fault reason 0x05]"
            );
            tree.write("dev/kmsg", format!("3,1,1,-;{line}\n3,2,2,-;{line}\n"))
                .unwrap();
        })
    };
    let ours = refused("18:00.0");
    assert_eq!(of(&ours, &auto(), "iommu-faults"), ["mlx5_0 warning"]);
    assert_eq!(
        of(&ours, &profile(Profile::GpuDirect), "iommu-faults"),
        ["mlx5_0 critical"]
    );
    assert!(message(&ours, &auto(), "iommu-faults").contains("2 faults in the kernel log, last"));
    assert_eq!(
        of(&refused("00:17.0"), &auto(), "iommu-faults"),
        [""; 0],
        "a disk controller"
    );
}

#[test]
fn an_old_iommu_fault_matters_while_the_device_is_translated() {
    let with = |mode: &str| {
        let node = node(FIELD, |tree| {
            let line =
                "DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0xff [fault reason 0x05]";
            tree.write("dev/kmsg", format!("3,1,1,-;{line}\n")).unwrap();
            tree.write("proc/uptime", "172800.00 1.00\n").unwrap();
            tree.write("sys/kernel/iommu_groups/7/type", format!("{mode}\n"))
                .unwrap();
        });
        of(&node, &auto(), "iommu-faults")
    };
    assert_eq!(with("DMA-FQ"), ["mlx5_0 warning"]);
    assert_eq!(with("identity"), ["mlx5_0 info"]);
}

#[test]
fn a_device_that_was_in_passthrough_at_an_earlier_boot_has_regressed() {
    let mut history = History::default();
    history.record(&node(FIELD, |_| {}), 1000);
    let mut now = node(FIELD, |tree| {
        translated(tree);
        tree.write("proc/cmdline", "ro\n").unwrap();
        tree.write("proc/sys/kernel/osrelease", "5.14.0-503.el9\n")
            .unwrap();
        tree.write(
            "proc/sys/kernel/random/boot_id",
            "11111111-2222-3333-4444-555555555555\n",
        )
        .unwrap();
    });
    now.time = 1000 + 3 * 86_400;
    assert_eq!(
        of(&now, &auto(), "iommu-regressed"),
        [""; 0],
        "there is no history"
    );
    // As the agent does: the new boot is recorded, and remembered across restarts.
    history.record(&now, now.time - 60);
    now.history = Some(Arc::new(history.clone()));
    assert_eq!(of(&now, &auto(), "iommu-regressed"), ["mlx5_0 warning"]);
    let message = message(&now, &auto(), "iommu-regressed");
    assert!(message.contains("last seen at 1970-01-01T00:16:40Z"), "{message}");
    assert!(
        message.contains("5.14.0-503.el9 now") && message.contains("iommu=pt then"),
        "{message}"
    );
    // Every bus has another number now.
    let mut renumbered = history.clone();
    for boot in &mut renumbered.boots {
        let domains = std::mem::take(&mut boot.domains).into_iter();
        boot.domains = domains
            .map(|(address, domain)| (address.replacen("0000:", "0001:", 1), domain))
            .collect();
    }
    let mut elsewhere = now.clone();
    elsewhere.history = Some(Arc::new(renumbered));
    assert_eq!(of(&elsewhere, &auto(), "iommu-regressed"), ["mlx5_0 warning"]);
    let expected_translated = Expectations {
        passthrough: Some(false),
        ..auto()
    };
    assert_eq!(of(&now, &expected_translated, "iommu-regressed"), [""; 0]);
    let mut same = node(FIELD, |_| {});
    same.history = Some(Arc::new(history));
    assert_eq!(of(&same, &auto(), "iommu-regressed"), [""; 0]);
}

#[test]
fn an_expected_iommu_mode_decides_the_severity() {
    let node = node(FIELD, translated);
    let expect = |passthrough| Expectations {
        passthrough: Some(passthrough),
        ..profile(Profile::Rdma)
    };
    assert_eq!(
        of(&node, &expect(true), "iommu-group-translated"),
        ["mlx5_0 critical"]
    );
    assert_eq!(
        of(&node, &expect(false), "iommu-group-translated"),
        ["mlx5_0 info"]
    );
}

#[test]
fn passthrough_written_to_sysfs_is_found_to_end_with_the_boot() {
    let default = |default: &str, cmdline: &str| {
        node(FIELD, |tree| {
            log(tree, &format!("iommu: Default domain type: {default} "));
            tree.write("proc/cmdline", format!("{cmdline}\n")).unwrap();
        })
    };
    let until_reboot = default("Translated", "ro");
    assert_eq!(
        of(&until_reboot, &auto(), "iommu-cmdline-mismatch"),
        ["node warning"]
    );
    assert!(message(&until_reboot, &auto(), "iommu-cmdline-mismatch").contains("until the next boot"));
    assert_eq!(
        of(&default("Passthrough", "ro"), &auto(), "iommu-cmdline-mismatch"),
        [""; 0]
    );
    assert_eq!(
        of(
            &default("Translated", "ro iommu=pt"),
            &auto(),
            "iommu-cmdline-mismatch"
        ),
        [""; 0]
    );
}

#[test]
fn the_command_line_is_info_with_profile_tcp_only() {
    let vain = node(FIELD, translated);
    assert_eq!(of(&vain, &auto(), "iommu-cmdline-mismatch"), ["node warning"]);
    assert_eq!(
        of(&vain, &profile(Profile::TcpOnly), "iommu-cmdline-mismatch"),
        ["node info"]
    );
}

#[test]
fn an_old_kernel_that_reports_no_type_translates_unless_it_says_otherwise() {
    let old = |cmdline: &str, log: &str| {
        node(FIELD, |tree| {
            let types: Vec<_> = tree
                .entries()
                .map(|(path, _)| path.to_owned())
                .filter(|path| path.starts_with("sys/kernel/iommu_groups/") && path.ends_with("/type"))
                .collect();
            for path in types {
                tree.remove(&path);
            }
            tree.write("proc/sys/kernel/osrelease", "3.10.0-1160.el7.x86_64\n")
                .unwrap();
            tree.write("proc/cmdline", format!("ro {cmdline}\n")).unwrap();
            tree.write("dev/kmsg", log).unwrap();
        })
    };
    let rule = "iommu-group-translated";
    assert!(!of(&old("intel_iommu=on", ""), &auto(), rule).is_empty());
    assert_eq!(
        of(&old("intel_iommu=on iommu=pt", ""), &auto(), rule),
        [""; 0],
        "not known: the log does not say"
    );
    let lines: Vec<String> = old("intel_iommu=on", "")
        .dma_functions()
        .map(|function| {
            format!(
                "6,1,1,-;DMAR: Hardware identity mapping for device {}",
                function.address
            )
        })
        .collect();
    let mapped = lines.join("\n") + "\n";
    assert_eq!(of(&old("intel_iommu=on", &mapped), &auto(), rule), [""; 0]);
}

#[test]
fn facts_that_a_domain_requires_leave_the_verdict_unknown_if_unread() {
    let unreadable = |end: &str, fixture: &str| {
        node(fixture, |tree| {
            let paths: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
            let mut some = false;
            for path in paths.iter().filter(|path| ends_so(path, end)) {
                some = true;
                tree.remove(path);
                tree.insert(path, Entry::Directory { mode: 0o755 }).unwrap();
            }
            assert!(some, "{end}");
        })
    };
    for (fixture, end, expected) in [
        (
            "virtual-node-translated",
            "iommu_groups/*/type",
            "the IOMMU mode of",
        ),
        ("h100-connectx7", "ports/1/gids/*", "the GIDs of"),
        ("connectx7-gpu-mended", "proc/*/limits", "the memlock limit of"),
    ] {
        let verdict = rdma_health_rules::judge(&unreadable(end, fixture), &auto());
        let why = verdict.unknown_because.unwrap_or_default();
        assert!(why.starts_with(expected), "{fixture}: {why}");
        assert_eq!(
            of(&unreadable(end, fixture), &auto(), "facts-unreadable"),
            ["node warning"],
            "{fixture}"
        );
    }
}

/// Whether a path ends so; `*` stands for one name.
fn ends_so(path: &str, end: &str) -> bool {
    let mut names = path.rsplit('/');
    end.rsplit('/')
        .all(|wanted| names.next().is_some_and(|name| wanted == "*" || wanted == name))
}

/// A fixture without the directories whose path begins or ends so.
fn without(fixture: &str, is_meant: impl Fn(&str) -> bool) -> Node {
    node(fixture, |tree| {
        let paths: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
        let meant: Vec<_> = paths.iter().filter(|path| is_meant(path)).collect();
        assert!(!meant.is_empty());
        for path in meant {
            tree.remove(path);
        }
    })
}

/// A container may be shown `/sys` without some of its directories.
#[test]
fn groups_that_are_not_visible_leave_the_mode_unknown() {
    let group = |node: &Node| {
        let functions = node.functions();
        let own = functions
            .iter()
            .find(|function| function.names.contains(&"mlx5_2"));
        own.unwrap().group.unwrap()
    };
    let all = without("h100-connectx7", |path| {
        path.starts_with("sys/kernel/iommu_groups")
    });
    let verdict = judge(&all, &auto());
    assert_eq!(verdict.status, Status::Unknown);
    let why = verdict.unknown_because.unwrap();
    assert!(
        why.contains("/sys/kernel/iommu_groups: it is not visible here, although function 0000:"),
        "{why}"
    );
    assert_eq!(all.dma_mode(), None);
    let number = group(&node("h100-connectx7", |_| {}));
    let one = format!("sys/kernel/iommu_groups/{number}/");
    let one = without("h100-connectx7", |path| path.starts_with(&one));
    let why = judge(&one, &auto()).unknown_because.unwrap();
    assert!(
        why.contains(&format!(
            "/sys/kernel/iommu_groups/{number}/type: it is not visible here"
        )),
        "{why}"
    );
    assert_eq!(group(&one), number);
    // A kernel that drives an IOMMU of x86 puts every function into a group.
    let unlinked = |units: bool| {
        node("h100-connectx7", |tree| {
            let paths: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
            for path in paths.iter().filter(|path| path.contains("iommu")) {
                tree.remove(path);
            }
            if units {
                tree.write("sys/class/iommu/dmar0/x", "").unwrap();
            }
        })
    };
    assert_eq!(judge(&unlinked(true), &auto()).status, Status::Unknown);
    assert!(unlinked(false).iommu.groups.is_absent(), "no IOMMU");
}

#[test]
fn a_whole_directory_that_is_not_visible_leaves_the_verdict_unknown() {
    for directory in ["sys/bus", "sys/class/net"] {
        let node = without("h100-connectx7", |path| {
            path.starts_with(&format!("{directory}/")) || path == directory
        });
        let verdict = judge(&node, &auto());
        let why = verdict.unknown_because.unwrap_or_default();
        assert!(
            why.contains(&format!("/{directory}"))
                && why.contains("it is not visible here, although an RDMA "),
            "{directory}: {why}"
        );
    }
}
