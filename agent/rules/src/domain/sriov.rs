//! Virtual functions: what pods use.

use rdma_health_node::{
    Node,
    infiniband::CLASS,
    pci::{Function, Role, Sriov, VirtualFunction},
};

use super::{
    common::{count, is_ethernet, is_infiniband, is_virtual, severity},
    pci_link::{below_software, subject},
};
use crate::{Domain, Expectations, Finding, Remedy, Rule, Severity, Subject};

const DEVICES: &str = "/sys/bus/pci/devices";

/// Physical functions of RDMA hardware with their virtual ones.
fn physical(node: &Node) -> impl Iterator<Item = (&String, &Function, &Sriov)> {
    let roles = [Role::Rdma, Role::Capable];
    roles
        .into_iter()
        .flat_map(|role| node.pci.with_role(role))
        .filter(|(address, _)| !below_software(node, address))
        .filter_map(|(address, function)| Some((address, function, function.sriov.known()?)))
}

/// `vfs-missing`.
pub(crate) static VFS_MISSING: Rule = Rule {
    id: "vfs-missing",
    domain: Domain::Sriov,
    severity: Severity::Warning,
    title: "There are fewer virtual functions than configured or expected",
    explanation: "sriov_numvfs counts virtual functions that are not all on the bus, or there are fewer in all than the \
        configuration expects (expect.vfs). Pods that ask the SR-IOV device plugin for one stay pending. Critical below what is \
        expected, a warning otherwise.",
    remedy: Remedy {
        any: "Look at the kernel's log for what the driver said as they were made: no room for their memory (SR-IOV, ARI or MMIO \
            above 4 GB off in the firmware's setup), or SRIOV_EN and NUM_OF_VFS too low in the adapter's firmware (mlxconfig).",
        openshift: "oc get sriovnetworknodestates -n openshift-sriov-network-operator NODE -o yaml shows what the operator \
            wants and how it fares.",
        kubernetes: "kubectl get sriovnetworknodestates -A -o yaml, and the log of the sriov-network-config-daemon on the node.",
        host: "echo 0, then the number, > /sys/bus/pci/devices/ADDRESS/sriov_numvfs.",
    },
    false_alarms: "Without an expectation a number of 0 is no finding: nobody asked for any.",
    judge: vfs_missing,
};

fn vfs_missing(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(warning) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut total = 0_u64;
    for (address, _, sriov) in physical(node) {
        total += sriov.functions.len() as u64;
        // Beyond what the reader looks at nothing can be said.
        let there = sriov.functions.len();
        if there < sriov.active as usize && there < 1024 {
            let message = format!(
                "{address} should have {} but {there} are there",
                count(sriov.active as usize, "virtual function")
            );
            findings.push(
                Finding::new(&VFS_MISSING, subject(node, address), message)
                    .severity(warning)
                    .evidence(format!("{DEVICES}/{address}/sriov_numvfs"), sriov.active)
                    .evidence(format!("{DEVICES}/{address}/virtfn*"), there),
            );
        }
    }
    if let Some(expected) = expectations.vfs.filter(|expected| total < u64::from(*expected)) {
        let numbers: Vec<_> = physical(node)
            .map(|(address, _, sriov)| format!("{} of {address}", sriov.active))
            .collect();
        let numbers = if numbers.is_empty() {
            "no function with SR-IOV".into()
        } else {
            numbers.join(", ")
        };
        findings.push(
            Finding::new(
                &VFS_MISSING,
                Subject::node(),
                format!("{total} virtual functions of RDMA devices, expected are {expected}"),
            )
            .severity(Severity::Critical)
            .evidence(format!("{DEVICES}/*/sriov_numvfs"), numbers)
            .evidence("configuration, expect.vfs", expected),
        );
    }
    findings
}

