//! What the configuration of the node requests for its boot: IOMMU arguments of the kernel, and modules for RDMA; and which of these modules the
//! running kernel has.
//!
//! Source: `arguments.rs` and `loads.rs` list the files. In a container these are those of its image; only those of the host count, where its root is
//! mounted at `/host`. All of it only makes other facts more precise, so what cannot be read is absent.

mod arguments;
mod loads;

use serde::{Deserialize, Serialize};

pub use self::{
    arguments::Configured,
    loads::{Available, Load},
};
use crate::{
    fact::{Fact, Unread},
    root::Scope,
    source::{Known, Source},
};

/// Where the root of the host is mounted in a container.
const MOUNTED: &str = "/host";

/// What is configured for the boot of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// IOMMU arguments in the configuration of the boot loader, file by file; absent without such a file.
    pub arguments: Fact<Vec<Configured>>,
    /// What the administrator has loaded for RDMA at each boot.
    #[serde(default)]
    pub loads: Fact<Vec<Load>>,
    /// The modules for RDMA that the running kernel has; absent if the node has an RDMA device, or no list of modules was found.
    #[serde(default)]
    pub available: Fact<Available>,
}

impl Source for Boot {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        let prefix = if scope.root().is_of_container() {
            MOUNTED
        } else {
            ""
        };
        Self {
            arguments: arguments::configured(scope, prefix),
            loads: loads::at_boot(scope, prefix),
            available: loads::available(scope, prefix),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            arguments: why.clone().into(),
            loads: why.clone().into(),
            available: why.clone().into(),
        }
    }
}

/// What the reader uses of the file, if it is one of these.
pub fn used(path: &str, text: &str) -> Option<String> {
    let path = path.strip_prefix(MOUNTED).unwrap_or(path);
    arguments::used(path, text).or_else(|| loads::used(path, text))
}
