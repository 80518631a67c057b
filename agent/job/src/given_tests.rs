#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use super::*;

fn environment(variables: &[(&str, &str)]) -> Given {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Given::in_environment(&variables.collect())
}

/// What is said about the sources.
fn texts(given: &Given) -> Vec<&str> {
    given
        .problems
        .iter()
        .map(|problem| problem.text.as_str())
        .collect()
}

/// PCI address and RDMA device of each grant.
fn names(given: &Given) -> Vec<(Option<&str>, Option<&str>)> {
    given
        .grants
        .iter()
        .map(|grant| (grant.pci_address.as_deref(), grant.device.as_deref()))
        .collect()
}

const INFORMATION: &str = r#"{"0000:41:00.2":{"generic":{"deviceID":"0000:41:00.2"},"rdma":{"issm":"/dev/infiniband/issm6","rdma_cm":"/dev/infiniband/rdma_cm","rdma_dev":"mlx5_6","umad":"/dev/infiniband/umad6","uverbs":"/dev/infiniband/uverbs6"}}}"#;

#[test]
fn the_device_plugin_names_each_device_once() {
    let given = environment(&[
        ("PCIDEVICE_OPENSHIFT_IO_ENO5NP0RDMA", "0000:41:00.2"),
        ("PCIDEVICE_OPENSHIFT_IO_ENO5NP0RDMA_INFO", INFORMATION),
        ("PATH", "/bin"),
    ]);
    assert_eq!(names(&given), [(Some("0000:41:00.2"), Some("mlx5_6"))]);
    assert!(given.problems.is_empty());
}

#[test]
fn an_older_device_plugin_names_no_rdma_device() {
    let information = INFORMATION.replace("\"rdma_dev\":\"mlx5_6\",", "");
    let given = environment(&[
        ("PCIDEVICE_A_INFO", &information),
        ("PCIDEVICE_A", "0000:41:00.2"),
        ("PCIDEVICE_NVIDIA_COM_RAIL-1", "0000:42:00.2,0000:43:00.2"),
    ]);
    assert_eq!(
        names(&given),
        [
            (Some("0000:41:00.2"), None),
            (Some("0000:42:00.2"), None),
            (Some("0000:43:00.2"), None)
        ]
    );
}

#[test]
fn a_subfunction_is_known_by_its_rdma_device_only() {
    let given = environment(&[
        ("PCIDEVICE_SF", "mlx5_core.sf.4"),
        (
            "PCIDEVICE_SF_INFO",
            r#"{"mlx5_core.sf.4":{"rdma":{"rdma_dev":"mlx5_9"}}}"#,
        ),
    ]);
    assert_eq!(names(&given), [(None, Some("mlx5_9"))]);
    assert!(given.problems.is_empty(), "{:?}", given.problems);
}

#[test]
fn several_rdma_devices_of_one_function_are_all_used() {
    let mut given = Given::default();
    given.add_network_status(
        "status",
        r#"[{"name":"cni","interface":"eth0","ips":["10.1.0.2"],"default":true},
            {"name":"ns/rail0","interface":"net1","device-info":{"type":"pci","pci":{"pci-address":"0000:41:00.2","rdma-device":"mlx5_6,mlx5_7"}}}]"#,
    );
    assert_eq!(
        names(&given),
        [
            (Some("0000:41:00.2"), Some("mlx5_6")),
            (Some("0000:41:00.2"), Some("mlx5_7"))
        ]
    );
    assert_eq!(given.grants[0].netdev.as_deref(), Some("net1"));
}

