//! Messages of what installs drivers and firmware: DKMS, packages, the installer of MLNX_OFED, flint, mlxfwmanager, mlxconfig.

use std::sync::LazyLock;

use super::phrases::{Occurrence, Phrases};
use crate::symptom::SymptomKind::{self as K};

/// Whether a line in lower case names a package of modules of the RDMA stack.
pub(super) fn names_package(lower: &str) -> bool {
    package(lower).is_some()
}

/// The beginnings of the names of packages of modules.
const MODULES: [&str; 21] = [
    "mlnx",
    "mlx",
    "mofed",
    "ofed",
    "doca",
    "irdma",
    "erdma",
    "bnxt",
    "nvidia-peermem",
    "nvidia_peermem",
    "nv_peer_mem",
    "nv-peer-mem",
    "peermem",
    "gdrdrv",
    "gdrcopy",
    "knem",
    "xpmem",
    "iser",
    "isert",
    "kernel-mft",
    "rdma-modules",
];
/// The same of names that begin other words.
const SHORT: [&str; 4] = ["efa", "srp", "srpt", "mft"];

/// The first name of a package of modules of the RDMA stack or of the tools of its firmware.
fn package(lower: &str) -> Option<usize> {
    static NAMES: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(MODULES.iter().chain(&SHORT).copied()));
    let bytes = lower.as_bytes();
    let begins = |at: usize| at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
    let ends = |at: usize| !bytes.get(at).is_some_and(u8::is_ascii_alphabetic);
    let is_one = |found: &Occurrence| begins(found.start) && (found.index < MODULES.len() || ends(found.end));
    NAMES.find(lower).filter(is_one).map(|found| found.start).min()
}

/// A package manager refused a package of the RDMA stack, or one that needs it: `mlnx-ofed-kernel-modules : Depends: … but it is not
/// installable`, `No match for argument: kmod-mlnx-ofa_kernel`, `nothing provides kernel needed by kmod-irdma`.
fn refused_package(lower: &str) -> Option<(K, usize)> {
    /// Words of these programs and of their messages: one of them, or several in a row.
    const PROGRAMS: [&str; 19] = [
        "dpkg",
        "apt",
        "apt-get",
        "rpm",
        "dnf",
        "yum",
        "zypper",
        "package",
        "packages",
        "depends",
        "scriptlet",
        "providers",
        "for argument",
        "e:",
        "dependency problems",
        "failed dependencies",
        "needed by",
        "nothing provides",
        "unmet dependencies",
    ];
    const FAILS: [&str; 25] = [
        "error processing",
        "error:",
        "error!",
        "failed",
        "failure",
        "unable to",
        "cannot",
        "could not",
        "couldn't",
        "not found",
        "unmet",
        "nothing provides",
        "none of the providers",
        "not installable",
        "not going to be installed",
        "no package",
        "no match",
        "no installation candidate",
        "not available",
        "conflict",
        "problems prevent",
        "leaving unconfigured",
        "not configured yet",
        "exit status",
        "return status",
    ];
    // Who asks for a package or removes one reads that it is not there; other package managers have packages of the same names, and the
    // package of ice is a file of its firmware.
    const OTHERS: [&str; 9] = [
        " is not installed",
        "to remove",
        "to unmark",
        "wheel",
        "pip ",
        "conda",
        "image",
        "ddp package",
        "packages found in",
    ];
    // Modules and devices of the kernel have other names than their packages.
    const MODULES: [&str; 6] = ["mlx4", "mlx5", "bnxt_", "efa_", "ib_", "iser:"];
    let named = package(lower)?;
    let name = &lower[named..];
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let of_program = PROGRAMS.iter().any(|words| {
        lower.match_indices(words).any(|(at, _)| {
            let is_letter = |at: usize| lower.as_bytes().get(at).is_some_and(u8::is_ascii_alphanumeric);
            (at == 0 || !is_letter(at - 1)) && !is_letter(at + words.len())
        })
    });
    let is_missing = of_program && has(&FAILS) && (has(&["depends"]) || !has(&OTHERS));
    let is_module = MODULES.iter().any(|module| name.starts_with(module));
    (is_missing && !is_module).then_some((K::DriverNotBuilt, named))
}

