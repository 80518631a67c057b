//! Containers of operators that end: an error of their own script, and the state in which `kubectl describe pod` lists them.
//!
//! What such a container would have done, such as to load a module, is not done on its node.

use super::components;
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[": line "];

/// What a shell says of a script that it cannot go on with, in lower case.
const ERRORS: [&str; 9] = [
    "unbound variable",
    "parameter null or not set",
    "command not found",
    "bad substitution",
    "syntax error",
    "no such file or directory",
    "permission denied",
    "cannot execute",
    "unexpected",
];

/// What is missing where the script of a component failed, and where its name is: `nvidia-peermem-ctr: /usr/local/bin/nvidia-driver: line 769:
/// RHEL_VERSION: unbound variable`.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let (before, rest) = lower.split_once(": line ")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let message = rest[digits..].strip_prefix(": ")?;
    let is_error = digits > 0 && ERRORS.iter().any(|words| message.contains(words));
    is_error
        .then(|| component(before))
        .flatten()
        .map(|kind| (kind, 0))
}

/// What is missing where the container that a text in lower case names does not run.
fn component(lower: &str) -> Option<K> {
    // It loads the module for memory of GPUs.
    if lower.contains("peermem-ctr") {
        return Some(K::GdrDisabled);
    }
    components::component(lower)
}

/// The container that the lines of `kubectl describe pod` are about.
#[derive(Debug, Default)]
pub(super) struct Containers {
    /// Its name, in lower case.
    name: Option<String>,
    /// Whether the lines are about its present state.
    is_present: bool,
}

impl Containers {
    /// What is missing where a line shows that the container of a component does not run, and a text that names both.
    pub(super) fn add(&mut self, text: &str) -> Option<(K, String)> {
        /// The longest name of a container.
        const LONGEST: usize = 63;
        const ENDED: [&str; 8] = [
            "CrashLoopBackOff",
            "Error",
            "StartError",
            "RunContainerError",
            "CreateContainerError",
            "CreateContainerConfigError",
            "ErrImagePull",
            "ImagePullBackOff",
        ];
        let trimmed = text.trim();
        let is_name = |name: &&str| {
            text.starts_with("  ")
                && !text.starts_with("   ")
                && name.len() <= LONGEST
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if let Some(name) = trimmed.strip_suffix(':').filter(is_name) {
            self.name = Some(name.to_ascii_lowercase());
            self.is_present = false;
            return None;
        }
        let name = self.name.as_ref()?;
        if let Some((label, _)) = trimmed.split_once("State:") {
            self.is_present = label.is_empty();
            return None;
        }
        let reason = trimmed.strip_prefix("Reason:")?.trim();
        let has_ended = self.is_present && ENDED.contains(&reason);
        let kind = has_ended.then(|| component(name)).flatten()?;
        Some((kind, format!("container {name} does not run: {reason}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_a_component_is_told_from_any_other() {
        for (line, expected) in [
            (
                "nvidia-peermem-ctr: /usr/local/bin/nvidia-driver: line 769: rhel_version: unbound variable",
                Some(K::GdrDisabled),
            ),
            (
                "mofed-container: /root/entrypoint.sh: line 88: lsmod: command not found",
                Some(K::DriverNotReady),
            ),
            (
                "sriov-network-config-daemon: /bin/run.sh: line 3: chroot: command not found",
                Some(K::FunctionUnconfigured),
            ),
            (
                "./entrypoint.sh: line 5: nvidia-cuda-mps-control: command not found",
                None,
            ),
            ("mofed-container: /root/entrypoint.sh: line 88: starting", None),
            ("trainer: train.sh: line 8: mofed: unbound variable", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }

    #[test]
    fn a_container_counts_by_its_present_state() {
        for (text, expected) in [
            (
                "  nvidia-peermem-ctr:\n    Command:\n    State:          Waiting\n      Reason:       CrashLoopBackOff",
                Some(K::GdrDisabled),
            ),
            (
                "  nvidia-peermem-ctr:\n    State:          Running\n    Last State:     Terminated\n      Reason:       Error",
                None,
            ),
            (
                "  mofed-container:\n    State:          Terminated\n      Reason:       Completed",
                None,
            ),
            (
                "  trainer:\n    State:          Waiting\n      Reason:       CrashLoopBackOff",
                None,
            ),
        ] {
            let mut containers = Containers::default();
            let found = text.lines().find_map(|line| containers.add(line));
            assert_eq!(found.map(|(kind, _)| kind), expected, "{text}");
        }
    }
}
