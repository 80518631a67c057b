//! `make bench`: what the product costs and how well it measures, compared with the tools that its users have, in one run.
//!
//! `bench [scrape] [sources] [probe] [load] [hung]`: only these parts; all of them where none is named. Nothing fails because a
//! figure is bad: a busy machine is not a defect. `docs/performance.md` describes what is measured and how.
//!
//! `bench tree DIRECTORY` only writes the tree of `scrape`.

mod client;
mod guest;
mod scrape;
mod sources;
mod table;

use std::path::Path;

use anyhow::{Result, bail};
use rdma_health_tests::fleet::{self, Layout};

const PARTS: [&str; 5] = ["scrape", "sources", "probe", "load", "hung"];

fn main() -> Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if let [part, directory] = named.as_slice()
        && part == "tree"
    {
        return fleet::write(Path::new(directory), Layout::Equal);
    }
    if let Some(other) = named.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("no part is called {other}; there is {}", PARTS.join(", "));
    }
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    table::machine();
    if wanted("scrape") {
        scrape::measure()?;
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
