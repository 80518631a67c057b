//! `make bench`: what the product costs and how well it measures, compared with the tools that its users have, in one run.
//!
//! `bench [scrape] [memory] [sources] [probe] [load] [hung]`: only these parts; all of them where none is named. Nothing fails
//! because a figure is bad: a busy machine is not a defect. `docs/performance.md` describes what is measured and how.
//!
//! `bench trees DIRECTORY` only writes trees on which an agent can run: those of `scrape` and `memory`, and the fixtures.

mod client;
mod guest;
mod memory;
mod scrape;
mod sources;
mod table;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use rdma_health_tests::{
    fleet::{self, Layout},
    tree::{Tree, fixtures},
};

const PARTS: [&str; 6] = ["scrape", "memory", "sources", "probe", "load", "hung"];

fn main() -> Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if let [part, directory] = named.as_slice()
        && part == "trees"
    {
        return trees(Path::new(directory));
    }
    if let Some(other) = named.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("no part is called {other}; there is {}", PARTS.join(", "));
    }
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    table::machine();
    if wanted("scrape") {
        scrape::measure()?;
    }
    if wanted("memory") {
        memory::measure()?;
    }
    if wanted("sources") {
        sources::measure()?;
    }
    if wanted("load") {
        table::load();
    }
    if wanted("probe") || wanted("hung") {
        guest::measure(wanted("probe"), wanted("hung"))?;
    }
    Ok(())
}

/// Writes one directory for each tree.
fn trees(directory: &Path) -> Result<()> {
    let new = |name: &str| -> Result<_> {
        let tree = directory.join(name);
        fs::create_dir_all(&tree).with_context(|| format!("creating {}", tree.display()))?;
        Ok(tree)
    };
    fleet::write(&new("scrape")?, Layout::Equal)?;
    memory::write(&new("memory")?)?;
    for file in fs::read_dir(fixtures())? {
        let file = file?.path();
        let name = file.file_stem().and_then(|name| name.to_str());
        if let (Some(name), true) = (
            name,
            file.extension().is_some_and(|extension| extension == "tree"),
        ) {
            Tree::fixture(name)?.unpack_into(&new(name)?)?;
        }
    }
    Ok(())
}