#[test]
fn drivers_of_dynamic_resource_allocation_name_devices_in_variables_and_files() {
    let mut given = environment(&[
        ("SRIOVNETWORK_PCI_ADDRESSES", "0000:41:00.2"),
        ("SRIOVNETWORK_vf_0_RDMA_DEVICE", "mlx5_6"),
    ]);
    let document = r#"{"apiVersion":"metadata.resource.k8s.io/v1alpha1","requests":[{"name":"nic","devices":[
        {"driver":"dra.net","name":"ens1","attributes":{"dra.net/ifName":{"string":"net1"},
         "resource.kubernetes.io/pciBusID":{"string":"0000:51:00.3"}}}]}]}"#;
    // The same in two versions, one after the other.
    given.add_metadata("m.json", &format!("{document}\n{document}"));
    let all = names(&given);
    assert!(all.contains(&(Some("0000:51:00.3"), None)), "{all:?}");
    assert!(all.contains(&(None, Some("mlx5_6"))), "{all:?}");
    assert_eq!(all.len(), 3);
}

#[test]
fn what_is_malformed_is_reported_with_its_name_and_the_rest_is_used() {
    let mut given = environment(&[
        ("PCIDEVICE_A", "0000:41:00.2,nonsense, 0000:41:00.3"),
        ("PCIDEVICE_A_INFO", "{\"0000:41:00.2\": "),
    ]);
    given.add_metadata("m.json", "[]");
    given.add_network_status("status", "{}");
    assert_eq!(given.grants.len(), 2);
    let problems = texts(&given).join("\n");
    for part in [
        "PCIDEVICE_A has \"nonsense\", expected a PCI address like 0000:41:00.2",
        "PCIDEVICE_A_INFO is not a JSON object of devices",
        "m.json has no version of the document that is known here",
        "status is not a list of networks",
    ] {
        assert!(problems.contains(part), "{part} is not in:\n{problems}");
    }
}

#[test]
fn a_hostile_number_of_devices_is_bounded() {
    let many: Vec<_> = (0..100_000).map(|n| format!("{n:04x}:00:00.0")).collect();
    let given = environment(&[("PCIDEVICE_A", &many.join(","))]);
    assert_eq!(given.grants.len(), MAX_GRANTS);
    assert_eq!(given.problems.len(), 1, "{:?}", given.problems);
}

#[test]
fn what_names_devices_but_cannot_be_understood_makes_the_list_incomplete() {
    for (name, value) in [
        ("PCIDEVICE_A", "0000:41:00.2,x"),
        ("PCIDEVICE_A", " , "),
        ("PCIDEVICE_A_INFO", "{"),
        ("SRIOVNETWORK_PCI_ADDRESSES", "41:00.2"),
    ] {
        let given = environment(&[(name, value)]);
        assert!(
            given.is_incomplete() && !given.problems.is_empty(),
            "{name}={value}: {given:?}"
        );
    }
    // With the other variable, it is known to be the plugin's information and not a resource of that name.
    let given = environment(&[("PCIDEVICE_A", "0000:41:00.2"), ("PCIDEVICE_A_INFO", "x")]);
    assert!(given.problems[0].text.contains("not a JSON object"), "{given:?}");
    let given = environment(&[("PCIDEVICE_B_INFO", "0000:41:00.2")]);
    assert_eq!(names(&given), [(Some("0000:41:00.2"), None)]);
    // A file that describes something else names no device.
    let mut given = Given::default();
    given.add_metadata(
        "cpu.json",
        r#"{"requests":[{"devices":[{"attributes":{"model":{"string":"x"}}}]}]}"#,
    );
    assert!(!given.is_incomplete());
}

#[test]
fn a_message_quotes_no_more_than_a_part_of_a_value() {
    let given = environment(&[("PCIDEVICE_A", &"\u{1b}x".repeat(100_000))]);
    assert_eq!(given.problems.len(), 1);
    assert!(
        given.problems[0].text.len() < 1000,
        "{}",
        given.problems[0].text.len()
    );
    assert!(!given.problems[0].text.contains('\u{1b}'));
}

#[test]
fn the_driver_for_sriov_names_several_rdma_devices_of_one_function() {
    let given = environment(&[("SRIOVNETWORK_0000_08_00_5_RDMA_DEVICE", "mlx5_5,mlx5_6")]);
    assert_eq!(names(&given), [(None, Some("mlx5_5")), (None, Some("mlx5_6"))]);
}

