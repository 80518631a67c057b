//! Virtual functions that pods have or can get.

use rdma_health_node::{Function, Node, Port, words::count};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
};

/// `vf-port-down`.
pub static VF_PORT_DOWN: Rule = Rule {
    id: "vf-port-down",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "Pods have or can get virtual functions whose port is down",
    explanation: "The kubelet offers virtual functions to pods, or has given them to pods, and the port of their physical \
        function is not ACTIVE. The scheduler does not know: the device plugin reports a virtual function as healthy while \
        the cable is out. A pod that gets one starts, and its job fails or falls back to TCP.",
    remedy: Remedy {
        any: "Repair the link: rdma-health check --verbose shows why it is down. Until then, keep new pods away: \
            kubectl cordon NODE.",
        openshift: "To withdraw the functions instead, remove the physical function from the nicSelector of its \
            SriovNetworkNodePolicy. That drains the node.",
        kubernetes: "To withdraw the functions instead, remove the physical function from the selectors of its resource in the \
            configuration of the device plugin, and restart the plugin on the node.",
        ..Remedy::all("")
    },
    false_alarms: "Silent unless the helper may ask the kubelet for its pod resources. A physical function with several ports is \
        reported if all of them are down. Virtual functions that no device plugin offers are not counted.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Fabric],
    judge: vf_port_down,
};

fn vf_port_down(node: &Node, _: &Expectations) -> Vec<Draft> {
    let offered = node.offered_functions();
    if offered.is_empty() {
        return Vec::new();
    }
    let functions = node.functions();
    let found = offered.iter().filter_map(|offered| {
        let physical = functions
            .iter()
            .find(|function| function.address == offered.address)?;
        let down = ports_all_down(node, physical)?;
        let number = offered.allocatable.max(offered.allocated);
        let resources = offered.resources.join(", ");
        let in_use = match offered.allocated {
            0 => String::new(),
            some => format!(", {some} of them in use by pods"),
        };
        let state = down.state.known()?;
        let message = format!(
            "{down} is {}, expected ACTIVE: pods can get {} of {} ({resources}){in_use}",
            state.name,
            count(number, "virtual function"),
            physical.address,
        );
        let mut finding = Draft::new(&VF_PORT_DOWN, Subject::of_port(&down), message)
            .evidence(down.file("state"), state)
            .evidence(
                "kubelet GetAllocatableResources",
                count(offered.allocatable, "virtual function"),
            );
        if offered.allocated > 0 {
            finding = finding.evidence("kubelet List", count(offered.allocated, "virtual function"));
        }
        Some(finding)
    });
    found.collect()
}

/// The first port of a physical function, if none of its ports is ACTIVE.
fn ports_all_down<'a>(node: &'a Node, function: &Function<'a>) -> Option<Port<'a>> {
    let mut ports = function
        .names
        .iter()
        .filter_map(|name| node.hcas.known()?.get(*name))
        .flat_map(|hca| node.ports_of(hca))
        .filter(|port| !port.is_representor())
        .peekable();
    let first = *ports.peek()?;
    ports.all(|port| port.is_active() == Some(false)).then_some(first)
}
