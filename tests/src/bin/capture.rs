//! `capture [ROOT]` prints what this machine's kernel says about RDMA, the IOMMU and PCI as one tree archive.
//! `capture --fixtures` boots the virtual nodes that the fixtures of this repository come from and captures each.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use rdma_health_tests::capture::capture;
use rdma_health_tests::tree::{Tree, fixtures};
use rdma_health_tests::virtual_node::{Iommu, Options, VirtualNode, quote};

/// The name of a fixture, the machine that it is captured from, and that machine in words.
const NODES: [(&str, Iommu, &str, &str); 3] = [
    (
        "virtual-node-translated",
        Iommu::Intel,
        "",
        "Intel IOMMU in translation mode",
    ),
    (
        "virtual-node-passthrough",
        Iommu::Intel,
        "iommu=pt",
        "Intel IOMMU in passthrough mode",
    ),
    ("virtual-node-no-iommu", Iommu::None, "", "no IOMMU"),
];

fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(option) if option == "--fixtures" => write_fixtures(),
        root => {
            print!("{}", capture(root.as_deref().map_or(Path::new("/"), Path::new))?);
            Ok(())
        }
    }
}

fn write_fixtures() -> Result<()> {
    let own = std::env::current_exe()?;
    let own = quote(own.to_str().context("the path of this program is not UTF-8")?);
    for (name, iommu, kernel_args, about) in NODES {
        let options = Options {
            iommu,
            kernel_args: kernel_args.into(),
            nics: 4,
            ..Options::default()
        };
        let text = VirtualNode::boot(&options)?.check(&own)?;
        Tree::parse(&text).context("what was captured is not an archive")?;
        let path = fixtures().join(format!("{name}.tree"));
        let head = format!(
            "# A virtual node, captured by `make fixtures`: four SoftRoCE devices, {about}.\n# Do not edit.\n"
        );
        fs::write(&path, head + &text)?;
        println!("{}", path.display());
    }
    Ok(())
}
