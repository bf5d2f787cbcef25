//! Text of the pages: markup, style sheets, scripts, and the prose in them.
pub(crate) mod markup;
pub(crate) mod script;
pub(crate) mod style;
pub(crate) mod words;

/// How varied text is, from 0 (templates with long attributes, repeated) to 1 (prose and unique tokens): what sets the
/// ratio by which it compresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Variety(pub(crate) f32);

impl Variety {
    /// A chance that grows from `low` to `high` with variety.
    pub(crate) fn chance(self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.0
    }
}

/// Fills `text` up to `length` bytes with blank lines and indentation, as generated pages have them.
fn pad(text: &mut String, length: usize) {
    let missing = length.saturating_sub(text.len());
    text.extend(std::iter::repeat_n('\n', missing));
}
