//! One kernel module: which one a function needs, and what keeps it from working.

use rdma_health_node::{Node, kmsg::EventKind, modprobe::Line};

use crate::domain::adapter_events::is_refusal;

/// The module that creates the RDMA device of a function with this driver.
pub(in super::super) fn module_of(driver: &str) -> Option<&'static str> {
    Some(match driver {
        "mlx5_core" => "mlx5_ib",
        "mlx4_core" => "mlx4_ib",
        "ice" | "i40e" | "idpf" => "irdma",
        "bnxt_en" => "bnxt_re",
        "bng_en" => "bng_re",
        "be2net" => "ocrdma",
        "mana" => "mana_ib",
        "qede" => "qedr",
        "ionic" => "ionic_rdma",
        "cxgb4" => "iw_cxgb4",
        "hns3" => "hns_roce_hw_v2",
        "habanalabs" => "habanalabs_ib",
        _ => return None,
    })
}

/// Whether a module makes RDMA devices, in hardware or in software, and so needs the RDMA stack.
pub(super) fn makes_devices(module: &str) -> bool {
    const ALONE: [&str; 8] = [
        "efa",
        "erdma",
        "hfi1",
        "vmw_pvrdma",
        "usnic_verbs",
        "i40iw",
        "rdma_rxe",
        "siw",
    ];
    const OF_OTHERS: [&str; 12] = [
        "mlx5_ib",
        "mlx4_ib",
        "irdma",
        "bnxt_re",
        "bng_re",
        "ocrdma",
        "mana_ib",
        "qedr",
        "ionic_rdma",
        "iw_cxgb4",
        "hns_roce_hw_v2",
        "habanalabs_ib",
    ];
    ALONE.contains(&module) || OF_OTHERS.contains(&module)
}

/// The modules that a function without a driver needs, by vendor and device: the driver, if it is known and another one, and the one that
/// creates the RDMA device.
pub(super) fn modules_of(ids: Option<(u16, u16)>) -> Option<(Option<&'static str>, &'static str)> {
    let (vendor, device) = ids?;
    Some(match (vendor, device) {
        // ConnectX-2 and ConnectX-3.
        (0x15b3, 0x1002..=0x1007 | 0x6340..=0x676e) => (Some("mlx4_core"), "mlx4_ib"),
        (0x15b3, _) => (Some("mlx5_core"), "mlx5_ib"),
        (0x8086, 0x24f0 | 0x24f1) => (None, "hfi1"),
        (0x8086, _) => (None, "irdma"),
        (0x14e4, _) => (None, "bnxt_re"),
        (0x1d0f, _) => (None, "efa"),
        (0x1414, _) => (None, "mana_ib"),
        (0x1dd8, _) => (None, "ionic_rdma"),
        (0x1ded, _) => (None, "erdma"),
        (0x19e5, _) => (None, "hns_roce_hw_v2"),
        (0x1425, _) => (None, "iw_cxgb4"),
        (0x15ad, _) => (None, "vmw_pvrdma"),
        (0x1077, _) => (None, "qedr"),
        (0x10df, _) => (None, "ocrdma"),
        _ => return None,
    })
}

/// The lines of the configuration of modprobe that keep a module from being loaded.
pub(super) fn configured_off<'a>(node: &'a Node, module: &str) -> Vec<&'a Line> {
    let lines = node.modprobe.off.known().into_iter().flatten();
    lines.filter(|line| line.module == module).collect()
}

/// `blacklist mlx5_ib in /etc/modprobe.d/rdma.conf line 3`.
pub(super) fn places(lines: &[&Line]) -> String {
    let of_line = |line: &&Line| format!("{} in {} line {}", line.text, line.file, line.number);
    lines.iter().map(of_line).collect::<Vec<_>>().join(" and ")
}

/// What to do about lines that keep a module from being loaded.
pub(super) fn allow(lines: &[&Line], module: &str) -> String {
    // The driver container writes it when it starts, and loads the modules itself.
    if let Some(line) = lines
        .iter()
        .find(|line| line.file.ends_with("blacklist-ofed-modules.conf"))
    {
        return format!(
            "Start the driver container of the NVIDIA Network Operator, which loads the modules: kubectl get pods -A | grep -e mofed -e doca-driver. It owns {}. \
            Only if the operator was removed, remove this file, and load {module}.",
            line.file
        );
    }
    let lines: Vec<_> = lines
        .iter()
        .map(|line| format!("line {} of {} ({})", line.number, line.file, line.text))
        .collect();
    format!(
        "Remove {}, and load {module}. If the file is in the initramfs, too, write that again (update-initramfs -u, or dracut -f).",
        lines.join(" and ")
    )
}

