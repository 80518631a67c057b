//! Tables of families. A row is one family: name, labels, help, and the function that yields its samples.
//!
//! All rows of a table are about the same kind of subject, such as a port. The labels that a subject has in every family
//! are written once per scrape, however many families it appears in.

use rdma_health_instrument::Entry;

use super::text::{Labels, Series, Sink, Value};

/// A subject of a scrape, such as one port, with the labels of its samples.
#[derive(Debug)]
pub(crate) struct Labelled<T> {
    pub(crate) labels: Labels,
    pub(crate) of: T,
}

/// Families whose samples have the same subjects. `F` is [`Write`] for subjects of any lifetime.
#[derive(Debug)]
pub(crate) struct Table<'t, F> {
    /// The labels that every sample has.
    pub(crate) labels: &'static [&'static str],
    pub(crate) rows: &'t [Row<F>],
}

/// One family and what writes its samples.
#[derive(Debug)]
pub(crate) struct Row<F> {
    pub(crate) entry: Entry,
    pub(crate) write: F,
}

impl<F> Table<'static, F> {
    /// What the catalogue says of its families.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'static Entry> + use<F> {
        self.rows.iter().map(|row| &row.entry)
    }
}

impl<F> Table<'_, F> {
    /// A subject with the values of the table's labels.
    pub(crate) fn labelled<T>(&self, values: &[&str], of: T) -> Labelled<T> {
        Labelled {
            labels: Labels::new(self.labels, values),
            of,
        }
    }
}

/// Writes every sample of one family.
pub(crate) type Write<T> = fn(&[Labelled<T>], Series<'_>);

/// Writes every family of a table.
pub(crate) fn write<T>(table: &Table<'_, Write<T>>, subjects: &[Labelled<T>], sink: &mut Sink<'_>) {
    for row in table.rows {
        if sink.wants(&row.entry) {
            (row.write)(subjects, sink.series(&row.entry));
        }
    }
}

/// One family being written whose samples have `N` labels in addition to those of their subject.
pub(crate) struct Rows<'s, const N: usize>(pub(crate) Series<'s>);

impl Rows<'_, 0> {
    /// One sample for each subject that has a value.
    pub(crate) fn value<T, V: Into<Value>>(
        mut self,
        subjects: &[Labelled<T>],
        get: impl Fn(&T) -> Option<V>,
    ) {
        for Labelled { labels, of } in subjects {
            if let Some(value) = get(of) {
                self.0.sample(labels, &[], value.into());
            }
        }
    }
}

impl<const N: usize> Rows<'_, N> {
    /// Any number of samples for each subject.
    pub(crate) fn samples<T>(mut self, subjects: &[Labelled<T>], get: impl Fn(&T, &mut Samples<'_, '_, N>)) {
        for Labelled { labels, of } in subjects {
            let series = &mut self.0;
            get(of, &mut Samples { series, labels });
        }
    }
}

/// The samples of one subject in one family.
pub(crate) struct Samples<'a, 's, const N: usize> {
    series: &'a mut Series<'s>,
    labels: &'a Labels,
}

impl<const N: usize> Samples<'_, '_, N> {
    /// Adds a sample with the values of the family's own labels.
    pub(crate) fn add(&mut self, labels: [&str; N], value: impl Into<Value>) {
        self.series.sample(self.labels, &labels, value.into());
    }

    /// Adds the sample of an `_info` family.
    pub(crate) fn info(&mut self, labels: [&str; N]) {
        self.add(labels, true);
    }
}

/// Declares a table. Its head names the table, the labels and the type of its subjects. A row is the type, name, unit,
/// further labels and help text of a family, and how its samples are obtained: `value` yields one sample or none for each
/// subject, `samples` any number with values of the further labels. `one_of WORDS` ends a help text with a list.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $table:ident $labels:tt: $of:ty;
        $(
            $kind:ident $name:literal [$unit:literal] {$($more:literal),*} $help:literal $(one_of $words:expr)?
                => $form:ident($get:expr);
        )*
    ) => {
        $(#[$doc])*
        pub(crate) static $table: $crate::table::Table<
            'static,
            fn(&[$crate::table::Labelled<$of>], $crate::text::Series<'_>),
        > = $crate::table::Table {
            labels: $crate::table::labels!($labels {}),
            rows: &[$($crate::table::Row {
                entry: ::rdma_health_instrument::Entry::new(
                    ::rdma_health_instrument::Kind::$kind,
                    $name,
                    $unit,
                    $crate::table::labels!($labels {$($more),*}),
                    $help,
                )$(.one_of($words))?,
                write: |subjects, series| {
                    $crate::table::Rows::<{ ::rdma_health_instrument::count(&[$($more),*]) }>(series)
                        .$form(subjects, $get);
                },
            }),*],
        };
    };
}

/// The labels of a subject and those of a row as one list; for [`table!`].
macro_rules! labels {
    ({$($label:literal),*} {$($more:literal),*}) => {
        &[$($label,)* $($more),*]
    };
}

pub(crate) use {labels, table};
