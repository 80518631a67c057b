//! What makes a text one of reference, line by line: entries of a list of statuses, rows of a table, headings of a manual page.

use super::super::grade::level;

/// From how many different statuses on a text that names one per line is a table of them.
const ENTRIES: usize = 2;
/// From how many headings on a text is a manual page.
const HEADINGS: u32 = 2;
/// From how many rows on lines with separators are a table.
const ROWS: u32 = 3;
/// The fewest words of an explanation.
const WORDS: usize = 6;

/// The shape of the lines so far.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// The first different statuses each of which begins a line and is explained or stands alone, as in tables and manuals.
    entries: Vec<String>,
    /// Whether the previous line is such a status alone, which the next one may explain.
    is_defined: bool,
    /// Whether the text explains one.
    explains: bool,
    /// Headings of a manual page.
    headings: u32,
    /// The columns of the last row of a table, and how many rows in succession have as many.
    columns: usize,
    rows: u32,
    /// The most rows of one table.
    longest: u32,
    /// Whether the last row is of a table of versions.
    of_versions: bool,
}

impl Shape {
    pub(super) fn add(&mut self, text: &str) {
        self.explains |=
            self.is_defined && text.starts_with("  ") && text.split_whitespace().count() >= WORDS;
        self.headings += u32::from(is_heading(text));
        self.count_row(text);
        let entry = entry(text);
        self.is_defined = entry.is_some_and(|(_, alone)| alone);
        if let Some((name, _)) = entry
            && self.entries.len() < ENTRIES
            && !self.entries.iter().any(|known| known == name)
        {
            self.entries.push(name.to_owned());
        }
    }

    /// Whether the text is a list of statuses, a manual page or a table.
    pub(super) fn is_reference(&self) -> bool {
        self.entries.len() >= ENTRIES || self.explains || self.headings >= HEADINGS || self.longest >= ROWS
    }

    /// Counts the row of a table whose columns `|` separates.
    fn count_row(&mut self, text: &str) {
        /// The fewest separators between columns. Two columns are also a container's name and what it wrote.
        const SEPARATORS: usize = 2;
        let columns = text.trim().trim_matches('|').matches(" | ").count();
        // What a person runs, `| Component | Version |`, is a table of a report.
        let has_versions = text.to_ascii_lowercase().contains("version");
        self.of_versions = columns >= SEPARATORS && (has_versions || self.of_versions);
        let is_row = columns >= SEPARATORS && level(text).is_none() && !self.of_versions;
        self.rows = if !is_row {
            0
        } else if columns == self.columns {
            self.rows + 1
        } else {
            1
        };
        self.columns = columns;
        self.longest = self.longest.max(self.rows);
    }
}

/// Whether a line is a heading of a manual page.
fn is_heading(text: &str) -> bool {
    const HEADINGS: [&str; 14] = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "RETURN VALUE",
        "RETURN VALUES",
        "ERRORS",
        "NOTES",
        "EXAMPLES",
        "SEE ALSO",
        "BUGS",
        "AUTHOR",
        "AUTHORS",
        "ENVIRONMENT",
    ];
    HEADINGS.contains(&text.trim())
}

/// The status that a line defines, and whether it stands alone: `IBV_WC_RETRY_EXC_ERR (12) - Transport …`, `| IBV_EVENT_CQ_ERR | … |`,
/// `FI_EFA_ERR_OOM = 4105,`. A status with its own value, such as `IBV_WC_RETRY_EXC_ERR: 5`, is a count of them.
fn entry(text: &str) -> Option<(&str, bool)> {
    const FAMILIES: [&str; 9] = [
        "IBV_WC_",
        "IB_WC_",
        "IBV_EVENT_",
        "IB_EVENT_",
        "RDMA_CM_EVENT_",
        "FI_E",
        "UCS_ERR_",
        "NIXL_ERR_",
        "MLX5_CQE_",
    ];
    let bullet = |c: char| {
        c.is_ascii_digit()
            || c.is_whitespace()
            || matches!(c, '*' | '-' | '|' | '`' | '.' | ')' | '#' | ':' | '[')
    };
    let text = text.trim_start_matches(bullet);
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !FAMILIES.iter().any(|family| name.starts_with(family)) {
        return None;
    }
    let rest = rest.trim_end().trim_end_matches([',', '`', '*']);
    let described = rest
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| matches!(c, '"' | '.' | ',' | ')' | '(')))
        .filter(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_alphabetic()));
    let is_alone = rest
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ' ' | '=' | '(' | ')' | '`'))
        .is_empty()
        && !rest.starts_with(':');
    (is_alone || described.count() >= 2).then_some((name, is_alone))
}
/// Whether a line is a command behind the prompt `> `: `> mpirun -np 4 ./hello`.
pub(super) fn is_prompt(trimmed: &str) -> bool {
    const LAUNCHERS: [&str; 8] = [
        "mpirun ",
        "mpiexec",
        "prterun ",
        "srun ",
        "torchrun ",
        "ibv_",
        "ib_",
        "./",
    ];
    trimmed.strip_prefix("> ").is_some_and(|command| {
        LAUNCHERS.iter().any(|name| command.starts_with(name)) && !command.trim_end().ends_with(['.', ':'])
    })
}