/// As the driver writes them in a pod of two containers: the list of addresses has the devices of both.
#[test]
fn the_driver_for_sriov_names_the_functions_of_this_container() {
    let given = environment(&[
        (
            "SRIOVNETWORK_PCI_ADDRESSES",
            "0000:08:00.2,0000:08:00.3,0000:08:00.4,0000:08:00.5",
        ),
        ("SRIOVNETWORK_VF_DEVICE_0000_08_00_2", "0000:08:00.2"),
        ("SRIOVNETWORK_0000_08_00_2_RDMA_UVERB", "/dev/infiniband/uverbs2"),
        ("SRIOVNETWORK_0000_08_00_2_RDMA_DEVICE", "mlx5_2"),
        ("SRIOVNETWORK_VF_DEVICE_0000_08_00_3", "0000:08:00.3"),
        ("SRIOVNETWORK_0000_08_00_3_VFIO_DEVICE", "/dev/vfio/12"),
        ("SRIOVNETWORK_VF_DEVICE_0000_08_00_4", "0000:08:00.4"),
        ("SRIOVNETWORK_NET_ATTACH_DEF_NAME", "rail-0"),
    ]);
    assert_eq!(
        names(&given),
        [
            (Some("0000:08:00.2"), Some("mlx5_2")),
            (Some("0000:08:00.3"), None),
            (Some("0000:08:00.4"), None)
        ]
    );
    let for_rdma: Vec<_> = given.grants.iter().map(|grant| grant.for_rdma).collect();
    assert_eq!(for_rdma, [Some(true), Some(false), None]);
    assert_eq!(given.grants[0].uverbs.as_deref(), Some("uverbs2"));
    assert!(given.problems.is_empty(), "{:?}", given.problems);
    let wrong = environment(&[("SRIOVNETWORK_VF_DEVICE_a", "08:00.2")]);
    assert!(
        wrong.problems[0]
            .text
            .contains("SRIOVNETWORK_VF_DEVICE_a has \"08:00.2\"")
    );
}

#[test]
fn the_interface_of_a_dra_device_is_that_of_the_pod() {
    let mut given = Given::default();
    given.add_metadata(
        "m.json",
        r#"{"requests":[{"devices":[{"attributes":{"dra.net/ifName":{"string":"ens1f0v2"},"dra.net/rdmaDevice":{"string":"mlx5_6"}},
            "networkData":{"interfaceName":"net1","ips":["10.0.1.2/24"]}}]}]}"#,
    );
    assert_eq!(names(&given), [(None, Some("mlx5_6"))]);
    assert_eq!(given.grants[0].netdev.as_deref(), Some("net1"));
}

#[test]
fn a_subfunction_of_an_older_plugin_is_known_by_its_device_node() {
    let given = environment(&[
        ("PCIDEVICE_SF", "mlx5_core.sf.4"),
        (
            "PCIDEVICE_SF_INFO",
            r#"{"mlx5_core.sf.4":{"rdma":{"uverbs":"/dev/infiniband/uverbs8"}}}"#,
        ),
    ]);
    assert_eq!(given.grants[0].uverbs.as_deref(), Some("uverbs8"));
    assert!(given.problems.is_empty(), "{:?}", given.problems);
}

#[test]
fn the_first_version_of_a_document_that_is_known_is_taken() {
    let known = r#"{"apiVersion":"metadata.resource.k8s.io/v1alpha1","requests":[{"devices":[{"attributes":{"dra.net/rdmaDevice":{"string":"mlx5_6"}}}]}]}"#;
    let unknown = r#"{"apiVersion":"metadata.resource.k8s.io/v2","claims":[{"nics":["x"]}]}"#;
    let mut given = Given::default();
    given.add_metadata("m.json", &format!("{unknown}{known}{known}"));
    assert_eq!(names(&given), [(None, Some("mlx5_6"))]);
    assert!(given.problems.is_empty(), "{:?}", given.problems);
    // Not the visible devices instead.
    let mut given = Given::default();
    given.add_metadata("m.json", unknown);
    assert!(given.is_incomplete() && given.grants.is_empty(), "{given:?}");
}

