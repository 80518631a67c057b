//! What `ibstat` printed, as the files of `/sys/class/infiniband` that it was read from.

use rdma_health_node::recording::{Names, Recording};

use super::put;

const CLASS: &str = "/sys/class/infiniband";
/// The most devices that are taken from one report.
const MAX_DEVICES: usize = 1024;

/// Adds every device and port of the report. What it does not tell was not collected.
pub(super) fn devices(report: &str, made: &mut Recording) {
    let mut devices: Vec<String> = Vec::new();
    let mut ports: Vec<String> = Vec::new();
    let mut place: Option<String> = None;
    for line in report.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("CA '").and_then(|rest| rest.strip_suffix('\'')) {
            // It becomes a part of paths.
            let plain = (1..=64).contains(&name.len())
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
            if !plain || devices.len() == MAX_DEVICES || devices.iter().any(|known| known == name) {
                place = None;
                continue;
            }
            devices.push(name.to_owned());
            ports.clear();
            list(made, &format!("{CLASS}/{name}/ports"), &ports);
            place = Some(format!("{CLASS}/{name}"));
            continue;
        }
        let Some(at) = &place else { continue };
        let device = at
            .split_once("/ports/")
            .map_or(at.clone(), |(device, _)| device.to_owned());
        if let Some(port) = line
            .strip_prefix("Port ")
            .and_then(|rest| rest.strip_suffix(':')?.parse::<u8>().ok())
        {
            ports.push(port.to_string());
            list(made, &format!("{device}/ports"), &ports);
            place = Some(format!("{device}/ports/{port}"));
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        if let Some((file, text)) = attribute(key, value.trim()) {
            put(made, &format!("{at}/{file}"), text);
        }
    }
    devices.sort();
    list(made, CLASS, &devices);
}

fn list(made: &mut Recording, path: &str, names: &[String]) {
    made.entry(path).list = Some(Ok(Names {
        text: names.to_vec(),
        not_text: Vec::new(),
    }));
}

/// The file that a line was read from, and what it held.
fn attribute(key: &str, value: &str) -> Option<(&'static str, String)> {
    let coded = |names: &[(&str, &str)]| {
        names
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(value))
            .map(|(_, word)| (*word).to_owned())
    };
    let guid = || {
        let number = u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| number >> shift & 0xffff);
        Some(format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}"))
    };
    let lid = || Some(format!("0x{:x}", value.parse::<u16>().ok()?));
    Some(match key {
        "CA type" => ("hca_type", value.to_owned()),
        "Firmware version" => ("fw_ver", value.to_owned()),
        "Node GUID" => ("node_guid", guid()?),
        "System image GUID" => ("sys_image_guid", guid()?),
        "State" => (
            "state",
            coded(&[
                ("Down", "1: DOWN"),
                ("Initializing", "2: INIT"),
                ("Armed", "3: ARMED"),
                ("Active", "4: ACTIVE"),
                ("Active Defer", "5: ACTIVE_DEFER"),
            ])?,
        ),
        "Physical state" => (
            "phys_state",
            coded(&[
                ("Sleep", "1: Sleep"),
                ("Polling", "2: Polling"),
                ("Disabled", "3: Disabled"),
                ("PortConfigurationTraining", "4: PortConfigurationTraining"),
                ("LinkUp", "5: LinkUp"),
                ("LinkErrorRecovery", "6: LinkErrorRecovery"),
                ("Phy Test", "7: Phy Test"),
            ])?,
        ),
        "Rate" => {
            let rate = value.split_whitespace().next()?;
            rate.parse::<f64>().ok()?;
            ("rate", format!("{rate} Gb/sec"))
        }
        "Base lid" => ("lid", lid()?),
        "SM lid" => ("sm_lid", lid()?),
        "Link layer" => ("link_layer", value.to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPORT: &str = "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.41.1000\n\
        \tNode GUID: 0xa088c20300123456\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\
        \t\tBase lid: 7\n\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n";

    #[test]
    fn devices_and_ports_become_files() {
        let mut made = Recording::default();
        devices(REPORT, &mut made);
        let read = |path: &str| {
            let bytes = made.get(path)?.read.clone()?.ok()?;
            String::from_utf8(bytes.to_vec()).ok()
        };
        let first = "/sys/class/infiniband/mlx5_0";
        for (path, text) in [
            ("node_guid", "a088:c203:0012:3456"),
            ("fw_ver", "28.41.1000"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/phys_state", "5: LinkUp"),
            ("ports/1/rate", "400 Gb/sec"),
            ("ports/1/lid", "0x7"),
            ("ports/1/link_layer", "InfiniBand"),
        ] {
            assert_eq!(read(&format!("{first}/{path}")).as_deref(), Some(text), "{path}");
        }
        assert_eq!(
            read("/sys/class/infiniband/mlx5_1/ports/1/state").as_deref(),
            Some("1: DOWN")
        );
        let names = made.get(CLASS).unwrap().list.clone().unwrap().unwrap();
        assert_eq!(names.text, ["mlx5_0", "mlx5_1"]);
    }

    proptest! {
        #[test]
        fn any_report_is_gone_through(lines in proptest::collection::vec(
            "(CA '|Port |State: |Rate: |Node GUID: 0x|Base lid: )\\PC{0,9}('|:)?", 0..12)
        ) {
            devices(&lines.join("\n"), &mut Recording::default());
        }
    }
}
