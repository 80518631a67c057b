//! What a family is.

use std::borrow::Cow;

/// What the type of a family is to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, except for a restart at zero.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

impl Kind {
    /// Its name in the exposition format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric family.
#[derive(Debug)]
pub struct Entry {
    /// Name of the family.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Base unit of its values; empty for plain numbers.
    pub unit: &'static str,
    /// Names of its labels, in the order in which they are written.
    pub labels: &'static [&'static str],
    help: &'static str,
    words: &'static [&'static str],
}

impl Entry {
    /// Declares a family.
    pub const fn new(
        kind: Kind,
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            unit,
            labels,
            help,
            words: &[],
        }
    }

    /// Ends the help text with a list of words, such as the values of a label: `kind is` becomes `kind is a, b or c.`
    #[must_use]
    pub const fn one_of(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    /// What it means, in one line.
    pub fn help(&self) -> Cow<'static, str> {
        match self.words {
            [] => self.help.into(),
            [word] => format!("{} {word}.", self.help).into(),
            [first @ .., last] => format!("{} {} or {last}.", self.help, first.join(", ")).into(),
        }
    }
}

/// A family with `N` labels, made by [`families!`](crate::families), so that what is exported is also listed.
#[derive(Debug)]
pub struct Family<const N: usize> {
    entry: Entry,
}

impl<const N: usize> Family<N> {
    /// Declares it; for [`families!`](crate::families) and tables of families.
    pub const fn new(
        kind: Kind,
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
    ) -> Self {
        Self {
            entry: Entry::new(kind, name, unit, labels, help),
        }
    }

    /// What the catalogue says of it.
    pub const fn entry(&self) -> &Entry {
        &self.entry
    }
}

/// How many labels a list names; for [`families!`](crate::families).
#[doc(hidden)]
pub const fn count(labels: &[&str]) -> usize {
    labels.len()
}

/// Declares families, visible in the crate that declares them, and lists them as `ALL`:
///
/// ```
/// rdma_health_instrument::families! {
///     TEMPERATURE: Gauge "room_temperature_celsius" ["degrees Celsius"] {"room"}
///         "Temperature of a room in degrees Celsius.";
/// }
///
/// fn main() {
///     assert_eq!(ALL[0].labels, ["room"]);
/// }
/// ```
#[macro_export]
macro_rules! families {
    ($($id:ident: $kind:ident $name:literal [$unit:literal] {$($label:literal),*} $help:expr;)*) => {
        $(
            #[doc = $name]
            pub(crate) static $id: $crate::Family<{ $crate::count(&[$($label),*]) }> =
                $crate::Family::new($crate::Kind::$kind, $name, $unit, &[$($label),*], $help);
        )*
        /// Every family that is declared here.
        pub(crate) static ALL: &[&$crate::Entry] = &[$($id.entry()),*];
    };
}

/// A part of the catalogue.
#[derive(Debug)]
pub struct Group {
    /// What its families are about.
    pub title: &'static str,
    /// What a reader should know of all of them; may be empty.
    pub note: &'static str,
    /// Its families.
    pub entries: Vec<&'static Entry>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_text_ends_with_its_words() {
        let help = |words| {
            Entry::new(Kind::Gauge, "a", "", &[], "kind is")
                .one_of(words)
                .help()
        };
        assert_eq!(help(&["a"]), "kind is a.");
        assert_eq!(help(&["a", "b", "c"]), "kind is a, b or c.");
    }
}