/// `vf-without-driver`.
pub(crate) static VF_WITHOUT_DRIVER: Rule = Rule {
    id: "vf-without-driver",
    domain: Domain::Sriov,
    severity: Severity::Warning,
    title: "A virtual function has no driver",
    explanation: "The virtual function is on the bus and no driver took it: it has neither network nor RDMA device, and the \
        SR-IOV device plugin does not offer it to pods. The driver failed (the kernel's log says why), or was told not to.",
    remedy: Remedy {
        any: "Look at the kernel's log for the address. Bind it: echo ADDRESS > /sys/bus/pci/drivers/mlx5_core/bind.",
        openshift: "The SriovNetworkNodePolicy's deviceType decides (netdevice or vfio-pci); look at the operator's \
            sriov-network-config-daemon on the node.",
        ..Remedy::all("")
    },
    false_alarms: "Where sriov_drivers_autoprobe is 0 somebody wants it so, and where a virtual machine is to get it vfio-pci is \
        its driver: then it is for information, or silent.",
    judge: vf_without_driver,
};

fn vf_without_driver(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let found = physical(node).filter_map(|(address, _, sriov)| {
        let without: Vec<&VirtualFunction> = sriov
            .functions
            .iter()
            .filter(|vf| vf.driver.is_absent())
            .collect();
        let first = without.first()?;
        let auto = if sriov.autoprobe.known() == Some(&false) {
            Severity::Info
        } else {
            Severity::Warning
        };
        let severity = severity(expectations, auto, auto)?;
        let message = format!(
            "{} of {address} without a driver: {}",
            count(without.len(), "virtual function"),
            listed(without.iter().map(|vf| vf.address.as_str()))
        );
        let mut finding = Finding::new(&VF_WITHOUT_DRIVER, subject(node, address), message)
            .severity(severity)
            .evidence(
                format!("{DEVICES}/{}/driver", first.address),
                "there is no such link",
            );
        if let Some(autoprobe) = sriov.autoprobe.known() {
            finding = finding.evidence(
                format!("{DEVICES}/{address}/sriov_drivers_autoprobe"),
                u8::from(*autoprobe),
            );
        }
        Some(finding)
    });
    found.collect()
}

/// The first few, and how many more.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    let more = names.len().saturating_sub(4);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 {
        format!("{shown} and {more} more")
    } else {
        shown
    }
}

/// `vf-guid-zero`.
pub(crate) static VF_GUID_ZERO: Rule = Rule {
    id: "vf-guid-zero",
    domain: Domain::Sriov,
    severity: Severity::Warning,
    title: "A virtual function's GUID is zero",
    explanation: "The node GUID of a virtual function is zero until somebody sets it. On InfiniBand the subnet manager gives it \
        no address and its port stays down; rdma_cm cannot tell two such devices apart, and connections fail with EINVAL.",
    remedy: Remedy {
        any: "Set node and port GUID from the physical function, then bind the virtual function anew.",
        openshift: "With isRdma: true in the SriovNetworkNodePolicy the operator sets it; for InfiniBand use ib-sriov-cni with \
            ib-kubernetes or a guid in the pod's network annotation.",
        kubernetes: "As on OpenShift.",
        host: "ip link set PF vf N node_guid GUID; ip link set PF vf N port_guid GUID; echo ADDRESS > .../driver/unbind, then bind.",
    },
    false_alarms: "Virtual functions without a driver, and those of software, have no GUID and are not judged.",
    judge: vf_guid_zero,
};

fn vf_guid_zero(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let zero = node
        .hcas()
        .filter(|hca| is_virtual(hca) && hca.node_guid.known().is_some_and(|guid| guid.0 == 0));
    let found = zero.map(|hca| {
        let address = hca.pci_address.known().map_or("?", String::as_str);
        let what = if hca.ports.values().any(|port| is_infiniband(port)) {
            "its port cannot come up"
        } else {
            "rdma_cm cannot use it"
        };
        Finding::new(
            &VF_GUID_ZERO,
            Subject::device(&hca.name),
            format!(
                "the node GUID of virtual function {} ({address}) is zero: {what}",
                hca.name
            ),
        )
        .severity(severity)
        .evidence(format!("{CLASS}/{}/node_guid", hca.name), "0000:0000:0000:0000")
    });
    found.collect()
}

/// `vf-mac-zero`.
pub(crate) static VF_MAC_ZERO: Rule = Rule {
    id: "vf-mac-zero",
    domain: Domain::Sriov,
    severity: Severity::Warning,
    title: "The network device of a virtual function has no hardware address",
    explanation: "The address is 00:00:00:00:00:00. The device cannot come up with it, so that its port has no GID and no traffic.",
    remedy: Remedy {
        any: "Set one: ip link set PF vf N mac ADDRESS, then bind the virtual function anew.",
        openshift: "The operator sets one; look at its sriov-network-config-daemon on the node.",
        ..Remedy::all("")
    },
    false_alarms: "That the physical function names no address for a virtual one is usual: its driver then makes one up. Only the \
        network device's own address is judged.",
    judge: vf_mac_zero,
};

