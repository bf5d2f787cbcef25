//! HTML output: text and tables. All text from a results file is rendered as [`Text`].
use std::fmt::Write as _;

use maud::{Escaper, Markup, Render, html};

/// Text of a results file. Control characters, which HTML forbids, become the replacement character, as do
/// bidirectional overrides, which can disguise a URL.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        let mut escaper = Escaper::new(buffer);
        for character in self.0.chars() {
            let shown = match character {
                '\n' | '\t' | '\r' => ' ',
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
                other if other.is_control() => '\u{fffd}',
                other => other,
            };
            let _infallible = escaper.write_char(shown);
        }
    }
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
    /// Markup for text.
    Markup(Markup),
    /// Markup for numbers.
    NumberMarkup(Markup),
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
    columns: Vec<(String, Column)>,
    rows: Vec<Markup>,
}

impl Table {
    /// Creates a table without rows.
    pub(crate) fn new(caption: &str, columns: &[(&str, Column)]) -> Self {
        Self {
            caption: caption.to_owned(),
            columns: columns
                .iter()
                .map(|(title, column)| ((*title).to_owned(), *column))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, tone: Tone, cells: &[Cell]) {
        let class = match tone {
            Tone::Failed => Some("failed"),
            Tone::Group => Some("group"),
            Tone::Plain => None,
        };
        self.rows.push(html! {
            tr class=[class] {
                @for cell in cells {
                    (cell)
                }
            }
            "\n"
        });
    }

    /// Returns true if there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table in a box with horizontal scrolling for narrow windows.
    pub(crate) fn finish(self) -> Markup {
        let caption = Text(&self.caption);
        html! {
            div class="scroll" tabindex="0" role="region" aria-label=(caption) {
                table {
                    caption { (caption) }
                    thead {
                        tr {
                            @for (title, column) in &self.columns {
                                th scope="col" class=[column.class()] { (Text(title)) }
                            }
                        }
                    }
                    "\n"
                    tbody {
                        @for row in &self.rows {
                            (row)
                        }
                    }
                }
            }
            "\n"
        }
    }
}

impl Column {
    const fn class(self) -> Option<&'static str> {
        match self {
            Self::Numbers => Some("n"),
            Self::Words => None,
        }
    }
}

impl Render for Cell {
    fn render(&self) -> Markup {
        html! {
            @match self {
                Self::Head(words) => { th scope="row" { (Text(words)) } }
                Self::HeadOf(rows, words) => { th scope="rowgroup" rowspan=(rows) { (Text(words)) } }
                Self::Number(figure) => { td class="n" { (Text(figure)) } }
                Self::Text(words) => { td { (Text(words)) } }
                Self::Markup(markup) => { td { (markup) } }
                Self::NumberMarkup(markup) => { td class="n" { (markup) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        let safe = Text("\"><script>alert('x')</script>&\u{0}\u{202e}")
            .render()
            .into_string();
        assert!(!safe.contains(['<', '>', '"', '\u{0}', '\u{202e}']), "{safe}");
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
