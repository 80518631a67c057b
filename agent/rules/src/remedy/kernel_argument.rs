//! Commands that change the kernel's command line.

use rdma_health_node::{
    Node,
    platform::{Cluster, Distribution, Platform},
};

use super::machine_config;

/// Where Flatcar keeps the changes to its boot loader; a link to `/oem` on newer releases.
const FLATCAR: &str = "/usr/share/oem/grub.cfg";

/// Commands that add arguments, separated by spaces, and reboot, each on its own line.
pub(crate) fn add(argument: &str, platform: Platform) -> String {
    if platform.cluster == Some(Cluster::OpenShift) {
        return machine_config::kernel_arguments(argument);
    }
    let set = match platform.distribution {
        Some(Distribution::RedHat) => format!("grubby --update-kernel=ALL --args='{argument}'"),
        Some(Distribution::CoreOs) => format!("rpm-ostree kargs{}", options("--append-if-missing", argument)),
        Some(Distribution::Debian) => format!(
            "mkdir -p /etc/default/grub.d && echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {argument}\"' > \
             /etc/default/grub.d/99-{}.cfg && update-grub",
            machine_config::label(argument)
        ),
        Some(distribution @ (Distribution::Suse | Distribution::SuseMicro)) => format!(
            "sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=\"/&{argument} /' /etc/default/grub && {}",
            of_suse(distribution)
        ),
        Some(Distribution::Talos) => return of_talos(argument),
        Some(Distribution::Flatcar) => {
            format!("echo 'set linux_append=\"$linux_append {argument}\"' >> {FLATCAR}")
        }
        Some(Distribution::Bottlerocket) => return of_bottlerocket(argument),
        // The line of the kernel begins with the name of this boot loader's platform.
        Some(Distribution::ContainerOptimized) => {
            of_container_optimized(&format!("s/cros_efi/& {argument}/g"))
        }
        None => {
            format!("# add to the kernel command line in the configuration of the boot loader: {argument}")
        }
    };
    with_reboot(&set, platform)
}

/// What to do, with the commands that add arguments on this node; `None` if it is not known where the node runs.
pub(crate) fn added(node: &Node, any: &str, arguments: &str) -> Option<String> {
    let platform = node.platform();
    let is_known = platform.cluster.is_some() && platform.distribution.is_some();
    is_known.then(|| format!("{any}\n{}", add(arguments, platform)))
}

/// Commands that remove an argument and reboot, each on its own line.
pub(crate) fn remove(argument: &str, platform: Platform) -> String {
    if platform.cluster == Some(Cluster::OpenShift) {
        return format!(
            "oc get mc -o custom-columns=NAME:.metadata.name,ARGUMENTS:.spec.kernelArguments | grep -w -e '{argument}'"
        );
    }
    let unset = match platform.distribution {
        Some(Distribution::RedHat) => format!("grubby --update-kernel=ALL --remove-args='{argument}'"),
        Some(Distribution::CoreOs) => format!("rpm-ostree kargs{}", options("--delete-if-present", argument)),
        Some(Distribution::Debian) => {
            format!("sed -i 's/ *{argument}//' /etc/default/grub /etc/default/grub.d/*.cfg && update-grub")
        }
        Some(distribution @ (Distribution::Suse | Distribution::SuseMicro)) => format!(
            "sed -i 's/ *{argument}//' /etc/default/grub && {}",
            of_suse(distribution)
        ),
        Some(Distribution::Talos) => {
            return format!(
                "# remove {argument} from machine.install.extraKernelArgs, or from the Image Factory schematic\n\
                 talosctl -n NODE edit machineconfig\ntalosctl -n NODE upgrade --image INSTALLER"
            );
        }
        Some(Distribution::Flatcar) => format!("sed -i 's/ *{argument}//' {FLATCAR}"),
        Some(Distribution::Bottlerocket) => format!(
            "# remove {argument} from settings.boot.kernel-parameters, in the user data too\n\
             apiclient get settings.boot"
        ),
        Some(Distribution::ContainerOptimized) => of_container_optimized(&format!("s/ *{argument}//g")),
        None => format!(
            "# remove from the kernel command line in the configuration of the boot loader: {argument}"
        ),
    };
    with_reboot(&unset, platform)
}

