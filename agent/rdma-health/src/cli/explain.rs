//! `rdma-health explain NAME`: a rule, a cause, an error, a published name or a line of a log, laid out as `check` lays out a
//! finding.

mod codes;
mod entries;
mod layout;
mod similar;
mod subject;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;
use rdma_health_diagnosis::glossary;
use rdma_health_node::words::printable;
use rdma_health_report::Style;

use self::{
    codes::{
        write_cqe_syndrome, write_errno, write_syndrome, write_unlisted_vendor_error, write_vendor_error,
        write_xid,
    },
    entries::{write_cause, write_line, write_published, write_rule, write_symptom, write_term},
    similar::{hint, misspelled, names, suggestions},
    subject::{Subject, subjects},
};

/// The most characters of a text that an error repeats.
const REPEATED: usize = 80;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Rule (port-down), cause (iommu-translation), completion status (IBV_WC_LOC_PROT_ERR, 4), error number (ETIMEDOUT, 110), vendor
    /// error (129, 0x81), condition, its reason, alert, metric, or a line of a log
    #[arg(value_name = "NAME", required = true, num_args = 1.., allow_hyphen_values = true)]
    words: Vec<String>,
}

impl Arguments {
    /// # Errors
    /// If nothing has this name and no failure is recognised in it.
    pub(super) fn settle(&self) -> Result<(), String> {
        self.texts().iter().try_for_each(|text| known(text).map(|_| ()))
    }

    /// What to explain: each word if all are names, otherwise all words as one text.
    fn texts(&self) -> Vec<String> {
        if self.words.iter().all(|word| names().any(|name| name == word)) {
            self.words.clone()
        } else {
            vec![self.words.join(" ")]
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut out = super::output::stdout();
    for (place, text) in arguments.texts().iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        write(&mut out, text, Style::of_terminal())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What the text stands for, or an error with the most similar names.
fn known(text: &str) -> Result<Vec<Subject>, String> {
    let subjects = subjects(text);
    let is_of_part = |subject: &Subject| matches!(subject, Subject::Term(_, name, ..) if !name.eq_ignore_ascii_case(text.trim()));
    // Only a part of the text is known, and the whole is a misspelled name.
    // `rx_prio3_pause` is one of `rx_prioN_pause`.
    let is_whole = glossary::named(text.trim()).is_some();
    if let Some(near) = misspelled(text).filter(|_| !is_whole && subjects.iter().all(is_of_part)) {
        return Err(format!(
            "no rule, cause or error has this name{} (rdma-health rules lists all rules)",
            hint(&[near])
        ));
    }
    if !subjects.is_empty() {
        return Ok(subjects);
    }
    if text.split_whitespace().nth(1).is_some() {
        return Err(format!(
            "no RDMA failure is recognised in '{}'; rdma-health check --log FILE reads a whole log",
            printable(&text.chars().take(REPEATED).collect::<String>())
        ));
    }
    let hint = hint(&suggestions(text));
    Err(format!(
        "no rule, cause or error has this name{hint} (rdma-health rules lists all rules)"
    ))
}

fn write(out: &mut impl Write, text: &str, style: Style) -> io::Result<()> {
    for (n, subject) in subjects(text).into_iter().enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        match subject {
            Subject::Rule(rule) => write_rule(out, rule, style)?,
            Subject::Cause(cause) => write_cause(out, cause, style)?,
            Subject::Symptom(kind) => write_symptom(out, kind, style)?,
            Subject::Errno(errno) => write_errno(out, errno, style)?,
            Subject::VendorError(code, status) => write_vendor_error(out, code, status, style)?,
            Subject::UnlistedVendorError(code) => write_unlisted_vendor_error(out, code, style)?,
            Subject::CqeSyndrome(code, status) => write_cqe_syndrome(out, code, status, style)?,
            Subject::Syndrome(code) => write_syndrome(out, code, style)?,
            Subject::Xid(number, xid) => write_xid(out, number, xid, style)?,
            Subject::Term(kind, name, meaning, see) => write_term(out, kind, &name, &meaning, see, style)?,
            Subject::Line(symptom) => write_line(out, &symptom, style)?,
            Subject::Published(name) => write_published(out, &name, style)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        write(
            &mut out,
            name,
            Style {
                width: 80,
                verbose: true,
            },
        )
        .unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    #[test]
    fn every_name_is_explained_within_the_width() {
        for name in names() {
            let text = of(name);
            assert!(text.contains(name), "{name}: {text}");
            assert!(
                text.contains("\n  remedy ") || text.contains("\n  next step "),
                "{text}"
            );
            for line in text.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
        }
    }

    #[test]
    fn a_remedy_has_a_block_for_each_place_as_in_a_report() {
        let text = of("iommu-group-translated");
        for place in ["OpenShift", "Kubernetes", "Host"] {
            assert!(text.contains(&format!("\n  {place:<12}")), "{place}: {text}");
        }
    }

    #[test]
    fn an_error_is_found_as_logs_write_it() {
        for name in ["IBV_WC_LOC_PROT_ERR", "LOC_PROT_ERR", "loc_prot_err", "4"] {
            let text = of(name);
            assert!(
                text.contains("iommu-translation") && text.contains("81"),
                "{name}: {text}"
            );
        }
    }

    #[test]
    fn what_users_paste_is_explained() {
        for (text, expected) in [
            ("ETIMEDOUT", "connect-timed-out"),
            ("Connection timed out", "connect-timed-out"),
            ("129", "IBV_WC_RETRY_EXC_ERR"),
            ("0x81", "IBV_WC_RETRY_EXC_ERR"),
            ("IBV_WC_RETRY_EXC_ERR(12)", "fabric-or-peer"),
            ("12", "ENOMEM"),
            ("unreachable", "helper could not be started or reached"),
            ("helper_hung", "did not respond in time"),
            ("gids", "gid-missing"),
            ("PortDown", "rule  port-down"),
            ("RDMALinkProblem", "docs/runbooks/RDMALinkProblem.md"),
            ("alertname=RDMALinkProblem", "docs/runbooks/RDMALinkProblem.md"),
            ("\"port-down\",", "rule  port-down"),
            (
                "rdma_finding{rule=\"port-down\",device=\"mlx5_0\"} 1",
                "rule  port-down",
            ),
            (
                "RDMALinkProblem  True  Thu, 26 Nov 2026 09:00:00 +0000  PortDown  mlx5_0 port 1: DOWN",
                "rule  port-down",
            ),
            (
                "NCCL WARN Call to ibv_modify_qp failed with error No such device errno 19, on dev mlx5_3:1",
                "mlx5_3 port 1",
            ),
            ("ERROR fabric: RDMA lane 3 entered state 7", "does not know"),
        ] {
            let text_of = of(text);
            assert!(text_of.contains(expected), "{text}: {text_of}");
        }
        assert!(
            known("step 100 loss 2.31 of the training")
                .is_err_and(|error| error.contains("no RDMA failure is recognised"))
        );
    }

    #[test]
    fn an_unknown_name_gets_suggestions_only_if_some_are_close() {
        assert_eq!(suggestions("iommu-group-translate"), ["iommu-group-translated"]);
        assert_eq!(suggestions("prt-down"), ["port-down"]);
        assert!(suggestions("iommu").contains(&"iommu-group-translated"));
        assert_eq!(suggestions("weather"), [""; 0]);
        assert!(known("weather").is_err() && known("port-down").is_ok());
    }
}
