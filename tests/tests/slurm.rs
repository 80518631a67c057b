//! The scripts for Slurm, with the real program on captured nodes. A stand-in for `scontrol` records what it is asked to do.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rdma_health_tests::{tree, virtual_node::built};
use tempfile::TempDir;

struct Host {
    programs: TempDir,
}

impl Host {
    /// A host on which `scontrol show node` prints this line.
    fn new(state: &str) -> Self {
        let programs = tempfile::tempdir().unwrap();
        let path = |name: &str| programs.path().join(name);
        let script = format!(
            "#!/bin/sh\ncase $1 in\n  show) echo '{state}' ;;\n  *) echo \"$@\" >> {} ;;\nesac\n",
            path("asked").display()
        );
        fs::write(path("scontrol"), script).unwrap();
        fs::write(path("logger"), "#!/bin/sh\nexit 0\n").unwrap();
        for name in ["scontrol", "logger"] {
            fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(built("rdma-health").unwrap(), path("rdma-health")).unwrap();
        Self { programs }
    }

    fn run(&self, script: &str, root: &Path) -> Output {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../deploy/slurm")
            .join(script);
        let path = format!(
            "{}:{}",
            self.programs.path().display(),
            std::env::var("PATH").unwrap()
        );
        Command::new(script)
            .env("PATH", path)
            .env("RDMA_HEALTH_ROOT", root)
            .env("RDMA_HEALTH_RUN", self.programs.path().join("run"))
            .env("SLURMD_NODENAME", "gpu-07")
            .output()
            .unwrap()
    }

    /// What `scontrol` was asked to do, and the exit status of the health check.
    fn check(&self, root: &Path) -> (String, Option<i32>) {
        let done = self.run("health-check", root);
        let asked = fs::read_to_string(self.programs.path().join("asked")).unwrap_or_default();
        (asked, done.status.code())
    }
}

const IDLE: &str = "NodeName=gpu-07 State=IDLE Reason=none";

#[test]
fn a_critical_problem_drains_the_node_with_its_cause() {
    let broken = tree::fixture("connectx7-gpu").unwrap();
    let (asked, status) = Host::new(IDLE).check(broken.path());
    assert_eq!(status, Some(0));
    assert!(
        asked.starts_with("update NodeName=gpu-07 State=DRAIN Reason=rdma-health: ")
            && asked.contains("iommu-group-translated"),
        "{asked}"
    );
    // Messages of the program are not part of the reason. On a tree it has none, so that a script adds one.
    let noisy = Host::new(IDLE);
    let program = noisy.programs.path().join("rdma-health");
    let script = format!(
        "#!/bin/sh\necho 'rdma-health: a message' >&2\nexec {} \"$@\"\n",
        built("rdma-health").unwrap().display()
    );
    fs::remove_file(&program).unwrap();
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(noisy.check(broken.path()).0, asked);
    // Drained already, by anyone.
    for state in ["IDLE+DRAIN Reason=rdma-health: x", "DRAINED Reason=broken fan"] {
        let (asked, _) = Host::new(&format!("NodeName=gpu-07 State={state}")).check(broken.path());
        assert_eq!(asked, "", "{state}");
    }
    // By this script, for another cause, unless someone extended the reason.
    let before = "NodeName=gpu-07 State=IDLE+DRAIN Reason=rdma-health: port-down  port-down [root@2026-11-27T02:00:00]";
    let (changed, _) = Host::new(before).check(broken.path());
    assert_eq!(changed, asked);
    for extended in [
        "port-down,JIRA-1234",
        "port-down,cable-ordered",
        "port-down,rate-low ann",
    ] {
        let state = format!("NodeName=gpu-07 State=IDLE+DRAIN Reason=rdma-health: port-down  {extended}");
        assert_eq!(Host::new(&state).check(broken.path()).0, "", "{extended}");
    }
    // What it wrote itself stays.
    let written = asked.trim().split_once("Reason=").unwrap().1;
    let state = format!("NodeName=gpu-07 State=IDLE+DRAIN Reason={written} [root@2026-11-27T02:00:00]");
    assert_eq!(Host::new(&state).check(broken.path()).0, "");
    let healthy = tree::fixture("h100-connectx7").unwrap();
    assert_eq!(
        Host::new(&state).check(healthy.path()).0,
        "update NodeName=gpu-07 State=RESUME\n",
        "its own reason is recognised, even a long one"
    );
    // By Slurm, because the prolog failed.
    let failed = "NodeName=gpu-07 State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-27T02:00:00]";
    let (asked, _) = Host::new(failed).check(broken.path());
    assert!(
        asked.starts_with("update NodeName=gpu-07 State=DRAIN Reason=rdma-health: "),
        "{asked}"
    );
    let host = Host::new(failed);
    let prolog = host.run("prolog", broken.path());
    assert_eq!(prolog.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&prolog.stderr).contains("CRITICAL"));
    // The problem ended before the health check ran. The next `Prolog error` is not of this prolog.
    let resumed = "update NodeName=gpu-07 State=RESUME\n";
    assert_eq!(host.check(healthy.path()).0, resumed);
    assert_eq!(host.check(healthy.path()).0, resumed, "not resumed again");
}

