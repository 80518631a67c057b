//! `env`, `run` and `wait` decide in one place which devices a pod was given and which of them can be used: they never disagree.

use std::fs;

use super::{
    pod::{RAIL, node, pod},
    *,
};

const RDMA: [&str; 3] = ["env", "--mode", "rdma"];
const WAIT: [&str; 5] = ["wait", "--timeout", "1s", "--memlock", "0"];

/// The answers of `env --mode rdma`, `run --mode rdma` and `wait`: exit status and what stderr says.
fn answers(
    tree: &tempfile::TempDir,
    more: &[&str],
    variables: &[(&str, &str)],
) -> [(Option<i32>, String); 3] {
    let run: &[&str] = &["run", "--mode", "rdma"];
    let commands: [(&[&str], &[&str]); 3] = [(&RDMA, &[]), (run, &["--", "true"]), (&WAIT, &[])];
    commands.map(|(command, rest)| {
        let output = pod(tree, &[command, more, rest].concat(), variables);
        (output.status.code(), err(&output))
    })
}

/// All refuse, and name these words.
#[track_caller]
fn all_refuse(tree: &tempfile::TempDir, variables: &[(&str, &str)], words: &str) {
    for (code, said) in answers(tree, &[], variables) {
        assert_eq!(code, Some(2), "{variables:?}: {said}");
        assert!(said.contains(words), "{words} is not in: {said}");
    }
}

/// All accept.
#[track_caller]
fn all_accept(tree: &tempfile::TempDir, more: &[&str], variables: &[(&str, &str)]) {
    for (code, said) in answers(tree, more, variables) {
        assert_eq!(code, Some(0), "{variables:?}: {said}");
    }
}

/// Makes the port of 0000:14:00.0 (`mlx5_1`) another one.
fn port(tree: &tempfile::TempDir, file: &str, content: &str) {
    let path = tree.path().join("sys/class/infiniband/mlx5_1/ports/1").join(file);
    fs::write(path, content).unwrap();
}

