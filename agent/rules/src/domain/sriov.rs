//! Virtual functions, which pods use.

use rdma_health_node::{
    Fact, Function, Node,
    infiniband::CLASS,
    interfaces::VfLink,
    pci::{Role, Sriov, VirtualFunction},
    peers::exceptions,
    words::{count, listed},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer, draft::Draft, policy::Exception,
};

mod switchdev;

const DEVICES: &str = "/sys/bus/pci/devices";

/// Physical functions of RDMA hardware with their virtual ones.
fn physical(node: &Node) -> impl Iterator<Item = (Function<'_>, &Sriov)> {
    let adapters = node
        .functions()
        .into_iter()
        .filter(|function| matches!(function.role, Role::Rdma | Role::Capable) && !function.is_software);
    adapters.filter_map(|function| {
        let sriov = function.pci?.sriov.known()?;
        Some((function, sriov))
    })
}

/// `vfs-missing`.
pub static VFS_MISSING: Rule = Rule {
    id: "vfs-missing",
    domain: Domain::Sriov,
    policy: Policy::of(Severities::WARNING).except(&[&FEWER_THAN_EXPECTED]),
    title: "There are fewer virtual functions than configured or expected",
    explanation: "sriov_numvfs counts virtual functions that are not all on the PCI bus, or there are fewer in total \
        than the configuration expects (expect.vfs). Or an adapter that is in use has none, and equal adapters have some. Pods that request one from the SR-IOV device plugin stay \
        pending.",
    remedy: Remedy {
        any: "Read what the driver logged when it created them: journalctl -k | grep ADDRESS. Usual causes: no room \
            for their memory (SR-IOV, ARI or MMIO above 4 GB is off in the firmware setup), or SRIOV_EN and \
            NUM_OF_VFS are too low in the firmware of the adapter (mlxconfig -d ADDRESS query).",
        openshift: "Show what the operator wants and its status: oc get sriovnetworknodestates -n \
            openshift-sriov-network-operator NODE -o yaml",
        kubernetes: "kubectl get sriovnetworknodestates -A -o yaml; then read the log of the \
            sriov-network-config-daemon on the node.",
        host: "On a node without jobs: echo 0 > /sys/bus/pci/devices/ADDRESS/sriov_numvfs; echo NUMBER > \
            /sys/bus/pci/devices/ADDRESS/sriov_numvfs",
    },
    false_alarms: "Without an expectation, an adapter without virtual functions is reported only if its port is ACTIVE, at least four equal \
        adapters that are attached alike have some, and these are at least three quarters of all.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Configuration],
    judge: vfs_missing,
};

static FEWER_THAN_EXPECTED: Exception = Exception {
    condition: "if there are fewer than expect.vfs",
    severities: Severities::CRITICAL,
};

fn vfs_missing(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    // The reader stops after this many functions.
    const READ: usize = 1024;
    let short = physical(node).filter_map(|(function, sriov)| {
        let (there, configured) = (sriov.functions.len(), sriov.active);
        if there >= configured as usize || there >= READ {
            return None;
        }
        let directory = format!("{DEVICES}/{}", function.address);
        let message = format!(
            "{} has {}, expected {configured} (sriov_numvfs)",
            function.title(),
            count(there, "virtual function")
        );
        let finding = Draft::new(&VFS_MISSING, Subject::device(function.subject()), message)
            .evidence(format!("{directory}/sriov_numvfs"), configured)
            .evidence(format!("{directory}/virtfn*"), there);
        Some(finding)
    });
    let total = expectations
        .vfs
        .and_then(|expected| fewer_than_expected(node, expected));
    short.chain(none_unlike_equals(node)).chain(total).collect()
}

/// Adapters in use without virtual functions, although most equal ones have some. One that is not in use is a spare.
fn none_unlike_equals(node: &Node) -> Vec<Draft> {
    /// Of four adapters, one often serves storage or the host itself.
    const FEWEST: usize = 4;
    let active = |function: &Function<'_>| Some(function.pci?.sriov.known()?.active);
    let is_in_use = |function: &Function<'_>| {
        let mut ports = node.active_ports();
        ports.any(|port| port.hca.pci_address.known().map(String::as_str) == Some(function.address))
    };
    let mut findings = Vec::new();
    for adapters in node.equal_adapters() {
        let all: Vec<_> = adapters.iter().collect();
        let has = |function: &Function<'_>| match active(function)? {
            0 => is_in_use(function).then_some(false),
            _ => Some(true),
        };
        let Some(found) = exceptions(&all, has).filter(|found| found.with >= FEWEST) else {
            continue;
        };
        let most = adapters.iter().filter_map(active).max().unwrap_or_default();
        let share = found.share();
        for function in found.without {
            let message = format!(
                "{} has no virtual functions; {share} equal adapters have some",
                function.title()
            );
            let file = format!("{DEVICES}/{}/sriov_numvfs", function.address);
            findings.push(
                Draft::new(&VFS_MISSING, Subject::device(function.subject()), message)
                    .fill("NUMBER", most.to_string())
                    .evidence(file, 0)
                    .evidence("sriov_numvfs of equal adapters", format!("up to {most}")),
            );
        }
    }
    findings
}

