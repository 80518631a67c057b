//! Messages of package managers and installers that concern the libraries of RDMA, not the modules of the kernel: libibverbs of the
//! distribution and of MLNX_OFED exclude each other.

use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads and that no other list has, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "conflicts with file from package",
    "are in conflict",
    "which is newer than",
    "which is also in package",
    "cannot install both",
    "error: package: ",
    "providers can be installed",
    "required packages for installing",
    "does not exist, skipping",
];

/// How the names of the packages begin.
const PACKAGES: [&str; 17] = [
    "libibverbs",
    "ibverbs-",
    "librdmacm",
    "libibumad",
    "libibmad",
    "libmlx4",
    "libmlx5",
    "libefa",
    "libbnxt_re",
    "rdma-core",
    "rdmacm-utils",
    "infiniband-diags",
    "perftest-",
    "ucx-",
    "ucx ",
    "libucx",
    "opensm-libs",
];

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    refused_by_installer(lower).or_else(|| conflict(lower))
}

/// Where the first package of the libraries is named.
fn package(lower: &str) -> Option<usize> {
    let begins = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| lower.as_bytes().get(before));
        before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-')
    };
    PACKAGES
        .iter()
        .filter_map(|name| lower.match_indices(name).map(|(at, _)| at).find(|at| begins(*at)))
        .min()
}

/// apt, dpkg, rpm, dnf or zypper found that a package excludes another one, or needs another release of it: `libibverbs1 : Depends: … but it
/// is not going to be installed`, `file … conflicts with file from package …`.
fn conflict(lower: &str) -> Option<(K, usize)> {
    /// All phrases of a row.
    const FORMS: [&[&str]; 16] = [
        &["depends:", "but it is not"],
        &["depends:", " but ", "is to be installed"],
        &["depends:", " but ", "is installed"],
        &["dependency problems", "depends on"],
        &["conflicts with file from package"],
        &["file /", "attempted to be installed", "conflicts"],
        &["are in conflict"],
        &["package ", "(which is newer than "],
        &["trying to overwrite", "which is also in package"],
        &["cannot install both "],
        &["requires ", "none of the providers can be installed"],
        &["nothing provides ", "needed by"],
        &["error: package: "],
        &["problem: ", " conflicts with "],
        &["package ", " conflicts with "],
        &["error: failed dependencies: "],
    ];
    // Other package managers have packages of the same names.
    const OTHERS: [&str; 4] = ["wheel", "pip ", "conda", "spack"];
    let at = package(lower)?;
    let matches = |words: &&[&str]| words.iter().all(|word| lower.contains(word));
    let is_one = FORMS.iter().any(matches) && !OTHERS.iter().any(|word| lower.contains(word));
    is_one.then_some((K::LibraryMismatch, at))
}

/// What the installer of MLNX_OFED and the service that loads its modules say of the kernel.
fn refused_by_installer(lower: &str) -> Option<(K, usize)> {
    /// All phrases of a row.
    const FORMS: [&[&str]; 5] = [
        &["ofed", "does not have drivers available for this kernel"],
        &["ofed", "current", " is intended for "],
        &["ofed", "required packages for installing", "missing"],
        &["ofed", "is not supported by this installer"],
        &["module ", " does not exist, skipping", "[failed]"],
    ];
    let row = FORMS
        .iter()
        .find(|row| row.iter().all(|word| lower.contains(word)))?;
    let at = lower.find(row[0])?;
    let is_module = row[0].starts_with("module");
    let name = || {
        lower[at + "module ".len()..]
            .split(' ')
            .next()
            .unwrap_or_default()
    };
    let is_ours = !is_module || super::codes::is_module_of_rdma(name());
    is_ours.then_some((K::DriverNotBuilt, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_of_the_libraries_and_refusals_of_installers_are_read() {
        for (line, expected) in [
            (
                "       depends: libibverbs1 (>= 28) but it is not going to be installed",
                Some(K::LibraryMismatch),
            ),
            (
                " ibverbs-providers : depends: libibverbs1 (>= 28.0) but 58mlnx43-1.58101 is to be installed",
                Some(K::LibraryMismatch),
            ),
            (
                "\tfile /usr/lib64/libibverbs.so.1 from install of libibverbs-1.2.1 conflicts with file from package libibverbs-13-7",
                Some(K::LibraryMismatch),
            ),
            (
                "package libibverbs-13-7.el7.x86_64 (which is newer than libibverbs-1.2.1-1.el7.x86_64) is already installed",
                Some(K::LibraryMismatch),
            ),
            (
                "error: package: ucx-1.10.0-1.el7.x86_64 (/ucx-1.10.0-1.el7.x86_64)",
                Some(K::LibraryMismatch),
            ),
            (
                "  - cannot install both libibverbs-48.0-1.el8.x86_64 and libibverbs-58mlnx43-1.58203.x86_64",
                Some(K::LibraryMismatch),
            ),
            (
                "dpkg: error: trying to overwrite '/usr/lib/libmlx5.so.1', which is also in package ibverbs-providers:amd64 28.0",
                Some(K::LibraryMismatch),
            ),
            (
                "the 5.15.0-91-generic kernel is installed, mlnx_ofed_linux does not have drivers available for this kernel.",
                Some(K::DriverNotBuilt),
            ),
            (
                "module mlx5_core does not exist, skipping...               [failed]",
                Some(K::DriverNotBuilt),
            ),
            ("module vboxdrv does not exist, skipping... [failed]", None),
            ("module rdma_ucm does not exist, skipping... [  ok  ]", None),
            ("package libibverbs-48.0-1.el8.x86_64 is already installed.", None),
            ("depends: libibverbs1 (>= 28), libc6 (>= 2.34)", None),
            ("conflicts: rdma-core (<< 2.0)", None),
            (
                "python3-foo : depends: libbar but it is not going to be installed",
                None,
            ),
            (
                "warning: conda environment: package libibverbs conflicts with x",
                None,
            ),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
