//! What came of the measurement between two nodes.

use rdma_health_protocol::{MAX_NAME, ProbeReport, bounded};
use serde::{Deserialize, Serialize};

use crate::rail::{MatchedBy, PortOffer};

/// The most rails.
const MAX_RAILS: usize = 256;
/// The longest error in bytes.
const MAX_ERROR: usize = 1024;

/// What one end reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "value")]
pub enum EndResult {
    /// How far it got, and what it measured.
    Report(Box<ProbeReport>),
    /// Its helper could not be used.
    Error(#[serde(deserialize_with = "bounded::text::<_, MAX_ERROR>")] String),
    /// It did not come to that, because the other end failed before.
    NotRun,
}

impl EndResult {
    /// The error, cut to what the other node takes.
    pub(crate) fn error(text: &impl ToString) -> Self {
        let text = text.to_string();
        let ends = (0..=MAX_ERROR).rev().find(|end| text.is_char_boundary(*end));
        Self::Error(match ends {
            Some(end) if text.len() > MAX_ERROR => text[..end].to_owned(),
            _ => text,
        })
    }

    /// Its report, if there is one.
    pub fn report(&self) -> Option<&ProbeReport> {
        match self {
            Self::Report(report) => Some(report),
            Self::Error(_) | Self::NotRun => None,
        }
    }
}

/// The measurement of one direction of a rail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// The end that writes.
    pub writer: EndResult,
    /// The end that is written to.
    pub responder: EndResult,
}

/// What came of one rail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RailResult {
    /// The port of this node.
    pub here: PortOffer,
    /// The port of the other node.
    pub there: PortOffer,
    /// Why they belong together.
    pub matched_by: MatchedBy,
    /// How many queue pairs were used.
    pub queue_pairs: u32,
    /// From this node to the other; `None` if the other direction failed before.
    pub out: Option<Direction>,
    /// From the other node to this one; `None` if the other direction failed before.
    pub back: Option<Direction>,
}

/// What came of all rails between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// This node.
    #[serde(deserialize_with = "bounded::text::<_, MAX_NAME>")]
    pub here: String,
    /// The other node.
    #[serde(deserialize_with = "bounded::text::<_, MAX_NAME>")]
    pub there: String,
    /// The rails.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_RAILS>")]
    pub rails: Vec<RailResult>,
    /// Ports of this node without a counterpart.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_RAILS>")]
    pub only_here: Vec<PortOffer>,
    /// Ports of the other node without a counterpart.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_RAILS>")]
    pub only_there: Vec<PortOffer>,
}

impl Measurement {
    /// The same as the other node sees it.
    #[must_use]
    pub fn mirrored(self) -> Self {
        let mirrored = |rail: RailResult| RailResult {
            here: rail.there,
            there: rail.here,
            out: rail.back,
            back: rail.out,
            ..rail
        };
        Self {
            here: self.there,
            there: self.here,
            rails: self.rails.into_iter().map(mirrored).collect(),
            only_here: self.only_there,
            only_there: self.only_here,
        }
    }
}
