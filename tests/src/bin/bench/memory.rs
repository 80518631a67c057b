//! Resident memory of an agent that has all facts of a whole node, with 16 HCAs.

use std::{path::Path, thread::sleep, time::Duration};

use anyhow::{Result, ensure};
use rdma_health_tests::{
    fleet::{self, DEVICES, Layout},
    tree::Tree,
};

use super::{client::Client, scrape, table};

/// A node with 8 GPUs and 9 HCAs, on which every source of facts finds something.
const NODE: &str = "h100-connectx7";
/// How often the agent reads everything, in seconds, and how many times that is watched.
const INTERVAL: u64 = 5;
const READINGS: u32 = 24;
/// Megabytes.
const MOST: f64 = 12.0;

pub(crate) fn measure() -> Result<()> {
    let tree = fleet::directory()?;
    write(tree.path())?;
    let agent = scrape::agent(tree.path(), &["--interval", &format!("{INTERVAL}s")])?;
    println!("\nResident memory on a whole node with {DEVICES} HCAs, target at most {MOST} MB");
    let mut clients = [false, true].map(|gzip| Client::new(agent.address, gzip));
    for reading in 0..=READINGS {
        for client in &mut clients {
            let body = client.scrape()?;
            ensure!(!body.is_empty(), "an empty scrape");
        }
        if reading % (READINGS / 4) == 0 {
            let (now, most) = agent.memory()?;
            let word = table::word(most <= MOST);
            println!("  after {reading:>2} readings {now:>6.1} MB, at most so far {most:>6.1} MB: {word}");
        }
        sleep(Duration::from_secs(INTERVAL));
    }
    Ok(())
}

/// Writes the tree of the node into an existing directory.
pub(crate) fn write(root: &Path) -> Result<()> {
    Tree::fixture(NODE)?.unpack_into(root)?;
    fleet::write(root, Layout::Hardware)
}
