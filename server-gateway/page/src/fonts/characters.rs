//! Characters in the text of a document, and the `unicode-range` of a font face.

/// Code points above this are not recorded: supplementary ideographs, private use.
const RECORDED: u32 = 0x2_0000;
/// Maximum number of ranges per face; subsets of Asian fonts list about a hundred.
const MAX_RANGES: usize = 1000;
/// A document with less text than this is an application whose text is inserted by scripts.
const MIN_TEXT: usize = 32;

/// Set of the characters in a document's text, in at most 16 KiB.
#[derive(Debug, Default)]
pub(crate) struct Characters {
    bits: Vec<u64>,
    length: usize,
}

impl Characters {
    pub(crate) fn add(&mut self, text: &str) {
        for c in text.chars().filter(|c| !c.is_whitespace() && !c.is_control()) {
            self.length += 1;
            if self.bits.is_empty() {
                self.bits = vec![0; (RECORDED / 64) as usize];
            }
            if let Some(word) = self.bits.get_mut((u32::from(c) / 64) as usize) {
                *word |= 1 << (u32::from(c) % 64);
            }
        }
    }

    /// Returns true if the text is too short to be that of the displayed page.
    pub(crate) const fn is_placeholder(&self) -> bool {
        self.length < MIN_TEXT
    }

    fn has_any(&self, first: u32, last: u32) -> bool {
        (first / 64..=last.min(RECORDED - 1) / 64).any(|index| {
            let low = if index == first / 64 { first % 64 } else { 0 };
            let high = if index == last / 64 { last % 64 } else { 63 };
            let mask = (u64::MAX << low) & (u64::MAX >> (63 - high));
            self.bits.get(index as usize).is_some_and(|word| word & mask != 0)
        })
    }
}

/// The `unicode-range` of a face; without one, a face covers all characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnicodeRange(Option<Vec<(u32, u32)>>);

impl UnicodeRange {
    /// Parses the value of the descriptor. Ranges that are invalid are left out; those that overlap are joined,
    /// so that no character is looked up twice.
    pub(crate) fn of_value(value: &str) -> Self {
        let ranges = value.split(',').take(MAX_RANGES).filter_map(range);
        let mut ranges: Vec<(u32, u32)> = ranges.collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let overlaps = next.0 <= before.1;
            if overlaps {
                before.1 = before.1.max(next.1);
            }
            overlaps
        });
        Self(Some(ranges))
    }

    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }

    /// Returns true if the range contains the letter `a`.
    pub(crate) fn covers_latin(&self) -> bool {
        let letter = u32::from('a');
        self.is_any(|first, last| (first..=last).contains(&letter))
    }

    /// Returns true if the range contains one of the characters.
    pub(crate) fn covers(&self, characters: &Characters) -> bool {
        self.is_any(|first, last| characters.has_any(first, last))
    }

    fn is_any(&self, holds: impl Fn(u32, u32) -> bool) -> bool {
        self.0
            .as_ref()
            .is_none_or(|ranges| ranges.iter().any(|&(first, last)| holds(first, last)))
    }
}

/// Parses `U+26`, `U+0-7F` or `U+4??`.
fn range(text: &str) -> Option<(u32, u32)> {
    let text = text.trim().get(2..)?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let bound = |text: &str, digit: &str| u32::from_str_radix(&text.trim().replace('?', digit), 16).ok();
    let (first, last) = (bound(first, "0")?, bound(last, "F")?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_covers_characters_of_the_text() {
        let mut characters = Characters::default();
        let covers = |range: &str, characters: &Characters| UnicodeRange::of_value(range).covers(characters);
        assert!(!covers("U+0-10FFFF", &characters));
        characters.add(" Ж\u{1f600}?\n");
        for yes in [
            "U+0400-045F",
            "U+4??",
            "U+1, u+3F",
            "U+1F600",
            "U+416-FFFFFFFF",
            "U+0-3F",
        ] {
            assert!(covers(yes, &characters), "{yes}");
        }
        for no in [
            "U+20",
            "U+0417-04FF",
            "U+40-415",
            "U+9-3-1",
            "U+",
            "x",
            "",
            "U+500-400",
            "é",
        ] {
            assert!(!covers(no, &characters), "{no}");
        }
        let joined = UnicodeRange::of_value("U+30-40, U+50, U+0-35, U+38");
        assert_eq!(joined, UnicodeRange(Some(vec![(0, 0x40), (0x50, 0x50)])));
        assert!(UnicodeRange::default().covers(&Characters::default()));
        assert!(characters.is_placeholder());
    }
}
