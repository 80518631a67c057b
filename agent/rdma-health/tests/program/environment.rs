//! Environment variables in place of flags, as for a user who runs a command in a pod of the chart.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rdma_health_tests::tree;

use super::{PRODUCT, err, out, run, text};

/// What the chart's containers set; the state is not there yet, as in an agent's first minutes.
struct Pod {
    folder: tempfile::TempDir,
    root: tempfile::TempDir,
}

impl Pod {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.yaml"), config).unwrap();
        Self {
            folder,
            root: tree::fixture("connectx7-gpu").unwrap(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn exec(&self, arguments: &[&str]) -> Output {
        Command::new(PRODUCT)
            .args(arguments)
            .env("RDMA_HEALTH_CONFIG", self.file("config.yaml"))
            .env("RDMA_HEALTH_ROOT", self.root.path())
            .env("RDMA_HEALTH_STATE", self.file("state.json"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

#[test]
fn a_check_without_flags_judges_what_the_environment_names_as_the_configuration_says() {
    let pod = Pod::new("expect: {ports_up: [mlx5_9]}\n");
    let shown = pod.exec(&["check"]);
    assert_eq!(shown.status.code(), Some(2), "{}", err(&shown));
    for word in ["gpu-17", "mlx5_9"] {
        assert!(out(&shown).contains(word), "{word}: {}", out(&shown));
    }
    let pod = Pod::new("exclude: [mlx5_0]\n");
    assert!(!out(&pod.exec(&["check"])).contains("mlx5_0 "));
    let baseline = pod.exec(&["baseline"]);
    assert!(baseline.status.success(), "{}", err(&baseline));
    assert!(!out(&baseline).contains("mlx5_0"), "{}", out(&baseline));
}

#[test]
fn a_flag_wins_over_the_environment() {
    let pod = Pod::new("expect: {ports_up: [mlx5_9]}\n");
    let elsewhere = pod.exec(&["check", "--root", "/nowhere"]);
    assert_eq!(elsewhere.status.code(), Some(3));
    assert!(err(&elsewhere).contains("/nowhere"), "{}", err(&elsewhere));
    fs::write(pod.file("other.yaml"), "expect: {ports_up: [mlx5_8]}\n").unwrap();
    let shown = out(&pod.exec(&["check", "--config", text(&pod.file("other.yaml"))]));
    assert!(shown.contains("mlx5_8") && !shown.contains("mlx5_9"), "{shown}");
    let state = pod.file("state.json");
    let missing = pod.exec(&["check", "--state", text(&state)]);
    assert!(err(&missing).contains("no such file"), "{}", err(&missing));
}

#[test]
fn a_probe_asks_the_helper_that_the_configuration_names() {
    let pod = Pod::new("helper: {socket: /nowhere/verbs.sock}\n");
    // The tree of this pod is a captured one.
    let output = pod.exec(&["probe", "--root", "/"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("/nowhere/verbs.sock"), "{}", err(&output));
}

#[test]
fn a_saved_node_is_judged_by_what_was_saved_and_not_by_what_the_environment_says_of_this_one() {
    let pod = Pod::new("expect: {ports_up: [mlx5_9]}\n");
    let saved = pod.file("node.tar.zst");
    let output = pod.exec(&["snapshot", "-o", text(&saved)]);
    assert!(output.status.success(), "{}", err(&output));
    fs::write(pod.file("config.yaml"), "expect: {ports_up: [mlx5_8]}\n").unwrap();
    fs::write(pod.file("state.json"), "no history").unwrap();
    let replayed = pod.exec(&["check", "--snapshot", text(&saved)]);
    assert_eq!(replayed.status.code(), Some(2), "{}", err(&replayed));
    let shown = out(&replayed);
    assert!(shown.contains("mlx5_9") && !shown.contains("mlx5_8"), "{shown}");
    // A file that is not a history is reported where it would be used.
    let live = pod.exec(&["check"]);
    assert_eq!(live.status.code(), Some(3));
    assert!(err(&live).contains("state.json"), "{}", err(&live));
}

#[test]
fn what_the_chart_sets_is_what_the_commands_heed() {
    let manifests =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kustomize/base/rdma-health.yaml");
    let manifests = fs::read_to_string(manifests).unwrap();
    let set: BTreeSet<_> = manifests
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- name: "))
        .filter(|name| name.starts_with("RDMA_HEALTH_"))
        .collect();
    assert_eq!(set.len(), 3, "{set:?}");
    for name in set {
        let command = if name == "RDMA_HEALTH_LIVENESS_SOCKET" {
            "alive"
        } else {
            "check"
        };
        let help = out(&run(&[command, "--help"]));
        assert!(help.contains(&format!("[env: {name}=")), "{name}: {help}");
    }
}
