//! `/explain/NAME`: why a rule matters, when it is a false alarm, and what to do on each platform.

use rdma_health_diagnosis::{CAUSES, KnownCause, cause};
use rdma_health_rules::{Rule, rule, rule_with_reason};

use super::frame::{badge, foot, head};
use crate::markup::Markup;

/// The page about a rule or cause with this id, or about a rule by its reason in conditions (`PortDown`); `None` if nothing has it.
pub fn explanation(name: &str) -> Option<String> {
    let id = rule_with_reason(name).map_or(name, |rule| rule.id);
    let (rule, cause) = (rule(id), cause(id));
    let title = rule.map(|rule| rule.title).or(cause.map(|cause| cause.title))?;
    let mut page = Markup::default();
    head(&mut page, &format!("{id}: {title}"), "", None);
    page.html("<header><h1>")
        .text(title)
        .html("</h1><p><code>")
        .text(id);
    page.html("</code></header><main>");
    if let Some(rule) = rule {
        of_rule(&mut page, rule);
    }
    if let Some(cause) = cause {
        of_cause(&mut page, cause);
    }
    page.html("</main>");
    foot(&mut page);
    Some(page.into_string())
}

fn of_rule(page: &mut Markup, rule: &Rule) {
    page.html("<section><h2>Rule</h2><p>").prose(rule.explanation);
    page.html("<dl class=facts><dt>Domain<dd>")
        .text(rule.domain.name());
    page.html("<dt>Severity<dd>");
    let severity = rule.severity().name();
    badge(page, severity, severity);
    for line in rule.policy.lines() {
        page.html("<br>").text(line);
    }
    page.html("<dt>False alarms<dd>").prose(rule.false_alarms);
    page.html("<dt>Inputs written by<dd>").text(rule.written_by());
    page.html("<dt>Condition reason<dd><code>").text(rule.reason());
    page.html("</code></dl><h2>What to do</h2>");
    for (place, text) in rule.remedy.parts() {
        if !place.is_empty() {
            page.html("<h3>").html(place).html("</h3>");
        }
        page.instructions(text);
    }
    let causes: Vec<_> = CAUSES
        .iter()
        .filter(|cause| cause.rules.contains(&rule))
        .collect();
    if !causes.is_empty() {
        page.html("<h2>Causes that it shows</h2><ul>");
        for cause in causes {
            link(page, cause.id, cause.title);
        }
        page.html("</ul>");
    }
    page.html("</section>");
}

fn of_cause(page: &mut Markup, cause: &KnownCause) {
    page.html("<section><h2>Cause</h2><p>").prose(cause.explanation);
    page.html("<h2>Next step</h2>").instructions(cause.next_step);
    for (title, kinds) in [
        ("<h2>Errors that it usually explains</h2><ul>", cause.often),
        ("<h2>Errors that it sometimes explains</h2><ul>", cause.sometimes),
    ] {
        if !kinds.is_empty() {
            page.html(title);
            for kind in kinds {
                page.html("<li><code>")
                    .text(kind.id())
                    .html("</code> ")
                    .prose(kind.meaning());
            }
            page.html("</ul>");
        }
    }
    if !cause.rules.is_empty() {
        page.html("<h2>Rules that show it</h2><ul>");
        for rule in cause.rules {
            link(page, rule.id, rule.title);
        }
        page.html("</ul>");
    }
    page.html("</section>");
}

fn link(page: &mut Markup, id: &str, title: &str) {
    page.html("<li><a href=\"/explain/")
        .text(id)
        .html("\"><code>")
        .text(id);
    page.html("</code></a> ").prose(title);
}
