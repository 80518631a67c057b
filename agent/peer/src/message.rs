//! What two nodes say to each other.

use rdma_health_protocol::{EndAddress, MAX_NAME, PortKey, Role, bounded};
use serde::{Deserialize, Serialize};

use crate::{
    measured::{EndResult, Measurement},
    rail::PortOffer,
    session::Plan,
};

/// The most ports of a node.
const MAX_PORTS: usize = 256;

/// A node and the ports that it offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The node's name.
    #[serde(deserialize_with = "bounded::text::<_, MAX_NAME>")]
    pub node: String,
    /// Its active ports.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_PORTS>")]
    pub ports: Vec<PortOffer>,
}

/// What the connecting node asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask", content = "with")]
pub(crate) enum Ask {
    /// To introduce itself.
    Introduce(Introduction),
    /// To open an end.
    Open(Open),
    /// To connect the open end to this one.
    Connect(EndAddress),
    /// To measure with the connected end.
    Measure,
    /// Nothing more: this is what came of all. It has no answer.
    Finish(Box<Measurement>),
}

/// The end to open.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Open {
    /// The port of the listening node.
    pub(crate) port: PortKey,
    /// The port of the connecting node.
    pub(crate) to: PortKey,
    /// What the end of the listening node does.
    pub(crate) role: Role,
    /// What is measured.
    pub(crate) plan: Plan,
    /// How many queue pairs.
    pub(crate) queue_pairs: u32,
}

/// What the listening node answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer", content = "with")]
pub(crate) enum Answer {
    /// To [`Ask::Introduce`].
    Introduce(Introduction),
    /// To [`Ask::Open`].
    Open(Result<EndAddress, EndResult>),
    /// To [`Ask::Connect`]: how far it got if it failed.
    Connect(Option<EndResult>),
    /// To [`Ask::Measure`].
    Measure(EndResult),
}

impl Answer {
    /// Its name in errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Introduce(_) => "an introduction",
            Self::Open(_) => "an address",
            Self::Connect(_) => "a connection",
            Self::Measure(_) => "a measurement",
        }
    }
}
