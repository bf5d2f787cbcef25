//! HTML output: escaping and tables. All text from a results file passes through [`escape`].

/// Escapes text for element content and quoted attributes. Control characters, which HTML forbids, become the
/// replacement character, as do bidirectional overrides, which can disguise a URL.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' | '\r' => safe.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            other if other.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// Shortens to at most `limit` characters by removing the middle: the end of a URL is as informative as its
/// beginning.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let head = limit / 2;
    let tail = limit.saturating_sub(head + 1);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// Head of its row.
    Head(String),
    /// Head of this number of rows.
    HeadOf(usize, String),
    /// A number: right-aligned, with digits of equal width.
    Number(String),
    /// Words.
    Text(String),
    /// HTML for text.
    Markup(String),
    /// HTML for numbers.
    NumberMarkup(String),
}

/// Content of a column, which determines the alignment of its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Numbers.
    Numbers,
    /// Text.
    Words,
}

/// Emphasis of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Loads failed: the figures are not reliable.
    Failed,
    /// The first row of a group.
    Group,
    /// No emphasis.
    Plain,
}

/// A table with a caption, column heads and row heads.
#[derive(Debug)]
pub(crate) struct Table {
    caption: String,
    head: String,
    body: String,
    rows: usize,
}

impl Table {
    /// Creates a table without rows. The caption and the heads are text, not HTML.
    pub(crate) fn new(caption: &str, columns: &[(&str, Column)]) -> Self {
        let mut head = String::new();
        for (title, column) in columns {
            let class = match column {
                Column::Numbers => " class=\"n\"",
                Column::Words => "",
            };
            head.push_str(&format!("<th scope=\"col\"{class}>{}</th>", escape(title)));
        }
        Self {
            caption: escape(caption),
            head,
            body: String::new(),
            rows: 0,
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, tone: Tone, cells: &[Cell]) {
        let class = match tone {
            Tone::Failed => " class=\"failed\"",
            Tone::Group => " class=\"group\"",
            Tone::Plain => "",
        };
        self.body.push_str(&format!("<tr{class}>"));
        for cell in cells {
            let text = match cell {
                Cell::Head(words) => format!("<th scope=\"row\">{}</th>", escape(words)),
                Cell::HeadOf(rows, words) => {
                    format!("<th scope=\"rowgroup\" rowspan=\"{rows}\">{}</th>", escape(words))
                }
                Cell::Number(figure) => format!("<td class=\"n\">{}</td>", escape(figure)),
                Cell::Text(words) => format!("<td>{}</td>", escape(words)),
                Cell::Markup(html) => format!("<td>{html}</td>"),
                Cell::NumberMarkup(html) => format!("<td class=\"n\">{html}</td>"),
            };
            self.body.push_str(&text);
        }
        self.body.push_str("</tr>\n");
        self.rows += 1;
    }

    /// Returns true if there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the table as HTML, in a box with horizontal scrolling for narrow windows.
    pub(crate) fn finish(self) -> String {
        format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption>\
             <thead><tr>{1}</tr></thead>\n<tbody>{2}</tbody></table></div>\n",
            self.caption, self.head, self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        let safe = escape("\"><script>alert('x')</script>&\u{0}\u{202e}");
        assert!(
            !safe.contains(['<', '>', '"', '\'', '\u{0}', '\u{202e}']),
            "{safe}"
        );
        assert!(safe.starts_with("&quot;&gt;&lt;script"));
    }

    #[test]
    fn shortened_text_keeps_both_ends() {
        assert_eq!(shorten("abcdefghij", 5), "ab…ij");
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("abcdef", 1), "…");
        assert_eq!(shorten("abcdef", 0).chars().count(), 1);
    }
}
