//! A table of phrases and what they mean.

use aho_corasick::AhoCorasick;

use crate::event::EventKind;

/// A row of a table: parts that occur in this order, and what they mean; `None` is harmless.
pub(crate) type Row = (&'static [&'static str], Option<EventKind>);

/// Rows, of which the first that matches counts. A text is searched once for the beginnings of all of them: a flood of messages
/// must not cost more than reading it.
#[derive(Debug)]
pub(crate) struct Table {
    rows: &'static [Row],
    /// Finds the first part of each row. Never `None` with the rows of this crate; if it were, every row would be tried.
    beginnings: Option<AhoCorasick>,
}

impl Table {
    pub(crate) fn new(rows: &'static [Row]) -> Self {
        let beginnings = AhoCorasick::new(rows.iter().map(|(parts, _)| parts.first().unwrap_or(&"")));
        Self {
            rows,
            beginnings: beginnings.ok(),
        }
    }

    /// The meaning of the first row that matches a text in lower case; `None` if none does.
    #[expect(
        clippy::option_option,
        reason = "not known, known and harmless, or known with a meaning"
    )]
    pub(crate) fn meaning(&self, lower: &str) -> Option<Option<EventKind>> {
        let Some(beginnings) = &self.beginnings else {
            let found = self.rows.iter().find(|(parts, _)| in_order(lower, parts));
            return found.map(|(_, kind)| *kind);
        };
        // Each row once, however often it begins: a long line may repeat a word.
        let mut begun: Vec<usize> = Vec::new();
        for found in beginnings.find_overlapping_iter(lower) {
            let row = found.pattern().as_usize();
            if !begun.contains(&row) {
                begun.push(row);
            }
        }
        let matching = begun.into_iter().filter(|row| in_order(lower, self.rows[*row].0));
        matching.min().map(|row| self.rows[row].1)
    }
}

/// Whether the text contains these parts in this order.
fn in_order(text: &str, parts: &[&str]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_counts_wherever_its_parts_are() {
        let table = Table::new(&[
            (&["reset", "failed"], Some(EventKind::AdapterHealth)),
            (&["reset"], None),
            (&["failed"], Some(EventKind::DriverError)),
        ]);
        assert_eq!(
            table.meaning("a failed reset failed"),
            Some(Some(EventKind::AdapterHealth))
        );
        assert_eq!(table.meaning("failed to reset"), Some(None));
        assert_eq!(table.meaning("failed"), Some(Some(EventKind::DriverError)));
        assert_eq!(table.meaning("fail"), None);
    }
}
