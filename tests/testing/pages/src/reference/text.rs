//! Text of the pages: markup, style sheets, scripts, and the prose in them.
pub(crate) mod markup;
pub(crate) mod script;
pub(crate) mod style;
pub(crate) mod words;

/// Variety of text, from 0 (repeated templates with long attributes) to 1 (prose and unique tokens), which
/// determines its compression ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Variety(pub(crate) f32);

impl Variety {
    /// Returns a probability that grows from `low` to `high` with variety.
    pub(crate) fn chance(self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.0
    }
}

/// Fills `text` up to `length` bytes with blank lines and indentation, as in generated pages.
fn pad(text: &mut String, length: usize) {
    let missing = length.saturating_sub(text.len());
    text.extend(std::iter::repeat_n('\n', missing));
}
