//! What the operator expects of a node. Without an expectation nothing unused is called broken.

use serde::{Deserialize, Serialize};

/// What the node is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// GPU memory moves over RDMA: translation or a missing peer-memory path is critical.
    #[serde(rename = "gpudirect")]
    GpuDirect,
    /// Host memory moves over RDMA.
    Rdma,
    /// No RDMA is expected.
    TcpOnly,
    /// Nothing was said; judged by what is there.
    #[default]
    Auto,
}

impl Profile {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuDirect => "gpudirect",
            Self::Rdma => "rdma",
            Self::TcpOnly => "tcp-only",
            Self::Auto => "auto",
        }
    }
}

/// What the operator expects of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expectations {
    /// What the node is for.
    pub profile: Profile,
    /// Devices (`mlx5_0`) or ports (`mlx5_0:1`) that must be up.
    pub ports_up: Vec<String>,
    /// The least memory-lock limit that pods should get, in bytes.
    pub memlock_bytes: u64,
}

impl Default for Expectations {
    fn default() -> Self {
        // 64 GiB: NCCL registers little, MPI and NVSHMEM register whole heaps; every guide asks for unlimited.
        Self {
            profile: Profile::Auto,
            ports_up: Vec::new(),
            memlock_bytes: 64 << 30,
        }
    }
}
