//! The one list of metric families. Nothing is exported that is not in it.

pub(super) mod counters;
pub(super) mod facts;
mod markdown;
pub(super) mod own;
pub(super) mod ports;
pub(super) mod verdict;

pub(crate) use markdown::{markdown, text};

/// What the type of a family is to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only rises, or starts anew.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

impl Kind {
    /// Its name in the exposition format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric family.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Name of the family.
    pub(crate) name: &'static str,
    /// Its type.
    pub(crate) kind: Kind,
    /// Base unit of its values; empty where they are mere numbers.
    pub(crate) unit: &'static str,
    /// What it tells, in one line.
    pub(crate) help: &'static str,
    /// Names of its labels, in the order in which they are written.
    pub(crate) labels: &'static [&'static str],
}

/// A family with `N` labels: a handle that only this module makes, so that only what is listed here can be exported.
#[derive(Debug)]
pub(crate) struct Family<const N: usize> {
    entry: Entry,
}

impl<const N: usize> Family<N> {
    const fn new(
        kind: Kind,
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
    ) -> Self {
        let entry = Entry {
            name,
            kind,
            unit,
            help,
            labels,
        };
        Self { entry }
    }

    /// What the catalogue says of it.
    pub(crate) const fn entry(&self) -> &Entry {
        &self.entry
    }
}

/// How many labels a list names.
const fn count(labels: &[&str]) -> usize {
    labels.len()
}

/// Declares the families of one group and lists them as `ALL`.
macro_rules! families {
    ($($id:ident: $kind:ident $name:literal [$unit:literal] {$($label:literal),*} $help:literal;)*) => {
        $(pub(in crate::metrics) static $id: $crate::metrics::catalogue::Family<
            { $crate::metrics::catalogue::count(&[$($label),*]) },
        > = $crate::metrics::catalogue::Family::new(
            $crate::metrics::catalogue::Kind::$kind, $name, $unit, &[$($label),*], $help,
        );)*
        pub(in crate::metrics) static ALL: &[&$crate::metrics::catalogue::Entry] = &[$($id.entry()),*];
    };
}
use families;

/// A part of the catalogue.
#[derive(Debug)]
pub(crate) struct Group {
    /// What its families are about.
    pub(crate) title: &'static str,
    /// What a reader should know of all of them; may be empty.
    pub(crate) note: &'static str,
    /// Its families.
    pub(crate) entries: Vec<&'static Entry>,
}

/// Every family, group by group, in the order in which they are exported.
pub(crate) fn groups() -> Vec<Group> {
    let group = |title, note, entries: &[&'static Entry]| Group {
        title,
        note,
        entries: entries.to_vec(),
    };
    vec![
        group(
            "Node, IOMMU, kernel modules, PCI and limits",
            facts::NOTE,
            facts::ALL,
        ),
        group("Devices and ports", ports::NOTE, ports::ALL),
        Group {
            title: "Port counters",
            note: counters::NOTE,
            entries: counters::named().chain(counters::ALL.iter().copied()).collect(),
        },
        group("Verdict, findings and probes", verdict::NOTE, verdict::ALL),
        group("The agent itself", own::NOTE, own::ALL),
        Group {
            title: "Under the names of the Prometheus node exporter",
            note: counters::LEGACY_NOTE,
            entries: ports::LEGACY.iter().copied().chain(counters::legacy()).collect(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        let mut seen = BTreeSet::new();
        for entry in groups().iter().flat_map(|group| &group.entries) {
            let name = entry.name;
            assert!(seen.insert(name), "{name} is listed twice");
            let legacy = name.starts_with("node_infiniband_");
            assert!(
                legacy || name.starts_with("rdma_") || name.starts_with("process_"),
                "{name}"
            );
            assert!(
                name.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{name}"
            );
            assert_eq!(name.ends_with("_total"), entry.kind == Kind::Counter, "{name}");
            assert!(
                !entry.help.is_empty() && !entry.help.contains(['\n', '\\']),
                "{name}"
            );
            for unit in ["seconds", "bytes"] {
                let has = name.split('_').any(|word| word == unit);
                assert!(
                    legacy || !has || entry.unit.contains(unit),
                    "{name} has no unit {unit}"
                );
            }
            let labels: BTreeSet<_> = entry.labels.iter().collect();
            assert_eq!(labels.len(), entry.labels.len(), "{name}");
            assert!(!labels.contains(&"le"), "{name}");
        }
    }
}
