//! IOMMU arguments in the configuration of the boot loader.
//!
//! Source: what people edit (`/etc/default/grub`, `/etc/default/grub.d/*.cfg`, `/etc/kernel/cmdline`), and what the boot loader reads (`grub.cfg`,
//! `grubenv` and the entries in `loader/entries`, <https://uapi-group.org/specifications/specs/boot_loader_specification/>).

use serde::{Deserialize, Serialize};

use crate::{cmdline::IommuArguments, fact::Fact, root::Scope};

/// What people edit.
const TEMPLATES: [&str; 2] = ["/etc/default/grub", KERNEL];
/// The whole command line, for boot loaders without their own configuration.
const KERNEL: &str = "/etc/kernel/cmdline";
/// Further files of the first of [`TEMPLATES`].
const PARTS: &str = "/etc/default/grub.d";
/// What GRUB reads.
const GRUB: [&str; 4] = [
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/boot/grub/grubenv",
    "/boot/grub2/grubenv",
];
/// Where GRUB has its configuration below the name of a distribution, on machines with UEFI.
const UEFI: &str = "/boot/efi/EFI";
/// Where boot loaders find one file for each kernel.
const ENTRIES: [&str; 3] = [
    "/boot/loader/entries",
    "/boot/efi/loader/entries",
    "/efi/loader/entries",
];
/// The most files of one directory that are read, and the most bytes of one.
const MAX_FILES: usize = 32;
const MAX_BYTES: usize = 1 << 20;

/// The IOMMU arguments in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configured {
    /// The file.
    pub file: String,
    /// Whether the boot loader reads it; otherwise a program makes what the boot loader reads from it.
    pub is_of_loader: bool,
    /// The arguments of all its kernels.
    pub arguments: IommuArguments,
}

/// What is configured below the directory `prefix`; absent if no file is there. Files that people edit come first, in the order in which they count.
pub(super) fn configured(scope: &Scope<'_>, prefix: &str) -> Fact<Vec<Configured>> {
    let mut files: Vec<String> = Vec::new();
    files.extend(TEMPLATES.map(str::to_owned));
    files.extend(files_of(scope, prefix, PARTS, ".cfg"));
    let edited = files.len();
    files.extend(GRUB.map(str::to_owned));
    let systems = scope.collected_entries(&format!("{prefix}{UEFI}"));
    let systems = systems.into_iter().flatten().take(MAX_FILES);
    files.extend(systems.map(|name| format!("{UEFI}/{name}/grub.cfg")));
    for directory in ENTRIES {
        files.extend(files_of(scope, prefix, directory, ".conf"));
    }
    let mut found = Vec::new();
    for (at, file) in files.into_iter().enumerate() {
        if let Some(text) = scope.collected_up_to(&format!("{prefix}{file}"), MAX_BYTES) {
            found.push(Configured {
                arguments: IommuArguments::parse(&command_lines(&file, &text).join(" ")),
                is_of_loader: at >= edited,
                file,
            });
        }
    }
    if found.is_empty() {
        Fact::Absent
    } else {
        Fact::Known(found)
    }
}

fn files_of(scope: &Scope<'_>, prefix: &str, directory: &str, ending: &str) -> Vec<String> {
    let names = scope.collected_entries(&format!("{prefix}{directory}"));
    let names = names.into_iter().flatten().filter(|name| name.ends_with(ending));
    let files = names.take(MAX_FILES).map(|name| format!("{directory}/{name}"));
    files.collect()
}

/// The arguments for kernels in a file, without the quotes around them.
fn command_lines<'a>(file: &str, text: &'a str) -> Vec<&'a str> {
    if file == KERNEL {
        return vec![text];
    }
    text.lines().filter_map(|line| of_line(line.trim())).collect()
}