/// Commands that reboot, each on its own line.
pub(crate) fn reboot(platform: Platform) -> String {
    let all = with_reboot("", platform);
    let commands = all
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    commands.collect::<Vec<_>>().join("\n")
}

/// Commands that have the boot loader use an argument that is in a file which people edit, and reboot, each on its own line.
pub(crate) fn write_again(argument: &str, file: &str, platform: Platform) -> String {
    let is_of_grub = file.starts_with("/etc/default/");
    let write = match platform.distribution {
        // What boot loaders read there is not made from that file again.
        Some(Distribution::RedHat) => format!("grubby --update-kernel=ALL --args='{argument}'"),
        Some(Distribution::Debian) if is_of_grub => "update-grub".to_owned(),
        Some(distribution @ (Distribution::Suse | Distribution::SuseMicro)) if is_of_grub => {
            of_suse(distribution).to_owned()
        }
        _ if is_of_grub => "# write the configuration of GRUB again (update-grub, or grub2-mkconfig -o /boot/grub2/grub.cfg)".to_owned(),
        _ => "# write the boot entries again (Proxmox: proxmox-boot-tool refresh; others: kernel-install add $(uname -r) \
             /boot/vmlinuz-$(uname -r))"
            .to_owned(),
    };
    with_reboot(&write, platform)
}

fn with_reboot(command: &str, platform: Platform) -> String {
    let reboot = match platform.distribution {
        Some(Distribution::Bottlerocket) => "apiclient reboot",
        _ => "reboot",
    };
    match platform.cluster {
        Some(Cluster::Kubernetes) => {
            format!("{command}\nkubectl drain NODE --ignore-daemonsets --delete-emptydir-data\n{reboot}")
        }
        // The kernel of OpenShift's nodes is that of RHEL.
        None if platform.may_be_openshift && platform.distribution.is_some() => {
            format!("# on OpenShift, change kernelArguments in a MachineConfig instead\n{command}\n{reboot}")
        }
        _ => format!("{command}\n{reboot}"),
    }
}

/// One option for each argument.
fn options(option: &str, arguments: &str) -> String {
    arguments
        .split(' ')
        .map(|argument| format!(" {option}='{argument}'"))
        .collect::<Vec<_>>()
        .concat()
}

fn of_suse(distribution: Distribution) -> &'static str {
    match distribution {
        Distribution::SuseMicro => "transactional-update grub.cfg",
        _ => "grub2-mkconfig -o /boot/grub2/grub.cfg",
    }
}

/// Talos takes over kernel arguments when it installs or upgrades itself, also to the same version. The boot loader of UEFI
/// machines since 1.10 takes them from the image.
fn of_talos(arguments: &str) -> String {
    let list: Vec<_> = arguments
        .split(' ')
        .map(|argument| format!("\"{argument}\""))
        .collect();
    let list = list.join(",");
    format!(
        "talosctl -n NODE patch machineconfig --patch '{{\"machine\":{{\"install\":{{\"extraKernelArgs\":[{list}]}}}}}}'\n\
         # if talosctl get securitystate shows bootedWithUKI: true, put them into customization.extraKernelArgs of the Image \
         Factory schematic instead\n\
         talosctl -n NODE upgrade --image INSTALLER"
    )
}

fn of_bottlerocket(arguments: &str) -> String {
    let settings: Vec<String> = arguments
        .split(' ')
        .map(|argument| match argument.split_once('=') {
            Some((key, value)) => format!("\"{key}\" = [\"{value}\"]\n"),
            None => format!("\"{argument}\" = []\n"),
        })
        .collect();
    let settings = settings.concat();
    format!(
        "apiclient apply <<'EOF'\n[settings.boot]\nreboot-to-reconcile = true\n[settings.boot.kernel-parameters]\n{settings}EOF\n\
         apiclient reboot"
    )
}

/// An update of the system may write the file again.
fn of_container_optimized(script: &str) -> String {
    format!(
        "mkdir -p /mnt/disks/efi && mount /dev/disk/by-label/EFI-SYSTEM /mnt/disks/efi\n\
         sed -i '{script}' /mnt/disks/efi/efi/boot/grub.cfg && umount /mnt/disks/efi"
    )
}
