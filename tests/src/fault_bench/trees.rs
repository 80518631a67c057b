//! Faults made by a change to a tree: hardware that no emulated machine has.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Answer, Fault, How, Outcome, Selection, joined};
use crate::tree::{Entry, Tree, fixtures};

use self::faults::{PAIRS, WITH_PROFILE, changes};

mod faults;
mod field;
mod past;
mod symmetry;

/// A fault and the change that makes it.
struct Change {
    fault: Fault,
    make: fn(&mut Tree) -> Result<()>,
    /// What the configuration says; empty for none.
    config: &'static str,
}

/// A fixture that shows faults.
struct Captured {
    fixture: &'static str,
    what: &'static str,
    /// What must be named, one after the other.
    expected: &'static [&'static str],
    explains: &'static [&'static str],
}

/// All other fixtures are healthy nodes.
const FAULTY: &[Captured] = &[
    Captured {
        fixture: "connectx7-gpu",
        what: "modelled with several faults: translation, no peer memory, 8 MiB to lock, ACS, a VF without a GUID",
        expected: &[
            "iommu-group-translated",
            "peer-memory-missing",
            "memlock-low",
            "acs-redirect",
            "vf-guid-zero",
        ],
        explains: &[
            "guid-invalid",
            "rdma-modules-missing",
            "pci-link-degraded",
            "facts-unreadable",
        ],
    },
    Captured {
        fixture: "virtual-node-translated",
        what: "captured from a machine in translation mode",
        expected: &["iommu-group-translated"],
        explains: &[],
    },
];

/// Asks the doctor about every tree that is selected, and reports each outcome as it is known.
///
/// # Errors
/// Where a tree cannot be made or the doctor gives no answer.
pub fn run(program: &Path, selection: &Selection, report: &mut dyn FnMut(Outcome)) -> Result<()> {
    for (name, path) in archives()? {
        if selection.wants(&name, "fixture") {
            let tree =
                Tree::parse(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
            let faults = fixture_faults(&name);
            let answer = ask(program, &tree, "").with_context(|| name.clone())?;
            report(Outcome::of(name, &faults.iter().collect::<Vec<_>>(), answer));
        }
    }
    let place = "field";
    if selection.wants(place, "healthy") {
        report(Outcome::of(place, &[], ask(program, &field::node()?, "")?));
    }
    let find = |id: &str| {
        let found = changes().find(|change| change.fault.id == id);
        found.with_context(|| format!("no change is called {id}"))
    };
    let mut all: Vec<_> = changes().map(|change| vec![change]).collect();
    for (one, other) in PAIRS {
        all.push(vec![find(one)?, find(other)?]);
    }
    for (id, profile) in WITH_PROFILE {
        let place = format!("field-{profile}");
        if selection.wants(&place, id) {
            let change = find(id)?;
            let mut tree = field::node()?;
            (change.make)(&mut tree).with_context(|| format!("making {id}"))?;
            let config = format!("expect:\n  profile: {profile}\n");
            let answer = ask(program, &tree, &config).context(*id)?;
            let fault = Fault {
                known_miss: None,
                ..change.fault
            };
            report(Outcome::of(place, &[&fault], answer));
        }
    }
    for changes in all {
        let name = joined(changes.iter().map(|change| change.fault.id));
        if !selection.wants(place, &name) {
            continue;
        }
        let mut tree = field::node()?;
        for change in &changes {
            (change.make)(&mut tree).with_context(|| format!("making {name}"))?;
        }
        let config = changes
            .iter()
            .map(|change| change.config)
            .find(|config| !config.is_empty());
        let answer = ask(program, &tree, config.unwrap_or_default()).with_context(|| name.clone())?;
        let faults: Vec<_> = changes.iter().map(|change| &change.fault).collect();
        report(Outcome::of(place, &faults, answer));
    }
    past::run(program, selection, report)
}

/// Every fault that is made in a tree.
pub(super) fn faults() -> impl Iterator<Item = Fault> {
    let captured = FAULTY
        .iter()
        .flat_map(|captured| fixture_faults(captured.fixture));
    let changes = changes().map(|change| change.fault);
    captured.chain(changes).chain(past::faults())
}

/// The fixtures by name.
fn archives() -> Result<Vec<(String, std::path::PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(fixtures())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tree") {
            let name = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .context("a name in UTF-8")?;
            found.push((name.to_owned(), path));
        }
    }
    found.sort();
    Ok(found)
}

/// The faults of a fixture.
fn fixture_faults(name: &str) -> Vec<Fault> {
    let Some(captured) = FAULTY.iter().find(|captured| captured.fixture == name) else {
        return Vec::new();
    };
    let fault = |id: &&'static str| Fault::new(How::Tree, id, captured.what, id, captured.explains);
    captured.expected.iter().map(fault).collect()
}

fn ask(program: &Path, tree: &Tree, config: &str) -> Result<Answer> {
    let root = tree.unpack()?;
    let mut command = Command::new(program);
    command
        .args(["check", "--output", "json", "--root"])
        .arg(root.path());
    let file = tempfile::NamedTempFile::new()?;
    if !config.is_empty() {
        fs::write(file.path(), config)?;
        command.arg("--config").arg(file.path());
    }
    let out = command
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    Answer::parse(&String::from_utf8(out.stdout)?)
        .with_context(|| format!("{}: {}", out.status, String::from_utf8_lossy(&out.stderr)))
}

/// What one line of a file says instead.
fn set(tree: &mut Tree, path: &str, value: &str) -> Result<()> {
    anyhow::ensure!(
        matches!(tree.get(path), Some(Entry::File { .. })),
        "the healthy node has no file {path}"
    );
    tree.write(path, format!("{value}\n"))
}

/// Takes away what must be there.
fn remove(tree: &mut Tree, path: &str) -> Result<()> {
    anyhow::ensure!(tree.remove(path), "the healthy node has no {path}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_changes_the_healthy_node_and_what_results_can_be_unpacked() {
        let healthy = field::node().unwrap();
        healthy.unpack().unwrap();
        for change in changes() {
            let mut tree = healthy.clone();
            (change.make)(&mut tree).unwrap_or_else(|error| panic!("{}: {error:#}", change.fault.id));
            assert!(
                tree != healthy || !change.config.is_empty(),
                "{}",
                change.fault.id
            );
            tree.unpack().unwrap();
        }
    }
}
