//! Steps with which the driver of any adapter begins, and without which it gives the adapter up: the PCI function is enabled, its registers are
//! mapped, its interrupts requested, its devices registered.

use super::{FAILED, any};

/// Names of calls that every driver makes at the start, or parts of them.
const CALLS: [&str; 13] = [
    "pci_enable_device",
    "pci_request_regions",
    "pci_request_selected_regions",
    "pci_alloc_irq_vectors",
    "pci_enable_msix",
    "dma_set_mask",
    "dma_set_coherent_mask",
    "set_dma_mask",
    "ioremap",
    "pci_iomap",
    "ib_alloc_device",
    "ib_register_device",
    "auxiliary_device_init",
];
/// What is done for a function, and with what of it.
const ENABLED: [&str; 4] = ["enable", "enabling", "reenable", "wakeup"];
const MAPPED: [&str; 8] = [
    "map", "mapping", "remap", "ioremap", "request", "reserve", "get", "find",
];
const RANGES: [&str; 4] = ["bar", "bars", "bar0", "bar2"];
const REQUESTED: [&str; 5] = ["request", "requesting", "alloc", "allocate", "allocating"];
const INTERRUPTS: [&str; 4] = ["irq", "irqs", "interrupts", "vectors"];
/// What a driver gives up without giving up the adapter: a task that a user started.
const TASKS: [&str; 10] = [
    "test",
    "tests",
    "selftest",
    "loopback",
    "flash",
    "flashing",
    "update",
    "upgrade",
    "dump",
    "migration",
];
/// Functions of mlx5 in which it starts an adapter, as they stand before its messages.
const STARTS: [&str; 8] = [
    "mlx5_init_once",
    "mlx5_load",
    "mlx5_function_setup",
    "mlx5_function_enable",
    "mlx5_pci_init",
    "mlx5_mdev_init",
    "mlx5_cmd_init",
    "mlx5_cmd_enable",
];

/// Whether a message of a driver, in lower case, reports that such a step failed, or that the driver gives up.
pub(super) fn gave_up(lower: &str, words: &[&str]) -> bool {
    // The convention of network drivers for the last message of a probe, and of some for a test or an update.
    if lower.trim_end_matches(['.', '!', ' ']).ends_with(", aborting") {
        return !is_of_part(words) && !any(words, &TASKS);
    }
    let fails = any(words, &FAILED) || any(words, &["unable", "cannot", "not", "couldn", "error"]);
    let begins = || {
        lower
            .split_once(':')
            .is_some_and(|(name, rest)| STARTS.contains(&name) && rest.contains(":(pid "))
            && !any(words, &["devlink", "tracer", "hwmon", "debugfs", "lag"])
    };
    fails && (begins() || is_step(words) && !is_of_part(words))
}

fn is_step(words: &[&str]) -> bool {
    let calls = words.iter().any(|word| {
        CALLS
            .iter()
            .any(|call| word.trim_start_matches("devm_").starts_with(call))
    });
    let near = |first: &[&str], second: &[&str]| {
        words
            .iter()
            .enumerate()
            .any(|(at, word)| first.contains(word) && any(&words[at + 1..words.len().min(at + 4)], second))
    };
    let enables = near(&ENABLED, &["device"]) && (any(words, &["pci"]) || any(words, &["reenable"]));
    let sets_mask =
        any(words, &["dma"]) && (any(words, &["mask"]) || any(words, &["pci"]) && any(words, &["set"]));
    let whole = words.windows(2).any(|pair| {
        matches!(
            pair,
            ["device", "alloc" | "allocation" | "init" | "initialization"]
        )
    }) && words.first() == Some(&"device");
    calls
        || enables
        || sets_mask
        || whole
        || near(&MAPPED, &RANGES)
        || near(&["register"], &["ibdev", "ib_device"])
}

/// Whether a driver reports that it got no interrupts: `Failed to request irq. err = -28`. It requests some when it starts, and more for the queues of an
/// interface that is set up, so this line alone does not show that it gives the adapter up.
pub(super) fn is_without_interrupts(words: &[&str]) -> bool {
    let fails = any(words, &FAILED) || any(words, &["unable", "cannot", "not", "couldn", "error"]);
    fails
        && words.iter().enumerate().any(|(at, word)| {
            REQUESTED.contains(word) && any(&words[at + 1..words.len().min(at + 4)], &INTERRUPTS)
        })
        && !is_of_part(words)
}

