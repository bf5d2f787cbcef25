//! Classification of the content of images, in one pass.
use crate::raster::Raster;

/// Kind of content, as far as it affects the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContentKind {
    /// A photograph or painting: texture nearly everywhere.
    Photo,
    /// A drawing, logo or chart: flat areas separated by edges.
    LineArt,
    /// Text on a flat background, such as a screenshot.
    Text,
    /// Photographs beside drawings or text.
    Mixed,
}

impl ContentKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Photo, Self::LineArt, Self::Text, Self::Mixed];

    /// Name of the kind in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::LineArt => "line art",
            Self::Text => "text",
            Self::Mixed => "mixed",
        }
    }
}

/// Shares of neighbouring pixel pairs by the size of their difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Features {
    /// Equal colours, apart from JPEG artifacts at a fair quality.
    pub(crate) flat: f64,
    /// Similar colours: shades, texture and noise.
    pub(crate) textured: f64,
    /// Clearly different brightness.
    pub(crate) edges: f64,
}

/// Maximum number of evaluated pairs: sufficient for a share with three digits.
const SAMPLED_PAIRS: u64 = 400_000;
const FLAT: i32 = 2;
const EDGE: i32 = 64;

/// Flat share from which an image counts as a drawing.
const DRAWN: f64 = 0.62;
/// Flat share below which an image counts as a photograph.
const TAKEN: f64 = 0.35;
/// Share of edges among the pairs that are not flat, from which edges count as letters.
const LETTERED: f64 = 0.30;
/// Share of edges among all pairs below which there is little text.
const FEW_EDGES: f64 = 0.02;

pub(crate) fn classify(raster: &Raster) -> ContentKind {
    let features = features(raster);
    if features.flat < TAKEN {
        return ContentKind::Photo;
    }
    let uneven = (1.0 - features.flat).max(1e-6);
    if features.flat >= DRAWN {
        if features.edges >= FEW_EDGES && features.edges / uneven >= LETTERED {
            return ContentKind::Text;
        }
        return ContentKind::LineArt;
    }
    ContentKind::Mixed
}

pub(crate) fn features(raster: &Raster) -> Features {
    let channels = raster.layout.channels();
    // Whole rows, evenly distributed.
    let step = (raster.pixels() / SAMPLED_PAIRS).max(1);
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let (mut flat, mut textured, mut edges, mut pairs) = (0_u32, 0_u32, 0_u32, 0_u32);
    for row in raster.data.chunks_exact(raster.stride()).step_by(step) {
        let (left, right) = (row.chunks_exact(channels), row.chunks_exact(channels).skip(1));
        for (one, other) in left.zip(right) {
            let largest = difference(one, other);
            pairs += 1;
            if largest <= FLAT {
                flat += 1;
            } else if largest < EDGE {
                textured += 1;
            } else {
                edges += 1;
            }
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(pairs.max(1));
    Features {
        flat: if pairs == 0 { 1.0 } else { share(flat) },
        textured: share(textured),
        edges: share(edges),
    }
}

/// Returns the largest difference of a channel; two transparent pixels are equal.
fn difference(one: &[u8], other: &[u8]) -> i32 {
    if matches!((one, other), ([.., 0], [.., 0])) && one.len() == 4 {
        return 0;
    }
    let pairs = one.iter().zip(other);
    let differences = pairs.map(|(&one, &other)| (i32::from(one) - i32::from(other)).abs());
    differences.max().unwrap_or(0)
}

/// Returns true if the image has at most `limit` colours, so that lossless coding may be smaller.
pub(crate) fn few_colours(raster: &Raster, limit: usize) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    for pixel in raster.data.chunks_exact(raster.layout.channels()) {
        seen.insert(pixel);
        if seen.len() > limit {
            return false;
        }
    }
    true
}