/// The arguments for a kernel in a line: a variable of the shell or of GRUB, a command of GRUB, or a line of an entry.
fn of_line(line: &str) -> Option<&str> {
    const VARIABLES: [&str; 6] = [
        "GRUB_CMDLINE_LINUX",
        "GRUB_CMDLINE_LINUX_DEFAULT",
        "set kernelopts",
        "kernelopts",
        "set tuned_params",
        "tuned_params",
    ];
    const COMMANDS: [&str; 4] = ["linux", "linuxefi", "linux16", "options"];
    if let Some((name, value)) = line.split_once('=')
        && VARIABLES.contains(&name.trim_end_matches('+'))
    {
        return Some(value.trim_matches(['"', '\'']));
    }
    let (command, arguments) = line.split_once(char::is_whitespace)?;
    COMMANDS.contains(&command).then_some(arguments)
}

/// Whether the reader reads this file.
fn is_configuration(path: &str) -> bool {
    let is_in = |directory: &str| {
        path.strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    TEMPLATES.contains(&path)
        || GRUB.contains(&path)
        || is_in(PARTS)
        || is_in(UEFI)
        || ENTRIES.iter().any(|directory| is_in(directory))
}

/// What is used of a file of the configuration: the arguments about the IOMMU.
pub(super) fn used(path: &str, text: &str) -> Option<String> {
    if !is_configuration(path) {
        return None;
    }
    let found = IommuArguments::parse(&command_lines(path, text).join(" "));
    let arguments = found.arguments.join(" ");
    Some(match path {
        _ if arguments.is_empty() => String::new(),
        KERNEL => format!("{arguments}\n"),
        _ => format!("options {arguments}\n"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Root, cmdline::Domain};

    fn read(files: &[(&str, &str)]) -> Vec<(String, Option<Domain>)> {
        let tree = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::open(tree.path()).unwrap();
        let found = configured(&Scope::new(&root), "");
        let found = found.known().cloned().unwrap_or_default();
        found
            .into_iter()
            .map(|file| (file.file, file.arguments.domain))
            .collect()
    }

    #[test]
    fn each_boot_loader_has_its_form() {
        let pt = Some(Domain::Passthrough);
        for (file, text) in [
            (
                "etc/default/grub",
                "# GRUB_CMDLINE_LINUX=\"iommu=nopt\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"\n",
            ),
            (
                "etc/default/grub.d/99-iommu.cfg",
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"\n",
            ),
            ("etc/kernel/cmdline", "root=/dev/sda1 intel_iommu=on iommu=pt\n"),
            (
                "boot/grub/grub.cfg",
                "menuentry 'x' {\n\tlinux\t/vmlinuz root=UUID=1 ro iommu=pt\n}\n",
            ),
            (
                "boot/efi/EFI/redhat/grub.cfg",
                "  linuxefi /vmlinuz iommu=pt ro\n",
            ),
            (
                "boot/grub2/grubenv",
                "# GRUB Environment Block\nkernelopts=root=/dev/sda1 iommu=pt\n####\n",
            ),
            (
                "boot/loader/entries/a.conf",
                "title A\nlinux /vmlinuz\noptions ro iommu=pt\n",
            ),
        ] {
            assert_eq!(read(&[(file, text)]), [(format!("/{file}"), pt)]);
        }
        assert_eq!(
            read(&[("boot/grub/grub.cfg", "linux /vmlinuz ro\n")]),
            [("/boot/grub/grub.cfg".to_owned(), None)]
        );
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn only_arguments_about_the_iommu_leave_the_node() {
        let text = "GRUB_CMDLINE_LINUX=\"password=secret iommu=pt ip=10.0.0.1\"\nGRUB_PASSWORD=secret\n";
        let kept = used("/etc/default/grub", text).unwrap();
        assert_eq!(kept, "options iommu=pt\n");
        assert_eq!(used("/etc/default/grub", &kept), Some(kept));
        assert_eq!(
            used("/boot/grub/grub.cfg", "password_pbkdf2 root x\n").as_deref(),
            Some("")
        );
        assert_eq!(used("/etc/passwd", text), None);
    }
}