#[test]
fn a_driver_says_that_a_device_is_not_for_rdma() {
    for (attribute, expected) in [
        (r#""dra.net/rdma":{"bool":false}"#, Some(false)),
        (r#""dra.net/rdma":{"bool":true}"#, Some(true)),
        (
            r#""sriovnetwork.k8snetworkplumbingwg.io/rdmaCapable":{"bool":false}"#,
            Some(false),
        ),
        (r#""dra.net/mtu":{"int":9000}"#, None),
    ] {
        let mut given = Given::default();
        given.add_metadata(
            "m.json",
            &format!(r#"{{"requests":[{{"devices":[{{"attributes":{{"dra.net/ifName":{{"string":"eth0"}},{attribute}}}}}]}}]}}"#),
        );
        assert_eq!(given.grants[0].for_rdma, expected, "{attribute}");
    }
}

#[test]
fn files_can_change_and_variables_cannot() {
    let effect = |given: &Given| given.problems[0].effect;
    let later = Effect::Incomplete(Prospect::Later);
    for text in ["", " \n"] {
        let mut given = Given::default();
        given.add_network_status("status", text);
        assert_eq!(effect(&given), Effect::NotWritten);
        let mut given = Given::default();
        given.add_metadata("m.json", text);
        assert_eq!(effect(&given), later);
    }
    let mut given = Given::default();
    given.add_network_status("status", "[{");
    assert_eq!(effect(&given), later);
    let given = environment(&[("PCIDEVICE_A", "x")]);
    assert_eq!(effect(&given), Effect::Incomplete(Prospect::Never));
}

/// What names no device that can be understood never leads to the visible devices, which can belong to others.
#[test]
fn entries_of_a_file_that_are_malformed_make_the_list_incomplete() {
    for text in ["[1]", "[null]", r#"["net1"]"#, "[[{}]]"] {
        let mut given = Given::default();
        given.add_network_status("status", text);
        assert!(given.is_incomplete(), "{text}: {given:?}");
        assert!(
            texts(&given)[0].contains("has an item that is not a network"),
            "{given:?}"
        );
    }
    for (attribute, words) in [
        (
            r#""resource.kubernetes.io/pciBusID":{"string":"14:00.0"}"#,
            "has \"14:00.0\", expected a PCI address",
        ),
        (
            r#""resource.kubernetes.io/pciBusID":{"int":14}"#,
            "has an attribute resource.kubernetes.io/pciBusID that is not text",
        ),
        (
            r#""dra.net/rdmaDevice":{"version":"1.0"}"#,
            "has an attribute dra.net/rdmaDevice that is not text",
        ),
        (
            r#""dra.net/rdmaDevice":{"string":["mlx5_1"]}"#,
            "that is not text",
        ),
    ] {
        let mut given = Given::default();
        let document = format!(r#"{{"requests":[{{"devices":[{{"attributes":{{{attribute}}}}}]}}]}}"#);
        given.add_metadata("m.json", &document);
        assert!(
            given.is_incomplete() && given.grants.is_empty(),
            "{attribute}: {given:?}"
        );
        assert!(texts(&given)[0].contains(words), "{given:?}");
    }
    // A NIC without RDMA.
    let mut given = Given::default();
    let document = r#"{"requests":[{"devices":[{"attributes":{"dra.net/rdmaDevice":{"string":""},"dra.net/ifName":{"string":"net1"}}}]}]}"#;
    given.add_metadata("m.json", document);
    assert!(!given.is_incomplete(), "{given:?}");
}

#[test]
fn the_device_plugin_names_several_rdma_devices_of_one_function() {
    let information = INFORMATION.replace("mlx5_6", "mlx5_6,mlx5_7");
    let given = environment(&[
        ("PCIDEVICE_A", "0000:41:00.2"),
        ("PCIDEVICE_A_INFO", &information),
    ]);
    assert_eq!(
        names(&given),
        [
            (Some("0000:41:00.2"), Some("mlx5_6")),
            (Some("0000:41:00.2"), Some("mlx5_7"))
        ]
    );
}
