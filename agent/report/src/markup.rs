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
