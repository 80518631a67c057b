//! The token that both nodes know.

use std::{
    fmt::Write as _,
    io::{self, BufRead},
    os::unix::fs::MetadataExt,
    path::Path,
};

use hmac::Mac as _;
use rdma_health_file::{self as file, Links};
use sha2::Sha256;

/// The fewest bytes of a token. A listener reveals nothing about its token, but a node that connects to the wrong address gives
/// that one the means to try out short tokens.
pub const MIN_TOKEN: usize = 16;
/// The most bytes of a token file.
const MAX_TOKEN: u64 = 4096;

/// The bytes of a generated token.
const GENERATED: usize = 32;

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] std::io::Error),
    /// It is too short to be safe.
    #[error("the token has {0} bytes, expected at least {MIN_TOKEN}; make one with: openssl rand -hex 32")]
    TooShort(usize),
    /// Other users can replace it.
    #[error("every user can write to it; run chmod 600")]
    Writable,
}

/// HMAC-SHA-256 with its key.
pub(crate) type Hmac = hmac::Hmac<Sha256>;

/// With this key, which may have any length.
pub(crate) fn keyed(key: &[u8]) -> Hmac {
    // Fails for no length of a key: RFC 2104 hashes a long one and fills up a short one.
    #[expect(clippy::expect_used, reason = "cannot fail, see above")]
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// A shared token. Its bytes are never shown.
#[derive(Clone)]
pub struct Token {
    pub(crate) key: Hmac,
}

impl Token {
    /// Reads a token file; white space at its end does not count. Kubernetes mounts secrets as links, which are followed.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let content = file::read(path, MAX_TOKEN, Links::Follow)?;
        if path.metadata()?.mode() & 0o002 != 0 {
            return Err(TokenError::Writable);
        }
        Self::of(content.trim_ascii_end())
    }

    /// Reads the token from one line, such as standard input; white space at its end does not count.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn read_line(from: impl BufRead) -> Result<Self, TokenError> {
        let mut line = Vec::new();
        from.take(MAX_TOKEN).read_until(b'\n', &mut line)?;
        Self::of(line.trim_ascii_end())
    }

    /// A new random token as text, to be given to both nodes.
    ///
    /// # Errors
    /// If the kernel gives no random numbers.
    pub fn generate() -> io::Result<String> {
        let mut bytes = [0; GENERATED];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(bytes.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }

    /// The token with these bytes.
    ///
    /// # Errors
    /// [`TokenError::TooShort`].
    pub fn of(bytes: &[u8]) -> Result<Self, TokenError> {
        if bytes.len() < MIN_TOKEN {
            return Err(TokenError::TooShort(bytes.len()));
        }
        Ok(Self { key: keyed(bytes) })
    }
}

/// Without its bytes.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    #[test]
    fn a_token_that_is_short_or_that_anyone_can_replace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let with = |content: &str, mode: u32| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(with("0123456789abcdef\n", 0o600), Ok(()));
        let short = with("0123456789abcde\n\n", 0o600).unwrap_err();
        assert!(
            short.contains("15 bytes") && short.contains("openssl rand"),
            "{short}"
        );
        let writable = with("0123456789abcdef", 0o666).unwrap_err();
        assert!(writable.contains("chmod 600"), "{writable}");
        let missing = Token::read(&folder.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("No such file"), "{missing}");
        assert!(Token::read_line(&b"0123456789abcdef\nmore"[..]).is_ok());
        assert!(matches!(
            Token::read_line(&b"0123\n"[..]),
            Err(TokenError::TooShort(4))
        ));
        let (one, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert!(one != other && Token::of(one.as_bytes()).is_ok(), "{one} {other}");
        assert!(!format!("{:?}", Token::of(b"0123456789abcdef").unwrap()).contains('0'));
    }
}