#[test]
fn a_healthy_node_is_resumed_only_if_the_script_drained_it() {
    let healthy = tree::fixture("h100-connectx7").unwrap();
    let own = Host::new("NodeName=gpu-07 State=IDLE+DRAIN Reason=rdma-health: iommu-translation");
    assert_eq!(
        own.check(healthy.path()),
        ("update NodeName=gpu-07 State=RESUME\n".into(), Some(0))
    );
    let full = "NodeName=gpu-07 State=IDLE+DRAIN ThreadsPerCore=2 Reason=rdma-health: iommu-translation  iommu-group-translated [root@2026-11-27T02:00:00]";
    assert_eq!(
        Host::new(full).check(healthy.path()).0,
        "update NodeName=gpu-07 State=RESUME\n"
    );
    for state in [
        IDLE,
        "NodeName=gpu-07 State=IDLE+DRAIN Reason=broken fan",
        "NodeName=gpu-07 State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-27T02:00:00]",
        // Extended by an administrator.
        "NodeName=gpu-07 State=IDLE+DRAIN Reason=rdma-health: port-down  port-down, cable ordered [ann@2026-11-27T02:00:00]",
        "NodeName=gpu-07 State=IDLE+DRAIN Reason=rdma-health: port-down  port-down,JIRA-1234 [ann@2026-11-27T02:00:00]",
        "NodeName=gpu-07 State=IDLE+DRAIN Reason=rdma-health: port-down  port-down,cable-ordered [ann@2026-11-27T02:00:00]",
        "NodeName=gpu-07 State=IDLE+DRAIN Reason=ann: see Reason=rdma-health: x",
        "NodeName=gpu-07 State=IDLE Comment=State=DRAIN Reason=none",
    ] {
        assert_eq!(
            Host::new(state).check(healthy.path()),
            (String::new(), Some(0)),
            "{state}"
        );
    }
    assert_eq!(
        Host::new(IDLE).run("prolog", healthy.path()).status.code(),
        Some(0)
    );
}

#[test]
fn a_node_that_is_down_or_whose_reason_has_a_second_line_belongs_to_the_operator() {
    let broken = tree::fixture("connectx7-gpu").unwrap();
    let healthy = tree::fixture("h100-connectx7").unwrap();
    let own = "rdma-health: port-down  port-down [root@2026-11-27T02:00:00]";
    for (state, reason) in [
        ("DOWN", "bad PSU, RMA 4711 [root@2026-11-27T02:00:00]"),
        (
            "DOWN+NOT_RESPONDING",
            "Not responding [slurm@2026-11-27T02:00:00]",
        ),
        ("FAIL", "vendor on site [root@2026-11-27T02:00:00]"),
        ("DOWN+DRAIN", own),
    ] {
        let shown = format!("NodeName=gpu-07 State={state} ThreadsPerCore=1   Reason={reason}");
        for root in [&broken, &healthy] {
            assert_eq!(Host::new(&shown).check(root.path()).0, "", "{shown}");
        }
    }
    let of_drained = |rest: &str| {
        let shown = format!("NodeName=gpu-07 State=IDLE+DRAIN Reason={own}{rest}");
        Host::new(&shown).check(healthy.path()).0
    };
    assert_eq!(of_drained("    RMA 4711 do not resume"), "");
    for rest in ["", " ", "   ReservationName=maint Comment=rack 12"] {
        assert_eq!(
            of_drained(rest),
            "update NodeName=gpu-07 State=RESUME\n",
            "{rest}"
        );
    }
}

#[test]
fn an_unknown_verdict_changes_nothing() {
    let empty = tempfile::tempdir().unwrap();
    let own = Host::new("NodeName=gpu-07 State=IDLE+DRAIN Reason=rdma-health: x");
    assert_eq!(own.check(empty.path()), (String::new(), Some(0)));
    assert_eq!(own.run("prolog", empty.path()).status.code(), Some(0));
}
