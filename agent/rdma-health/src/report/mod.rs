//! A verdict for a person or a program to read.

mod json;
mod summary;
mod text;

pub(crate) use json::write as json;
pub(crate) use text::{Style, probe as probe_text, write as text};

/// Seconds as a person reads them: `3.2 µs`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

/// Bandwidth as the field says it: in Gb/s.
pub(crate) fn gigabits(bytes_per_second: f64) -> String {
    format!("{:.2} Gb/s", bytes_per_second * 8e-9)
}

/// Text from the kernel or a snapshot, fit for a terminal: no control characters.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() {
            c.escape_default().collect()
        } else {
            c.to_string()
        }
    };
    text.chars().map(shown).collect()
}

/// `1 port`, `2 ports`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
