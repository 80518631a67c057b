//! What to do about the reason that the driver gives for a link that is down (`ETHTOOL_A_LINKSTATE_EXT_STATE`).

use crate::Remedy;

/// The remedy for a reason in the words of the program ethtool; `None` if the reason does not say what to do.
pub(super) fn remedy(reason: &str) -> Option<Remedy> {
    let any = match reason {
        "No cable" => {
            "The adapter sees no cable and no transceiver in this port. Insert it, or reseat it until it locks; if it is inserted, try it in another port \
             to see whether it or the port is at fault."
        }
        "Cable issue" | "EEPROM issue" => {
            "The adapter cannot use the cable or transceiver in this port. Compare its part number with the list of the adapter's firmware, update the \
             firmware, or exchange it."
        }
        "Overheat" => {
            "The transceiver turned itself off because it is too hot. Check fans, air flow and blanking panels at this port, let it cool, and reseat it."
        }
        "Power budget exceeded" => {
            "The transceiver needs more power than the port gives. Use one of a lower power class, or raise the limit in the adapter's firmware if the \
             slot allows it (mlxconfig on NVIDIA adapters)."
        }
        "Module" => "The transceiver did not become ready. Reseat it, update its firmware, or exchange it.",
        "Autoneg" | "Link training failure" | "Logical mismatch" => {
            "Both ends have a signal and do not agree. Set the same speed, autonegotiation and forward error correction on the switch port as here; \
             then exchange the cable."
        }
        "Bad signal integrity" => {
            "The signal is too weak or disturbed. Clean and reseat both ends of the cable, check its bends, and exchange it; then try another switch port."
        }
        "OTP speed violation" => {
            "The speed is higher than the adapter is made for (its one-time programmable memory holds a limit). Set a lower speed here and on the switch \
             port, or exchange the adapter for one of a higher speed."
        }
        "BMC request down" => {
            "The management controller of the machine (BMC) holds the link down. Look in its settings and its log for the shared network port (NC-SI) and \
             for a policy that turns ports off, and allow the link there."
        }
        _ => return None,
    };
    Some(Remedy {
        any,
        host: "ethtool NETDEV; ethtool -m NETDEV; ethtool --show-fec NETDEV; ip -s link show NETDEV",
        ..Remedy::all("")
    })
}
