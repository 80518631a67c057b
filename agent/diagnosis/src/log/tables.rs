//! Properties that tools print in rows below the name of what has them: `ethtool`, `ip link`, `lspci -vv`, `lshw`, `devlink health show`,
//! `lnetctl net show` and the help texts of Open MPI. A row alone does not say of which device it is: `Link detected: no` may be of the network card of the office.

use super::{
    grade::is_ipoib,
    line::{is_word, number},
    passthrough::names_adapter,
};
use crate::symptom::SymptomKind::{self as K};

/// What the rows that follow are properties of.
#[derive(Debug, Default)]
enum Section {
    /// No list has begun.
    #[default]
    Start,
    /// What has nothing to do with RDMA.
    Other,
    /// A network interface of an RDMA port, as far as its name shows: `Settings for rdma3:`.
    Interface(String),
    /// A PCI function of an adapter, what its link can do, and whether a driver has it.
    Function(String, Option<Link>, bool),
    /// A network card that no driver has: `*-network:3 UNCLAIMED`.
    Unclaimed(String),
    /// A component that Open MPI did not find, and its framework: `btl`.
    Component(String),
    /// A part of a device that its driver watches: `reporter fw_fatal`.
    Reporter(String),
    /// An interface of `LNet` over RDMA: `- nid: 10.20.0.5@o2ib`.
    Nid(String),
    /// The port that mlxlink was asked about: `Operational Info`.
    Operational,
    /// An interface of an adapter in the list of FreeBSD's ifconfig: `mce0: flags=8843<UP,…`.
    Bsd(String),
}

/// A PCIe link: its speed in tenths of a GT/s, and its lanes.
#[derive(Debug, Clone, Copy)]
struct Link {
    speed: u64,
    lanes: u64,
}

/// The part of a list that the last lines belong to.
#[derive(Debug, Default)]
pub(super) struct Tables {
    section: Section,
    /// What the link of a function can do whose name is not in the log.
    unnamed: Option<Link>,
}

impl Tables {
    /// Adds a line. Returns what it shows, with the name of what it is about.
    pub(super) fn add(&mut self, text: &str) -> Option<(K, String)> {
        let row = text.trim();
        if let Some(section) = begin(row) {
            self.section = section;
            return None;
        }
        match &mut self.section {
            Section::Start => with_reason(row)
                .or_else(|| without_carrier(row))
                .or_else(|| narrow(row, &mut self.unnamed)),
            Section::Other => without_carrier(row),
            Section::Operational => of_port(row),
            Section::Bsd(name) => {
                let reason = row.strip_prefix("status: no carrier (")?;
                let text = format!("{name}: {row}");
                (!is_unplugged(reason)).then_some((K::PortNotActive, text))
            }
            Section::Interface(name) => row
                .strip_prefix("Link detected: no")
                .map(|_| (K::PortNotActive, format!("{name}: {row}")))
                .or_else(|| without_carrier(row)),
            Section::Function(name, capability, has_driver) => {
                *has_driver |= row.starts_with("Kernel driver in use:");
                // `lspci -k` names the driver first, and then the modules that would fit.
                if row.starts_with("Kernel modules:") && !*has_driver {
                    return Some((
                        K::ModuleMissing,
                        format!("{name}: no kernel driver in use. {row}"),
                    ));
                }
                if let Some(rest) = row.strip_prefix("LnkCap:") {
                    *capability = link(rest);
                }
                let now = link(row.strip_prefix("LnkSta:")?)?;
                let most = (*capability)?;
                // A card in a slot of half its lanes, or of the generation before, is as often meant to be there.
                let is_limited = now.speed * now.lanes * 3 <= most.speed * most.lanes;
                is_limited.then(|| (K::PciLimited, format!("{name}: {row}")))
            }
            Section::Reporter(name) => {
                let is_error = row == "state error" || row.starts_with("state error ");
                let kind = if name.starts_with("fw") {
                    K::DeviceFatal
                } else {
                    K::DeviceStalled
                };
                is_error.then(|| (kind, format!("reporter {name}: {row}")))
            }
            Section::Unclaimed(name) => {
                let is_named = row.starts_with("product: ") || row.starts_with("vendor: ");
                if !(is_named && names_adapter(&row.to_ascii_lowercase())) {
                    return None;
                }
                let text = format!("{name}: {row}");
                self.section = Section::Other;
                Some((K::ModuleMissing, text))
            }
            Section::Component(framework) => {
                if let Some(name) = row.strip_prefix("Framework:") {
                    name.trim().clone_into(framework);
                }
                let name = row.strip_prefix("Component:")?.trim();
                let text = format!("A requested component was not found: {framework} {name}");
                let is_of_rdma = OF_RDMA.contains(&name);
                self.section = Section::Other;
                is_of_rdma.then_some((K::BackendMissing, text))
            }
            Section::Nid(name) => {
                (row == "status: down").then(|| (K::PortNotActive, format!("nid {name}: {row}")))
            }
        }
    }
}

