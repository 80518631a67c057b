//! Questions to a node.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A question to a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// The content of the file at this path.
    Read(String),
    /// The names in the directory at this path.
    List(String),
    /// The target of the symbolic link at this path.
    Link(String),
    /// This path with all links resolved.
    RealPath(String),
    /// What the kernel answers to a netlink request. The answer is a JSON document: the list of messages, each with its
    /// attributes by the names of the kernel's netlink specifications, and addresses in the usual notation.
    Netlink {
        /// The family: `rt-link`, `ethtool`, `devlink`, `rdma`, …
        family: String,
        /// The command: `pause-get`, `port-get`, …
        command: String,
        /// The object: a network device, a devlink handle (`pci/0000:18:00.0`), an RDMA device.
        /// Empty for a request that lists all objects.
        object: String,
    },
    /// What libibverbs says of every RDMA device. The answer is a JSON document: each device by name.
    VerbsDevices,
    /// The memlock limits of container runtimes and the kubelet, which the verbs helper reads where this process does not
    /// see the host's `/proc`. The answer is a JSON document: a list of [`crate::limits::Runtime`].
    Runtimes,
    /// What the drivers of network devices count, which the verbs helper reads. The answer is a JSON document: a list of
    /// [`rdma_health_protocol::DriverStatistics`].
    DriverStatistics,
    /// What the kubelet's pod-resources service answers. The answer is the response in protobuf's JSON form,
    /// without pods, containers and fields that no reader uses: [`rdma_health_protocol::ListPodResources`].
    Kubelet {
        /// The method: `List`, `GetAllocatableResources`.
        method: String,
    },
}

/// The form of the answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A file's bytes.
    Content,
    /// A JSON document.
    Document,
    /// Names.
    Names,
    /// The target of a link.
    Target,
    /// A path.
    RealPath,
}

impl Question {
    /// Its path; `None` if it is not about a path.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Read(path) | Self::List(path) | Self::Link(path) | Self::RealPath(path) => Some(path),
            Self::Netlink { .. }
            | Self::VerbsDevices
            | Self::Runtimes
            | Self::DriverStatistics
            | Self::Kubelet { .. } => None,
        }
    }

    /// The form of an answer to it.
    pub fn form(&self) -> Form {
        match self {
            Self::Read(_) => Form::Content,
            Self::List(_) => Form::Names,
            Self::Link(_) => Form::Target,
            Self::RealPath(_) => Form::RealPath,
            Self::Netlink { .. }
            | Self::VerbsDevices
            | Self::Runtimes
            | Self::DriverStatistics
            | Self::Kubelet { .. } => Form::Document,
        }
    }

    /// The question with each text that names something on the node replaced.
    #[must_use]
    pub fn map(&self, replace: impl Fn(&str) -> String) -> Self {
        let mut question = self.clone();
        match &mut question {
            Self::Read(text) | Self::List(text) | Self::Link(text) | Self::RealPath(text) => {
                *text = replace(text);
            }
            Self::Netlink { object, .. } => *object = replace(object),
            Self::VerbsDevices | Self::Runtimes | Self::DriverStatistics | Self::Kubelet { .. } => {}
        }
        question
    }
}

impl fmt::Display for Question {
    /// The path, or the name of the question in a text fixture.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path) | Self::List(path) | Self::Link(path) | Self::RealPath(path) => {
                f.write_str(path)
            }
            Self::Netlink {
                family,
                command,
                object,
            } if object.is_empty() => write!(f, "netlink {family} {command}"),
            Self::Netlink {
                family,
                command,
                object,
            } => write!(f, "netlink {family} {command} {object}"),
            Self::VerbsDevices => f.write_str("verbs devices"),
            Self::Runtimes => f.write_str("runtimes"),
            Self::DriverStatistics => f.write_str("driver statistics"),
            Self::Kubelet { method } => write!(f, "kubelet {method}"),
        }
    }
}