fn fewer_than_expected(node: &Node, expected: u32) -> Option<Draft> {
    let total: usize = physical(node).map(|(_, sriov)| sriov.functions.len()).sum();
    if total >= expected as usize {
        return None;
    }
    let configured: Vec<_> = physical(node)
        .map(|(function, sriov)| format!("{} of {}", sriov.active, function.address))
        .collect();
    let configured = match configured.as_slice() {
        [] => "no function with SR-IOV".into(),
        some => some.join(", "),
    };
    let message = format!(
        "RDMA devices have {}, expected {expected}",
        count(total, "virtual function")
    );
    let finding = Draft::new(&VFS_MISSING, Subject::node(), message)
        .exception(&FEWER_THAN_EXPECTED)
        .evidence(format!("{DEVICES}/*/sriov_numvfs"), configured)
        .evidence("configuration, expect.vfs", expected);
    Some(finding)
}

/// `vf-without-driver`.
pub static VF_WITHOUT_DRIVER: Rule = Rule {
    id: "vf-without-driver",
    domain: Domain::Sriov,
    policy: Policy::of(Severities::WARNING).except(&[&BY_CONFIGURATION]),
    title: "A virtual function has no driver",
    explanation: "The virtual function is on the PCI bus, but no driver is bound to it. It has neither a network \
        device nor an RDMA device, and the SR-IOV device plugin does not offer it to pods. The driver failed (the \
        kernel log shows why), or is configured not to bind.",
    remedy: Remedy {
        any: "Bind the driver: echo ADDRESS > /sys/bus/pci/drivers/DRIVER/bind; if that fails, journalctl -k | \
            grep ADDRESS shows why.",
        openshift: "Check deviceType (netdevice or vfio-pci) in the SriovNetworkNodePolicy, and the log of the \
            sriov-network-config-daemon on the node.",
        ..Remedy::all("")
    },
    false_alarms: "A virtual function that is bound to vfio-pci for a virtual machine has a driver and is not \
        reported.",
    inputs: &[Writer::HostRoot],
    judge: vf_without_driver,
};

static BY_CONFIGURATION: Exception = Exception {
    condition: "if sriov_drivers_autoprobe is 0, so no driver is meant to bind",
    severities: Severities::INFO,
};

