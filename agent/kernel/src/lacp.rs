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

    /// Whether it carries no traffic, whatever the other members do, where this aggregator carries that of the bond (`None` in other modes): it has no
    /// link, it is a backup, or its ends do not agree.
    pub fn is_silent(self, aggregator: Option<u64>) -> bool {
        self.link_up == Some(false)
            || self.is_active == Some(false)
            || self.is_elsewhere(aggregator)
            || aggregator.is_some() && self.negotiates()
    }

    /// Whether its switch has LACP, and one of the ends does not collect and distribute. Without LACP at the switch, the kernel uses one member and puts
    /// the default into the place of what the switch would send.
    fn negotiates(self) -> bool {
        const ACTIVITY: u8 = 1;
        const DEFAULTED: u8 = 1 << 6;
        let (Some(actor), Some(partner)) = (self.actor, self.partner) else {
            return false;
        };
        let has_partner = partner & !ACTIVITY != 0 && actor & DEFAULTED == 0;
        has_partner && !(in_use(self.actor) && in_use(self.partner))
    }

    /// Whether it carries traffic of this aggregator, as far as is known: it is in it, it is active, and both ends are synchronized, collect
    /// and distribute.
    fn carries(self, aggregator: u64) -> bool {
        self.link_up != Some(false)
            && !self.is_elsewhere(Some(aggregator))
            && self.is_active != Some(false)
            && in_use(self.actor)
            && in_use(self.partner)
    }
}

/// Whether the flags of one end allow traffic: it is synchronized, collects and distributes.
fn in_use(state: Option<u8>) -> bool {
    const IN_USE: u8 = 1 << 3 | 1 << 4 | 1 << 5;
    state.is_none_or(|state| state & IN_USE == IN_USE)
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
    fn a_member_is_silent_unless_its_switch_has_no_lacp() {
        let silent = [
            (Some(0x0d), Some(0x05)),
            (Some(0x3d), Some(0x1d)),
            (Some(0x85), Some(0x35)),
        ];
        for (actor, partner) in silent {
            let member = Lacp {
                actor,
                partner,
                ..USED
            };
            assert!(member.is_silent(Some(1)), "{member:?}");
            assert!(!member.is_silent(None), "a stray state in another mode");
        }
        for (actor, partner) in [(0x3d, 0x3d), (0x4d, 1), (0x0d, 1), (0x4d, 0x05)] {
            let (actor, partner) = (Some(actor), Some(partner));
            let member = Lacp {
                actor,
                partner,
                ..USED
            };
            assert!(!member.is_silent(Some(1)), "{member:?}");
        }
        assert!(!Lacp::default().is_silent(Some(1)));
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
