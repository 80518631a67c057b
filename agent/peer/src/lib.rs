//! Measures the rails between two nodes.
//!
//! One node listens, the other connects. Both prove that they know a shared token ([`Token`]) and exchange the ports that they offer
//! ([`Introduction`]). The connecting node matches the ports to rails ([`match_rails`]) and drives the measurement of each rail in both
//! directions ([`connect`]); the listening node answers ([`serve`]). Each node has its own helper open and connect its end: helpers never listen on
//! a network. [`judge`] turns what was measured into a verdict; it is the same at both nodes.
//!
//! Everything from the other node is untrusted, also once it has proved that it knows the token: frames have a maximum length,
//! lists a maximum number of entries, and each wait has a deadline.

#![forbid(unsafe_code)]

mod channel;
mod judge;
mod listen;
mod measured;
mod message;
mod rail;
mod seal;
mod session;
mod token;
#[doc(hidden)]
pub mod untrusted;

pub use channel::{Channel, ChannelError};
pub use judge::{Limits, RailVerdict, Verdict, judge};
pub use listen::{Admission, admit, serve};
pub use measured::{Direction, EndResult, Measurement, RailResult};
pub use message::Introduction;
pub use rail::{MatchedBy, PortOffer, Rail, Rails, match_rails};
pub use seal::PEER_VERSION;
pub use session::{Own, Plan, Session, connect};
pub use token::{MIN_TOKEN, Token, TokenError};

/// The default TCP port: the one after that of the agent.
pub const DEFAULT_PORT: u16 = 14792;
