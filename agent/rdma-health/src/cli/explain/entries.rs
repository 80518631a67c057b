//! The explanations of what has a name (rules, causes, symptoms, terms, published names), and of a line of a log.

use std::io::{self, Write};

use rdma_health_diagnosis::{
    CAUSES, KnownCause, Link,
    symptom::{Grade, Symptom, SymptomKind},
};
use rdma_health_node::words::printable;
use rdma_health_report::Style;
use rdma_health_rules::Rule;

use super::layout::{bold, headline, list, plain, sentence};
use crate::cli::names::Published;

pub(super) fn write_rule(out: &mut impl Write, rule: &Rule, style: Style) -> io::Result<()> {
    headline(out, "rule", rule.id, rule.title)?;
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

pub(super) fn write_cause(out: &mut impl Write, cause: &KnownCause, style: Style) -> io::Result<()> {
    headline(out, "cause", cause.id, cause.title)?;
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

pub(super) fn write_symptom(out: &mut impl Write, kind: SymptomKind, style: Style) -> io::Result<()> {
    let title = match kind {
        SymptomKind::Completion(status) => format!("ibv_wc_status {}", status.number()),
        _ => "error in the log of a job, or of a probe".to_owned(),
    };
    headline(out, "symptom", kind.id(), &title)?;
    plain(out, "meaning", &sentence(kind.meaning()), style)?;
    let linked = |link: Link| causes(|cause| cause.link(kind) == Some(link));
    list(out, "causes", linked(Link::Often), style)?;
    list(out, "rarely", linked(Link::Sometimes), style)?;
    writeln!(out)?;
    let ranked = "Run rdma-health check --log FILE on the node that wrote the log. It ranks these causes by what the node shows.";
    bold(out, "next step", ranked, style)
}

/// What one line of a log shows.
pub(super) fn write_line(out: &mut impl Write, symptom: &Symptom, style: Style) -> io::Result<()> {
    headline(out, "line", symptom.kind.id(), &printable(&symptom.text))?;
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
            "vendor",
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

/// A term or a name of another library: `kind` says which, and `see` what to read about next.
pub(super) fn write_term(
    out: &mut impl Write,
    kind: &str,
    name: &str,
    meaning: &str,
    see: &[&str],
    style: Style,
) -> io::Result<()> {
    headline(out, kind, name, &sentence(meaning))?;
    let next = if see.is_empty() {
        "Check the lines of the log around it: rdma-health check --log FILE".to_owned()
    } else {
        format!("rdma-health explain {}", see.join(" "))
    };
    bold(out, "next step", &next, style)
}

pub(super) fn write_published(out: &mut impl Write, name: &Published, style: Style) -> io::Result<()> {
    headline(out, name.kind, &name.name, &name.title)?;
    writeln!(out)?;
    bold(out, "next step", &name.next_step, style)
}

fn causes(applies: impl Fn(&KnownCause) -> bool) -> Vec<String> {
    let causes = CAUSES.iter().filter(|cause| applies(cause));
    causes
        .map(|cause| format!("{}: {}", cause.id, cause.title))
        .collect()
}
