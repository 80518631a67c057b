//! What spans the crates of this workspace and what their tests share.
//!
//! - [`tree`]: a captured node as one text file that unpacks to a directory.
//! - [`capture`]: makes such a file from the machine it runs on.
//! - [`scrape`]: what a Prometheus would see.
//! - [`virtual_node`]: a throw-away machine with an IOMMU and RDMA devices, driven step by step.

pub mod capture;
pub mod scrape;
pub mod tree;
pub mod virtual_node;

/// The path of a program of this workspace, built as this test was. A guest sees it at the same place.
///
/// # Errors
/// Where it is not built; `make test` builds it.
pub fn program(name: &str) -> anyhow::Result<String> {
    use anyhow::Context as _;
    // target/PROFILE/deps/TEST-HASH
    let own = std::env::current_exe()?;
    let profile = own
        .ancestors()
        .nth(2)
        .context("the test is no child of a target folder")?;
    let path = profile.join(name);
    anyhow::ensure!(path.exists(), "{} is not built; run `make test`", path.display());
    path.into_os_string()
        .into_string()
        .ok()
        .context("the path is not text")
}