/// Whether what follows a link without a partner in brackets is a cable that is not there.
fn is_unplugged(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    reason.contains("no cable") || reason.contains("unplugged")
}

/// A link that is down, with the reason that only drivers of such adapters give: `Link detected: no (Autoneg, No partner detected)`.
fn with_reason(row: &str) -> Option<(K, String)> {
    let reason = row.strip_prefix("Link detected: no (")?;
    (!is_unplugged(reason)).then(|| (K::PortNotActive, row.to_owned()))
}

/// The state of a port in mlxlink's rows: `State : Physical LinkUp` is a port that has a signal and no link.
fn of_port(row: &str) -> Option<(K, String)> {
    const STATES: [&str; 6] = [
        "Physical LinkUp",
        "Polling",
        "Rx disable",
        "Port PLL Down",
        "Close port",
        "Disable",
    ];
    let (name, state) = row.split_once(':')?;
    let state = state.trim();
    (name.trim() == "State" && STATES.contains(&state))
        .then(|| (K::PortNotActive, format!("mlxlink: State: {state}")))
}

/// Components of Open MPI that transfer data over RDMA, or call a library that does.
const OF_RDMA: [&str; 18] = [
    "openib", "uct", "ofi", "ugni", "usnic", "udapl", "mvapi", "ucx", "yalla", "ikrit", "mxm", "psm", "psm2",
    "portals4", "cm", "hcoll", "ucc", "fca",
];

/// The section that a row begins.
fn begin(row: &str) -> Option<Section> {
    if row.starts_with("A requested component was not found") {
        return Some(Section::Component(String::new()));
    }
    // `lshw` marks each device.
    if let Some(name) = row.strip_prefix("*-") {
        let is_unclaimed = name.starts_with("network") && name.ends_with("UNCLAIMED");
        return Some(if is_unclaimed {
            Section::Unclaimed(row.to_owned())
        } else {
            Section::Other
        });
    }
    if row == "Operational Info" {
        return Some(Section::Operational);
    }
    if let Some((name, _)) = row.split_once(": flags=").filter(|_| row.contains('<')) {
        return Some(if is_of_adapter(name) {
            Section::Bsd(name.to_owned())
        } else {
            Section::Other
        });
    }
    if let Some(name) = row.strip_prefix("Settings for ") {
        let name = name.strip_suffix(':')?;
        return Some(if is_first_port(name) {
            Section::Interface(name.to_owned())
        } else {
            Section::Other
        });
    }
    if let Some(name) = row.strip_prefix("reporter ") {
        return name
            .bytes()
            .all(is_word)
            .then(|| Section::Reporter(name.to_owned()));
    }
    if let Some(nid) = row.strip_prefix("- nid: ") {
        let over_rdma = ["@o2ib", "@kfi"].iter().any(|network| nid.contains(network));
        return Some(if over_rdma {
            Section::Nid(nid.to_owned())
        } else {
            Section::Other
        });
    }
    let address = function(row)?;
    let lower = row.to_ascii_lowercase();
    let is_adapter =
        names_adapter(&lower) && !lower.contains("virtual function") && !lower.contains(" bridge");
    Some(if is_adapter {
        Section::Function(address.to_owned(), None, false)
    } else {
        Section::Other
    })
}

/// Whether FreeBSD names the interfaces of an adapter with RDMA so: `mce0`, `ib0`.
fn is_of_adapter(name: &str) -> bool {
    let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
    ["mce", "mlxen", "ib", "bnxt", "ice", "cc", "cxl", "qlnxe"].contains(&driver) && driver.len() < name.len()
}

/// The address of the function whose properties follow: `17:00.0 Infiniband controller: …`, `0000:17:00.0 Ethernet controller [0200]: …`.
fn function(row: &str) -> Option<&str> {
    let (address, rest) = row.split_once(' ')?;
    let (device, function) = address.rsplit_once('.')?;
    let is_address = matches!(device.len(), 5 | 10)
        && device
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        && function.len() == 1
        && function.bytes().all(|byte| byte.is_ascii_digit());
    (is_address && rest.contains(": ")).then_some(address)
}

/// The link in the values of `LnkCap` or `LnkSta`: `Speed 8GT/s (downgraded), Width x4 (ok)`.
fn link(values: &str) -> Option<Link> {
    let (_, speed) = values.split_once("Speed ")?;
    let (speed, _) = speed.split_once("GT/s")?;
    let (whole, tenth) = speed.split_once('.').unwrap_or((speed, "0"));
    let (_, lanes) = values.split_once("Width x")?;
    let speed = whole.parse::<u64>().ok()?.checked_mul(10)? + tenth.parse::<u64>().ok()?.min(9);
    let lanes = number(lanes).filter(|lanes| (1..=32).contains(lanes))?;
    (speed <= 10_000).then_some(Link { speed, lanes })
}

