//! The exit status of each command.

/// What the exit status of a command means: in one line, and what the line leaves open.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct ExitStatus {
    /// Every status in one line.
    pub(in super::super) brief: &'static str,
    /// A paragraph; empty if the line says all.
    pub(in super::super) detail: &'static str,
}

/// The commands whose exit status is a verdict.
pub(in super::super) const VERDICTS: [(&str, ExitStatus); 7] = [
    (
        "env",
        ExitStatus {
            brief: "0 settings printed, 2 RDMA cannot be used (--mode rdma), 3 error",
            detail: "A wrong command line is 3, too.",
        },
    ),
    (
        "run",
        ExitStatus {
            brief: "0 to 255 that of the command; 2 RDMA cannot be used (--mode rdma), 3 error",
            detail: "A wrong command line is 3, too.",
        },
    ),
    (
        "wait",
        ExitStatus {
            brief: "0 the devices can be used, 2 something is missing, 3 error",
            detail: "What cannot change, such as the memlock limit of a container, is reported at once. A wrong command line is \
                     3, too.",
        },
    ),
    (
        "check",
        ExitStatus {
            brief: "0 ok, 1 warning, 2 critical, 3 unknown or error",
            detail: "Unknown means that no problem was found, but the node could not be judged: it has no RDMA device or no active port, or \
                     a fact that every verdict needs is missing. Other facts that could not be read, for example without root, do not change \
                     the status; the report says that they are missing. A wrong command line is 3, too, so that monitoring does not report it \
                     as a critical node.",
        },
    ),
    (
        "preflight",
        ExitStatus {
            brief: "0 nothing found, 1 warning, 2 critical, 3 not everything checked, or error",
            detail: "A wrong command line is 3, too.",
        },
    ),
    (
        "kubectl",
        ExitStatus {
            brief: "0 ok, 1 warning or difference, 2 critical, 3 not every node answered, or error",
            detail: "A critical node is 2 even if others did not answer; standard error names those. A wrong command line is 3, too.",
        },
    ),
    (
        "probe",
        ExitStatus {
            brief: "0 all passed, 1 slow, 2 failed, 3 not measured or error",
            detail: "Not measured means that nothing is slow or failed, but a port was busy or, between two nodes, has no counterpart. \
                     A wrong command line is 3, too.",
        },
    ),
];

/// The exit status of all other commands.
pub(in super::super) const OTHERS: ExitStatus = ExitStatus {
    brief: "0 success, 2 wrong command line, 3 error",
    detail: "",
};

/// The exit status of one command.
pub(in super::super) fn exit_status(command: &str) -> ExitStatus {
    let verdict = VERDICTS.iter().find(|(name, _)| *name == command);
    verdict.map_or(OTHERS, |(_, status)| *status)
}
