//! Which members of a bond LACP leaves out, from what sysfs and netlink report of them (IEEE 802.1AX).

/// What is known of one member; `None` is what the kernel does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lacp {
    /// Whether the bond considers its link up.
    pub link_up: Option<bool>,
    /// Its aggregator.
    pub aggregator: Option<u64>,
    /// Whether it is `active`, and not `backup`.
    pub is_active: Option<bool>,
    /// The flags of its own port.
    pub actor: Option<u8>,
    /// The flags that the switch sends of its port.
    pub partner: Option<u8>,
}

impl Lacp {
    /// Whether it is in another aggregator than this one, which carries the traffic.
    pub fn is_elsewhere(self, aggregator: Option<u64>) -> bool {
        self.aggregator
            .zip(aggregator)
            .is_some_and(|(own, active)| own != active)
    }

    /// Whether it carries traffic of this aggregator, as far as is known: it is in it, it is active, and both ends are synchronized, collect
    /// and distribute.
    fn carries(self, aggregator: u64) -> bool {
        const IN_USE: u8 = 1 << 3 | 1 << 4 | 1 << 5;
        let in_use = |state: Option<u8>| state.is_none_or(|state| state & IN_USE == IN_USE);
        self.link_up != Some(false)
            && !self.is_elsewhere(Some(aggregator))
            && self.is_active != Some(false)
            && in_use(self.actor)
            && in_use(self.partner)
    }
}

/// The places of the members that have a link and carry no traffic although the bond does; none in a mode without an aggregator. A switch
/// without LACP leaves one member, whose port does not collect either: that one is used.
pub(crate) fn left_out(aggregator: Option<u64>, members: &[Lacp]) -> Vec<usize> {
    let Some(aggregator) = aggregator else {
        return Vec::new();
    };
    let one_carries = members.iter().any(|member| member.carries(aggregator));
    let is_left_out = |member: &Lacp| {
        let is_idle = member.is_elsewhere(Some(aggregator)) || one_carries && !member.carries(aggregator);
        member.link_up == Some(true) && is_idle
    };
    let numbered = members.iter().enumerate();
    numbered
        .filter(|(_, member)| is_left_out(member))
        .map(|(at, _)| at)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: Lacp = Lacp {
        link_up: Some(true),
        aggregator: Some(1),
        is_active: Some(true),
        actor: Some(0x3d),
        partner: Some(0x3d),
    };

    #[test]
    fn a_member_that_does_not_collect_or_distribute_is_left_out_although_it_is_in_the_aggregator() {
        let others = [
            Lacp {
                is_active: Some(false),
                ..USED
            },
            Lacp {
                actor: Some(0x0d),
                ..USED
            },
            Lacp {
                partner: Some(0x1d),
                ..USED
            },
            Lacp {
                partner: Some(0x35),
                ..USED
            },
            Lacp {
                aggregator: Some(2),
                ..USED
            },
        ];
        for other in others {
            assert_eq!(left_out(Some(1), &[USED, other]), [1], "{other:?}");
        }
        let unknown = Lacp {
            link_up: Some(true),
            ..Lacp::default()
        };
        assert_eq!(left_out(Some(1), &[USED, USED, unknown]), [0_usize; 0]);
        let down = Lacp {
            link_up: Some(false),
            is_active: Some(false),
            ..USED
        };
        assert_eq!(left_out(Some(1), &[USED, down]), [0_usize; 0], "another finding");
        // A backup of the mode active-backup.
        assert_eq!(left_out(None, &[USED, others[0]]), [0_usize; 0]);
    }

    #[test]
    fn a_bond_whose_switch_has_no_lacp_has_one_member_in_use() {
        let alone = Lacp {
            partner: Some(1),
            ..USED
        };
        let other = Lacp {
            aggregator: Some(2),
            ..alone
        };
        assert_eq!(left_out(Some(1), &[alone, other]), [1]);
    }
}
