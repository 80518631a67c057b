//! `env`, `run` and `wait` as a pod meets them: what allocators leave in the environment, and trees in place of the node.

use std::{fs, os::unix::ffi::OsStrExt, path::Path};

use rdma_health_tests::tree;
use tempfile::TempDir;

use super::*;

/// A command in a pod with nothing but these variables in its environment.
pub(super) fn pod(tree: &TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let (command, rest) = arguments.split_first().unwrap();
    Command::new(PRODUCT)
        .args([command, "--root", text(tree.path())])
        .args(rest)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// A node with eight rails and a default route over eth0.
pub(super) fn node() -> TempDir {
    let tree = tree::fixture("h100-connectx7").unwrap();
    let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t01F4A80A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
    fs::create_dir_all(tree.path().join("proc/net")).unwrap();
    fs::write(tree.path().join("proc/net/route"), routes).unwrap();
    tree
}

pub(super) const RAIL: (&str, &str) = ("PCIDEVICE_OPENSHIFT_IO_RAIL1", "0000:14:00.0");

#[test]
fn the_settings_are_those_of_the_given_device_and_the_same_each_time() {
    let tree = node();
    for format in ["sh", "env", "json", "yaml"] {
        let arguments = ["env", "--format", format];
        let first = pod(&tree, &arguments, &[RAIL]);
        assert_eq!(first.status.code(), Some(0), "{}", err(&first));
        assert_eq!(err(&first), "");
        assert!(out(&first).contains("=mlx5_1:1"), "{}", out(&first));
        assert!(!out(&first).contains("mlx5_2"), "{}", out(&first));
        assert_eq!(first.stdout, pod(&tree, &arguments, &[RAIL]).stdout, "{format}");
    }
}

#[test]
fn what_is_malformed_never_leads_to_devices_of_others() {
    let tree = node();
    for variable in [
        ("PCIDEVICE_A", "0000:zz:00.0"),
        ("PCIDEVICE_A_INFO", "{\"0000:14:00.0\": {\"rdma\""),
        ("PCIDEVICE_A", "0000:ff:00.0"),
    ] {
        let rdma = pod(&tree, &["env", "--mode", "rdma"], &[variable]);
        assert_eq!(
            (rdma.status.code(), out(&rdma).as_str()),
            (Some(2), ""),
            "{variable:?}"
        );
        assert!(err(&rdma).contains(variable.0), "{}", err(&rdma));
        let auto = pod(&tree, &["env"], &[variable]);
        assert_eq!(auto.status.code(), Some(0));
        assert!(out(&auto).contains("export NCCL_IB_DISABLE=1;"), "{}", out(&auto));
        assert!(!out(&auto).contains("mlx5"), "{}", out(&auto));
        assert!(err(&auto).contains("falling back to TCP"), "{}", err(&auto));
    }
}

#[test]
fn a_variable_that_is_not_text_is_reported() {
    let tree = node();
    let output = Command::new(PRODUCT)
        .args(["env", "--mode", "rdma", "--root", text(tree.path())])
        .env_clear()
        .env("PCIDEVICE_A", std::ffi::OsStr::from_bytes(b"\xff\xfe"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("PCIDEVICE_A has"), "{}", err(&output));
}

/// Values that a pod's author or a driver controls, in each place from which text comes to standard output.
#[test]
fn a_shell_that_evaluates_the_output_runs_nothing() {
    const HOSTILE: &str = "x'; touch PWNED; echo '$(touch PWNED)`touch PWNED`\ntouch PWNED #";
    let tree = node();
    let route = format!(
        "Iface\tDestination\n{}\t00000000\t01F4A80A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
        "e';touch${IFS}PWNED;'"
    );
    fs::write(tree.path().join("proc/net/route"), route).unwrap();
    let variables = [
        ("PCIDEVICE_A", &*format!("0000:14:00.0,{HOSTILE}")),
        ("PCIDEVICE_B_INFO", &format!("{{\"{HOSTILE}\": {{}}}}")),
        ("NCCL_IB_HCA", HOSTILE),
        ("NCCL_IB_GID_INDEX", HOSTILE),
        ("UCX_NET_DEVICES", HOSTILE),
    ];
    let rdma = pod(&tree, &["env", "--mode", "rdma"], &variables);
    assert_eq!((rdma.status.code(), out(&rdma).as_str()), (Some(2), ""));
    for mode in ["tcp", "auto"] {
        let settings = pod(&tree, &["env", "--mode", mode], &variables);
        assert_eq!(settings.status.code(), Some(0), "{}", err(&settings));
        for (shell, first) in [("sh", "-c"), ("dash", "-c"), ("bash", "-c"), ("busybox", "sh")] {
            for script in ["eval \"$TEXT\"", "set -f; eval $TEXT"] {
                let folder = tempfile::tempdir().unwrap();
                let mut command = Command::new(shell);
                command.arg(first);
                if first == "sh" {
                    command.arg("-c");
                }
                let output = command
                    .arg(format!("{script}; printf '%s' \"$GLOO_SOCKET_IFNAME\""))
                    .current_dir(folder.path())
                    .env("TEXT", out(&settings))
                    .output()
                    .unwrap();
                assert_eq!(
                    out(&output),
                    "e';touch${IFS}PWNED;'",
                    "{shell} {script}: {}",
                    err(&output)
                );
                assert_eq!(
                    fs::read_dir(folder.path()).unwrap().count(),
                    0,
                    "{shell} {script}"
                );
            }
        }
    }
}

#[test]
fn a_command_gets_the_settings_and_its_status_is_the_status() {
    let tree = node();
    let script = "echo \"$NCCL_IB_HCA|$UCX_NET_DEVICES|$NCCL_SOCKET_IFNAME\"; exit 7";
    let output = pod(
        &tree,
        &["run", "--", "sh", "-c", script],
        &[RAIL, ("UCX_NET_DEVICES", "mine")],
    );
    assert_eq!(output.status.code(), Some(7), "{}", err(&output));
    assert_eq!(out(&output), "=mlx5_1:1|mine|=eth0\n");
    assert!(
        err(&output).contains("UCX_NET_DEVICES is already set to 'mine'"),
        "{}",
        err(&output)
    );
    let typo = pod(&tree, &["run", "--typo", "x", "--", "true"], &[RAIL]);
    assert_eq!(typo.status.code(), Some(3), "{}", err(&typo));
    assert!(
        err(&typo).contains("unexpected argument '--typo'"),
        "{}",
        err(&typo)
    );
    let missing = pod(&tree, &["run", "--", "/nowhere/x"], &[RAIL]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(
        err(&missing).contains("cannot run /nowhere/x"),
        "{}",
        err(&missing)
    );
}

#[test]
fn waiting_ends_at_once_if_everything_is_there() {
    let tree = node();
    let output = pod(&tree, &["wait", "--memlock", "0"], &[RAIL]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        out(&output).starts_with("RDMA is ready: 1 port after ")
            && out(&output).contains("mlx5_1:1 (GID 3: "),
        "{}",
        out(&output)
    );
}

#[test]
fn at_the_timeout_each_missing_device_is_named_with_the_reason() {
    let tree = tree::fixture("infiniband-ndr").unwrap();
    let given = ("PCIDEVICE_A", "0000:81:00.0,0000:ff:00.0");
    let output = pod(&tree, &["wait", "--timeout", "1s", "--memlock", "0"], &[given]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    let report = err(&output);
    let (waited, end) = report.split_once("RDMA is not ready:").unwrap();
    for words in [
        "mlx5_3:1: its state is DOWN, expected ACTIVE",
        "0000:ff:00.0 (PCIDEVICE_A): this node has no PCI function at this address",
    ] {
        assert!(
            waited.contains(&format!("waiting for {words}")),
            "{words}: {report}"
        );
        assert!(end.contains(&format!("  {words}")), "{words}: {report}");
    }
}

#[test]
fn what_cannot_change_is_not_waited_for() {
    let tree = node();
    let output = pod(
        &tree,
        &["wait", "--timeout", "1h", "--memlock", "0"],
        &[("PCIDEVICE_A", "x")],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("PCIDEVICE_A has \"x\""), "{}", err(&output));
}

#[test]
fn fewer_ports_than_expected_are_waited_for() {
    let tree = node();
    let arguments = ["wait", "--timeout", "1s", "--memlock", "0", "--ports", "9"];
    let output = pod(&tree, &arguments, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("number of ports: 8 usable, expected 9"),
        "{}",
        err(&output)
    );
    let output = pod(&tree, &["wait", "--memlock", "0", "--ports", "8"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

#[test]
fn a_probe_without_its_helper_is_reported_with_what_to_install() {
    let tree = node();
    let arguments = [
        "wait",
        "--timeout",
        "1h",
        "--memlock",
        "0",
        "--probe",
        "--helper",
        "/nowhere/verbs",
    ];
    let output = pod(&tree, &arguments, &[RAIL]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("mlx5_1:1: loopback probe: verbs helper /nowhere/verbs not found"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_wrong_value_of_a_flag_is_an_error_and_not_a_verdict() {
    let tree = node();
    for (arguments, words) in [
        (&["wait", "--timeout", "soon"][..], "a duration with a unit"),
        (&["wait", "--timeout", "0s"], "from 1s to 1day"),
        (&["wait", "--ports", "0"], "--ports"),
        (&["wait", "--memlock", "much"], "a size such as 64KiB"),
        (&["env", "--nccl-version", "new"], "a version like 2.27.3"),
    ] {
        let output = pod(&tree, arguments, &[RAIL]);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(words), "{arguments:?}: {}", err(&output));
    }
    let nowhere = run(&["wait", "--root", text(Path::new("/nowhere"))]);
    assert_eq!(nowhere.status.code(), Some(3));
}

#[test]
fn nccls_configuration_files_are_not_overridden() {
    let tree = node();
    fs::create_dir_all(tree.path().join("etc")).unwrap();
    fs::write(tree.path().join("etc/nccl.conf"), "NCCL_SOCKET_IFNAME=bond0\n").unwrap();
    let output = pod(&tree, &["env"], &[RAIL]);
    let text = out(&output);
    assert!(!text.contains("export NCCL_SOCKET_IFNAME"), "{text}");
    assert!(
        text.contains("NCCL_SOCKET_IFNAME is set in /etc/nccl.conf to 'bond0'"),
        "{text}"
    );
}

#[test]
fn a_copy_of_the_program_runs_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    for _ in ["new", "replaced"] {
        let output = run(&["copy", text(folder.path())]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    }
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let version = Command::new(folder.path().join("rdma-health"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(out(&version).starts_with("rdma-health "));
    let output = run(&["copy", "/nowhere"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        err(&output).contains("cannot write /nowhere/rdma-health"),
        "{}",
        err(&output)
    );
}

#[test]
fn the_static_build_of_an_image_is_copied_where_there_is_one() {
    let (image, volume) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in ["bin", "libexec/rdma-health"] {
        fs::create_dir_all(image.path().join(folder)).unwrap();
    }
    let program = image.path().join("bin/rdma-health");
    fs::copy(PRODUCT, &program).unwrap();
    fs::write(image.path().join("libexec/rdma-health/rdma-health"), "static").unwrap();
    let output = Command::new(program)
        .args(["copy", text(volume.path())])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(
        fs::read_to_string(volume.path().join("rdma-health")).unwrap(),
        "static"
    );
}
