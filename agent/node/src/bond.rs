//! Members of a bond that LACP leaves out, joined from sysfs and netlink.

use rdma_health_kernel::{infiniband, netlink::interfaces::Bond, network::Settings};

use crate::Node;

/// A fact about a bond: the file or command that shows it, and its value.
pub type Shown = (String, u64);

/// The members of one bond that have a link and carry no traffic.
#[derive(Debug, PartialEq, Eq)]
pub struct LeftOut<'a> {
    /// The network device of the bond.
    pub bond: &'a str,
    /// The aggregator that carries the traffic.
    pub aggregator: Option<Shown>,
    /// The members, at least one.
    pub members: Vec<Idle<'a>>,
}

/// A member that LACP leaves out.
#[derive(Debug, PartialEq, Eq)]
pub struct Idle<'a> {
    /// Its name.
    pub name: &'a str,
    /// What shows it: its aggregator, and the state that its switch port reports.
    pub shown: Vec<Shown>,
}

impl Node {
    /// What LACP leaves out of the bond below a port: as sysfs shows it, which has the state of the switch port, too, otherwise as netlink does.
    pub fn left_out(&self, port: &infiniband::Port) -> Option<LeftOut<'_>> {
        let (name, settings) = self.network.netdevs.get_key_value(&port.netdev.known()?.name)?;
        let of_netlink = || of_netlink(name, self.interface(port)?.bond.known()?);
        of_sysfs(name, settings).or_else(of_netlink)
    }
}

fn of_sysfs<'a>(bond: &'a str, settings: &'a Settings) -> Option<LeftOut<'a>> {
    let members: Vec<_> = settings
        .outside()
        .into_iter()
        .map(|member| {
            let of = |file: &str| format!("/sys/class/net/{}/bonding_slave/{file}", member.name);
            let aggregator = member.aggregator.known().map(|id| (of("ad_aggregator_id"), *id));
            let state = member.partner_state.known();
            let state = state.map(|state| (of("ad_partner_oper_port_state"), u64::from(*state)));
            Idle {
                name: &member.name,
                shown: aggregator.into_iter().chain(state).collect(),
            }
        })
        .collect();
    let source = || format!("/sys/class/net/{bond}/bonding/ad_aggregator");
    (!members.is_empty()).then(|| LeftOut {
        bond,
        aggregator: settings.aggregator.known().map(|id| (source(), *id)),
        members,
    })
}

fn of_netlink<'a>(bond: &'a str, facts: &'a Bond) -> Option<LeftOut<'a>> {
    let members: Vec<_> = facts
        .outside()
        .map(|member| {
            let source = format!("ip -d link show {}: ad_aggregator_id", member.name);
            Idle {
                name: &member.name,
                shown: member.aggregator.map(|id| (source, id)).into_iter().collect(),
            }
        })
        .collect();
    let source = || format!("ip -d link show {bond}: ad_aggregator");
    (!members.is_empty()).then(|| LeftOut {
        bond,
        aggregator: facts.aggregator.map(|id| (source(), id)),
        members,
    })
}
