//! What tools of firmware and hypervisors refuse: steps for what their messages name.

use super::{Case, Scales, assignment, logged};
use crate::symptom::SymptomKind;

/// A tool that could not write firmware or a setting: the adapter did not answer, or it refused.
pub(crate) fn firmware_tool(case: &Case<'_>, scales: &mut Scales) {
    let step = case
        .seen(&[SymptomKind::FirmwareRefused])
        .find_map(assignment::refusal);
    scales.next_step = step.map(str::to_owned);
    logged(case, scales);
}

/// A tool that did not reach the adapter, where an operator calls it.
pub(crate) fn tool_access(case: &Case<'_>, scales: &mut Scales) {
    let mut found = case.seen(&[SymptomKind::ToolNoAccess]);
    if found.any(|symptom| symptom.text.to_ascii_lowercase().contains("lastsyncerror")) {
        scales.next_step = Some(
            "Set the adapter's firmware without the SR-IOV operator, because lockdown (Secure Boot) keeps its tool from the adapter: with Secure Boot off, or before the node \
            joins, mlxconfig -d ADDRESS set SRIOV_EN=1 NUM_OF_VFS=N. Then let the operator leave the firmware alone: disablePlugins: [mellanox] in SriovOperatorConfig. \
            cat /sys/kernel/security/lockdown shows the state."
                .into(),
        );
    }
    let refused = case
        .seen(&[SymptomKind::ToolNoAccess])
        .any(|symptom| symptom.text.to_ascii_lowercase().contains("cannot open"));
    if refused && case.log.is_some_and(|log| log.marks.old_adapter) {
        scales.next_step = Some(OLD_ADAPTER.to_owned());
    }
    logged(case, scales);
}

/// The step where the log lists an adapter before `ConnectX-3`.
const OLD_ADAPTER: &str = "Use an old release of the firmware tools for this old adapter: current ones do not know it and say that the operation is not supported. mstflint 3.8 and MFT 4.22 are the \
    last for ConnectX-2 and ConnectX-3, and InfiniHost needs older ones (mstflint 1.4, or ibutils and tvflash of its time). lspci -nn shows the model. What the kernel logs of its firmware does not need \
    the tool: ethtool -i NETDEV, ibstat.";

/// A function that cannot be given to a virtual machine: files that the hypervisor may not open, or an IOMMU group that is not free.
pub(crate) fn device_assignment(case: &Case<'_>, scales: &mut Scales) {
    let step = case
        .seen(&[SymptomKind::AssignRefused])
        .find_map(assignment::step);
    scales.next_step = step.map(str::to_owned);
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
