//! Users and their passwords.
//!
//! bcrypt is slow on purpose, about 60 ms at cost 10, which is too much for each scrape. So the last correct password of
//! each user is cached as a keyed digest, whose key exists only in this process. Wrong passwords are not cached, because
//! guesses could evict correct ones. One password is checked at a time, so that many guesses use at most one core and
//! delay only users whose password is not cached yet.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::header::HeaderValue;
use ring::{hmac, rand::SystemRandom};
use tokio::{sync::Semaphore, time::timeout};

/// Maximum bcrypt cost; each step doubles the time, and 14 takes about a second.
const MAX_COST: u32 = 14;
/// How long a check waits for earlier ones.
const TURN: Duration = Duration::from_secs(5);

/// Whether a request is authorised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Granted,
    Denied,
    /// The check did not finish in time.
    Busy,
}

/// The users and their password hashes.
pub(super) struct Users {
    hashes: BTreeMap<String, String>,
    key: hmac::Key,
    /// The digest of each user's last correct password.
    proven: Mutex<HashMap<String, hmac::Tag>>,
    turn: Arc<Semaphore>,
}

impl Users {
    /// `None` if there are no users: then all clients may read.
    ///
    /// # Errors
    /// The user whose hash is invalid, and why. The message does not contain the hash.
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Option<Self>, (String, String)> {
        for (user, hash) in &hashes {
            let refuse = |what: String| Err((user.clone(), what));
            if user.is_empty() || user.contains(':') {
                return refuse("a user name must not be empty or contain a colon".into());
            }
            let Ok(parts) = hash.parse::<bcrypt::HashParts>() else {
                return refuse(
                    "the value is not a bcrypt hash; create one with `htpasswd -nBC 10 \"\"`".into(),
                );
            };
            if !(4..=MAX_COST).contains(&parts.get_cost()) {
                return refuse(format!(
                    "the bcrypt cost is {}; it must be between 4 and {MAX_COST}, usually 10",
                    parts.get_cost()
                ));
            }
        }
        if hashes.is_empty() {
            return Ok(None);
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| (String::new(), "the system provides no random numbers".into()))?;
        Ok(Some(Self {
            hashes,
            key,
            proven: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }))
    }

    /// Checks an `Authorization` header.
    pub(super) async fn admit(&self, header: Option<&HeaderValue>) -> Admission {
        let Some((user, password)) = header.and_then(credentials) else {
            return Admission::Denied;
        };
        let claim = self.claim(&user, &password);
        let proven = self.lock().get(&user).copied();
        if proven.is_some_and(|proven| hmac::verify(&self.key, &claim, proven.as_ref()).is_ok()) {
            return Admission::Granted;
        }
        // Checking an unknown user takes as long as a known one, so that clients cannot discover user names.
        let known = self.hashes.get(&user);
        let Some(hash) = known.or_else(|| self.hashes.values().next()).cloned() else {
            return Admission::Denied;
        };
        let Ok(Ok(turn)) = timeout(TURN, Arc::clone(&self.turn).acquire_owned()).await else {
            return Admission::Busy;
        };
        let check = tokio::task::spawn_blocking(move || {
            let right = bcrypt::verify(&password, &hash).unwrap_or(false);
            // Held until the work is done, even if the client has disconnected.
            drop(turn);
            right
        });
        let right = check.await.unwrap_or(false);
        if !right || known.is_none() {
            return Admission::Denied;
        }
        let tag = hmac::sign(&self.key, &claim);
        self.lock().insert(user, tag);
        Admission::Granted
    }

    /// The input of the digest, which is unique for user and password.
    fn claim(&self, user: &str, password: &[u8]) -> Vec<u8> {
        let hash = self.hashes.get(user).map_or("", String::as_str);
        [user.as_bytes(), &[0xff], hash.as_bytes(), &[0xff], password].concat()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, hmac::Tag>> {
        // No code panics while it is held.
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// User and password of a `Basic` header.
fn credentials(header: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let (scheme, rest) = header.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(rest.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((user, decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(scheme: &str, text: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("{scheme} {}", BASE64_STANDARD.encode(text))).unwrap()
    }

    fn users(password: &str) -> Users {
        let hash = bcrypt::hash(password, 4).unwrap();
        let users = Users::new(BTreeMap::from([("alice".to_owned(), hash)]));
        users.ok().flatten().unwrap()
    }

    #[tokio::test]
    async fn only_the_right_password_of_a_known_user_is_granted_again_and_again() {
        let users = users("s3cret: with a colon");
        for _ in 0..2 {
            for (scheme, text, expected) in [
                ("Basic", "alice:s3cret: with a colon", Admission::Granted),
                ("basic", "alice:s3cret: with a colon", Admission::Granted),
                ("Basic", "alice:s3cret", Admission::Denied),
                ("Basic", "alice:", Admission::Denied),
                ("Basic", "alice", Admission::Denied),
                ("Basic", "bob:s3cret: with a colon", Admission::Denied),
                ("Bearer", "alice:s3cret: with a colon", Admission::Denied),
            ] {
                assert_eq!(users.admit(Some(&header(scheme, text))).await, expected, "{text}");
            }
            assert_eq!(users.admit(None).await, Admission::Denied);
        }
    }

    #[tokio::test]
    async fn a_cached_password_does_not_wait_for_other_checks() {
        let users = users("right");
        let right = header("Basic", "alice:right");
        assert_eq!(users.admit(Some(&right)).await, Admission::Granted);
        let _held = Arc::clone(&users.turn).acquire_owned().await.unwrap();
        assert_eq!(users.admit(Some(&right)).await, Admission::Granted);
    }

    #[test]
    fn the_error_for_an_invalid_hash_does_not_contain_it() {
        let costly = bcrypt::hash("x", 4).unwrap().replace("$04$", "$20$");
        for (user, hash, expected) in [
            ("alice", "plain-password", "not a bcrypt hash"),
            ("alice", costly.as_str(), "cost is 20"),
            ("", "x", "must not be empty"),
        ] {
            let hashes = BTreeMap::from([(user.to_owned(), hash.to_owned())]);
            let (named, what) = Users::new(hashes).err().unwrap();
            assert_eq!(named, user);
            assert!(what.contains(expected) && !what.contains(hash), "{what}");
        }
        assert!(Users::new(BTreeMap::new()).ok().unwrap().is_none());
    }
}