/// Whether it is about a part that an adapter works without, or one of its functions.
fn is_of_part(words: &[&str]) -> bool {
    const OTHERS: [&str; 16] = [
        "vf", "vfs", "sf", "sfs", "sriov", "ptp", "devlink", "debugfs", "hwmon", "dca", "vdpa", "lag",
        "tracer", "internal", "retry", "retrying",
    ];
    any(words, &OTHERS)
}

#[cfg(test)]
mod tests {
    use crate::{EventKind, classify};

    fn kind(line: &str) -> &'static str {
        classify(line).map_or("-", |report| report.kind.name())
    }

    #[test]
    fn an_adapter_is_given_up_when_a_step_of_its_start_fails() {
        for line in [
            "efa 0000:00:06.0: dma_set_mask_and_coherent failed -110",
            "efa 0000:00:06.0: pci_request_selected_regions failed -12",
            "efa 0000:00:06.0: Failed to remap register bar",
            "efa 0000:00:06.0: Device alloc failed",
            "erdma 0000:17:00.0: pci_enable_device failed(-110)",
            "erdma 0000:17:00.0: devm_ioremap failed.",
            "erdma 0000:17:00.0: ib_register_device failed: ret = -5",
            "mlx5_core 0000:17:00.0: mlx5_pci_init:913:(pid 812): Cannot enable PCI device, aborting",
            "mlx5_core 0000:17:00.0: Can't set PCI DMA mask, aborting",
            "mlx5_core 0000:17:00.0: mlx5_load:1335:(pid 41233): Failed to alloc IRQs",
            "mlx5_core 0000:17:00.0: mlx5_init_once:1074:(pid 41233): Failed to init SF HW table -110",
            "mlx5_core 0000:17:00.0: mlx5_cmd_init:2325:(pid 7): failed to create command workqueue",
            "mlx4_core 0000:17:00.0: Can not re-enable device, err=-12",
            "mlx4_core 0000:17:00.0: HCA reported UAR region size of 0x1000000 bigger than PCI resource 2 size of 0x800000, aborting",
            "ionic_rdma.rdma ionic.rdma.0: error -EIO: Failed to register ibdev",
            "ionic 0000:8c:00.0: Cannot enable PCI device: -5, aborting",
            "hns3 0000:7d:00.0: can't set consistent PCI DMA",
            "hns3 0000:7d:00.0: failed to enable PCI device",
            "cxgb4 0000:3b:00.4: cannot map device bar2 region",
            "mana 7870:00:00.0: Error when setting up HWC: -16",
            "mana 7870:00:00.0: Timeout when setting up HWC: -110",
            "bnxt_en 0000:17:00.0 bnxt_re0: Failed to allocate RCFW Channel: 0x1f",
            "bnxt_en 0000:17:00.0: QPLIB: RCFW not initialized, reject opcode 0x200",
        ] {
            let found = kind(line);
            assert!(
                found == EventKind::FirmwareInit.name() || found == EventKind::ProbeFailed.name(),
                "{line}: {found}"
            );
        }
    }

    #[test]
    fn interrupts_that_are_refused_do_not_show_that_the_adapter_is_given_up() {
        for line in [
            "mlx5_core 0000:17:00.0: mlx5_irq_alloc:293:(pid 5121): Failed to request irq. err = -28",
            "mlx5_core 0000:17:00.0 ens1f0np0: Failed to alloc IRQs",
            "ice 0000:18:00.0 ens2: failed to request interrupts for queue 7: -28",
            "bnxt_en 0000:17:00.0 eth0: cannot request irq 212",
        ] {
            assert_eq!(kind(line), EventKind::DriverError.name(), "{line}");
        }
    }

    #[test]
    fn a_part_that_does_not_start_is_not_the_adapter() {
        for line in [
            "mlx5_core 0000:17:00.0: mlx5_load:1335:(pid 3): Failed to set up the devlink parameters",
            "mlx5_core 0000:17:00.0: mlx5_irq_alloc:12:(pid 3): Failed to request irq of an SF. err = -28",
            "ice 0000:18:00.0: request for 64 MSI-X vectors granted",
            "6,1,1,-;mlx5_core 0000:17:00.0: enabling device (0000 -> 0002)",
            "hns3 0000:7d:00.0 eth0: failed to map the ring of queue 3",
            "bnxt_en 0000:17:00.0 eth0: Loopback test failed, aborting",
            "ice 0000:18:00.0: VF 3 asks for too many queues, aborting",
            "mlx5_core 0000:17:00.0: firmware flash was not accepted, aborting",
        ] {
            assert_eq!(kind(line), "-", "{line}");
        }
    }
}
