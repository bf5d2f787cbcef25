//! The encoder: windows of the target, each parsed into instructions by a greedy or a cost-driven parser.
mod candidates;
mod greedy;
mod matches;
mod near_cache;
mod optimal;
mod wire;

use super::header::MAGIC;
use matches::Texts;

/// Maximum length of a window that [`encode`] writes. xdelta3 reads windows of up to 16 MiB; half of that
/// keeps a receiver's memory at what xdelta3's own windows need.
pub const MAX_TARGET_WINDOW: usize = 8 << 20;
/// Maximum length of the source segment of a window; of a longer source, the part around the window's
/// relative position is used. It limits the memory of the encoder's index: at most about 30 bytes per byte of
/// source.
pub const MAX_SOURCE_SEGMENT: usize = 16 << 20;

/// Processor time spent for a smaller delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaEffort {
    /// Greedy parse over hash tables: some milliseconds per megabyte.
    Fast,
    /// Parse of least cost over many candidates.
    Best,
}

/// Selects the checksum that xdelta3 writes and verifies: 4 bytes per window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// No checksum: the framing of the delta verifies the target.
    #[default]
    None,
    /// An Adler-32 of each window.
    Adler32,
}

/// Encodes `target` as differences from `source`, without checksum.
pub fn encode(source: &[u8], target: &[u8], effort: DeltaEffort) -> Vec<u8> {
    encode_with(source, target, effort, Checksum::None)
}

/// [`encode`] with the choice of a checksum.
pub fn encode_with(source: &[u8], target: &[u8], effort: DeltaEffort, checksum: Checksum) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    // No secondary compression, no code table, no application header.
    out.push(0);
    // An empty target has one empty window: xdelta3 rejects a delta without windows.
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
            DeltaEffort::Fast => greedy::parse(texts),
            DeltaEffort::Best => optimal::parse(texts),
        };
        instructions.put(start, texts, checksum, &mut out);
    }
    out
}

/// Start of a window's source segment: its middle corresponds to the window's middle in the target.
fn segment_start(source: usize, target: usize, window_start: usize, window: usize) -> usize {
    let spare = source.saturating_sub(MAX_SOURCE_SEGMENT);
    if spare == 0 {
        return 0;
    }
    let middle = (window_start + window / 2) as u128 * source as u128 / target.max(1) as u128;
    let middle = usize::try_from(middle).unwrap_or(source);
    middle.saturating_sub(MAX_SOURCE_SEGMENT / 2).min(spare)
}
