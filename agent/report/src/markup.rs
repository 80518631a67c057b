//! HTML and SVG that text cannot break out of.

use std::fmt::{self, Display, Write};

use rdma_health_node::words::printable;

/// A builder for HTML and SVG. Only string literals of this program can be markup; all other text is escaped.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Appends markup.
    pub(super) fn html(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends text, escaped for use between tags and in quoted attributes.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = write!(Escaping(&mut self.0), "{}", printable(&text.to_string()));
        self
    }

    /// Appends markup that another builder made.
    #[allow(clippy::needless_pass_by_value)] // callers hand over what they built
    pub(super) fn markup(&mut self, other: Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// Appends text in which backquotes mark code, as messages and remedies have it.
    pub(super) fn prose(&mut self, text: &str) -> &mut Self {
        for (n, part) in text.split('`').enumerate() {
            match n % 2 {
                0 => self.text(part),
                _ => self.html("<code>").text(part).html("</code>"),
            };
        }
        self
    }

    /// Appends instructions: prose, and after its first line commands, which can be copied as they are.
    pub(super) fn instructions(&mut self, text: &str) -> &mut Self {
        let (prose, commands) = text.split_once('\n').unwrap_or((text, ""));
        self.html("<p>").prose(prose);
        if !commands.trim().is_empty() {
            self.html("<pre tabindex=0>");
            for line in commands.lines() {
                self.text(line).html("\n");
            }
            self.html("</pre>");
        }
        self
    }

    /// The finished HTML.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Text escaped for use between tags and in quoted attributes of HTML, SVG and XML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = Markup::default();
    out.text(text);
    out.into_string()
}

struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_driver_are_escaped() {
        let mut page = Markup::default();
        page.html("<b>").text("<b onload='x'>&\"\u{1b}\u{202e}");
        assert_eq!(
            page.into_string(),
            "<b>&lt;b onload=&#39;x&#39;&gt;&amp;&quot;\\u{1b}\\u{202e}"
        );
    }
}
