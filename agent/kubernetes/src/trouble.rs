//! Which failures to log: each kind that lasts once, and the recovery if anything was logged since the last success.

use super::schedule::{AT_FIRST, Backoff};

/// The failures since the last success.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    last: Option<Failing>,
    /// Whether a failure was logged, of this kind or of one before it: a server that starts may refuse what it allows a
    /// moment later.
    announced: bool,
}

#[derive(Debug)]
struct Failing {
    /// [`Failure::code`](super::failure::Failure::code)
    code: String,
    attempts: u32,
    logged: bool,
}

impl Trouble {
    /// Whether the last attempt failed.
    pub(super) fn is_some(&self) -> bool {
        self.last.is_some()
    }

    /// Records a failed attempt. Returns whether to log it: a server that has just started, or a rolling update of RBAC,
    /// rejects requests for a moment, so refusals are logged only if they last.
    pub(super) fn failed(&mut self, code: String, backoff: Backoff) -> bool {
        let failing = match self.last.take() {
            Some(failing) if failing.code == code => failing,
            _ => Failing {
                code,
                attempts: 0,
                logged: false,
            },
        };
        let failing = self.last.insert(failing);
        failing.attempts += 1;
        let lasts = failing.attempts > AT_FIRST || matches!(backoff, Backoff::Away | Backoff::Struggling(_));
        let log = lasts && !failing.logged;
        failing.logged |= log;
        self.announced |= log;
        log
    }

    /// Records a success. Returns whether to log the recovery.
    pub(super) fn over(&mut self) -> bool {
        std::mem::take(self).announced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_logged_although_the_last_failure_was_not() {
        let mut trouble = Trouble::default();
        assert!(trouble.failed("unreachable".into(), Backoff::Away));
        assert!(!trouble.failed("unreachable".into(), Backoff::Away));
        // The server starts, and has not read its roles yet.
        assert!(!trouble.failed("403".into(), Backoff::Refused));
        assert!(trouble.is_some());
        assert!(trouble.over());
        assert!(!trouble.is_some() && !trouble.over());
    }

    #[test]
    fn refusals_of_a_moment_are_not_logged() {
        let mut trouble = Trouble::default();
        for _ in 0..AT_FIRST {
            assert!(!trouble.failed("403".into(), Backoff::Refused));
        }
        assert!(trouble.failed("403".into(), Backoff::Refused));
        assert!(!trouble.failed("403".into(), Backoff::Refused));
        assert!(trouble.over());
        assert!(!trouble.failed("403".into(), Backoff::Refused));
        assert!(!trouble.over());
    }
}
