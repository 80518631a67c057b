//! The keys of one connection, and the tags of its frames.
//!
//! Both ends send a hello with a random nonce. From the token and both hellos each derives two keys with HMAC-SHA-256: one
//! for what the connecting node sends, one for what the listening node sends. Each proves that it has its key, the connecting node
//! first, and every frame carries a tag over its number and its bytes. So no frame can be changed, repeated, reordered or sent back
//! to its sender. The frames are not encrypted: they hold addresses of queue pairs and memory regions, which every RDMA packet on the
//! same network carries as well.

use hmac::Mac as _;

use crate::{
    channel::ChannelError,
    token::{Hmac, Token, keyed},
};

/// The first bytes of every connection.
const MAGIC: &[u8; 16] = b"rdma-health peer";
/// The version of what two nodes say to each other. Both refuse any other.
pub const PEER_VERSION: u32 = 1;
/// Bytes of a nonce.
const NONCE: usize = 32;
/// Bytes of a hello.
pub(crate) const HELLO: usize = MAGIC.len() + 4 + NONCE;
/// Bytes of a tag.
pub(crate) const TAG: usize = 32;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The node that connects.
    Connects,
    /// The node that listens.
    Listens,
}

/// A new hello.
pub(crate) fn hello() -> Result<[u8; HELLO], ChannelError> {
    let mut hello = [0; HELLO];
    hello[..16].copy_from_slice(MAGIC);
    hello[16..20].copy_from_slice(&PEER_VERSION.to_le_bytes());
    getrandom::fill(&mut hello[20..]).map_err(|_| ChannelError::NoRandomness)?;
    Ok(hello)
}

/// Checks that a hello is that of this program and version.
pub(crate) fn check(hello: &[u8; HELLO]) -> Result<(), ChannelError> {
    if hello[..16] != *MAGIC {
        return Err(ChannelError::NotAPeer);
    }
    let version = u32::from_le_bytes([hello[16], hello[17], hello[18], hello[19]]);
    if version != PEER_VERSION {
        return Err(ChannelError::WrongVersion(version));
    }
    Ok(())
}

/// The keys of one connection, one for each direction.
pub(crate) struct Keys {
    connects: Hmac,
    listens: Hmac,
}

impl Keys {
    /// Derives them from the token and the hellos of both sides.
    pub(crate) fn derive(token: &Token, connects: &[u8; HELLO], listens: &[u8; HELLO]) -> Self {
        let both = token.key.clone().chain_update(connects).chain_update(listens);
        let session = keyed(&both.finalize().into_bytes());
        let key = |name: &[u8]| keyed(&session.clone().chain_update(name).finalize().into_bytes());
        Self {
            connects: key(b"connects"),
            listens: key(b"listens"),
        }
    }

    /// The proof that a side knows the token.
    pub(crate) fn proof(&self, of: Side) -> [u8; TAG] {
        self.seal(of).tag(b"proof")
    }

    /// Whether a proof is that of the side, compared in constant time.
    pub(crate) fn is_proof(&self, of: Side, proof: &[u8; TAG]) -> bool {
        self.seal(of).is_tag(b"proof", proof)
    }

    /// The seal of the frames that a side sends. The proof has number 0.
    pub(crate) fn frames(&self, of: Side) -> Seal {
        Seal {
            number: 1,
            ..self.seal(of)
        }
    }

    fn seal(&self, of: Side) -> Seal {
        let key = match of {
            Side::Connects => &self.connects,
            Side::Listens => &self.listens,
        };
        Seal {
            key: key.clone(),
            number: 0,
        }
    }
}

/// Makes or checks the tags of one direction, in order.
pub(crate) struct Seal {
    key: Hmac,
    number: u64,
}

impl Seal {
    /// The tag of the next frame.
    pub(crate) fn next(&mut self, body: &[u8]) -> [u8; TAG] {
        let tag = self.tag(body);
        self.number += 1;
        tag
    }

    /// Whether the tag is that of the next frame.
    pub(crate) fn accept(&mut self, body: &[u8], tag: &[u8; TAG]) -> bool {
        let is_tag = self.is_tag(body, tag);
        self.number += 1;
        is_tag
    }

    fn tagged(&self, body: &[u8]) -> Hmac {
        self.key
            .clone()
            .chain_update(self.number.to_le_bytes())
            .chain_update(body)
    }

    fn tag(&self, body: &[u8]) -> [u8; TAG] {
        self.tagged(body).finalize().into_bytes().into()
    }

    /// Compared in constant time.
    fn is_tag(&self, body: &[u8], tag: &[u8; TAG]) -> bool {
        self.tagged(body).verify_slice(tag).is_ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use super::*;

    fn keys(token: &[u8], connects: &[u8; HELLO], listens: &[u8; HELLO]) -> Keys {
        Keys::derive(&Token::of(token).unwrap(), connects, listens)
    }

    #[test]
    fn a_proof_is_of_one_token_one_connection_and_one_side() {
        let (a, b, c) = (hello().unwrap(), hello().unwrap(), hello().unwrap());
        let own = keys(b"0123456789abcdef", &a, &b);
        let proof = own.proof(Side::Connects);
        assert!(keys(b"0123456789abcdef", &a, &b).is_proof(Side::Connects, &proof));
        assert!(!own.is_proof(Side::Listens, &proof));
        assert!(!keys(b"0123456789abcdeF", &a, &b).is_proof(Side::Connects, &proof));
        assert!(!keys(b"0123456789abcdef", &a, &c).is_proof(Side::Connects, &proof));
        assert!(!keys(b"0123456789abcdef", &b, &a).is_proof(Side::Connects, &proof));
    }

    #[test]
    fn a_frame_counts_once_in_its_place() {
        let keys = keys(b"0123456789abcdef", &hello().unwrap(), &hello().unwrap());
        let mut sent = keys.frames(Side::Connects);
        let (first, second) = (sent.next(b"same"), sent.next(b"same"));
        let received = || keys.frames(Side::Connects);
        assert!(received().accept(b"same", &first));
        assert!(!received().accept(b"same", &second), "out of order");
        assert!(!received().accept(b"sane", &first), "changed");
        assert!(!keys.frames(Side::Listens).accept(b"same", &first), "sent back");
        let mut twice = received();
        assert!(twice.accept(b"same", &first) && !twice.accept(b"same", &first));
        assert!(!received().accept(b"proof", &keys.proof(Side::Connects)));
    }

    #[test]
    fn a_stranger_and_another_version_are_recognised() {
        let mut other = hello().unwrap();
        other[16] += 1;
        assert!(matches!(check(&other), Err(ChannelError::WrongVersion(2))));
        assert!(matches!(check(&[b'G'; HELLO]), Err(ChannelError::NotAPeer)));
        assert!(check(&hello().unwrap()).is_ok());
    }
}