/// Whether a program that runs builds or installs something in its memory: `Failed to build PCIe to Libfabric mapping`, `Failed to install rdma
/// transport`.
fn is_of_program(rest: &str) -> bool {
    const THINGS: [&str; 10] = [
        "mapping",
        "map",
        "name",
        "list",
        "table",
        "tree",
        "graph",
        "transport",
        "config",
        "request",
    ];
    ["failed to build ", "failed to install "]
        .iter()
        .find_map(|words| rest.strip_prefix(words))
        .is_some_and(|what| {
            what.split(|c: char| !c.is_ascii_alphanumeric())
                .take(6)
                .any(|word| THINGS.contains(&word))
        })
}

/// DKMS or an installer could not build a module of the RDMA stack for the kernel. The messages name the module in a path or before a
/// version.
pub(super) fn build(lower: &str) -> Option<(K, usize)> {
    const BUILDS: [&str; 11] = [
        "dkms",
        "modpost",
        "rebuild failed",
        "rpm build errors",
        "file not found by glob",
        "topdir/",
        "installation failed",
        "failed to install",
        "failed to build",
        "mlnx_add_kernel_support",
        "mlnxofedinstall",
    ];
    const FAILS: [&str; 12] = [
        "make.log",
        // make and DKMS's own files.
        "] error ",
        "dkms.conf does not exist",
        "undefined!",
        "error:",
        "bad return status",
        "bad exit status",
        "error exit status",
        "failed",
        "error!",
        "errors",
        "error processing package",
    ];
    let Some(at) = BUILDS.iter().find_map(|words| lower.find(words)) else {
        return refused_package(lower);
    };
    if is_of_program(&lower[at..]) {
        return None;
    }
    // The driver of the GPU: without it, an adapter reaches no memory of it.
    let of_gpu = || {
        ["dkms/nvidia/", "failed for nvidia("]
            .iter()
            .any(|words| lower.contains(words))
    };
    // A module of another stack or file system that uses functions of the RDMA stack: `modpost: "ib_umem_get" [….ko] undefined!`.
    let of_symbol =
        || ["\"ib_", "\"rdma_"].iter().any(|symbol| lower.contains(symbol)) && lower.contains("modpost");
    ((names_package(lower) || of_gpu() || of_symbol()) && FAILS.iter().any(|word| lower.contains(word)))
        .then_some((K::DriverNotBuilt, at))
}

/// A driver did not write firmware into its adapter: `mlxfw: Firmware flash failed: …`, `bnxt_en …: PKG install error : Data integrity on NVM`.
/// `devlink dev flash` and `ethtool -f` print what it says.
pub(super) fn flash(lower: &str) -> Option<(K, usize)> {
    const DRIVERS: [&str; 8] = ["mlx", "bnxt", "ice", "ionic", "qed", "hns3", "hinic", "nfp"];
    const FAILS: [&str; 10] = [
        "firmware flash failed",
        "pkg install error",
        "nvm_install_update failure",
        "failed to flash",
        "flash update failed",
        "fw update failed",
        "firmware update failed",
        "fw install failed",
        "rejected component",
        "unable to update flash",
    ];
    let at = FAILS.iter().find_map(|words| lower.find(words))?;
    let is_word = |name: &str| {
        let ends = |end: usize| !lower.as_bytes().get(end).is_some_and(u8::is_ascii_lowercase);
        lower.match_indices(name).any(|(place, _)| {
            let begins = place == 0 || !lower.as_bytes()[place - 1].is_ascii_alphanumeric();
            begins && (name != "ice" || ends(place + name.len()))
        })
    };
    DRIVERS
        .iter()
        .any(|name| is_word(name))
        .then_some((K::FirmwareRefused, at))
}

