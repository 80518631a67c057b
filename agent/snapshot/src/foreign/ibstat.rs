//! Converts the output of `ibstat` to the files of `/sys/class/infiniband` that it comes from.

use rdma_health_kernel::recording::Recording;

const CLASS: &str = "/sys/class/infiniband";
/// Maximum number of devices in a report.
const MAX_DEVICES: usize = 1024;

/// Adds every device and port of the report. Attributes that it does not contain count as not collected.
pub(super) fn devices(report: &str, made: &mut Recording) {
    let mut devices: Vec<String> = Vec::new();
    let mut ports: Vec<String> = Vec::new();
    let mut place: Option<String> = None;
    for line in report.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("CA '").and_then(|rest| rest.strip_suffix('\'')) {
            // The name becomes part of paths.
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
            made.insert_list(&format!("{CLASS}/{name}/ports"), ports.clone());
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
            made.insert_list(&format!("{device}/ports"), ports.clone());
            place = Some(format!("{device}/ports/{port}"));
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        if let Some((file, text)) = attribute(key, value.trim()) {
            made.insert_file(&format!("{at}/{file}"), text.into_bytes());
        }
    }
    devices.sort();
    made.insert_list(CLASS, devices);
}

/// The file that a line comes from, and its content.
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

    use rdma_health_kernel::recording::{Answer, Question};

    use super::*;

    const REPORT: &str = "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.41.1000\n\
        \tNode GUID: 0xa088c20300123456\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\
        \t\tBase lid: 7\n\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n";

    #[test]
    fn devices_and_ports_become_files() {
        let mut made = Recording::default();
        devices(REPORT, &mut made);
        let read = |path: &str| {
            let bytes = made.file(path)?;
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
        let Some(Answer::Names(names)) = made.get(&Question::List(CLASS.into())) else {
            panic!("{made:?}")
        };
        assert_eq!(names.text, ["mlx5_0", "mlx5_1"]);
    }

    /// The names that a directory of the recording lists.
    fn listed<'a>(made: &'a Recording, path: &str) -> &'a [String] {
        match made.get(&Question::List(path.to_owned())) {
            Some(Answer::Names(names)) => &names.text,
            _ => &[],
        }
    }

    proptest! {
        /// Whatever a report says, each file lies in the directory of a device that is listed, or of one of its ports.
        #[test]
        fn every_file_belongs_to_a_device_and_port_that_are_listed(lines in proptest::collection::vec(
            "CA '(a|b|../c|)'|Port [12]:|State: Active|Rate: 400|Base lid: 7|Node GUID: 0x1f|(CA '|Port |Rate: )\\PC{0,9}('|:)?",
            0..12,
        )) {
            let mut made = Recording::default();
            devices(&lines.join("\n"), &mut made);
            for (question, _) in made.iter() {
                let Question::Read(path) = question else {
                    continue;
                };
                prop_assert!(listed(&made, path).is_empty(), "{path} is a file and a directory");
                let parts: Vec<_> = path.strip_prefix(CLASS).unwrap().split('/').skip(1).collect();
                let (device, port) = match parts[..] {
                    [device, _] => (device, None),
                    [device, "ports", port, _] => (device, Some(port)),
                    _ => return Err(TestCaseError::fail(path.to_owned())),
                };
                prop_assert!(listed(&made, CLASS).iter().any(|name| name == device), "{path}");
                let ports = listed(&made, &format!("{CLASS}/{device}/ports"));
                prop_assert!(port.is_none_or(|port| ports.iter().any(|name| name == port)), "{path}");
            }
        }
    }
}
