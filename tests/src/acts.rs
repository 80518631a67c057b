//! Several acts on one stage that is slow to set up, such as a virtual node: each runs to its end, whatever becomes of the
//! others, and all that failed are reported by name.

use std::any::Any;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One act: a test that shares its stage with others.
pub struct Act<'a, S> {
    /// Its name, a sentence as that of any test.
    pub name: &'static str,
    /// What it does; it panics where it fails.
    pub run: &'a dyn Fn(&mut S),
}

/// Runs functions that take the stage as acts, one after the other; `repair` restores the stage after an act
/// that failed halfway.
///
/// ```
/// fn it_is_even(number: &u32) {
///     assert_eq!(number % 2, 0);
/// }
/// fn it_can_be_doubled(number: &mut u32) {
///     *number *= 2;
/// }
/// rdma_health_tests::run_acts!(&mut 4, |_| (), [it_is_even, it_can_be_doubled]);
/// ```
#[macro_export]
macro_rules! run_acts {
    ($stage:expr, $repair:expr, [$($act:path),+ $(,)?]) => {
        $crate::acts::run(
            $stage,
            &$repair,
            &[$($crate::acts::Act { name: stringify!($act), run: &|stage| $act(stage) }),+],
        )
    };
}

/// Runs all acts in order; see [`run_acts!`](crate::run_acts).
///
/// # Panics
/// Where an act failed, with the name and message of each that did.
pub fn run<S>(stage: &mut S, repair: &dyn Fn(&mut S), acts: &[Act<'_, S>]) {
    let mut failed = 0;
    let mut report = String::new();
    for act in acts {
        eprintln!("act {}", act.name);
        // An act leaves nothing half-written in memory: the stage is a handle to what `repair` restores.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (act.run)(stage))) {
            failed += 1;
            let _ = write!(report, "\n{}: {}", act.name, message(panic.as_ref()));
            repair(stage);
        }
    }
    assert!(failed == 0, "{failed} of {} acts failed:{report}", acts.len());
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: &mut u32) {
        *count += 1;
    }

    fn fails(count: &mut u32) {
        panic!("{count} is wrong");
    }

    fn fails_too(_: &mut u32) {
        panic!("no reason");
    }

    #[test]
    fn a_failure_hides_none_of_the_acts_after_it() {
        let mut count = 0;
        let failed = catch_unwind(AssertUnwindSafe(|| {
            run_acts!(
                &mut count,
                |count| *count += 100,
                [counts, fails, counts, fails_too, counts]
            );
        }));
        assert_eq!(
            message(failed.unwrap_err().as_ref()),
            "2 of 5 acts failed:\nfails: 1 is wrong\nfails_too: no reason"
        );
        assert_eq!(count, 203, "every act ran, and each failure was mended");
    }

    #[test]
    fn acts_that_all_pass_are_one_test_that_passes() {
        let mut count = 0;
        run_acts!(&mut count, |_| unreachable!("nothing failed"), [counts, counts]);
        assert_eq!(count, 2);
    }
}