/// The device nodes of these devices are in the container, and no others.
fn device_nodes(tree: &tempfile::TempDir, open: &[usize]) {
    let class = tree.path().join("sys/class/infiniband_verbs");
    let _ = fs::remove_dir_all(&class);
    for n in 0..8 {
        let directory = class.join(format!("uverbs{n}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("ibdev"), format!("mlx5_{n}\n")).unwrap();
    }
    let nodes = tree.path().join("dev/infiniband");
    fs::create_dir_all(&nodes).unwrap();
    for n in open {
        fs::write(nodes.join(format!("uverbs{n}")), "").unwrap();
    }
}

#[test]
fn a_given_device_that_is_down_is_refused_by_all_and_left_out_by_auto() {
    let tree = node();
    port(&tree, "state", "1: DOWN\n");
    let given = [("PCIDEVICE_A", "0000:14:00.0,0000:33:00.0")];
    all_refuse(&tree, &given, "mlx5_1:1: its state is DOWN, expected ACTIVE");
    let auto = pod(&tree, &["env"], &given);
    let line = "mlx5_1:1 is not used: its state is DOWN, expected ACTIVE";
    assert!(out(&auto).contains("'=mlx5_2:1'"), "{}", out(&auto));
    assert!(out(&auto).contains(&format!("# {line}")), "{}", out(&auto));
    assert!(err(&auto).contains(line), "{}", err(&auto));
    // Without given devices, one that works is enough; the others are named.
    for (code, said) in answers(&tree, &[], &[]) {
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(line), "{said}");
    }
    let text = out(&pod(&tree, &["env"], &[]));
    assert!(
        text.contains("# mlx5_bond_0 is not used: not the nearest NIC of any GPU"),
        "{text}"
    );
}

#[test]
fn what_is_not_for_rdma_is_not_a_given_device() {
    let tree = node();
    device_nodes(&tree, &[1, 3]);
    // A function for other traffic next to devices of the plugin for shared RDMA devices.
    let other = [
        ("PCIDEVICE_X", "0000:00:1f.0"),
        ("PCIDEVICE_X_INFO", r#"{"0000:00:1f.0":{"generic":{}}}"#),
    ];
    all_accept(&tree, &[], &other);
    let text = out(&pod(&tree, &["env"], &other));
    assert!(text.contains("'=mlx5_1:1,mlx5_3:1'"), "{text}");
    // A crypto accelerator of another device plugin next to a rail.
    let directory = tree.path().join("sys/bus/pci/devices/0000:3f:01.0");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("class"), "0x0b4000\n").unwrap();
    let both = [RAIL, ("PCIDEVICE_INTEL_COM_QAT", "0000:3f:01.0")];
    all_accept(&tree, &[], &both);
    // A network function stays one that is missing.
    fs::write(directory.join("class"), "0x020000\n").unwrap();
    all_refuse(
        &tree,
        &both,
        "0000:3f:01.0 (PCIDEVICE_INTEL_COM_QAT): it has no RDMA device, because no driver is bound to it",
    );
}

#[test]
fn a_malformed_description_beside_good_addresses_is_only_reported() {
    let tree = node();
    for (information, words) in [
        ("{\"0000:14:00.0\": {", "PCIDEVICE_A_INFO is not a JSON object"),
        (
            r#"{"0000:14:00.0":{"rdma":{"rdma_dev":"mlx5_1"}},"0000:33:00.0":{"rdma":{}}}"#,
            "PCIDEVICE_A_INFO names \"0000:33:00.0\", which PCIDEVICE_A does not: it is not used",
        ),
        (
            r#"{"0000:14:00.0":{"rdma":{"rdma_dev":"mlx5_2"}}}"#,
            "PCIDEVICE_A names mlx5_2 for 0000:14:00.0, but mlx5_1 is the RDMA device of that function",
        ),
    ] {
        let variables = [("PCIDEVICE_A", "0000:14:00.0"), ("PCIDEVICE_A_INFO", information)];
        for (code, said) in answers(&tree, &[], &variables) {
            assert_eq!(code, Some(0), "{said}");
            assert!(said.contains(words), "{words} is not in: {said}");
        }
        let text = out(&pod(&tree, &RDMA, &variables));
        assert!(text.contains("export NCCL_IB_HCA='=mlx5_1:1';"), "{text}");
    }
}

#[test]
fn a_network_status_that_is_not_written_yet_is_waited_for_unless_the_devices_are_known() {
    let tree = node();
    let file = "/etc/podinfo/network-status";
    let more = ["--network-status", file];
    fs::create_dir_all(tree.path().join("etc/podinfo")).unwrap();
    for content in [None, Some("")] {
        if let Some(content) = content {
            fs::write(tree.path().join(&file[1..]), content).unwrap();
        }
        all_accept(&tree, &more, &[RAIL]);
        let [env, run, wait] = answers(&tree, &more, &[]);
        assert_eq!(
            (env.0, run.0, wait.0),
            (Some(0), Some(0), Some(2)),
            "{}{}",
            env.1,
            wait.1
        );
        assert!(env.1.contains(file), "{}", env.1);
        assert!(
            wait.1
                .contains("waiting for what this pod was given: /etc/podinfo/network-status"),
            "{}",
            wait.1
        );
    }
}

#[test]
fn a_device_without_its_device_node_is_said_to_be_given() {
    let tree = node();
    device_nodes(&tree, &[0]);
    all_refuse(
        &tree,
        &[RAIL],
        "/dev/infiniband/uverbs1 is not in this container: the pod was given the function, but not its device node; check that its \
         resource has isRdma",
    );
}

#[test]
fn a_user_who_disables_rdma_is_told_and_the_mode_rdma_fails() {
    let tree = node();
    for (variable, words) in [
        (
            ("NCCL_IB_DISABLE", "1"),
            "NCCL_IB_DISABLE=1 is set: NCCL uses TCP",
        ),
        (("NCCL_NET", "Socket"), "NCCL_NET=Socket is set: NCCL uses TCP"),
        (("NCCL_IB_HCA", "mlx5_99"), "which matches no active port"),
    ] {
        let variables = [RAIL, variable];
        for command in [&RDMA[..], &["run", "--mode", "rdma", "--", "echo", "started"]] {
            let output = pod(&tree, command, &variables);
            assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
            assert!(err(&output).contains(words), "{}", err(&output));
        }
        let json = pod(&tree, &["env", "--format", "json"], &variables);
        assert!(out(&json).contains("\"transport\": \"tcp\""), "{}", out(&json));
        assert!(err(&json).contains("NCCL uses TCP"), "{}", err(&json));
    }
}

#[test]
fn programs_get_the_reasons_as_well() {
    let tree = node();
    let given = [("PCIDEVICE_A", "0000:ff:00.0")];
    let auto = out(&pod(&tree, &["env", "--format", "json"], &given));
    assert!(
        auto.contains("falling back to TCP, which is much slower: 0000:ff:00.0"),
        "{auto}"
    );
    let rdma = pod(&tree, &["env", "--mode", "rdma", "--format", "json"], &given);
    assert_eq!(rdma.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_str(&out(&rdma)).unwrap();
    assert!(json["transport"].is_null(), "{json}");
    assert!(json["error"].as_str().unwrap().contains("0000:ff:00.0"), "{json}");
    assert_eq!(json["refused"][0]["device"], "0000:ff:00.0 (PCIDEVICE_A)");
}

#[test]
fn what_the_user_set_is_judged_by_what_the_libraries_do_with_it() {
    let tree = node();
    let two = ("PCIDEVICE_A", "0000:14:00.0,0000:33:00.0");
    let said = |variable| err(&pod(&tree, &["env"], &[two, variable]));
    for same in [
        "=mlx5_2,mlx5_1",
        "=mlx5_2:1,mlx5_1:1",
        "mlx5_1,mlx5_2",
        "^mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_bond",
    ] {
        assert_eq!(said(("NCCL_IB_HCA", same)), "", "{same}");
    }
    for (variable, words) in [
        (("NCCL_IB_HCA", "mlx5_1"), "leaves out mlx5_2:1"),
        (("NCCL_IB_HCA", "mlx5_"), "also matches mlx5_0:1, mlx5_3:1"),
        (("NCCL_IB_HCA", "^mlx5_1"), "leaves out mlx5_1:1"),
        (
            ("NCCL_IB_GID_INDEX", "1"),
            "NCCL_IB_GID_INDEX is 1, but mlx5_1:1 needs 3, mlx5_2:1 needs 3",
        ),
        (
            ("UCX_IB_GID_INDEX", "1"),
            "UCX_IB_GID_INDEX is 1, but mlx5_1:1 needs 3",
        ),
        (
            ("NVSHMEM_IB_GID_INDEX", "1"),
            "NVSHMEM_IB_GID_INDEX is 1, but mlx5_1:1 needs 3",
        ),
        (("UCX_TLS", "tcp,self"), "UCX_TLS=tcp,self has no RDMA transport"),
        (
            ("NCCL_IB_ADDR_RANGE", "192.168.0.0/16"),
            "contains no RoCE v2 GID of mlx5_1:1, mlx5_2:1",
        ),
    ] {
        assert!(said(variable).contains(words), "{variable:?}: {}", said(variable));
    }
    for quiet in [
        ("UCX_TLS", "rc,cuda_copy"),
        ("UCX_TLS", "^tcp"),
        ("UCX_IB_GID_INDEX", "auto"),
        ("NCCL_IB_ADDR_RANGE", "10.0.0.0/8"),
    ] {
        assert_eq!(said(quiet), "", "{quiet:?}");
    }
    for (variable, words) in [
        (("NCCL_NET", "IB"), "NCCL fails to start"),
        (("UCX_TLS", "rc"), "it has no TCP transport"),
    ] {
        let tcp = err(&pod(&tree, &["env", "--mode", "tcp"], &[two, variable]));
        assert!(tcp.contains(words), "{tcp}");
    }
}