/// A link of a function that the log does not name, because the list is cut: it has half of its lanes or fewer, and a third of its rate or less. A low
/// speed alone may be that of a GPU that saves power.
fn narrow(row: &str, most: &mut Option<Link>) -> Option<(K, String)> {
    if let Some(rest) = row.strip_prefix("LnkCap:") {
        *most = link(rest);
    }
    let now = link(row.strip_prefix("LnkSta:")?)?;
    let most = most.take()?;
    let is_narrow = now.lanes * 2 <= most.lanes && now.speed * now.lanes * 3 <= most.speed * most.lanes;
    is_narrow.then(|| {
        (
            K::PciLimited,
            format!("a function that the log does not name: {row}"),
        )
    })
}

/// An interface of an RDMA port that is set up and has no carrier: `7: rdma2: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 9000 …`.
fn without_carrier(row: &str) -> Option<(K, String)> {
    let (before, rest) = row.split_once(": <NO-CARRIER,")?;
    let (flags, _) = rest.split_once('>')?;
    let name = before.rsplit(' ').next()?.split('@').next()?;
    let is_up = flags.split(',').any(|flag| flag == "UP");
    (is_up && is_first_port(name)).then(|| (K::PortNotActive, format!("{name}: <NO-CARRIER,{flags}>")))
}

