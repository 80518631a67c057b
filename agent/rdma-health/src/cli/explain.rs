//! `rdma-health explain NAME`: a rule, a cause, an error, a published name or a line of a log, laid out as `check` lays out a
//! finding.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anstyle::Style as Ansi;
use clap::Args;
use rdma_health_diagnosis::{
    CAUSES, KnownCause, Link, cause,
    glossary::{self, terms},
    lookup::{Meaning, Xid, lookup, symptoms_of, text_of},
    symptom::{Grade, Symptom, SymptomKind},
};
use rdma_health_node::{kmsg::EventClass, words::printable};
use rdma_health_protocol::{Errno, WcStatus};
use rdma_health_report::{Style, labelled};
use rdma_health_rules::{CATALOGUE, Rule, rule};

use super::names::{Published, published};

/// Names at least this similar to an unknown one are suggested, from 0 to 1.
const SIMILAR: f64 = 0.7;
/// The most names that are suggested.
const SUGGESTIONS: usize = 8;
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
    let mut out = anstream::stdout().lock();
    for (place, text) in arguments.texts().iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        write(&mut out, text, Style::of_terminal())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Every id of a rule, a cause or a symptom, and every term.
fn names() -> impl Iterator<Item = &'static str> {
    let rules = CATALOGUE.iter().map(|rule| rule.id);
    let causes = CAUSES.iter().map(|cause| cause.id);
    let terms = terms().map(|term| term.name);
    rules
        .chain(causes)
        .chain(SymptomKind::all().map(SymptomKind::id))
        .chain(terms)
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

/// The name that a single word misspells by one letter, or by two if it is long.
fn misspelled(text: &str) -> Option<&'static str> {
    /// The fewest letters of a name that is not like another one by chance.
    const LONG: usize = 8;
    let name = text.trim().to_lowercase();
    let is_name = (LONG..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    // Names in a row differ in their numbers: rx_prio0_discards, rx_prio1_discards.
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let is_near = |known: &str| {
        let known = known.to_lowercase();
        let distance = strsim::damerau_levenshtein(&known, &name);
        let most = if name.len() >= 2 * LONG { 2 } else { 1 };
        (1..=most).contains(&distance) && letters(&known) != letters(&name)
    };
    is_name.then(|| names().find(|known| is_near(known)))?
}

/// A question about the names that may be meant.
fn hint(near: &[&str]) -> String {
    match near {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        several => {
            let dots = if several.len() > SUGGESTIONS { ", …" } else { "" };
            let shown = &several[..several.len().min(SUGGESTIONS)];
            format!("; did you mean one of {}{dots}?", shown.join(", "))
        }
    }
}

/// Names that contain the unknown one, or else the most similar name.
fn suggestions(name: &str) -> Vec<&'static str> {
    let name = name.to_lowercase();
    let mut containing: Vec<_> = names()
        .filter(|known| name.len() >= 3 && known.to_lowercase().contains(&name))
        .collect();
    if !containing.is_empty() {
        // A cause may have the name of its rule.
        containing.sort_unstable();
        containing.dedup();
        return containing;
    }
    let similarity = |known: &&str| strsim::normalized_damerau_levenshtein(&known.to_lowercase(), &name);
    let nearest = names()
        // Comparing takes the square of the length, and a long text is not a misspelled name.
        .filter(|known| name.len() <= 64 && similarity(known) >= SIMILAR)
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    nearest.into_iter().collect()
}

