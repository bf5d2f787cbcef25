//! The encoder: windows of the target, each parsed into instructions by a greedy or a cost-driven parser.
mod candidates;
mod greedy;
mod matches;
mod optimal;
mod wire;

use super::header::MAGIC;
use matches::Texts;

/// The longest window that [`encode`] makes: xdelta3 reads windows of up to 16 MiB, and halves keep a receiver's memory
/// at what xdelta3's own windows need.
pub const MAX_TARGET_WINDOW: usize = 8 << 20;
/// The longest source segment of a window: of a longer source, what lies around the window's place is used. It bounds
/// the memory of the encoder's index, about 30 bytes a byte of source at the most.
pub const MAX_SOURCE_SEGMENT: usize = 16 << 20;

/// How much time the encoder takes for a small delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A greedy parse over hash tables: some milliseconds a megabyte.
    Fast,
    /// The parse of least cost over many candidates.
    Best,
}

/// Whether windows carry the checksum that xdelta3 writes and verifies: 4 bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// No checksum: something around the delta verifies the target.
    #[default]
    None,
    /// An Adler-32 of each window.
    Adler32,
}

/// Encodes `target` as differences from `source`, without checksum.
pub fn encode(source: &[u8], target: &[u8], effort: Effort) -> Vec<u8> {
    encode_with(source, target, effort, Checksum::None)
}

/// [`encode`] with the choice of a checksum.
pub fn encode_with(source: &[u8], target: &[u8], effort: Effort, checksum: Checksum) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    // No secondary compression, no code table, no application header.
    out.push(0);
    // An empty target has one empty window: xdelta3 refuses a delta without any.
    let empty = target.is_empty().then_some(target);
    for (index, window) in target.chunks(MAX_TARGET_WINDOW).chain(empty).enumerate() {
        let start = segment_start(
            source.len(),
            target.len(),
            index * MAX_TARGET_WINDOW,
            window.len(),
        );
        let end = source.len().min(start + MAX_SOURCE_SEGMENT);
        let texts = Texts::new(&source[start..end], window);
        let instructions = match effort {
            Effort::Fast => greedy::parse(texts),
            Effort::Best => optimal::parse(texts),
        };
        instructions.put(start, texts, checksum, &mut out);
    }
    out
}

/// Where the source segment of a window begins: its middle is where the window's middle is in the target.
fn segment_start(source: usize, target: usize, window_start: usize, window: usize) -> usize {
    let spare = source.saturating_sub(MAX_SOURCE_SEGMENT);
    if spare == 0 {
        return 0;
    }
    let middle = (window_start + window / 2) as u128 * source as u128 / target.max(1) as u128;
    let middle = usize::try_from(middle).unwrap_or(source);
    middle.saturating_sub(MAX_SOURCE_SEGMENT / 2).min(spare)
}