fn vf_without_driver(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = physical(node).filter_map(|(function, sriov)| {
        let address = function.address;
        let without: Vec<&VirtualFunction> = sriov
            .functions
            .iter()
            .filter(|vf| vf.driver.is_absent())
            .collect();
        let first = without.first()?;
        let is_meant = sriov.autoprobe.known() == Some(&false);
        let refused = switchdev::refused(node, address);
        let reason = refused.map_or(
            "",
            |_| "; before, the adapter refused to enter the switchdev mode",
        );
        let message = format!(
            "{address} has {} without a driver: {}{reason}",
            count(without.len(), "virtual function"),
            listed(without.iter().map(|vf| vf.address.as_str()))
        );
        let mut finding = Draft::new(&VF_WITHOUT_DRIVER, Subject::device(function.subject()), message)
            .exception(is_meant.then_some(&BY_CONFIGURATION))
            .fill(
                "ADDRESS",
                if refused.is_some() {
                    address
                } else {
                    &first.address
                },
            )
            .fill("DRIVER", function.driver.unwrap_or("DRIVER"))
            .evidence(format!("{DEVICES}/{}/driver", first.address), "no such link");
        if let Some(line) = refused {
            finding = finding
                .remedy(switchdev::REFUSED)
                .fill("NUMBER", sriov.active.to_string())
                .reason(line)
                .evidence("/dev/kmsg", line);
        }
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

/// `vf-guid-zero`.
pub static VF_GUID_ZERO: Rule = Rule {
    id: "vf-guid-zero",
    domain: Domain::Sriov,
    policy: Policy::of(Severities::WARNING),
    title: "The GUID of a virtual function is zero",
    explanation: "The node GUID of a virtual function is zero until it is set. On InfiniBand, the subnet manager \
        gives the virtual function no address and its port stays down. rdma_cm cannot distinguish two such devices, \
        and connections fail with EINVAL.",
    remedy: Remedy {
        any: "Set node GUID and port GUID from the physical function, then bind the driver of the virtual function \
            again.",
        openshift: "Set isRdma: true in the SriovNetworkNodePolicy, and the operator sets the GUID. For InfiniBand, \
            use ib-sriov-cni with ib-kubernetes, or set guid in the network annotation of the pod.",
        kubernetes: "Set isRdma: true in the SriovNetworkNodePolicy, and the operator sets the GUID. For InfiniBand, \
            use ib-sriov-cni with ib-kubernetes, or set guid in the network annotation of the pod.",
        host: "ip link set PF vf N node_guid GUID; ip link set PF vf N port_guid GUID; echo ADDRESS > \
            /sys/bus/pci/drivers/mlx5_core/unbind; echo ADDRESS > /sys/bus/pci/drivers/mlx5_core/bind",
    },
    false_alarms: "Virtual functions without a driver and software devices have no GUID and are not judged.",
    inputs: &[Writer::HostRoot],
    judge: vf_guid_zero,
};

/// What to do about a virtual function of Ethernet, whose driver makes the GUID of its administrative MAC address.
const OF_ETHERNET: Remedy = Remedy {
    any: "Give the virtual function an administrative MAC address from the physical function, then bind its driver again, which makes the GUID of it.",
    host: "ip link set PF vf N mac MAC; echo ADDRESS > /sys/bus/pci/drivers/mlx5_core/unbind; echo ADDRESS > \
        /sys/bus/pci/drivers/mlx5_core/bind",
    openshift: BY_OPERATOR,
    kubernetes: BY_OPERATOR,
};

/// The same where the SR-IOV operator sets the functions up.
const BY_OPERATOR: &str = "Set isRdma: true in the SriovNetworkNodePolicy: the operator then sets the address and binds the driver again.";

fn vf_guid_zero(node: &Node, _: &Expectations) -> Vec<Draft> {
    let zero = node
        .hcas()
        .filter(|hca| hca.is_virtual() && hca.node_guid.known().is_some_and(|guid| guid.0 == 0));
    let found = zero.map(|hca| {
        let address = hca.pci_address.known().map_or("?", String::as_str);
        let (what, remedy) = if node.ports_of(hca).any(|port| port.is_infiniband()) {
            ("its port cannot come up", VF_GUID_ZERO.remedy)
        } else {
            ("rdma_cm cannot use it", OF_ETHERNET)
        };
        Draft::new(
            &VF_GUID_ZERO,
            Subject::device(&hca.name),
            format!(
                "the node GUID of virtual function {} ({address}) is zero: {what}",
                hca.name
            ),
        )
        .remedy(remedy)
        .evidence(format!("{CLASS}/{}/node_guid", hca.name), "0000:0000:0000:0000")
    });
    found.collect()
}

/// `vf-mac-zero`.
pub static VF_MAC_ZERO: Rule = Rule {
    id: "vf-mac-zero",
    domain: Domain::Sriov,
    policy: Policy::of(Severities::WARNING),
    title: "The network device of a virtual function has no MAC address",
    explanation: "The MAC address is 00:00:00:00:00:00. The device cannot come up with it, so its port has no GID \
        and carries no traffic.",
    remedy: Remedy {
        any: "Set an address: ip link set PF vf N mac MAC; then bind the driver of the virtual function again.",
        openshift: "The operator sets an address: read the log of its sriov-network-config-daemon on the node.",
        ..Remedy::all("")
    },
    false_alarms: "A physical function usually reports no address for a virtual function, whose driver then makes \
        one up. Only the address of the network device itself is judged.",
    inputs: &[Writer::HostRoot, Writer::Job],
    judge: vf_mac_zero,
};

fn vf_mac_zero(node: &Node, _: &Expectations) -> Vec<Draft> {
    let virtuals = node
        .ports()
        .filter(|port| port.hca.is_virtual() && port.is_ethernet());
    let found = virtuals.filter_map(|port| {
        let netdev = port.netdev.known()?;
        let address = netdev
            .address
            .known()
            .filter(|address| address.bytes().all(|b| matches!(b, b'0' | b':')))?;
        Some(
            Draft::new(
                &VF_MAC_ZERO,
                Subject::of_port(&port),
                format!(
                    "{} of virtual function {} has MAC address {address}",
                    netdev.name, port.hca.name
                ),
            )
            .evidence(format!("/sys/class/net/{}/address", netdev.name), address),
        )
    });
    found.collect()
}

/// `vf-trust`.
pub static VF_TRUST: Rule = Rule {
    id: "vf-trust",
    domain: Domain::Sriov,
    policy: Policy::of(Severities::WARNING),
    title: "The physical function blocks the traffic of a virtual function",
    explanation: "The physical function holds the link of the virtual function down. Or spoofcheck is on, trust is \
        off, and the virtual function uses another MAC address than the one it was given: its frames are dropped, \
        and with them address resolution for RoCE.",
    remedy: Remedy {
        any: "If the link is held down: ip link set PF vf N state auto. If the address differs: ip link set PF vf N \
            mac MAC, or trust on, or spoofchk off.",
        openshift: "Set linkState: auto, trust: \"on\" and spoofChk: \"off\" in the SriovNetwork.",
        kubernetes: "Set the same fields in the SriovNetwork or in the configuration of sriov-cni.",
        ..Remedy::all("")
    },
    false_alarms: "Trust off and spoofcheck on are the defaults and are not reported as long as the addresses match. \
        The kernel reports the settings with any driver; of a tree of files only those of MLNX_OFED and DOCA are known.",
    inputs: &[Writer::HostRoot, Writer::Job],
    judge: vf_trust,
};

fn vf_trust(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = physical(node).flat_map(|(function, sriov)| {
        let blocked = move |vf| blocked(node, function.address, vf);
        sriov.functions.iter().filter_map(blocked)
    });
    found.collect()
}

/// What a physical function has set for a virtual function, and where that can be seen.
struct Settings<'a> {
    link_is_down: bool,
    mac: Option<&'a str>,
    is_trusted: Option<bool>,
    checks_source: Option<bool>,
    source: String,
}

impl<'a> Settings<'a> {
    /// From netlink, which every driver answers; otherwise from the files of MLNX_OFED and DOCA.
    fn of(node: &'a Node, address: &str, vf: &'a VirtualFunction) -> Self {
        if let Some((netdev, settings)) = node.vf_settings(address, vf.number) {
            return Self {
                link_is_down: settings.link_state == Some(VfLink::Disable),
                mac: Some(&settings.mac),
                is_trusted: settings.trust,
                checks_source: settings.spoof_check,
                source: format!("ip link show {netdev}, vf {}:", vf.number),
            };
        }
        let is = |fact: &Fact<String>, word: &str| {
            fact.known().is_some_and(|found| found.eq_ignore_ascii_case(word))
        };
        let switch = |fact: &Fact<String>| fact.known().map(|found| found.eq_ignore_ascii_case("on"));
        Self {
            link_is_down: is(&vf.link_state, "down") || is(&vf.link_state, "disable"),
            mac: vf.mac.known().map(String::as_str),
            is_trusted: switch(&vf.trust),
            checks_source: switch(&vf.spoof_check),
            source: format!("{DEVICES}/{address}/sriov/{}:", vf.number),
        }
    }
}

/// A virtual function whose traffic the physical function at `address` blocks.
fn blocked(node: &Node, address: &str, vf: &VirtualFunction) -> Option<Draft> {
    let hca = node
        .hcas()
        .find(|hca| hca.pci_address.known() == Some(&vf.address));
    let name = hca.map_or(vf.address.as_str(), |hca| hca.name.as_str());
    let number = vf.number;
    let settings = Settings::of(node, address, vf);
    let source = |what: &str| format!("{} {what}", settings.source);
    if settings.link_is_down {
        let message = format!("physical function {address} holds the link of {name} (VF {number}) down");
        let finding = Draft::new(&VF_TRUST, Subject::device(name), message);
        return Some(finding.evidence(source("link state"), "down"));
    }
    let used = hca?
        .ports
        .values()
        .find_map(|port| port.netdev.known()?.address.known())?;
    let given = settings.mac?;
    let is_given = given.bytes().any(|b| !matches!(b, b'0' | b':'));
    let is_dropped = settings.checks_source == Some(true) && settings.is_trusted == Some(false);
    if !is_given || !is_dropped || *used == given.to_ascii_lowercase() {
        return None;
    }
    let message = format!(
        "{name} (VF {number} of {address}) uses MAC address {used}, expected {given}: spoofcheck drops its frames"
    );
    let finding = Draft::new(&VF_TRUST, Subject::device(name), message)
        .evidence(source("spoof checking"), "on")
        .evidence(source("trust"), "off")
        .evidence(source("MAC"), given);
    Some(finding)
}
