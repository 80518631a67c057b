//! Users and their passwords.
//!
//! bcrypt is slow on purpose, some 60 ms at cost 10, and a scrape must not pay that each time. So the password that was
//! last proven right for a user is remembered, as a keyed digest whose key dies with the process. Wrong ones are not
//! remembered: guesses could push right ones out. One password is checked at a time, so that a flood of guesses takes one
//! core at most and holds up only those who are not known yet.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::header::HeaderValue;
use ring::{hmac, rand::SystemRandom};
use tokio::{sync::Semaphore, time::timeout};

/// The most that checking one password may cost; each step doubles it, and 14 takes about a second.
const MAX_COST: u32 = 14;
/// How long a check waits for those before it.
const TURN: Duration = Duration::from_secs(5);

/// Whether a request may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Granted,
    Denied,
    /// It could not be found out in time.
    Busy,
}

/// The users and the hashes of their passwords.
pub(super) struct Users {
    hashes: BTreeMap<String, String>,
    key: hmac::Key,
    /// What each user proved last.
    proven: Mutex<HashMap<String, hmac::Tag>>,
    turn: Arc<Semaphore>,
}

impl Users {
    /// `None` where there is no user: then everybody may read.
    ///
    /// # Errors
    /// The user whose hash cannot be used, and why. The hash itself is not told.
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Option<Self>, (String, String)> {
        for (user, hash) in &hashes {
            let refuse = |what: String| Err((user.clone(), what));
            if user.is_empty() || user.contains(':') {
                return refuse("a user's name must not be empty or hold a colon".into());
            }
            let Ok(parts) = hash.parse::<bcrypt::HashParts>() else {
                return refuse(
                    "the value is no bcrypt hash; `htpasswd -nBC 10 \"\"` makes one of a password".into(),
                );
            };
            if !(4..=MAX_COST).contains(&parts.get_cost()) {
                return refuse(format!(
                    "the hash costs {}; 4 to {MAX_COST} is accepted, 10 is usual",
                    parts.get_cost()
                ));
            }
        }
        if hashes.is_empty() {
            return Ok(None);
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| (String::new(), "the system has no random numbers".into()))?;
        Ok(Some(Self {
            hashes,
            key,
            proven: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }))
    }

    /// Judges an `Authorization` header.
    pub(super) async fn admit(&self, header: Option<&HeaderValue>) -> Admission {
        let Some((user, password)) = header.and_then(credentials) else {
            return Admission::Denied;
        };
        let claim = self.claim(&user, &password);
        let proven = self.lock().get(&user).copied();
        if proven.is_some_and(|proven| hmac::verify(&self.key, &claim, proven.as_ref()).is_ok()) {
            return Admission::Granted;
        }
        // A name that does not exist costs as much as one that does, so that names cannot be found out.
        let known = self.hashes.get(&user);
        let Some(hash) = known.or_else(|| self.hashes.values().next()).cloned() else {
            return Admission::Denied;
        };
        let Ok(Ok(turn)) = timeout(TURN, Arc::clone(&self.turn).acquire_owned()).await else {
            return Admission::Busy;
        };
        let check = tokio::task::spawn_blocking(move || {
            let right = bcrypt::verify(&password, &hash).unwrap_or(false);
            // Held until the work is done, even where the client has gone away meanwhile.
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

    /// What a digest is made of: no other user and password give the same bytes.
    fn claim(&self, user: &str, password: &[u8]) -> Vec<u8> {
        let hash = self.hashes.get(user).map_or("", String::as_str);
        [user.as_bytes(), &[0xff], hash.as_bytes(), &[0xff], password].concat()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, hmac::Tag>> {
        // Nothing panics while it is held.
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// User and password of `Basic …`.
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
    async fn a_password_once_proven_waits_for_no_other_check() {
        let users = users("right");
        let right = header("Basic", "alice:right");
        assert_eq!(users.admit(Some(&right)).await, Admission::Granted);
        let _held = Arc::clone(&users.turn).acquire_owned().await.unwrap();
        assert_eq!(users.admit(Some(&right)).await, Admission::Granted);
    }

    #[test]
    fn hashes_that_cannot_be_used_are_refused_without_being_told() {
        let costly = bcrypt::hash("x", 4).unwrap().replace("$04$", "$20$");
        for (user, hash, expected) in [
            ("alice", "plain-password", "no bcrypt hash"),
            ("alice", costly.as_str(), "costs 20"),
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
