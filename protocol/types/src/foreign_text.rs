//! Text from peers, origins, programs and files. It may contain ends of lines, control sequences of terminals, and marks that
//! reverse the order of characters.
use std::fmt::{self, Write};

/// Returns true for characters that no line of text for people contains: control characters, ends of lines and paragraphs, and
/// marks that change the direction of text (Unicode UAX #9).
pub const fn is_misleading(c: char) -> bool {
    matches!(
        c,
        '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// Returns at most this number of characters of a text, without misleading ones.
pub fn legible(text: &str, most: usize) -> String {
    text.chars().filter(|c| !is_misleading(*c)).take(most).collect()
}

/// Writes text on one line: misleading characters as escapes such as `\n` and `\u{202e}`.
#[derive(Debug)]
pub struct OneLine<W>(pub W);

impl<W: Write> Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_misleading) {
            let (legible, misleading) = rest.split_at(at);
            self.0.write_str(legible)?;
            let mut characters = misleading.chars();
            if let Some(c) = characters.next() {
                write!(self.0, "{}", c.escape_default())?;
            }
            rest = characters.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one_line(text: &str) -> String {
        let mut line = String::new();
        OneLine(&mut line).write_str(text).unwrap();
        line
    }

    #[test]
    fn misleading_characters_are_removed_or_escaped() {
        let text = "a\nb\r\u{1b}[31m\u{9b}\u{202e}\u{2028}ü é\u{7f}";
        assert_eq!(legible(text, 100), "ab[31mü é");
        assert_eq!(legible(text, 2), "ab");
        assert_eq!(
            one_line(text),
            "a\\nb\\r\\u{1b}[31m\\u{9b}\\u{202e}\\u{2028}ü é\\u{7f}"
        );
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_legible_line(text in "(\\PC|[\\x00-\\x1f\\x7f-\\x9f]|[\\u{200e}-\\u{202e}\\u{2066}-\\u{2069}]){0,40}") {
            let line = one_line(&text);
            prop_assert!(!line.contains(is_misleading), "{line:?}");
            prop_assert_eq!(line.lines().count(), usize::from(!line.is_empty()));
            let legible = legible(&text, usize::MAX);
            prop_assert!(!legible.contains(is_misleading));
            prop_assert_eq!(legible, text.replace(is_misleading, ""));
        }
    }
}