/// The line of the kernel log that says that the kernel refuses modules because of their signature. It does not say which module.
pub(super) fn unsigned(node: &Node) -> Option<&str> {
    let says = |line: &&String| line.contains("Loading of ") && line.contains("is rejected");
    node.kernel_lines().iter().find(says).map(String::as_str)
}

/// The argument of the kernel command line that keeps a module from being loaded: also by name (`module_blacklist=`), or at boot only
/// (`modprobe.blacklist=`).
pub(in super::super) fn blacklisted(node: &Node, module: &str) -> Option<String> {
    let arguments = node.host.cmdline.known()?.split_whitespace();
    let forbids = |argument: &&str| {
        let names = argument
            .strip_prefix("module_blacklist=")
            .or_else(|| argument.strip_prefix("modprobe.blacklist="))
            .or_else(|| argument.strip_prefix("rd.driver.blacklist="));
        names.is_some_and(|names| names.split(',').any(|name| name.replace('-', "_") == module))
    };
    arguments.into_iter().find(forbids).map(str::to_owned)
}

/// The line of the kernel log that says why a module was refused: it was built for other modules or another kernel.
pub(super) fn refused<'a>(node: &'a Node, module: &str) -> Option<&'a str> {
    const REASONS: [&str; 5] = [
        "disagrees about version of symbol",
        "Unknown symbol",
        "version magic",
        "no symbol version for",
        "module verification failed",
    ];
    let says = |line: &&String| {
        line.contains(&format!("{module}:")) && REASONS.iter().any(|reason| line.contains(reason))
    };
    node.kernel_lines().iter().find(says).map(String::as_str)
}

/// The line of the kernel log in which the driver of a function, or the RDMA module of it, says that the function has no RDMA.
pub(super) fn unsupported<'a>(node: &'a Node, module: &str, address: &str) -> Option<&'a str> {
    const WORDS: [&str; 4] = [
        "rdma is not supported",
        "roce is not supported",
        "not rdma capable",
        "does not support rdma",
    ];
    let says = |line: &&String| {
        let is_of_it = line.contains(address) || line.contains(&format!("{module}: "));
        is_of_it
            && WORDS
                .iter()
                .any(|words| line.to_ascii_lowercase().contains(words))
    };
    node.kernel_lines().iter().find(says).map(String::as_str)
}

/// The line of the kernel log in which the driver of a function says that its firmware is too old.
pub(in super::super) fn outdated<'a>(node: &'a Node, address: &str) -> Option<&'a str> {
    const NEWER: [&str; 6] = [
        "upgrade",
        "update",
        "too old",
        "minimum supported",
        "minimum required",
        "older than",
    ];
    const FIRMWARE: [&str; 2] = ["firmware", "fw"];
    let says = |line: &&String| {
        let text = line.to_ascii_lowercase();
        let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        line.contains(address)
            && NEWER.iter().any(|newer| text.contains(newer))
            && words.any(|word| FIRMWARE.contains(&word))
    };
    node.kernel_lines().iter().find(says).map(String::as_str)
}

/// What a driver logged when it could not start on an RDMA core that is not the one that it was built for: MLNX_OFED and DOCA-OFED replace the core, and
/// bring drivers of NVIDIA's adapters only.
pub(in super::super) fn on_foreign_core<'a>(node: &'a Node, driver: &str) -> Option<&'a str> {
    let is_of_package = driver.starts_with("mlx") || driver.starts_with("ib_");
    let is_for_ethernet = module_of(driver).is_some();
    if is_of_package || is_for_ethernet || node.modules.is_ofed() != Some(true) {
        return None;
    }
    let events = node.device_events();
    let failed = events.iter().find(|failed| {
        failed.event.kind == EventKind::ProbeFailed
            && failed.event.driver == driver
            && !failed.is_over
            && is_refusal(&failed.event.message)
    })?;
    Some(&failed.event.message)
}

/// What the driver of a function logged last when it gave the function up.
pub(super) fn given_up<'a>(node: &'a Node, address: &str) -> Option<&'a str> {
    let events = node.device_events();
    let failed = events.iter().rfind(|failed| {
        failed.event.kind == EventKind::ProbeFailed && !failed.is_over && failed.subject() == address
    })?;
    Some(&failed.event.message)
}
