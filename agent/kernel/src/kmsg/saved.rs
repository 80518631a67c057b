//! The kernel log of a tree without a kernel log of its usual name: the files of a syslog daemon.
//!
//! Only lines that begin as the daemon writes those of the kernel count: other lines are those of processes. A process can ask the daemon to write such a
//! line, too, so a running node never reads these files: its verdict must not depend on them.

use rdma_health_kernel_log::{Form, Record};

use super::{Collected, KernelLog, Log, collect::is_marker};
use crate::root::{Records, Scope};

/// The files: that of the kernel, all messages, and Debian's log of the boot, which has nothing later.
const FILES: [&str; 4] = [
    "/var/log/kern.log",
    "/var/log/kernel",
    "/var/log/messages",
    "/var/log/dmesg",
];

/// The records of the kernel since its last start.
#[derive(Debug, Default)]
struct Saved(Collected);

impl Records for Saved {
    fn begin(&mut self, _: &str) {
        self.0 = Collected::of(Form::Stamped);
    }

    fn add(&mut self, record: &str) {
        if !is_marker(record) && !Form::Stamped.has(record) {
            return;
        }
        let is_start = Record::parse(record).is_some_and(|parsed| parsed.text.starts_with("Linux version "));
        if is_start {
            self.0 = Collected::of(Form::Stamped);
        }
        self.0.add(record);
    }

    /// A record that is kept without a time still begins as one of the kernel: with the number of a caller, which is not a time.
    fn saved(&self) -> String {
        let saved = self.0.saved();
        let line = |line: &str| {
            let is_whole = is_marker(line) || Form::Stamped.has(line);
            let begin = if is_whole { "" } else { "[T0] " };
            format!("{begin}{line}\n")
        };
        saved.lines().map(line).collect::<Vec<_>>().concat()
    }
}

/// The kernel log of the last boot; absent if no file has lines that matter. The first file that has any is used: the others repeat it.
pub(super) fn read(scope: &Scope<'_>) -> KernelLog {
    let logs = FILES.iter().filter_map(|path| scope.collected_log::<Saved>(path));
    let mut logs = logs.map(|saved| saved.0.into_log());
    let matters = |log: &Log| !(log.lines.is_empty() && log.events.is_empty());
    logs.find(matters).into()
}

/// Whether this is one of the files.
pub fn is_saved(path: &str) -> bool {
    FILES.contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "Nov 28 03:00:00 dgx-07 ";
    const FAULT: &str = "mlx5_core 0000:5e:00.0: device's health compromised - reached miss count";

    fn events(lines: &[&str]) -> usize {
        let mut saved = Saved::default();
        saved.begin("");
        for line in lines {
            saved.add(line);
        }
        saved.0.into_log().events.len()
    }

    #[test]
    fn only_lines_of_the_kernel_since_its_last_start_count() {
        let of_kernel = format!("{HOST}kernel: [70111.2] {FAULT}");
        let of_process = format!("{HOST}app[71]: {FAULT}");
        let start = format!("{HOST}kernel: [    0.000000] Linux version 5.15.0 (gcc)");
        assert_eq!(events(&[&of_kernel]), 1);
        assert_eq!(
            events(&[&of_process, FAULT]),
            0,
            "of a process, or the rest of its line"
        );
        assert_eq!(events(&[&start, &of_kernel]), 1);
        assert_eq!(events(&[&of_kernel, &start]), 0, "of the boot before");
    }

    #[test]
    fn what_is_recorded_gives_the_same() {
        let mut saved = Saved::default();
        saved.begin("");
        for _ in 0..5 {
            saved.add(&format!("{HOST}kernel: [70111.2] {FAULT}"));
            saved.add(&format!("{HOST}kernel: mlx5_core 0000:5e:00.1: cmd timed out"));
        }
        let mut again = Saved::default();
        let text = saved.saved();
        again.begin(&text);
        text.lines().for_each(|line| again.add(line));
        assert_eq!(again.0.into_log(), saved.0.into_log());
    }
}
