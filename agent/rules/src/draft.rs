//! What a rule found, before its severity is decided.

use std::fmt::Display;

use crate::{
    Evidence, Finding, FindingCase, Profile, Remedy, Rule, Severity, Subject,
    policy::Exception,
    remedy::resolve::{REASON, Resolver, quoted},
};

/// A finding without a severity: the rule reports what it found, and its policy decides how severe that is with the profile
/// of the node.
#[derive(Debug)]
pub(crate) struct Draft {
    rule: &'static Rule,
    case: Option<FindingCase>,
    exception: Option<&'static Exception>,
    subject: Subject,
    message: String,
    evidence: Vec<Evidence>,
    remedy: Remedy,
    /// The remedy as it is, in place of the parts of `remedy`.
    written: Option<String>,
    /// What words of the remedy stand for, where that is not the subject.
    values: Vec<(&'static str, String)>,
}

impl Draft {
    /// A finding of `rule` with the usual severity and remedy of the catalogue.
    pub(crate) fn new(rule: &'static Rule, subject: Subject, message: impl Into<String>) -> Self {
        Self {
            rule,
            case: None,
            exception: None,
            subject,
            message: message.into(),
            evidence: Vec::new(),
            remedy: rule.remedy,
            written: None,
            values: Vec::new(),
        }
    }

    /// What it is about.
    pub(crate) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Whether this is its case.
    pub(crate) fn is(&self, case: FindingCase) -> bool {
        self.case == Some(case)
    }

    /// Adds what was read.
    #[allow(clippy::needless_pass_by_value)] // callers hand over numbers and texts they no longer need
    pub(crate) fn evidence(mut self, source: impl Into<String>, value: impl Display) -> Self {
        self.evidence.push(Evidence {
            source: source.into(),
            value: value.to_string(),
        });
        self
    }

    /// Adds to the message.
    pub(crate) fn extend_message(&mut self, more: &str) {
        self.message.push_str(more);
    }

    /// Replaces the message.
    pub(crate) fn message(mut self, message: String) -> Self {
        self.message = message;
        self
    }

    /// Says which of the rule's cases it is.
    pub(crate) fn case(mut self, case: FindingCase) -> Self {
        self.case = Some(case);
        self
    }

    /// Says which exception of the rule's policy applies, if one does.
    pub(crate) fn exception(mut self, exception: impl Into<Option<&'static Exception>>) -> Self {
        self.exception = exception.into();
        debug_assert!(
            self.exception
                .is_none_or(|exception| self.rule.policy.exceptions.contains(&exception)),
            "{} does not list {:?}",
            self.rule.id,
            self.exception
        );
        self
    }

    /// Changes the remedy from the catalogue's.
    pub(crate) fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = remedy;
        self
    }

    /// Writes the remedy for this node, instead of choosing from the parts of the catalogue's. Further lines are commands.
    pub(crate) fn written_remedy(mut self, text: impl Into<Option<String>>) -> Self {
        self.written = text.into();
        self
    }

    /// Fills in a word of the remedy (`NETDEV`) that does not stand for the subject of the finding.
    pub(crate) fn fill(mut self, word: &'static str, value: impl Into<String>) -> Self {
        self.values.push((word, value.into()));
        self
    }

    /// Fills in [`REASON`] with what a driver logged, so that the step says why.
    pub(crate) fn reason(self, line: &str) -> Self {
        let words = quoted(line);
        self.fill(REASON, words)
    }

    /// The finding with its severity; `None` where the rule's policy does not report it with this profile.
    pub(crate) fn judged(self, profile: Profile, resolver: &Resolver<'_>) -> Option<Finding> {
        let severity = self.rule.policy.severity(self.exception, profile)?;
        Some(self.with_severity(severity, resolver))
    }

    /// The finding with a severity that was decided before.
    pub(crate) fn with_severity(self, severity: Severity, resolver: &Resolver<'_>) -> Finding {
        let remedy = match &self.written {
            Some(text) => resolver.fill(text, &self.subject, &self.values),
            None => resolver.remedy(&self.remedy, &self.subject, &self.values),
        };
        Finding {
            rule: self.rule,
            case: self.case,
            severity,
            domain: self.rule.domain,
            subject: self.subject,
            message: self.message,
            evidence: self.evidence,
            pods: Vec::new(),
            remedy,
            places: self.remedy,
            values: self.values,
        }
    }
}
