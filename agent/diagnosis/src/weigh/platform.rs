//! What tools of firmware and hypervisors refuse: steps for what their messages name.

use super::{Case, Scales, logged};
use crate::symptom::{Symptom, SymptomKind};

/// A tool that could not write firmware or a setting: the adapter did not answer, or it refused.
pub(crate) fn firmware_tool(case: &Case<'_>, scales: &mut Scales) {
    let mut refused = case.seen(&[SymptomKind::FirmwareRefused]);
    if refused.any(|symptom| has(symptom, &["timeout", "timed out", "semaphore"])) {
        scales.next_step = Some(
            "The adapter did not answer the tool in time. End other tools of its firmware, and try again with another release of MFT or mstflint: old \
            firmware may need an older one. If the adapter still does not answer, switch the power of the host off and on."
                .into(),
        );
    }
    logged(case, scales);
}

/// A tool that did not reach the adapter, where an operator calls it.
pub(crate) fn tool_access(case: &Case<'_>, scales: &mut Scales) {
    let mut found = case.seen(&[SymptomKind::ToolNoAccess]);
    if found.any(|symptom| has(symptom, &["lastsyncerror"])) {
        scales.next_step = Some(
            "Set the adapter's firmware without the SR-IOV operator, because lockdown (Secure Boot) keeps its tool from the adapter: with Secure Boot off, or before the node \
            joins, mlxconfig -d ADDRESS set SRIOV_EN=1 NUM_OF_VFS=N. Then let the operator leave the firmware alone: disablePlugins: [mellanox] in SriovOperatorConfig. \
            cat /sys/kernel/security/lockdown shows the state."
                .into(),
        );
    }
    logged(case, scales);
}

/// A function that cannot be given to a virtual machine: files that the hypervisor may not open, or an IOMMU group that is not free.
pub(crate) fn device_assignment(case: &Case<'_>, scales: &mut Scales) {
    let mut refused = case.seen(&[SymptomKind::AssignRefused]);
    if refused.any(|symptom| has(symptom, &["open"]) && has(symptom, &["permission denied", "not permitted"]))
    {
        scales.next_step = Some(
            "The hypervisor may not open the files of the function. Where it runs, ls -lZ /dev/vfio /sys/bus/pci/devices/ADDRESS/config shows owner and SELinux \
            label. On Kubernetes, a pod gets /dev/vfio/vfio and the group of its function from the device plugin: compare permittedHostDevices in the \
            KubeVirt resource with the plugin's resource name. With libvirt, let it manage the function (managed='yes'), and read ausearch -m avc."
                .into(),
        );
    } else if case.seen(&[SymptomKind::AssignRefused]).any(|symptom| {
        has(
            symptom,
            &[
                "bus '",
                "host pci address",
                "no pci mapping",
                "hotplug",
                "hot plug",
            ],
        )
    }) {
        scales.next_step = Some(
            "Give Kata a PCI port for the function: in its configuration.toml set cold_plug_vfio = \"root-port\" (or hot_plug_vfio) and pcie_root_port to the \
            number of functions, with machine_type q35. The function must be bound to vfio-pci on the node, and the pod must request the pool of the \
            device plugin whose driver is vfio-pci: lspci -nnk -s ADDRESS."
                .into(),
        );
    }
    logged(case, scales);
}

/// The file that a driver did not find, where the message names it.
pub(crate) fn firmware_file(case: &Case<'_>, scales: &mut Scales) {
    let named = case.seen(&[SymptomKind::FirmwareMissing]).find_map(|symptom| {
        let (_, rest) = symptom.text.split_once("Direct firmware load for ")?;
        let file = rest.split(' ').next()?;
        let is_file = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-');
        (!file.is_empty() && file.bytes().all(is_file))
            .then(|| (file.to_owned(), symptom.text.contains("ice")))
    });
    if let Some((file, is_ice)) = named {
        let without = if is_ice {
            " Until then, ice is in its safe mode, which has no RDMA."
        } else {
            ""
        };
        scales.next_step = Some(format!(
            "Install the package of firmware (linux-firmware, or the one of the driver), check that ls /lib/firmware/{file}* finds the file, and rebuild the \
            initramfs: update-initramfs -u, or dracut -f. Then reload the driver or restart the node.{without}"
        ));
    }
    logged(case, scales);
}

fn has(symptom: &Symptom, words: &[&str]) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}
