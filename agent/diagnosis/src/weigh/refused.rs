//! What the driver or the firmware of an adapter refuses to set for a virtual function. The texts are in lower case.

/// Whether the driver answered that it does not have an operation (EOPNOTSUPP).
fn is_refused(text: &str) -> bool {
    ["operation not supported", "eopnotsupp", "errno 95", "error -95"]
        .iter()
        .any(|words| text.contains(words))
}

/// What to do where the driver does not have the operation, by what was to be set.
pub(super) fn step(text: &str) -> Option<&'static str> {
    if !is_refused(text) {
        return None;
    }
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    Some(if has(&["eswitch", "e-switch", "switchdev"]) {
        NO_SWITCHDEV
    } else if has(&["vlan", " qos"]) {
        NO_VLAN
    } else if has(&[
        "admin mac",
        "adminmac",
        "setvfmac",
        "mac address",
        "hardware address",
    ]) {
        NO_MAC
    } else if has(&["link state", "linkstate", "link_state"]) {
        NO_LINK_STATE
    } else if has(&["trust", "spoof", "tx rate", "max rate", "min rate"]) {
        NO_FILTER
    } else {
        NOT_NAMED
    })
}

const NO_SWITCHDEV: &str = "The driver of this adapter does not have this mode of the switch: devlink dev eswitch show pci/ADDRESS answers the same. Use it with the physical function \
    of an adapter that has it (ConnectX-5 or later with Ethernet ports, E810), and with a current kernel or driver; a virtual function and an InfiniBand port never have it. \
    Otherwise leave eSwitchMode out of the SriovNetworkNodePolicy, or set it to legacy.";

const NO_VLAN: &str = "InfiniBand has no VLANs: for an InfiniBand port use the network type ib-sriov (SriovIBNetwork, a partition key in the place of the VLAN), and linkType: ib in the \
    policy. On Ethernet, try on the host what the plugin does: ip link set PF vf N vlan ID. If that answers Operation not supported, the driver does not have it: \
    update driver and firmware, or leave VLAN and QoS out of the network.";

const NO_MAC: &str = "InfiniBand functions have GUIDs and no administrative MAC address. In the SriovNetworkNodePolicy set linkType: ib (and isRdma: true), in the \
    network type ib-sriov, and check that the port is InfiniBand: ibstat, mlxconfig -d ADDRESS query LINK_TYPE_P1. On Ethernet, the \
    driver or firmware refuses the address: update them.";

const NO_LINK_STATE: &str = "The driver of this adapter cannot set the state of a virtual function's link: ip link set PF vf N state auto on the host answers the same. Leave linkState (link_state) out \
    of the network, or update driver and firmware.";

const NO_FILTER: &str = "The driver of this adapter does not have this setting for virtual functions: ip link set PF vf N on the host, with the same setting (trust, spoofchk, max_tx_rate), answers the \
    same. Leave it out of the network, or update driver and firmware.";

const NOT_NAMED: &str = "The driver or firmware of the adapter refuses what the operator sets for a virtual function; the lines before this one in the daemon's log name the function and the \
    step. Try the same on the host: ip link set PF vf N node_guid GUID (InfiniBand) or mac MAC (Ethernet). InfiniBand needs linkType: ib in the SriovNetworkNodePolicy, \
    and a driver that sets GUIDs (mlx5 of the kernel or of MLNX_OFED; update it if ip link is refused, too). Ethernet needs none, and eSwitchMode only where devlink dev \
    eswitch show pci/ADDRESS shows a mode.";
