//! `capture`: prints what this machine's kernel says about RDMA, the IOMMU and PCI as one tree archive.

use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let root = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("/"), PathBuf::from);
    print!("{}", rdma_health_tests::capture::capture(&root)?);
    Ok(())
}
