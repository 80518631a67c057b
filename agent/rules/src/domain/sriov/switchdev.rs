//! Virtual functions that wait for the switchdev mode of their adapter, which refused it.

use rdma_health_node::Node;

use crate::Remedy;

/// What to do about virtual functions that wait for a mode of the adapter that it refused.
pub(super) const REFUSED: Remedy = Remedy {
    any: "The adapter refused to enter the switchdev mode (REASON), for which its virtual functions wait without a driver. Remove the virtual functions, change the mode while \
        there are none, then create them again and bind their driver. If it refuses without virtual functions, too, update the firmware of the adapter.",
    openshift: "Let the operator do it again: set eSwitchMode: switchdev in the SriovNetworkNodePolicy, restart the node, and read the log of the \
        sriov-network-config-daemon.",
    host: "echo 0 > /sys/bus/pci/devices/ADDRESS/sriov_numvfs; devlink dev eswitch set pci/ADDRESS mode switchdev; devlink dev eswitch show pci/ADDRESS; echo NUMBER > \
        /sys/bus/pci/devices/ADDRESS/sriov_numvfs; journalctl -k | grep ADDRESS",
    ..Remedy::all("")
};

/// The message in which the driver of a function says that it could not enter the switchdev mode, unless it entered the mode later.
pub(super) fn refused<'a>(node: &'a Node, address: &str) -> Option<&'a str> {
    const FAILURES: [&str; 4] = ["fail", "error", "unable", "couldn't"];
    /// What only the change of the mode needs: other failures of the switch are those of one port.
    const OF_MODE: [&str; 5] = ["fdb", "mode", "switchdev", "offloads", "steering"];
    let lines = node.kernel_lines().iter().filter(|line| line.contains(address));
    let of_switch = lines
        .map(|line| (line, line.to_ascii_lowercase()))
        .filter(|(_, lower)| {
            ["e-switch", "eswitch", "switchdev"]
                .iter()
                .any(|name| lower.contains(name))
        });
    let mut last = None;
    for (line, lower) in of_switch {
        let is_failure = FAILURES.iter().any(|word| lower.contains(word));
        if is_failure && OF_MODE.iter().any(|word| lower.contains(word)) {
            last = Some(line.as_str());
        } else if lower.contains("offloads") && !lower.contains("disable") {
            last = None;
        }
    }
    last
}
