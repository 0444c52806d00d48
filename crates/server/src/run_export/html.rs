//! Markup in which everything but literals of this program is escaped.

use std::fmt::Display;

/// A piece of an HTML page.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup, which can only be a literal.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds a text, for an element or for a quoted attribute.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        for character in text.to_string().chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Adds a piece.
    pub(super) fn piece(&mut self, piece: &Self) -> &mut Self {
        self.0.push_str(&piece.0);
        self
    }

    /// Adds a cell of a table.
    pub(super) fn cell(&mut self, text: impl Display) -> &mut Self {
        self.raw("<td>").text(text).raw("</td>")
    }

    /// Adds a cell with a number.
    pub(super) fn number(&mut self, text: impl Display) -> &mut Self {
        self.raw("<td class=\"number\">").text(text).raw("</td>")
    }

    /// The text of the page.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_markup() {
        let mut page = Html::default();
        page.raw("<p title=\"").text("\"'>").raw("\">");
        page.text("<script>&amp;").raw("</p>");
        assert_eq!(
            page.finish(),
            "<p title=\"&quot;&#39;&gt;\">&lt;script&gt;&amp;amp;</p>"
        );
    }
}