/// One thing that a text stands for.
enum Subject {
    Rule(&'static Rule),
    Cause(&'static KnownCause),
    Symptom(SymptomKind),
    Errno(Errno),
    VendorError(u32, WcStatus),
    UnlistedVendorError(u32),
    CqeSyndrome(u32, WcStatus),
    Syndrome(u64),
    Xid(u16, Option<&'static Xid>),
    /// A name of another library, a term or a number: its kind, name, meaning, and names to read about next.
    Term(&'static str, String, String, &'static [&'static str]),
    Line(Box<Symptom>),
    Published(Published),
}

/// All that a text stands for: a cause and a rule may share a name, and 12 is a status and an error number.
fn subjects(text: &str) -> Vec<Subject> {
    let name = text.trim();
    let reason = CATALOGUE.iter().find(|rule| rule.reason() == name).copied();
    let rule = rule(name).or(reason).map(Subject::Rule);
    let named = [
        rule,
        cause(name).map(Subject::Cause),
        published(name).map(Subject::Published),
    ];
    let mut found: Vec<_> = named.into_iter().flatten().collect();
    let is_id = !found.is_empty();
    for meaning in lookup(name) {
        found.push(match meaning {
            Meaning::Symptom(kind) => Subject::Symptom(kind),
            Meaning::Errno(errno) => Subject::Errno(errno),
            Meaning::VendorError(code, status) => Subject::VendorError(code, status),
            Meaning::UnlistedVendorError(code) => Subject::UnlistedVendorError(code),
            Meaning::CqeSyndrome(code, status) => Subject::CqeSyndrome(code, status),
            Meaning::Syndrome(code) => Subject::Syndrome(code),
            Meaning::Xid(number, xid) => Subject::Xid(number, xid),
            // An id needs no further meaning.
            Meaning::Term(_) | Meaning::Line(_) if is_id => continue,
            Meaning::Term(term) => {
                Subject::Term(term.kind, term.name.to_owned(), term.meaning.to_owned(), term.see)
            }
            Meaning::Rejection(number, meaning, see) => Subject::Term(
                "reason",
                number.to_string(),
                format!("a connection was rejected: {meaning}"),
                see,
            ),
            Meaning::Harmless(text) => {
                let shown: String = text.chars().take(REPEATED).collect();
                let meaning = "a normal event or a message without a consequence";
                Subject::Term("harmless", printable(&shown), meaning.to_owned(), &[])
            }
            Meaning::Line(symptom) => Subject::Line(symptom),
        });
    }
    found
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
            Subject::Term(kind, name, meaning, see) => {
                headline(out, Ansi::new().bold(), kind, &name, &sentence(&meaning))?;
                if see.is_empty() {
                    let next = "Check the lines of the log around it: rdma-health check --log FILE";
                    bold(out, "next step", next, style)?;
                } else {
                    let next = format!("rdma-health explain {}", see.join(" "));
                    bold(out, "next step", &next, style)?;
                }
            }
            Subject::Line(symptom) => write_line(out, &symptom, style)?,
            Subject::Published(name) => write_published(out, &name, style)?,
        }
    }
    Ok(())
}

fn write_rule(out: &mut impl Write, rule: &Rule, style: Style) -> io::Result<()> {
    headline(out, Ansi::new().bold(), "rule", rule.id, rule.title)?;
    plain(out, "domain", rule.domain.name(), style)?;
    for (n, line) in rule.policy.lines().enumerate() {
        plain(out, if n == 0 { "severity" } else { "" }, &line, style)?;
    }
    plain(out, "why", rule.explanation, style)?;
    plain(out, "exceptions", rule.false_alarms, style)?;
    plain(out, "inputs by", &rule.written_by(), style)?;
    writeln!(out)?;
    for (n, (place, text)) in rule.remedy.parts().enumerate() {
        match n {
            0 if place.is_empty() => bold(out, "remedy", text, style)?,
            0 => bold(out, "remedy", &format!("{place}: {text}"), style)?,
            _ => plain(out, place, text, style)?,
        }
    }
    list(out, "cause", causes(|cause| cause.rules.contains(&rule)), style)
}

fn write_cause(out: &mut impl Write, cause: &KnownCause, style: Style) -> io::Result<()> {
    headline(out, Ansi::new().bold(), "cause", cause.id, cause.title)?;
    plain(out, "why", cause.explanation, style)?;
    writeln!(out)?;
    bold(out, "remedy", cause.next_step, style)?;
    let symptoms = |kinds: &[SymptomKind]| {
        let described = kinds.iter().map(|kind| format!("{kind}: {}", kind.meaning()));
        described.collect::<Vec<_>>()
    };
    list(out, "explains", symptoms(cause.often), style)?;
    list(out, "rarely", symptoms(cause.sometimes), style)?;
    let rules = cause.rules.iter();
    list(
        out,
        "shown by",
        rules.map(|rule| format!("{}: {}", rule.id, rule.title)),
        style,
    )
}

fn write_symptom(out: &mut impl Write, kind: SymptomKind, style: Style) -> io::Result<()> {
    let title = match kind {
        SymptomKind::Completion(status) => format!("ibv_wc_status {}", status.number()),
        _ => "error in the log of a job, or of a probe".to_owned(),
    };
    headline(out, Ansi::new().bold(), "symptom", kind.id(), &title)?;
    plain(out, "meaning", &sentence(kind.meaning()), style)?;
    let linked = |link: Link| causes(|cause| cause.link(kind) == Some(link));
    list(out, "causes", linked(Link::Often), style)?;
    list(out, "rarely", linked(Link::Sometimes), style)?;
    writeln!(out)?;
    bold(
        out,
        "next step",
        "Run rdma-health check --log FILE on the node that wrote the log. It ranks these causes by what the node shows.",
        style,
    )
}

fn write_errno(out: &mut impl Write, errno: Errno, style: Style) -> io::Result<()> {
    let name = errno.to_string();
    let title = format!("error number {}", errno.0);
    headline(out, Ansi::new().bold(), "errno", &name, &title)?;
    if let Some(text) = text_of(errno) {
        plain(out, "text", &sentence(&text.replace("i/o", "I/O")), style)?;
    }
    let symptoms = symptoms_of(errno);
    let lines = symptoms
        .iter()
        .map(|(operation, kind)| format!("{operation}: {kind}: {}", kind.meaning()));
    list(out, "when", lines, style)?;
    writeln!(out)?;
    bold(
        out,
        "next step",
        "Find the operation that failed in the log, and run rdma-health explain with the name behind it, or rdma-health check --log FILE.",
        style,
    )
}

fn write_vendor_error(out: &mut impl Write, code: u32, status: WcStatus, style: Style) -> io::Result<()> {
    let title = format!(
        "vendor error of an mlx5 adapter, {code} in decimal, with {}",
        status.name()
    );
    headline(out, Ansi::new().bold(), "vendor", &format!("{code:#x}"), &title)?;
    write_symptom(out, SymptomKind::Completion(status), style)
}

fn write_unlisted_vendor_error(out: &mut impl Write, code: u32, style: Style) -> io::Result<()> {
    let title = format!("vendor error of a failed completion, {code} in decimal");
    headline(out, Ansi::new().bold(), "vendor", &format!("{code:#x}"), &title)?;
    let text = "The vendor publishes no list of these codes. The status of the completion in the same line says what failed.";
    plain(out, "meaning", text, style)?;
    writeln!(out)?;
    bold(
        out,
        "next step",
        "Run rdma-health explain with the status in that line (status=4, with error 4, IBV_WC_LOC_PROT_ERR), or with the whole line.",
        style,
    )
}

fn write_cqe_syndrome(out: &mut impl Write, code: u32, status: WcStatus, style: Style) -> io::Result<()> {
    let title = format!(
        "syndrome of a failed completion of an mlx5 adapter (UCX prints synd {code:#x}), with {}",
        status.name()
    );
    headline(out, Ansi::new().bold(), "syndrome", &format!("{code:#x}"), &title)?;
    write_symptom(out, SymptomKind::Completion(status), style)
}

fn write_syndrome(out: &mut impl Write, code: u64, style: Style) -> io::Result<()> {
    let title = "syndrome with which the firmware of an mlx5 adapter refuses a command";
    headline(out, Ansi::new().bold(), "syndrome", &format!("{code:#x}"), title)?;
    let text = "It says why the firmware refused the command that the same line of the kernel log names. The vendor publishes no list of them.";
    plain(out, "meaning", text, style)?;
    writeln!(out)?;
    bold(
        out,
        "next step",
        "Read the command and the status in that line (CREATE_QP … failed, status bad parameter), compare firmware and driver versions with \
        the other adapters (rdma-health check), and search the release notes of the firmware for the syndrome.",
        style,
    )
}

fn write_xid(out: &mut impl Write, number: u16, xid: Option<&Xid>, style: Style) -> io::Result<()> {
    let title = "message of NVIDIA's driver in the kernel log";
    headline(out, Ansi::new().bold(), "Xid", &number.to_string(), title)?;
    let meaning = xid.map_or("Its meaning is not known here.".to_owned(), |xid| {
        sentence(xid.meaning)
    });
    plain(out, "meaning", &meaning, style)?;
    let rule = match xid.map(|xid| xid.kind.class()) {
        Some(EventClass::Fault) => "gpu-failed",
        _ => "gpu-errors-logged",
    };
    plain(out, "rule", rule, style)?;
    writeln!(out)?;
    let next = format!(
        "Read the recovery action of Xid {number} at docs.nvidia.com/deploy/xid-errors, and rdma-health explain {rule}."
    );
    bold(out, "next step", &next, style)
}

/// What one line of a log shows.
fn write_line(out: &mut impl Write, symptom: &Symptom, style: Style) -> io::Result<()> {
    headline(
        out,
        Ansi::new().bold(),
        "line",
        symptom.kind.id(),
        &printable(&symptom.text),
    )?;
    let named = &symptom.named;
    let port = named.port.map(|port| format!(" port {port}")).unwrap_or_default();
    let parts = [
        (
            "device",
            named.device.as_ref().map(|device| format!("{device}{port}")),
        ),
        ("peer", named.peer.clone()),
        ("GID index", named.gid_index.map(|index| index.to_string())),
        ("local GID", named.local_gid.clone()),
        ("remote GID", named.remote_gid.clone()),
        ("errno", named.errno.map(|errno| errno.to_string())),
        (
            "vendor error",
            named.vendor_error.map(|code| format!("{code:#x} ({code})")),
        ),
    ];
    for (label, value) in parts {
        if let Some(value) = value {
            plain(out, label, &value, style)?;
        }
    }
    if symptom.grade == Grade::Unrecognised {
        let text = "The line looks like an RDMA failure, but rdma-health does not know the message.";
        plain(out, "meaning", text, style)?;
        writeln!(out)?;
        return bold(
            out,
            "next step",
            "Check the lines before it: the first error is usually the cause.",
            style,
        );
    }
    write_symptom(out, symptom.kind, style)
}

fn write_published(out: &mut impl Write, name: &Published, style: Style) -> io::Result<()> {
    headline(out, Ansi::new().bold(), name.kind, &name.name, &name.title)?;
    writeln!(out)?;
    bold(out, "next step", &name.next_step, style)
}

fn causes(applies: impl Fn(&KnownCause) -> bool) -> Vec<String> {
    let causes = CAUSES.iter().filter(|cause| applies(cause));
    causes
        .map(|cause| format!("{}: {}", cause.id, cause.title))
        .collect()
}

fn headline(out: &mut impl Write, paint: Ansi, kind: &str, id: &str, title: &str) -> io::Result<()> {
    writeln!(out, "{paint}{kind}{paint:#}  {id}: {title}")
}

fn plain(out: &mut impl Write, label: &str, text: &str, style: Style) -> io::Result<()> {
    labelled(out, label, text, style, Ansi::new())
}

fn bold(out: &mut impl Write, label: &str, text: &str, style: Style) -> io::Result<()> {
    labelled(out, label, text, style, Ansi::new().bold())
}

/// Several texts under one label, after an empty line.
fn list(
    out: &mut impl Write,
    label: &str,
    texts: impl IntoIterator<Item = String>,
    style: Style,
) -> io::Result<()> {
    for (n, text) in texts.into_iter().enumerate() {
        if n == 0 {
            writeln!(out)?;
        }
        plain(out, if n == 0 { label } else { "" }, &text, style)?;
    }
    Ok(())
}

/// A meaning as a sentence: with a capital letter and a full stop.
fn sentence(meaning: &str) -> String {
    let mut letters = meaning.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if meaning.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
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
            ("PortDown", "rule  port-down"),
            ("RDMALinkProblem", "docs/runbooks/RDMALinkProblem.md"),
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
