//! What Slurm reports of a job by itself: that it ends the job, and why; and what has no consequence.

/// Who reports it.
const WRITERS: [&str; 4] = ["srun: ", "slurmstepd: ", "slurmd: ", "salloc: "];

/// Whether a line in lower case is one of Slurm about the end of the job or of a step of it.
pub(super) fn is_of_end(lower: &str) -> bool {
    const WORDS: [&str; 5] = [
        "job step aborted",
        "force terminated",
        ": terminated",
        ": killed",
        " cancelled at ",
    ];
    is_of_slurm(lower) && WORDS.iter().any(|words| lower.contains(words))
}

/// Whether a line of Slurm says why it ended the job: `CANCELLED AT 2026-11-22T10:11:12 DUE TO TIME LIMIT`, `Force Terminated job 812`. A step is
/// also cancelled where one of its tasks failed.
pub(super) fn names_reason(text: &str) -> bool {
    is_of_slurm(text) && (text.contains(" DUE TO ") || text.contains("Force Terminated"))
}

/// Whether a line in lower case reports what no job needs: a process that ended while Slurm looked at it, a plugin of `srun` that is not installed,
/// a warning of Python.
pub(super) fn is_harmless(lower: &str) -> bool {
    let of_slurm = || {
        is_of_slurm(lower)
            && (lower.contains("/proc/") && lower.contains("no such file")
                || lower.contains("spank") && lower.contains("plugin file not found"))
    };
    let of_python = || {
        lower.split_once("warning: ").is_some_and(|(before, _)| {
            before.contains(".py:") && before.ends_with(|c: char| c.is_ascii_alphabetic())
        })
    };
    of_slurm() || of_python()
}

fn is_of_slurm(text: &str) -> bool {
    WRITERS.iter().any(|writer| text.contains(writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_says_that_it_ends_a_job_and_why() {
        for line in [
            "srun: job step aborted: waiting up to 32 seconds for job step to finish.",
            "srun: error: n4: tasks 2,4-5: terminated",
        ] {
            assert!(is_of_end(line), "{line}");
        }
        assert!(!is_of_end("app: error: tasks: terminated"));
        assert!(names_reason(
            "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-11-22T10:11:12 DUE TO TIME LIMIT ***"
        ));
        assert!(!names_reason(
            "slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2026-11-22T10:11:12 ***"
        ));
        for line in [
            "slurmstepd: error: _is_a_lwp: open() /proc/812/status failed: no such file or directory",
            "srun: error: spank: x11.so: plugin file not found",
            "/opt/python/gluon/block.py:1389: userwarning: cannot decide the type of the arguments",
        ] {
            assert!(is_harmless(line), "{line}");
        }
        assert!(!is_harmless(
            "slurmstepd: error: execve(): /opt/app: no such file or directory"
        ));
    }
}
