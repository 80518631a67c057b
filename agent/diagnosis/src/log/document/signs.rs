//! Signs that a text is a report of what happened to a person, or a page that explains what can happen; each with its weight.
//!
//! No sign decides alone. A report quotes pages, and a page quotes logs.

use super::{page, report};

/// A line of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// The line, without what quotes it.
    pub(super) text: &'a str,
    /// The same in lower case.
    pub(super) lower: &'a str,
    /// Whether a program wrote it.
    pub(super) is_of_program: bool,
    /// Whether it is quoted as in a mail: its words are those of another person.
    pub(super) is_quoted: bool,
}

/// What a line can show.
struct Sign {
    /// Its weight for each line that shows it.
    weight: i32,
    /// How many lines count at most.
    most: u8,
    shows: fn(&Line<'_>) -> bool,
}

/// Signs of a report.
const REPORT: [Sign; 11] = [
    Sign::of(6, 1, report::is_first_person),
    Sign::of(4, 1, report::is_issue_title),
    Sign::of(4, 2, report::is_form_heading),
    Sign::of(4, 1, report::is_of_thread),
    Sign::of(3, 1, report::asks_for_help),
    Sign::of(3, 2, report::narrates),
    Sign::of(4, 1, report::is_crash),
    Sign::of(3, 1, report::is_shell),
    Sign::of(3, 1, report::is_own_value),
    Sign::of(2, 2, report::is_version),
    Sign::of(1, 1, report::refers_to_issue),
];
/// The place of the last sign among them.
const REFERENCE: usize = REPORT.len() - 1;

/// Signs of a page.
const PAGE: [Sign; 5] = [
    Sign::of(2, 2, page::is_change_heading),
    Sign::of(2, 2, page::is_page_heading),
    Sign::of(1, 3, page::advises),
    Sign::of(1, 2, page::explains),
    Sign::of(1, 2, page::has_placeholder),
];
/// The place of the first sign among them.
const CHANGES: usize = 0;

impl Sign {
    const fn of(weight: i32, most: u8, shows: fn(&Line<'_>) -> bool) -> Self {
        Self { weight, most, shows }
    }
}

/// The signs so far: how many lines showed each, up to what counts.
#[derive(Debug, Default)]
pub(super) struct Signs {
    report: [u8; REPORT.len()],
    page: [u8; PAGE.len()],
}

impl Signs {
    pub(super) fn add(&mut self, line: &Line<'_>) {
        let count = |signs: &[Sign], counts: &mut [u8]| {
            for (sign, count) in signs.iter().zip(counts) {
                if *count < sign.most && (sign.shows)(line) {
                    *count += 1;
                }
            }
        };
        // What another person wrote, and what this one quotes from a page, is not a report.
        if !line.is_quoted {
            count(&REPORT, &mut self.report);
        }
        count(&PAGE, &mut self.page);
    }

    /// Whether it has headings of a list of changes.
    pub(super) fn lists_changes(&self) -> bool {
        self.page[CHANGES] > 0
    }

    /// What speaks for a report, and for a page.
    pub(super) fn weigh(&self) -> (i32, i32) {
        // A list of changes refers to issues, too.
        let mut report = self.report;
        if self.lists_changes() {
            report[REFERENCE] = 0;
        }
        let sum = |signs: &[Sign], counts: &[u8]| {
            let weights = signs.iter().zip(counts);
            weights.map(|(sign, count)| sign.weight * i32::from(*count)).sum()
        };
        (sum(&REPORT, &report), sum(&PAGE, &self.page))
    }
}

/// The fewest words of a sentence in which a person speaks.
pub(super) const WORDS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// What the lines of a text weigh as a report and as a page.
    fn weigh(text: &str) -> (i32, i32) {
        let mut signs = Signs::default();
        for line in text.lines() {
            signs.add(&Line {
                text: line,
                lower: &line.to_ascii_lowercase(),
                is_of_program: false,
                is_quoted: line.starts_with('>'),
            });
        }
        signs.weigh()
    }

    #[test]
    fn each_sign_of_a_report_weighs_for_it_alone() {
        for text in [
            "I am running the benchmark on two nodes",
            "In this cluster we get the following warning",
            "[Bug]: all_reduce_perf stops",
            "# [Question] RDMA in a container",
            "### Describe the bug",
            "**Expected behavior**",
            "Environment:",
            "Steps to reproduce the issue",
            "limu713 commented on Jan 13, 2025",
            "On Fri, Mar 3, 2023 J. Doe wrote:",
            "Could anyone please help with this issue?",
            "The process crashes after the third iteration.",
            "Here's a new failure mode:",
            "Program received signal SIGSEGV, Segmentation fault.",
            "#2  0x00007f0f8e5c03d2 in rxr_cq_handle_cq_error () from /opt/lib64/libfabric.so.1",
            "root@n1:~# nvme connect -t rdma -a 10.0.0.1",
            "[user@n1 ~]$ ib_write_bw",
            "$ ./simple/fi_info",
            "  Local host:              n110502",
            "        fw_ver:                         22.41.1000",
            "CA 'mlx5_0'",
            "- OS version: CentOS Linux release 7.9.2009 (Core)",
            "|NCCL|2.4.2|",
            "cray-libcxi-devel-12.0.1-1.t4.x86_64",
            "Looks like the same issue as #1538",
        ] {
            let (report, page) = weigh(text);
            assert!(report > 0 && page == 0, "{text}: {report}, {page}");
        }
    }

    #[test]
    fn each_sign_of_a_page_weighs_for_it_alone() {
        for text in [
            "## Known errors",
            "Possible cause: the port is down",
            "Resolution:",
            "Troubleshooting EFA",
            "RETURN VALUE",
            "If the job fails with this message, raise the limit.",
            "1. Check the cable and the port of the switch.",
            "For more information, see the release notes.",
            "The message is displayed when the port is down.",
            "A timeout usually means that the peer ended.",
            "mlx5_core <bdf>: TX timeout detected",
            "NET/IB: Got CQE with error (devIndex=..., qp_num=...)",
        ] {
            let (report, page) = weigh(text);
            assert!(report == 0 && page > 0, "{text}: {report}, {page}");
        }
    }

    #[test]
    fn what_a_page_quotes_or_supposes_is_not_a_report() {
        for text in [
            "> We get this error since yesterday",
            "What do I do if the message appears?",
            "The firmware may have crashed or hangs",
            "- The firmware hangs",
            "ENVIRONMENT",
            "Environment variables",
            "  Local host: %s",
            "  Local host: <hostname>",
            "root@<host>:~# reboot",
            "10.3.1.4 is the address of the driver",
            "&#12345; is a character",
        ] {
            assert_eq!(weigh(text).0, 0, "{text}");
        }
    }
}
