//! The walls of the house: which crate may know which, and what only the joined model may work out.
//!
//! Cargo refuses a circle; it does not refuse a rule that opens a file or a publisher that knows another. Where one of
//! these tests fails, the change most likely belongs into another room: docs/architecture.md says which.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Each crate of `agent/`, with the crates of this workspace that it may depend on, by the layers of docs/architecture.md.
const MAY_KNOW: &[(&str, &[&str])] = &[
    // Tools that know nothing of RDMA.
    ("time", &[]),
    ("file", &[]),
    ("yaml", &["file"]),
    ("instrument", &["time"]),
    ("web", &["file", "instrument", "time", "yaml"]),
    // Read.
    ("protocol", &[]),
    ("kernel-log", &[]),
    ("kernel", &["kernel-log", "protocol", "time"]),
    ("kubelet", &["protocol"]),
    ("verbs", &["kernel", "kubelet", "protocol"]),
    ("helper", &["instrument", "node", "protocol"]),
    ("peer", &["file", "helper", "node", "protocol", "rules"]),
    // Join.
    ("node", &["kernel", "protocol"]),
    // Judge.
    ("rules", &["node", "protocol"]),
    ("diagnosis", &["kernel-log", "node", "protocol", "rules"]),
    // Record and replay.
    ("snapshot", &["file", "kernel", "node", "protocol"]),
    // Publish, each free of the others.
    ("config", &["file", "instrument", "rules", "time", "yaml"]),
    ("view", &["diagnosis", "node", "rules"]),
    (
        "metrics",
        &[
            "diagnosis",
            "instrument",
            "node",
            "protocol",
            "rules",
            "time",
            "view",
        ],
    ),
    ("job", &["node", "protocol"]),
    ("preflight", &["rules"]),
    ("report", &["diagnosis", "node", "protocol", "rules", "view"]),
    (
        "kubernetes",
        &[
            "config",
            "file",
            "instrument",
            "node",
            "preflight",
            "protocol",
            "rules",
            "time",
            "view",
        ],
    ),
];

/// The crate that composes the others may know every one.
const BINARY: &str = "rdma-health";

/// What only the model and the readers below it may work out from facts, with the method that answers it.
const DERIVED_IN_THE_MODEL: &[(&str, &str)] = &[
    ("verbs_device(", "Port::verbs"),
    (".gids.known(", "Port::gids"),
    (".kernel.gids", "Port::gids"),
    (
        "GidType::RoceV2 && gid.is_ipv4_mapped()",
        "Gid::is_routable or Port::routable_gid",
    ),
    (".devices.known(", "Function::group"),
    ("starts_with(\"vfio", "Function::lent_to"),
    (
        "physical_function.known(",
        "Hca::is_virtual, Function::is_virtual or Node::link_of",
    ),
    ("\"Ethernet\"", "Port::is_ethernet"),
    ("\"InfiniBand\"", "Port::is_infiniband"),
];

/// Crates whose sources are held to [`DERIVED_IN_THE_MODEL`]: all that judge or publish.
const ABOVE_THE_MODEL: &[&str] = &[
    "rules",
    "diagnosis",
    "metrics",
    "report",
    "kubernetes",
    "view",
    "rdma-health",
];

fn agent() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The crates of this workspace among the normal dependencies of a crate.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = read(&agent().join(name).join("Cargo.toml"));
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        if section != "[dependencies]" {
            continue;
        }
        let name = line.strip_prefix("rdma-health-");
        found.extend(name.map(|name| name.split(['.', ' ']).next().unwrap_or_default().to_owned()));
    }
    found
}

/// What a folder holds: names and paths.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let path = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path();
    let named = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), path);
    entries.map(path).map(named).collect()
}

/// Every source file below a folder, tests left out.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for (name, path) in entries(folder) {
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !matches!(name.as_str(), "tests.rs" | "simulation.rs")
        {
            found.push(path);
        }
    }
}

#[test]
fn each_crate_knows_only_the_crates_of_its_layer_and_below() {
    let allowed: BTreeMap<_, _> = MAY_KNOW.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, path) in entries(&agent()) {
        if name == BINARY || !path.join("Cargo.toml").exists() {
            continue;
        }
        let Some(allowed) = allowed.get(name.as_str()) else {
            wrong.push(format!("agent/{name} has no line in MAY_KNOW"));
            continue;
        };
        let more = dependencies(&name)
            .into_iter()
            .filter(|found| !allowed.contains(&found.as_str()));
        wrong.extend(more.map(|found| format!("agent/{name} must not depend on rdma-health-{found}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_and_diagnosis_cannot_name_the_crates_that_read() {
    for name in ["rules", "diagnosis"] {
        let found = dependencies(name);
        for reader in ["kernel", "kubelet", "verbs", "helper", "snapshot"] {
            assert!(
                !found.contains(reader),
                "agent/{name} depends on rdma-health-{reader}"
            );
        }
        // Clippy refuses what the standard library would offer.
        let lints = read(&agent().join(name).join("clippy.toml"));
        for refused in [
            "std::fs::",
            "std::net::",
            "std::process::Command",
            "std::time::SystemTime",
        ] {
            assert!(
                lints.contains(refused),
                "agent/{name}/clippy.toml does not refuse {refused}"
            );
        }
    }
}

#[test]
fn nothing_above_the_model_works_out_roles_groups_or_gids() {
    let mut wrong = Vec::new();
    for name in ABOVE_THE_MODEL {
        let mut files = Vec::new();
        sources(&agent().join(name).join("src"), &mut files);
        for file in files {
            let text = read(&file);
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for (number, line) in (1..).zip(code.lines()) {
                for (derived, instead) in DERIVED_IN_THE_MODEL {
                    if line.contains(derived) && !line.trim_start().starts_with("//") {
                        let file = file.strip_prefix(agent()).unwrap_or(&file).display();
                        wrong.push(format!(
                            "agent/{file}:{number}: {derived} belongs to agent/node; use {instead}"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