/// Whether a line of `ip link` shows an interface that is not of an RDMA port, as far as its name shows: `4: docker0: <NO-CARRIER,…> …`.
pub(super) fn is_of_other_interface(text: &str) -> bool {
    let mut parts = text.trim().splitn(3, ": ");
    let (Some(index), Some(name), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let name = name.split('@').next().unwrap_or(name);
    number(index).is_some() && rest.starts_with('<') && rest.contains("> mtu ") && !is_first_port(name)
}

/// Whether a name of an interface is as those of RDMA ports are: `ib0`, `ibp23s0`, `rdma3`, `enp23s0np0`, `ens1f0np0`. The second port of
/// an adapter often has no cable.
fn is_first_port(name: &str) -> bool {
    const PARTS: [&str; 3] = ["rdma", "roce", "mlx"];
    let is_numbered = || {
        name.rsplit_once("np")
            .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_further = ["np1", "f1", "f1np1"].iter().any(|end| name.ends_with(end));
    !is_further && (is_ipoib(name) || PARTS.iter().any(|part| name.contains(part)) || is_numbered())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[&str]) -> Vec<(K, String)> {
        let mut tables = Tables::default();
        lines.iter().filter_map(|line| tables.add(line)).collect()
    }

    #[test]
    fn rows_are_read_with_the_name_above_them() {
        for (lines, expected) in [
            (
                &[
                    "Settings for rdma3:",
                    "\tSpeed: Unknown!",
                    "\tLink detected: no (No cable)",
                ][..],
                (K::PortNotActive, "rdma3: Link detected: no (No cable)"),
            ),
            (
                &["7: enp23s0np0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 9000 qdisc mq state DOWN"],
                (
                    K::PortNotActive,
                    "enp23s0np0: <NO-CARRIER,BROADCAST,MULTICAST,UP>",
                ),
            ),
            (
                &[
                    "17:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]",
                    "\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported",
                    "\tLnkSta:\tSpeed 8GT/s (downgraded), Width x16 (ok)",
                ],
                (
                    K::PciLimited,
                    "17:00.0: LnkSta:\tSpeed 8GT/s (downgraded), Width x16 (ok)",
                ),
            ),
            (
                &[
                    "  LnkCap:  Port #8, Speed 8GT/s, Width x4, ...",
                    "  LnkSta:  Speed 5GT/s, Width x1, ...",
                ],
                (
                    K::PciLimited,
                    "a function that the log does not name: LnkSta:  Speed 5GT/s, Width x1, ...",
                ),
            ),
            (
                &[
                    "pci/0000:17:00.0:",
                    "  reporter fw_fatal",
                    "    state error error 1 recover 0",
                ],
                (K::DeviceFatal, "reporter fw_fatal: state error error 1 recover 0"),
            ),
            (
                &["  reporter tx", "    state error error 2 recover 1"],
                (K::DeviceStalled, "reporter tx: state error error 2 recover 1"),
            ),
            (
                &["- nid: 10.20.0.5@o2ib", "          status: down"],
                (K::PortNotActive, "nid 10.20.0.5@o2ib: status: down"),
            ),
            (
                &[
                    "  *-network:3 UNCLAIMED",
                    "       description: Ethernet controller",
                    "       product: MT26448 [ConnectX EN 10GigE, PCIe 2.0 5GT/s]",
                    "       vendor: Mellanox Technologies",
                ],
                (
                    K::ModuleMissing,
                    "*-network:3 UNCLAIMED: product: MT26448 [ConnectX EN 10GigE, PCIe 2.0 5GT/s]",
                ),
            ),
            (
                &[
                    "17:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]",
                    "\tSubsystem: Mellanox Technologies MT2910 Family [ConnectX-7]",
                    "\tKernel modules: mlx5_core",
                ],
                (
                    K::ModuleMissing,
                    "17:00.0: no kernel driver in use. Kernel modules: mlx5_core",
                ),
            ),
        ] {
            let (kind, text) = expected;
            assert_eq!(shown(lines), [(kind, text.to_owned())], "{lines:?}");
        }
    }

    #[test]
    fn states_of_links_are_read_with_their_reason() {
        for (lines, expected) in [
            (
                &[
                    "Operational Info",
                    "----------------",
                    "State                           : Physical LinkUp",
                    "Physical state                  : LinkUp",
                ][..],
                (K::PortNotActive, "mlxlink: State: Physical LinkUp"),
            ),
            (
                &["Link detected: no (Autoneg, No partner detected)"],
                (
                    K::PortNotActive,
                    "Link detected: no (Autoneg, No partner detected)",
                ),
            ),
            (
                &[
                    "mce0: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500",
                    "\tstatus: no carrier (FEC sync loss)",
                ],
                (K::PortNotActive, "mce0: status: no carrier (FEC sync loss)"),
            ),
            (
                &[
                    "A requested component was not found, or was unable to be opened.  This",
                    "means that this component is either not installed or is unable to be",
                    "Host:      n2",
                    "Framework: btl",
                    "Component: openib",
                ],
                (
                    K::BackendMissing,
                    "A requested component was not found: btl openib",
                ),
            ),
        ] {
            let (kind, text) = expected;
            assert_eq!(shown(lines), [(kind, text.to_owned())], "{lines:?}");
        }
    }

    #[test]
    fn rows_of_sound_devices_and_of_others_show_nothing() {
        for lines in [
            &["Settings for rdma3:", "\tLink detected: yes"][..],
            // The card of the office, and the second port of an adapter.
            &["Settings for eno1:", "\tLink detected: no"],
            &["Settings for ens1f1np1:", "\tLink detected: no"],
            &[
                "Settings for eno1:",
                "\tLink detected: no (Autoneg, No partner detected)",
            ],
            &["Link detected: no (No cable)"],
            &["Operational Info", "State                           : Active"],
            &["State : Polling"],
            &[
                "igb0: flags=8843<UP,BROADCAST,RUNNING> metric 0 mtu 1500",
                "status: no carrier (FEC sync loss)",
            ],
            &[
                "mce1: flags=8843<UP,BROADCAST,RUNNING> metric 0 mtu 1500",
                "status: no carrier (Cable is unplugged.)",
            ],
            &["4: docker0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN"],
            &["4: ib1: <NO-CARRIER,BROADCAST,MULTICAST> mtu 4092 qdisc mq state DOWN"],
            // A slot of half the lanes, a GPU that saves power, and a bridge.
            &[
                "17:00.0 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]",
                "LnkCap: Port #0, Speed 16GT/s, Width x16",
                "LnkSta: Speed 16GT/s, Width x8 (downgraded)",
            ],
            &[
                "17:00.0 3D controller: NVIDIA Corporation GH100",
                "LnkCap: Port #0, Speed 32GT/s, Width x16",
                "LnkSta: Speed 2.5GT/s (downgraded), Width x16",
            ],
            &["  reporter fw_fatal", "    state healthy error 0 recover 0"],
            &["- nid: 192.168.1.5@tcp", "status: down"],
            // A driver has the adapter, the card is of another kind, and so is the component.
            &[
                "17:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]",
                "\tKernel driver in use: mlx5_core",
                "\tKernel modules: mlx5_core",
            ],
            &[
                "17:00.1 Infiniband controller: Mellanox Technologies ConnectX-7 Virtual Function",
                "\tKernel modules: mlx5_core",
            ],
            &["*-network:0", "product: MT2892 Family [ConnectX-6 Dx]"],
            &[
                "*-network UNCLAIMED",
                "product: Wireless 8265 / 8275",
                "vendor: Intel Corporation",
            ],
            &[
                "*-network UNCLAIMED",
                "*-network:1",
                "vendor: Mellanox Technologies",
            ],
            &[
                "A requested component was not found, or was unable to be opened.  This",
                "Framework: plm",
                "Component: tm",
            ],
            &["- nid: 10.20.0.5@o2ib", "status: up"],
        ] {
            assert_eq!(shown(lines), [], "{lines:?}");
        }
    }
}