/// The kernel kept a tool from the registers of a device: `Lockdown: mstflint: Direct PCI access is restricted`. Other programs use them for
/// other devices.
pub(super) fn lockdown(lower: &str) -> Option<(K, usize)> {
    const TOOLS: [&str; 8] = [
        "mst",
        "mlx",
        "flint",
        "fwtrace",
        "resourcedump",
        "mcra",
        "mft",
        "bnxt",
    ];
    let at = lower.find("direct pci access is restricted")?;
    let program = lower[..at]
        .trim_end_matches([' ', ':'])
        .rsplit([' ', ':'])
        .next()?;
    TOOLS
        .iter()
        .any(|tool| program.contains(tool))
        .then_some((K::ToolNoAccess, at))
}

/// `-E- PSID mismatch. …`: flint, mlxfwmanager and mlxconfig refused an image or a setting, or could not write it. Errors of their
/// own usage, and of ibdiagnet, which marks errors in the same way, are left out.
pub(super) fn firmware_tool(lower: &str) -> Option<(K, usize)> {
    const SUBJECTS: [&str; 18] = [
        "psid",
        "burn",
        "image",
        "fw ",
        "firmware",
        "flash",
        "vsd",
        "rom ",
        "secure host",
        "hw access key",
        "configuration",
        "mfa",
        "parameter",
        "semaphore",
        "with reset",
        "reset level",
        "reset type",
        "the device",
    ];
    // ibdiagnet marks its errors in the same way.
    const OF_FABRIC: [&str; 5] = [" lid", "fabric", "subnet", " node", "topology"];
    const USAGE: [&str; 12] = [
        "please specify",
        "arguments",
        "argument",
        "command line",
        "no command",
        "invalid switch",
        "unknown option",
        "cannot specify",
        "cannot open image",
        "aborted by user",
        "failed to open",
        "log file",
    ];
    let at = lower.find("-e- ")?;
    let begins = lower[..at].trim().is_empty() || lower[..at].trim_end().ends_with([':', ']', '|']);
    let has = |words: &[&str]| words.iter().any(|word| lower[at..].contains(word));
    let opens_device = has(&["failed to open", "unable to open", "can not open", "cannot open"])
        && has(&["device", "/dev/mst"]);
    if begins && opens_device && !has(&["semaphore", "image"]) {
        return Some((K::ToolNoAccess, at));
    }
    if !begins || has(&USAGE) || has(&OF_FABRIC) {
        return None;
    }
    // The adapter did not answer, or the tool does not know it.
    if has(&["cmdif_timeout", "timed out", "timeout"]) && has(&["mfe_", "icmd", "burn", "flash"]) {
        return Some((K::FirmwareRefused, at));
    }
    if has(&[
        "only root user",
        "root permission",
        "root privilege",
        "run as root",
    ]) {
        return Some((K::ToolNoAccess, at));
    }
    if has(&["failed to stop driver", "failed to unload", "driver is in use"]) {
        return Some((K::ModuleInUse, at));
    }
    // Of the cable or transceiver, which mlxlink reads through the adapter.
    if has(&["no plugged cable", "cable is unplugged", "no cable detected"]) {
        return Some((K::ModuleFault, at));
    }
    let is_of_registers = has(&["nv access", "access register", "reg access", "icmd"]);
    (is_of_registers || has(&SUBJECTS)).then_some((K::FirmwareRefused, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_packages_of_gpu_drivers_and_of_other_stacks_are_read() {
        for (line, expected) in [
            (
                "consult /var/lib/dkms/nvidia/545.29.02/build/make.log for more information.",
                Some(K::DriverNotBuilt),
            ),
            ("error: kernel-mft rebuild failed!", Some(K::DriverNotBuilt)),
            (
                "error: modpost: \"ib_umem_get\" [/build/lustre/ko2iblnd.ko] undefined!",
                Some(K::DriverNotBuilt),
            ),
            (
                "error: modpost: \"drm_dev_register\" [/build/ast.ko] undefined!",
                None,
            ),
        ] {
            let found = build(line).or_else(|| firmware_tool(line));
            assert_eq!(found.map(|(kind, _)| kind), expected, "{line}");
        }
    }

    #[test]
    fn failed_builds_and_refused_images_are_read_and_those_of_others_are_not() {
        for (line, expected) in [
            (
                "consult /var/lib/dkms/mlnx-ofed-kernel/24.07/build/make.log for more information.",
                Some(K::DriverNotBuilt),
            ),
            (
                "dkms autoinstall on 6.8.0-45 failed for efa(10)",
                Some(K::DriverNotBuilt),
            ),
            ("dkms autoinstall on 6.8.0-45 failed for virtualbox(10)", None),
            ("dkms: efa 2.10 installed", None),
            (
                "dpkg: error processing package mlnx-ofed-kernel-dkms (--configure):",
                Some(K::DriverNotBuilt),
            ),
            (
                "error: mlnx-ofed-kernel-dkms installation failed!",
                Some(K::DriverNotBuilt),
            ),
            (
                "dpkg: error processing package nvidia-dkms-550 (--configure):",
                None,
            ),
            (
                "error! bad return status for module build on kernel: 6.8.0 (zfs-dkms)",
                None,
            ),
            (
                "-e- psid mismatch. the psid on flash (lnv0000000025) differs from the psid in the given image (mt_0000000158).",
                Some(K::FirmwareRefused),
            ),
            (
                "-e- burning fs4 image failed: the digest in the signature is wrong",
                Some(K::FirmwareRefused),
            ),
            (
                "-e- invalid switch \"-x\" is specified. image file is mandatory",
                None,
            ),
            ("-e- bad link found at the end of cable 3", None),
            (
                " mlnx-ofed-kernel-modules : depends: linux-modules-extra-5.15.0-130-generic but it is not installable",
                Some(K::DriverNotBuilt),
            ),
            (
                "dpkg: dependency problems prevent configuration of srp-modules:",
                Some(K::DriverNotBuilt),
            ),
            (
                "dpkg: error processing package mlnx-ofed-kernel-modules (--install):",
                Some(K::DriverNotBuilt),
            ),
            (
                "/var/lib/dkms/efa-nv-peermem/1.2.2/build/src/efa_nv_peermem.o: error: objtool: cleanup_module()",
                Some(K::DriverNotBuilt),
            ),
            (
                "no match for argument: kmod-mlnx-ofa_kernel",
                Some(K::DriverNotBuilt),
            ),
            (
                "  - nothing provides kernel = 5.14.0-427 needed by kmod-irdma-1.14.noarch",
                Some(K::DriverNotBuilt),
            ),
            ("e: unable to locate package doca-ofed", Some(K::DriverNotBuilt)),
            (
                "error: %pre(mlnx-ofa_kernel-24.10.x86_64) scriptlet failed, exit status 1",
                Some(K::DriverNotBuilt),
            ),
            (
                "error: failed dependencies: kernel(ib_register_client) is needed by kmod-knem",
                Some(K::DriverNotBuilt),
            ),
            ("error: package mlnx-ofa_kernel is not installed", None),
            (
                "package 'mlnx-ofed-kernel-dkms' is not installed, so not removed",
                None,
            ),
            (
                "no match for argument: mlnx-ofa_kernel, no packages to remove",
                None,
            ),
            ("dpkg: error processing package drbd-dkms (--configure):", None),
            ("e: unable to locate package libmlx5-dev", None),
            ("error: could not find a package for the wheel of mlx", None),
            (
                "mlx5_core 0000:41:00.0: failed to load package of the adapter",
                None,
            ),
            ("capture on mlnx failed in adapter", None),
            ("setting up mlnx-ofed-kernel-modules (25.04) ...", None),
            ("bad exit status for module build: efault", None),
        ] {
            let found = build(line).or_else(|| firmware_tool(line));
            assert_eq!(found.map(|(kind, _)| kind), expected, "{line}");
        }
    }

    #[test]
    fn an_invalid_argument_is_not_that_of_a_package_manager() {
        for line in [
            "cuda_gdrcopy_dev_register():320<warn> gdr_pin_buffer failed! error: invalid argument",
            "erdma_0: iface 0x32ce7410 failed to create ud qp tx wr:256 sge:6 failed: invalid argument",
        ] {
            assert_eq!(build(line), None, "{line}");
        }
    }
}
