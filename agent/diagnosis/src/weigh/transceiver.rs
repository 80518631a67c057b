//! What to do about a cable or transceiver, by the reason that the driver gives.

/// Reasons, in lower case, and what to do.
const STEPS: [(&[&str], &str); 4] = [
    (
        &["high temperature", "too hot", "over temperature"],
        "The module in the port is too hot, and the adapter may switch it off: check the fans, the air flow and the room, and read its temperature: ethtool -m NETDEV, mlxlink -d ADDRESS -m. Use a cage with a \
        heat sink for modules of high power. A module that stays hot in a cool machine is to be replaced.",
    ),
    (
        &["power budget", "power class", "too much power"],
        "The module needs more power than the adapter gives it, so the port stays off: use one of a lower power class (a passive copper cable needs none), leave the other port of the adapter empty, or use an adapter \
        and a slot with more power. ethtool -m NETDEV shows the class.",
    ),
    (
        &["long range", "cable length", "too long"],
        "The adapter allows this length only with cables and transceivers from its maker's list: use one of them, or a shorter cable. ethtool -m NETDEV shows maker, type and length.",
    ),
    (
        &["unqualified", "unsupported", "enforce", "part number"],
        "The driver does not accept the type of this transceiver or cable, and switched the port off. Use one from the list of the adapter's maker, of a speed that the port has, or update the adapter's firmware and \
        driver, whose lists grow. ethtool -m NETDEV shows maker and type.",
    ),
];
/// What to do where no reason says more.
const RESEAT: &str = "Reseat the cable or transceiver that the message names (module 0 is port 1 of a function with one port). If the message comes again, \
    replace it, then try another port of the switch: mlxlink -d ADDRESS -m, ethtool -m NETDEV.";

/// What to do about the module that a message names.
pub(super) fn step(message: &str) -> &'static str {
    let lower = message.to_ascii_lowercase();
    let found = STEPS
        .iter()
        .find(|(words, _)| words.iter().any(|word| lower.contains(word)));
    found.map_or(RESEAT, |(_, step)| step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_step() {
        for (message, words) in [
            (
                "Port module event[error]: module 1, Cable error, High Temperature",
                "air flow",
            ),
            (
                "Port module event[error]: module 1, Cable error, Power budget exceeded",
                "power class",
            ),
            (
                "Port module event[error]: module 1, Cable error, Long Range for non MLNX cable",
                "length",
            ),
            (
                "Port module event[error]: module 1, Cable error, Enforce part number list",
                "maker's list",
            ),
            (
                "bnxt_en 0000:3b:00.0 eth0: Unqualified SFP+ module detected on port 0",
                "maker",
            ),
            (
                "Port module event[error]: module 1, Cable error, Bus stuck (I2C or data shorted)",
                "Reseat",
            ),
        ] {
            let step = step(message);
            assert!(
                step.contains(words)
                    || words == "maker's list" && step.contains("list of the adapter's maker"),
                "{message}: {step}"
            );
        }
    }
}
