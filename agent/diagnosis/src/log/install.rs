//! Messages of what installs drivers and firmware: DKMS, packages, the installer of MLNX_OFED, flint, mlxfwmanager, mlxconfig.

use crate::symptom::SymptomKind::{self as K};

/// Whether a line in lower case names a package of modules of the RDMA stack.
pub(super) fn names_package(lower: &str) -> bool {
    const MODULES: [&str; 15] = [
        "mlnx",
        "mlx",
        "ofed",
        "doca",
        "efa",
        "irdma",
        "bnxt",
        "nvidia-peermem",
        "nvidia_peermem",
        "nv_peer_mem",
        "nv-peer-mem",
        "peermem",
        "gdrdrv",
        "knem",
        "iser",
    ];
    MODULES.iter().any(|module| {
        lower
            .match_indices(module)
            .any(|(at, _)| at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphanumeric())
    })
}

/// DKMS or an installer could not build a module of the RDMA stack for the kernel. The messages name the module in a path or before a
/// version.
pub(super) fn build(lower: &str) -> Option<(K, usize)> {
    const BUILDS: [&str; 6] = [
        "dkms",
        "installation failed",
        "failed to install",
        "failed to build",
        "mlnx_add_kernel_support",
        "mlnxofedinstall",
    ];
    const FAILS: [&str; 8] = [
        "make.log",
        "bad return status",
        "bad exit status",
        "error exit status",
        "failed",
        "error!",
        "errors",
        "error processing package",
    ];
    let at = BUILDS.iter().find_map(|words| lower.find(words))?;
    (names_package(lower) && FAILS.iter().any(|word| lower.contains(word))).then_some((K::DriverNotBuilt, at))
}

/// `-E- PSID mismatch. …`: flint, mlxfwmanager and mlxconfig refused an image or a setting, or could not write it. Errors of their
/// own usage, and of ibdiagnet, which marks errors in the same way, are left out.
pub(super) fn firmware_tool(lower: &str) -> Option<(K, usize)> {
    const SUBJECTS: [&str; 14] = [
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
    ];
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
    (begins && has(&SUBJECTS) && !has(&USAGE)).then_some((K::FirmwareRefused, at))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            let found = build(line).or_else(|| firmware_tool(line));
            assert_eq!(found.map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
