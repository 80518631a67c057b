//! DKMS names the module that it builds in one line and says in another that it did not build it.

use super::install::names_package;

/// Number of lines after the name of a module in which its build may end.
const WITHIN: u64 = 16;

/// Modules outside the RDMA stack whose builds use its functions.
const USERS: [&str; 5] = ["drbd", "lustre", "beegfs", "ksmbd", "nvidia-fs"];

/// What DKMS calls an error although the module is there.
const IN_PLACE: [&str; 4] = [
    "is not newer than",
    "already installed",
    "already been added",
    "already exists",
];

/// The module that the last lines are about.
#[derive(Debug, Default)]
pub(super) struct Build {
    module: Option<(u64, String)>,
    /// Its build was skipped for a kernel.
    skipped: Option<(u64, String)>,
    /// It was built for another one: that one may be the kernel that runs.
    is_built: bool,
}

impl Build {
    /// Adds a line. Returns what it shows of the module, if it was not built.
    pub(super) fn add(&mut self, text: &str, line: u64) -> Option<String> {
        let row = text.trim();
        if let Some(module) = module(row) {
            self.module = Some((line, module));
            self.is_built = false;
            return None;
        }
        let (begin, module) = self.module.as_ref()?;
        if line > begin + WITHIN {
            self.module = None;
            return None;
        }
        if let Some((_, text)) = self.skipped.as_mut().filter(|(before, _)| before + 1 == line) {
            // The reason is wrapped: `… was skipped since the`, `kernel headers for this kernel do not seem to be installed.`.
            *text = format!("{text} {row}");
        }
        if row.starts_with("- Installing to /lib/modules/") || row.starts_with("Building initial module for")
        {
            self.is_built = true;
            self.skipped = None;
            return None;
        }
        if row.starts_with("Error! ") && !IN_PLACE.iter().any(|words| row.contains(words)) {
            // "kernel:" would be taken for the writer of the line.
            return Some(format!("{module}: {}", row.replace("kernel: ", "kernel ")));
        }
        if row.starts_with("Module build for kernel") && row.contains("was skipped") && !self.is_built {
            self.skipped = Some((line, format!("{module}: {row}")));
        }
        None
    }

    /// The build that was skipped, if no other one followed.
    pub(super) fn skipped(&self) -> Option<(String, u64)> {
        let (line, text) = self.skipped.as_ref()?;
        Some((text.clone(), *line))
    }
}

/// The module of the RDMA stack, or of what uses it, that a line of DKMS or of a package manager begins with: `Loading new drbd-9.2.14 DKMS
/// files...`, `Setting up mlnx-ofed-kernel-dkms (24.10) ...`.
fn module(row: &str) -> Option<String> {
    let name = row
        .strip_prefix("Loading new ")
        .and_then(|rest| rest.strip_suffix(" DKMS files..."))
        .or_else(|| {
            row.strip_prefix("Setting up ")?
                .split(' ')
                .next()
                .filter(|name| name.ends_with("-dkms"))
        })?;
    let lower = name.to_ascii_lowercase();
    let is_ours = names_package(&lower) || USERS.iter().any(|user| lower.starts_with(user));
    is_ours.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Vec<String>, Option<u64>) {
        let mut build = Build::default();
        let shown = lines
            .iter()
            .zip(1..)
            .filter_map(|(line, number)| build.add(line, number))
            .collect();
        (shown, build.skipped().map(|(_, line)| line))
    }

    #[test]
    fn a_module_that_is_not_built_is_named() {
        let failed = [
            "Loading new drbd-9.2.14-1ppa1~noble1 DKMS files...",
            "Building initial module for 6.14.0-28-generic",
            "Error! Bad return status for module build on kernel: 6.14.0-28-generic (x86_64)",
        ];
        assert_eq!(
            read(&failed).0,
            [
                "drbd-9.2.14-1ppa1~noble1: Error! Bad return status for module build on kernel 6.14.0-28-generic (x86_64)"
            ]
        );
        // Whatever DKMS says.
        let without_headers = [
            "Loading new nv_peer_mem-1.2 DKMS files...",
            "Error! Your kernel headers for kernel 6.8.0-40-generic cannot be found at /lib/modules/6.8.0-40-generic/build",
        ];
        assert_eq!(read(&without_headers).0.len(), 1);
        let skipped = [
            "Setting up mlnx-ofed-kernel-dkms (24.10.OFED.24.10.1.1.4.1-1) ...",
            "Module build for kernel 6.5.0-41-generic was skipped since the",
            "kernel headers for this kernel do not seem to be installed.",
        ];
        assert_eq!(read(&skipped), (vec![], Some(2)));
    }

    #[test]
    fn other_modules_and_other_kernels_show_nothing() {
        for lines in [
            &[
                "Loading new v4l2loopback-0.12 DKMS files...",
                "Error! Bad return status for module build on kernel: 6.14.0-28-generic (x86_64)",
            ][..],
            // It is installed already.
            &[
                "Loading new irdma-1.14.33 DKMS files...",
                "Error! Module version 1.14.33 for irdma.ko is not newer than what is already found in kernel",
            ],
            // Headers are installed for the kernel that runs.
            &[
                "Loading new mlnx-ofed-kernel-24.10 DKMS files...",
                "Module build for kernel 6.5.0-41-generic was skipped since the",
                "Building initial module for 6.8.0-45-generic",
                "Done.",
            ],
        ] {
            assert_eq!(read(lines), (vec![], None), "{lines:?}");
        }
    }
}
