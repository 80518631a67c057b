//! Commands that change the kernel's command line.

use rdma_health_node::platform::{Cluster, Distribution, Platform};

/// Commands that add an argument and reboot, each on its own line.
pub(crate) fn add(argument: &str, platform: Platform) -> String {
    let set = match (platform.cluster, platform.distribution) {
        (Some(Cluster::OpenShift), _) => return machine_config(argument),
        (_, Some(Distribution::RedHat)) => format!("grubby --update-kernel=ALL --args='{argument}'"),
        (_, Some(Distribution::Debian)) => format!(
            "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {argument}\"' > /etc/default/grub.d/99-rdma.cfg && update-grub"
        ),
        (_, Some(Distribution::Suse)) => format!(
            "sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=\"/&{argument} /' /etc/default/grub && grub2-mkconfig -o /boot/grub2/grub.cfg"
        ),
        (_, None) => {
            format!("# add to the kernel command line in the configuration of the boot loader: {argument}")
        }
    };
    with_reboot(&set, platform)
}

/// Commands that remove an argument and reboot, each on its own line.
pub(crate) fn remove(argument: &str, platform: Platform) -> String {
    let unset = match (platform.cluster, platform.distribution) {
        (Some(Cluster::OpenShift), _) => {
            return format!(
                "oc get mc -o custom-columns=NAME:.metadata.name,ARGUMENTS:.spec.kernelArguments | grep -w -e '{argument}'"
            );
        }
        (_, Some(Distribution::RedHat)) => format!("grubby --update-kernel=ALL --remove-args='{argument}'"),
        (_, Some(Distribution::Debian)) => {
            format!("sed -i 's/ *{argument}//' /etc/default/grub /etc/default/grub.d/*.cfg && update-grub")
        }
        (_, Some(Distribution::Suse)) => {
            format!("sed -i 's/ *{argument}//' /etc/default/grub && grub2-mkconfig -o /boot/grub2/grub.cfg")
        }
        (_, None) => format!(
            "# remove from the kernel command line in the configuration of the boot loader: {argument}"
        ),
    };
    with_reboot(&unset, platform)
}

fn with_reboot(command: &str, platform: Platform) -> String {
    match (platform.cluster, platform.distribution) {
        (Some(Cluster::Kubernetes), _) => {
            format!("{command}\nkubectl drain NODE --ignore-daemonsets --delete-emptydir-data\nreboot")
        }
        // The kernel of OpenShift's nodes is that of RHEL.
        (None, Some(Distribution::RedHat)) => {
            format!("# on OpenShift, change kernelArguments in a MachineConfig instead\n{command}\nreboot")
        }
        _ => format!("{command}\nreboot"),
    }
}

fn machine_config(arguments: &str) -> String {
    let list: Vec<_> = arguments
        .split(' ')
        .map(|argument| format!("\"{argument}\""))
        .collect();
    format!(
        "oc apply -f - <<< '{{\"apiVersion\":\"machineconfiguration.openshift.io/v1\",\"kind\":\"MachineConfig\",\
        \"metadata\":{{\"name\":\"99-worker-rdma\",\"labels\":{{\"machineconfiguration.openshift.io/role\":\"worker\"}}}},\
        \"spec\":{{\"kernelArguments\":[{}]}}}}'",
        list.join(",")
    )
}
