//! Which coder suits a body: from its type, its length, its first bytes and the rate of the link.
mod adaptive;
mod base;
mod load;
mod media;
#[cfg(test)]
mod tests;

use longhaul_types::{BitRate, ByteCount};

use self::media::{Compressibility, by_magic, by_type};
pub use self::{
    adaptive::{AdaptiveEncoder, Finished},
    base::Base,
    load::Load,
};
use crate::coding::Coder;

/// What is known of a body before it is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyTraits<'a> {
    /// The value of `Content-Type`, parameters included.
    pub content_type: Option<&'a str>,
    /// The length of the whole decoded body, where it is known.
    pub length: Option<ByteCount>,
    /// The rate of the link that the body will cross, where it is known.
    pub link: Option<BitRate>,
    /// How busy the processor is that the body is coded on.
    pub load: Load,
    /// What decides how hard it is coded.
    pub effort: Effort,
}

/// What decides how hard bodies are coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// The link and the processor's load: the time until a body is across is to be short.
    #[default]
    Link,
    /// Nothing: Brotli 5 for whatever may become smaller.
    Fixed,
}

impl BodyTraits<'_> {
    /// The link that the effort follows: where computing is dear it is as if the link were faster.
    pub(crate) fn effective_link(&self) -> Option<BitRate> {
        match self.link {
            None if self.load > Load::NONE => Some(self.load.as_if_free(USUAL_LINK)),
            link => link.map(|link| self.load.as_if_free(link)),
        }
    }
}

/// The coder to try on a body that begins with `first`.
///
/// A format that is compressed already, by its type or its first bytes, is left alone. Everything else gets the
/// coder that suits the link; whether its result is worth keeping shows only when it has coded something.
pub fn choose(traits: BodyTraits<'_>, first: &[u8]) -> Coder {
    if by_magic(first) == Compressibility::Compressed {
        return Coder::Identity;
    }
    match traits.content_type.map(by_type) {
        Some(Compressibility::Compressed) => Coder::Identity,
        Some(Compressibility::Unknown | Compressibility::Text) | None if traits.effort == Effort::Fixed => {
            Coder::Brotli {
                quality: USUAL_QUALITY,
            }
        }
        Some(Compressibility::Unknown | Compressibility::Text) | None => {
            let length = traits.length.map_or(first.len() as u64, ByteCount::bytes);
            for_link(traits.effective_link(), length)
        }
    }
}

/// The coder that keeps coding time plus transfer time small: bytes are dear on a slow link, time on a fast one.
///
/// The slower the link, the less data must be coded a second, so that higher qualities stay affordable. Length matters
/// only on the fastest: elsewhere a body of one window waits for its coding, a longer one overlaps it with the transfer,
/// and both break even at about the same rates.
fn for_link(link: Option<BitRate>, length: u64) -> Coder {
    match link {
        Some(rate) if rate >= IDENTITY_FROM && length < IDENTITY_BELOW => Coder::Identity,
        Some(rate) if rate >= ZSTD_FROM => Coder::Zstd { level: 3 },
        Some(rate) if rate < HIGHEST_BELOW => Coder::Brotli { quality: 11 },
        Some(rate) if rate < HIGH_BELOW => Coder::Brotli { quality: 10 },
        Some(_) | None => Coder::Brotli {
            quality: USUAL_QUALITY,
        },
    }
}

/// Whether a body that has `coder` without it is to be coded by context mixing, where the peer takes that.
fn is_to_mix(traits: BodyTraits<'_>, coder: Coder, first: &[u8]) -> bool {
    coder != Coder::Identity && first.len() >= LEAST_MIXED && suits_mixing(traits)
}

/// Whether context mixing is worth its time for a body of this kind on this link, where the peer takes it.
pub fn suits_mixing(traits: BodyTraits<'_>) -> bool {
    let is_text = || traits.content_type.map(by_type) == Some(Compressibility::Text);
    let is_slow = || traits.effective_link().is_some_and(|rate| rate < MIX_BELOW);
    traits.effort == Effort::Link && is_slow() && is_text()
}

/// Below this rate the bytes that context mixing saves are worth the time that it takes both ends: some 60 ms each for a
/// window. A plain page of 60 KB becomes 1.1 KB smaller than by Brotli, which is 140 ms at this rate (decision 12).
const MIX_BELOW: BitRate = BitRate::kbps(64);
/// Shorter bodies owe more to Brotli's dictionary than a model can learn from them.
const LEAST_MIXED: usize = 2048;

/// The quality of Brotli that takes hardly more time than the lower ones.
const USUAL_QUALITY: u8 = 5;
/// What a link of unknown rate is taken for when the processor is busy.
const USUAL_LINK: BitRate = BitRate::kbps(1000);
/// A link of this rate is no bottleneck for short bodies.
const IDENTITY_FROM: BitRate = BitRate::kbps(1_000_000);
/// Longer texts are coded by Zstandard 3 and across in 0.6 of the time that they take as they are; of those up to 32 KiB
/// most are not.
const IDENTITY_BELOW: u64 = 32 * 1024;
/// From this rate on Zstandard's speed is worth more than Brotli's ratio.
const ZSTD_FROM: BitRate = BitRate::kbps(50_000);
/// Below this rate a window of text crosses faster at quality 10, which takes some 8 ms more than quality 5 and
/// saves some 7 % of the bytes. Quality 9 lies between them in both and is nowhere the best.
const HIGH_BELOW: BitRate = BitRate::kbps(500);
/// Below this rate the 2 % that quality 11 saves beyond that are worth 20 ms more, and one core still feeds a
/// dozen such links.
const HIGHEST_BELOW: BitRate = BitRate::kbps(100);
