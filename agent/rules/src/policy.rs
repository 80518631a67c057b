//! How severe the findings of a rule are, decided in one place for the verdict, `explain` and the documentation.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{Profile, Severity};

/// How severe the findings of a rule are, by the profile of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Where no exception applies.
    pub usual: Severities,
    /// Findings with a severity of their own.
    pub exceptions: &'static [&'static Exception],
}

/// Findings of a rule whose severity is not the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Exception {
    /// Which findings these are, as the first part of `in a virtual machine: info`.
    pub condition: &'static str,
    /// How severe they are.
    pub severities: Severities,
}

/// A severity for each profile; `None` where nothing is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Severities {
    /// Without a profile in the configuration.
    pub auto: Option<Severity>,
    /// With profile `rdma`.
    pub rdma: Option<Severity>,
    /// With profile `gpudirect`.
    pub gpudirect: Option<Severity>,
    /// With profile `tcp-only`.
    pub tcp_only: Option<Severity>,
}

impl Policy {
    /// These severities without an exception.
    pub(crate) const fn of(usual: Severities) -> Self {
        Self {
            usual,
            exceptions: &[],
        }
    }

    /// The same with exceptions.
    pub(crate) const fn except(self, exceptions: &'static [&'static Exception]) -> Self {
        Self { exceptions, ..self }
    }

    /// The severity of a finding; `None` where it is not reported with this profile.
    pub(crate) fn severity(&self, exception: Option<&Exception>, profile: Profile) -> Option<Severity> {
        exception
            .map_or(&self.usual, |exception| &exception.severities)
            .with(profile)
    }

    /// The policy in words: the usual severities, then one line for each exception.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let usual = self.usual.to_string();
        let exceptions = self.exceptions.iter().map(|exception| {
            // A profile for which nothing is reported at all is named once, with the usual severities.
            let is_news =
                |profile, severity: Option<_>| severity.is_some() || self.usual.with(profile).is_some();
            let severities = exception.severities.in_words(is_news);
            format!("{}: {severities}", exception.condition)
        });
        std::iter::once(usual).chain(exceptions)
    }
}

/// In the JSON of a rule, `severity` is the usual one with profile `auto`; `severities` and `exceptions` are the rest.
impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Policy", 3)?;
        fields.serialize_field("severity", &self.usual.auto)?;
        fields.serialize_field("severities", &self.usual)?;
        fields.serialize_field("exceptions", self.exceptions)?;
        fields.end()
    }
}

impl Severities {
    /// `info` with every profile but `tcp-only`, with which nothing is reported.
    pub(crate) const INFO: Self = Self::unless_tcp_only(Severity::Info);
    /// `warning` likewise.
    pub(crate) const WARNING: Self = Self::unless_tcp_only(Severity::Warning);
    /// `critical` likewise.
    pub(crate) const CRITICAL: Self = Self::unless_tcp_only(Severity::Critical);

    const fn unless_tcp_only(severity: Severity) -> Self {
        Self {
            tcp_only: None,
            ..Self::always(severity)
        }
    }

    /// This severity with every profile.
    pub(crate) const fn always(severity: Severity) -> Self {
        Self {
            auto: Some(severity),
            rdma: Some(severity),
            gpudirect: Some(severity),
            tcp_only: Some(severity),
        }
    }

    /// Another severity with the profiles that expect RDMA.
    pub(crate) const fn rdma_expected(self, severity: Severity) -> Self {
        Self {
            rdma: Some(severity),
            gpudirect: Some(severity),
            ..self
        }
    }

    /// Another severity with profile `gpudirect`.
    pub(crate) const fn gpudirect(self, severity: Severity) -> Self {
        Self {
            gpudirect: Some(severity),
            ..self
        }
    }

    /// Another severity with profile `auto`.
    pub(crate) const fn auto(self, severity: Severity) -> Self {
        Self {
            auto: Some(severity),
            ..self
        }
    }

    /// Another severity with profile `tcp-only`.
    pub(crate) const fn tcp_only(self, severity: Severity) -> Self {
        Self {
            tcp_only: Some(severity),
            ..self
        }
    }

    /// Nothing with profile `auto`.
    pub(crate) const fn not_auto(self) -> Self {
        Self { auto: None, ..self }
    }

    /// Nothing with profile `rdma`.
    pub(crate) const fn not_rdma(self) -> Self {
        Self { rdma: None, ..self }
    }

    /// The severity with this profile.
    pub fn with(self, profile: Profile) -> Option<Severity> {
        match profile {
            Profile::Auto => self.auto,
            Profile::Rdma => self.rdma,
            Profile::GpuDirect => self.gpudirect,
            Profile::TcpOnly => self.tcp_only,
        }
    }

    /// In words. A profile that differs from `auto` is only named if it is worth a word.
    fn in_words(self, is_worth_a_word: impl Fn(Profile, Option<Severity>) -> bool) -> String {
        let name = |severity: Option<Severity>| severity.map_or("not reported", Severity::name);
        if let Some(severity) = self.auto
            && self == Self::always(severity)
        {
            return format!("{} with every profile", severity.name());
        }
        let mut words = vec![name(self.auto).to_owned()];
        let levels = Severity::ALL.into_iter().rev().map(Some).chain([None]);
        for severity in levels.filter(|severity| *severity != self.auto) {
            let profiles: Vec<_> = [Profile::Rdma, Profile::GpuDirect, Profile::TcpOnly]
                .into_iter()
                .filter(|profile| self.with(*profile) == severity && is_worth_a_word(*profile, severity))
                .map(Profile::name)
                .collect();
            match profiles.as_slice() {
                [] => {}
                [_, _, _] => words.push(format!("{} with every other profile", name(severity))),
                some => words.push(format!("{} with profile {}", name(severity), some.join(" or "))),
            }
        }
        words.join("; ")
    }
}

/// `warning; critical with profile gpudirect; not reported with profile tcp-only`.
impl fmt::Display for Severities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(|_, _| true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Severities = Severities::WARNING.gpudirect(Severity::Critical);

    static IN_A_GUEST: Exception = Exception {
        condition: "in a virtual machine",
        severities: Severities::INFO.rdma_expected(Severity::Warning),
    };

    static EXPECTED: Exception = Exception {
        condition: "if the configuration expects more",
        severities: Severities::always(Severity::Critical).not_auto(),
    };

    static ALWAYS: Exception = Exception {
        condition: "in any case",
        severities: Severities::always(Severity::Critical),
    };

    static POLICY: Policy = Policy::of(USUAL).except(&[&IN_A_GUEST, &EXPECTED, &ALWAYS]);

    #[test]
    fn the_policy_in_words_names_each_profile_that_differs() {
        let lines: Vec<_> = POLICY.lines().collect();
        assert_eq!(
            lines,
            [
                "warning; critical with profile gpudirect; not reported with profile tcp-only",
                "in a virtual machine: info; warning with profile rdma or gpudirect",
                "if the configuration expects more: not reported; critical with every other profile",
                "in any case: critical with every profile",
            ]
        );
    }

    #[test]
    fn an_exception_replaces_the_usual_severity_of_every_profile() {
        let with = |exception| Profile::ALL.map(|profile| POLICY.severity(exception, profile));
        let (info, warning, critical) = (
            Some(Severity::Info),
            Some(Severity::Warning),
            Some(Severity::Critical),
        );
        assert_eq!(with(None), [critical, warning, None, warning]);
        assert_eq!(with(Some(&IN_A_GUEST)), [warning, warning, None, info]);
    }
}
