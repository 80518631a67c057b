//! Measures the rails between two nodes with `rdma-health probe --listen` and `--connect`, as their administrator would.

use std::time::Duration;

use anyhow::Result;

use crate::virtual_node::{Output, VirtualNode, built};

/// Where the token of both nodes is; [`share_token`] writes it.
pub const TOKEN: &str = "/run/token";
/// Small, because all of it is emulated.
const SMALL: &str = "--bytes 1MiB --queue-pairs 2";
const SOON: Duration = Duration::from_secs(120);

/// One side of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The node on which the program runs.
    pub node: &'a VirtualNode,
    /// Its RDMA devices, separated by spaces.
    pub devices: &'a str,
}

/// What the two programs printed and ended with.
#[derive(Debug)]
pub struct Both {
    /// The one with `--connect`.
    pub connects: Output,
    /// The one with `--listen`: exit status, standard output and standard error.
    pub listens: (i32, String, String),
}

impl Both {
    /// What the one with `--connect` printed.
    pub fn text(&self) -> String {
        format!("{}{}", self.connects.stdout_text(), self.connects.stderr_text())
    }
}

/// Writes the token of a measurement into a node.
///
/// # Errors
/// If the node is gone.
pub fn share_token(node: &VirtualNode) -> Result<()> {
    node.write_file(TOKEN, "a token that both nodes know\n")?;
    node.check(&format!("chmod 600 {TOKEN}")).map(drop)
}

/// Measures from `connects` to `listens`, whose address is `host`; `more` is added to the command line of the former.
///
/// # Errors
/// If the program is not built, a node is gone, or one of the programs does not end.
pub fn measure(connects: Side<'_>, listens: Side<'_>, host: &str, more: &str) -> Result<Both> {
    let product = built("rdma-health")?.display().to_string();
    let listener = listens.node.spawn(&format!(
        "exec {product} probe {} --listen={host}:14792 --token-file {TOKEN} --once --wait 60s",
        listens.devices
    ))?;
    let connected = connects.node.run_within(
        SOON,
        &format!(
            "{product} probe {} --connect {host} --token-file {TOKEN} --wait 60s {SMALL} {more}",
            connects.devices
        ),
    )?;
    let status = listener.wait(SOON)?;
    Ok(Both {
        connects: connected,
        listens: (status, listener.stdout()?, listener.stderr()?),
    })
}
