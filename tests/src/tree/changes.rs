//! Changes of a captured node that tests of several crates make.

use anyhow::{Context, Result};

use super::{Entry, Tree};

/// One entry of a GID table as sysfs shows it.
#[derive(Debug, Clone, Copy)]
pub struct GidFile<'a> {
    /// Its index.
    pub index: u32,
    /// Its address, as people write it.
    pub gid: &'a str,
    /// Its type, as the kernel writes it: `IB/RoCE v1` or `RoCE v2`.
    pub kind: &'a str,
    /// The network device that it belongs to.
    pub netdev: &'a str,
}

impl Tree {
    /// The file with the type of the IOMMU group of a PCI function.
    ///
    /// # Errors
    /// If the function is in no group.
    pub fn iommu_type_file(&self, address: &str) -> Result<String> {
        let member = format!("/devices/{address}");
        let mut groups = self
            .entries()
            .filter_map(|(path, _)| path.strip_prefix("sys/kernel/iommu_groups/"));
        let group = groups.find_map(|path| path.strip_suffix(&member));
        let group = group.with_context(|| format!("{address} has no IOMMU group"))?;
        Ok(format!("sys/kernel/iommu_groups/{group}/type"))
    }

    /// Gives the IOMMU group of a PCI function another type, such as `DMA-FQ`.
    ///
    /// # Errors
    /// If the function is in no group.
    pub fn set_iommu_type(&mut self, address: &str, iommu_type: &str) -> Result<()> {
        let file = self.iommu_type_file(address)?;
        self.write(&file, format!("{iommu_type}\n"))
    }

    /// Binds a PCI function to `vfio-pci`, as for a virtual machine.
    ///
    /// # Errors
    /// If the tree has no driver of the function.
    pub fn bind_to_vfio(&mut self, address: &str) -> Result<()> {
        let driver = self.path_ending(&format!("/{address}/driver"))?;
        let up = "../".repeat(driver.matches('/').count() - 1);
        let target = format!("{up}bus/pci/drivers/vfio-pci");
        self.insert(&driver, Entry::Link { target })
    }

    /// Writes these entries into the GID table of port 1 of a device.
    ///
    /// # Errors
    /// If the tree has no GID table of that port, or one of `gids` is not an address.
    pub fn write_gids(&mut self, device: &str, gids: &[GidFile<'_>]) -> Result<()> {
        let first = self.path_ending(&format!("/infiniband/{device}/ports/1/gids/0"))?;
        let port = first.strip_suffix("/gids/0").unwrap_or_default();
        for GidFile {
            index,
            gid,
            kind,
            netdev,
        } in gids
        {
            let segments = gid.parse::<std::net::Ipv6Addr>()?.segments();
            let gid = segments.map(|part| format!("{part:04x}")).join(":");
            self.write(&format!("{port}/gids/{index}"), format!("{gid}\n"))?;
            self.write(&format!("{port}/gid_attrs/types/{index}"), format!("{kind}\n"))?;
            self.write(&format!("{port}/gid_attrs/ndevs/{index}"), format!("{netdev}\n"))?;
        }
        Ok(())
    }

    /// The first path that ends so.
    fn path_ending(&self, end: &str) -> Result<String> {
        let mut paths = self.entries().map(|(path, _)| path);
        let found = paths.find(|path| path.ends_with(end));
        found
            .map(str::to_owned)
            .with_context(|| format!("no path ends in {end}"))
    }
}