fn vf_mac_zero(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let virtuals = node
        .ports()
        .filter(|(hca, _, port)| is_virtual(hca) && is_ethernet(port));
    let found = virtuals.filter_map(|(hca, number, port)| {
        let netdev = port.netdev.known()?;
        let address = netdev
            .address
            .known()
            .filter(|address| address.bytes().all(|b| matches!(b, b'0' | b':')))?;
        Some(
            Finding::new(
                &VF_MAC_ZERO,
                Subject::port(&hca.name, number),
                format!(
                    "{} of virtual function {} has no hardware address",
                    netdev.name, hca.name
                ),
            )
            .severity(severity)
            .evidence(format!("/sys/class/net/{}/address", netdev.name), address),
        )
    });
    found.collect()
}

/// `vf-trust`.
pub(crate) static VF_TRUST: Rule = Rule {
    id: "vf-trust",
    domain: Domain::Sriov,
    severity: Severity::Warning,
    title: "The physical function keeps a virtual one from carrying traffic",
    explanation: "The physical function holds the virtual one's link down; or it checks for forged addresses (spoofcheck) while \
        the virtual function uses another hardware address than the one it was given, and is not trusted to: its frames are \
        dropped, and address resolution for RoCE with them.",
    remedy: Remedy {
        any: "ip link set PF vf N state auto; for a changed address ip link set PF vf N trust on or spoofchk off, or give the \
            address that is used.",
        openshift: "In the SriovNetwork: linkState: auto, trust: \"on\", spoofChk: \"off\".",
        kubernetes: "The same fields of the SriovNetwork or of the sriov-cni configuration.",
        host: "",
    },
    false_alarms: "Trust off and spoofcheck on are the defaults and no finding as long as addresses agree. Read through sysfs, \
        which only MLNX_OFED and DOCA offer; silent elsewhere.",
    judge: vf_trust,
};

fn vf_trust(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let is = |fact: &rdma_health_node::Fact<String>, word: &str| {
        fact.known().is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    let mut findings = Vec::new();
    for (address, _, sriov) in physical(node) {
        for vf in &sriov.functions {
            let hca = node
                .hcas()
                .find(|hca| hca.pci_address.known() == Some(&vf.address));
            let name = hca.map_or(vf.address.as_str(), |hca| hca.name.as_str());
            let directory = format!("{DEVICES}/{address}/sriov/{}", vf.number);
            let used = hca.and_then(|hca| {
                hca.ports
                    .values()
                    .find_map(|port| port.netdev.known()?.address.known())
            });
            let given = vf.mac.known().map(|mac| mac.to_ascii_lowercase());
            let differs = match (used, given) {
                (Some(used), Some(given)) if given.bytes().any(|b| !matches!(b, b'0' | b':')) => {
                    *used != given
                }
                _ => false,
            };
            let finding = if is(&vf.link_state, "down") || is(&vf.link_state, "disable") {
                let message = format!(
                    "the physical function {address} holds the link of {name} (VF {}) down",
                    vf.number
                );
                Finding::new(&VF_TRUST, Subject::device(name), message).evidence(
                    format!("{directory}/link_state"),
                    vf.link_state.known().map_or("", String::as_str),
                )
            } else if differs && is(&vf.spoof_check, "on") && is(&vf.trust, "off") {
                let message = format!(
                    "{name} (VF {} of {address}) uses an address that it was not given, and spoofcheck is on",
                    vf.number
                );
                Finding::new(&VF_TRUST, Subject::device(name), message)
                    .evidence(format!("{directory}/spoofcheck"), "ON")
                    .evidence(format!("{directory}/trust"), "OFF")
                    .evidence(
                        format!("{directory}/mac"),
                        vf.mac.known().map_or("", String::as_str),
                    )
            } else {
                continue;
            };
            findings.push(finding.severity(severity));
        }
    }
    findings
}
