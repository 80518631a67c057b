//! Members of bonds that go down repeatedly: the port of the bond stays ACTIVE.

use rdma_health_node::{
    Cable, Node,
    words::{count, duration},
};

use super::{A_FEW_TIMES, BOOT_DOWNS, HOUR, PERHAPS_LONG_AGO, PORT_FLAPPING, in_12_hours};
use crate::{Subject, draft::Draft, policy::Exception};

/// How a member is reported: the exception that applies, and how often it went down, in words.
type WentDown = (Option<&'static Exception>, String);

/// The members that went down repeatedly.
pub(super) fn flapping(node: &Node, limit: usize) -> impl Iterator<Item = Draft> {
    let cables = node.cables().into_iter();
    let members = cables.filter(|cable| cable.is_member && !cable.port.is_lent());
    members.filter_map(move |cable| {
        let (exception, words) = went_down(node, &cable, limit)?;
        let netdev = cable.netdev?;
        let subject = Subject::of_port(&cable.port);
        let message = format!("{netdev}, a member of the bond of {subject}, went down {words}");
        let finding = Draft::new(&PORT_FLAPPING, subject, message).exception(exception);
        Some(match downs_of(node, &cable) {
            Some((file, downs)) => finding.evidence(file, downs),
            None => finding,
        })
    })
}

/// How often a member lost its carrier since the boot, or its link for the bond, and what shows it.
fn downs_of(node: &Node, cable: &Cable<'_>) -> Option<(String, u64)> {
    let netdev = cable.netdev?;
    let file = |name: &str, downs: u64| (format!("/sys/class/net/{netdev}/{name}"), downs);
    let of_sysfs = || {
        let member = node.bond_member(cable.port.kernel, netdev)?;
        let carrier = member.carrier_downs.known();
        let failures = || member.link_failures.known();
        carrier
            .map(|downs| file("carrier_down_count", *downs))
            .or_else(|| failures().map(|downs| file("bonding_slave/link_failure_count", *downs)))
    };
    let of_driver = || {
        let downs = *node.link_of_netdev(netdev)?.downs.known()?;
        Some((format!("ethtool -I {netdev}: link down events"), downs))
    };
    of_sysfs().or_else(of_driver)
}

/// How often a member went down, if that is reported.
fn went_down(node: &Node, cable: &Cable<'_>, limit: usize) -> Option<WentDown> {
    let netdev = cable.netdev?;
    let Some(past) = node.past(&cable.port) else {
        return since_boot(node, cable, limit);
    };
    let within = |hours: u64| past.member_downs_within(netdev, hours * HOUR, node.time);
    let recent = within(12);
    if recent >= limit {
        let words = format!("{recent} times within 12 hours, expected fewer than {limit}");
        return Some((None, words));
    }
    // One that is down now is reported by bond-degraded.
    let is_down = node.member_is_up(cable.port.kernel, netdev) == Some(false);
    let latest = within(6).saturating_sub(usize::from(is_down));
    (latest > 0).then(|| {
        let times = count(latest, "time");
        (Some(&A_FEW_TIMES), format!("{times} within 6 hours"))
    })
}

/// The same without an earlier reading, as for a port.
fn since_boot(node: &Node, cable: &Cable<'_>, limit: usize) -> Option<WentDown> {
    let uptime = *node.host.uptime.known()?;
    let (_, downs) = downs_of(node, cable)?;
    let limit = limit as u64;
    let words = || format!("{downs} times since the boot {} ago", duration(uptime));
    if uptime < 12 * HOUR {
        return (downs >= limit + BOOT_DOWNS).then(|| (None, words()));
    }
    (in_12_hours(downs, uptime) >= limit).then(|| (Some(&PERHAPS_LONG_AGO), words()))
}
