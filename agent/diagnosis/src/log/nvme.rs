//! What connects this host to NVMe targets says of a connection that the kernel did not make: nvme-cli, libnvme and the CSI driver write
//! its options to `/dev/nvme-fabrics`, and the kernel answers with an error number.

use super::line::is_word;
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that this module reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "nvme-fabrics",
    "failed to add controller",
    "-t tcp",
    "-t rdma",
    "transport=",
    "transport tcp",
];

/// The transport of the last command or connection that the log shows.
#[derive(Debug, Default)]
pub(super) struct Target {
    is_tcp: bool,
}

impl Target {
    /// Adds a line in lower case.
    pub(super) fn add(&mut self, lower: &str) {
        let names = |transport: &str| {
            ["-t ", "transport=", "transport "].iter().any(|option| {
                lower.match_indices(option).any(|(at, _)| {
                    let rest = lower[at + option.len()..].strip_prefix(transport);
                    rest.is_some_and(|rest| !rest.bytes().next().is_some_and(is_word))
                })
            })
        };
        if names("rdma") {
            self.is_tcp = false;
        } else if lower.contains("nvme") && names("tcp") || lower.contains("transport=tcp,") {
            self.is_tcp = true;
        }
    }

    /// Whether a line in lower case reports a connection over TCP.
    pub(super) fn is_of_tcp(&self, lower: &str) -> bool {
        self.is_tcp && refused(lower).is_some()
    }
}

/// `Failed to write to /dev/nvme-fabrics: Invalid argument`, `write /dev/nvme-fabrics: invalid argument`, `failed to add controller, error
/// Invalid argument`.
pub(super) fn refused(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 5] = [
        "failed to write to /dev/nvme-fabrics",
        "failed to write to nvme-fabrics",
        "write /dev/nvme-fabrics:",
        "write to /dev/nvme-fabrics failed",
        "failed to add controller, error",
    ];
    // The controller is there: the connection exists.
    const THERE: [&str; 2] = ["already in progress", "already connected"];
    let at = FORMS.iter().find_map(|form| lower.find(form))?;
    let rest = &lower[at..];
    if THERE.iter().any(|words| rest.contains(words)) {
        return None;
    }
    let kind = if rest.contains("invalid argument") {
        K::OptionsRefused
    } else if rest.contains("no such file") {
        K::ModuleMissing
    } else {
        K::CmFailed
    };
    Some((kind, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_answer_to_the_options_is_read_and_that_of_tcp_is_left_out() {
        for (line, expected) in [
            (
                "failed to write to /dev/nvme-fabrics: invalid argument",
                Some(K::OptionsRefused),
            ),
            (
                "attach: write /dev/nvme-fabrics: invalid argument",
                Some(K::OptionsRefused),
            ),
            (
                "failed to write to /dev/nvme-fabrics: connection reset by peer",
                Some(K::CmFailed),
            ),
            (
                "failed to write to /dev/nvme-fabrics: operation already in progress",
                None,
            ),
            ("/dev/nvme-fabrics exists", None),
        ] {
            assert_eq!(refused(line).map(|(kind, _)| kind), expected, "{line}");
        }
        let mut target = Target::default();
        let line = "failed to write to /dev/nvme-fabrics: invalid argument";
        for (command, expected) in [
            ("nvme connect -t tcp -n nqn.x -a 10.0.0.4", true),
            ("nvme connect -t rdma -n nqn.x -a 10.0.0.4", false),
            ("nvme connect --transport=tcp -n nqn.x", true),
            ("nvme list-subsys", true),
            ("transport=rdma,traddr=10.0.0.4", false),
        ] {
            target.add(command);
            assert_eq!(target.is_of_tcp(line), expected, "{command}");
        }
    }
}
