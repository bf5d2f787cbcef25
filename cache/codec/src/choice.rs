//! Choice of the coder of a body by its type, its length, its first bytes and the rate of the link.
mod adaptive;
mod base;
mod load;
mod media;
#[cfg(test)]
mod tests;

use longhaul_types::{BitRate, ByteCount};

use self::media::{Compressibility, by_magic, by_type};
pub use self::{
    adaptive::{AdaptiveEncoder, Finished, SizeHiding},
    base::Base,
    load::Load,
};
use crate::coding::Coder;

/// Properties of a body that are known before it is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyTraits<'a> {
    /// Value of `Content-Type`, including parameters.
    pub content_type: Option<&'a str>,
    /// Length of the whole decoded body, if known.
    pub length: Option<ByteCount>,
    /// Rate of the link that the body will cross, if known.
    pub link: Option<BitRate>,
    /// Load of the processor that codes the body.
    pub load: Load,
    /// Rule for the effort.
    pub effort: EffortPolicy,
}

/// Rule for the effort of coders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EffortPolicy {
    /// By the link and the processor load, for the shortest time until the body has arrived.
    #[default]
    ByLink,
    /// Constant: Brotli 5 for every body that may become smaller.
    Fixed,
    /// No compression, except against bases and by context mixing, which have switches of their own: for measurements.
    Off,
}

impl BodyTraits<'_> {
    /// The same with the link's effort if compression is off: bases and context mixing are tried nevertheless.
    pub(crate) fn for_trials(self) -> Self {
        let effort = match self.effort {
            EffortPolicy::Off => EffortPolicy::ByLink,
            EffortPolicy::ByLink | EffortPolicy::Fixed => self.effort,
        };
        Self { effort, ..self }
    }

    /// Link rate that decides the effort; processor load makes the link count as faster.
    pub(crate) fn effective_link(&self) -> Option<BitRate> {
        match self.link {
            None if self.load > Load::NONE => Some(self.load.as_if_free(USUAL_LINK)),
            link => link.map(|link| self.load.as_if_free(link)),
        }
    }
}

/// Returns the coder to try on a body that begins with `first`.
///
/// Formats that are already compressed, by type or first bytes, get identity. All others get the coder that
/// suits the link; only a trial shows whether its result is smaller.
pub fn choose(traits: BodyTraits<'_>, first: &[u8]) -> Coder {
    if by_magic(first) == Compressibility::Compressed {
        return Coder::Identity;
    }
    match traits.content_type.map(by_type) {
        Some(Compressibility::Compressed) => Coder::Identity,
        Some(Compressibility::Unknown | Compressibility::Text) | None
            if traits.effort == EffortPolicy::Off =>
        {
            Coder::Identity
        }
        Some(Compressibility::Unknown | Compressibility::Text) | None
            if traits.effort == EffortPolicy::Fixed =>
        {
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

/// Returns the coder with the shortest coding time plus transfer time: bytes are expensive on a slow link,
/// processor time on a fast one.
///
/// The slower the link, the fewer bytes must be coded per second, so higher qualities remain affordable. The
/// length matters only on the fastest links: elsewhere a body of one window waits for its coding, a longer
/// body overlaps coding with the transfer, and both break even at about the same rates.
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

/// True if a body for which `coder` is chosen is to be coded by context mixing, provided that the peer
/// accepts it.
fn is_to_mix(traits: BodyTraits<'_>, coder: Coder, first: &[u8]) -> bool {
    coder != Coder::Identity && first.len() >= LEAST_MIXED && suits_mixing(traits)
}

/// True if context mixing is worth its time for a body of this type on this link, provided that the peer
/// accepts it.
pub fn suits_mixing(traits: BodyTraits<'_>) -> bool {
    let is_text = || traits.content_type.map(by_type) == Some(Compressibility::Text);
    let is_slow = || traits.effective_link().is_some_and(|rate| rate < MIX_BELOW);
    traits.effort != EffortPolicy::Fixed && is_slow() && is_text()
}

/// Below this rate the bytes that context mixing saves are worth the time that it takes at both ends: about
/// 60 ms each per window. A plain page of 60 KB becomes 1.1 KB smaller than with Brotli, which is 140 ms at
/// this rate (decision 12).
const MIX_BELOW: BitRate = BitRate::kbps(64);
/// Shorter bodies gain more from Brotli's built-in dictionary than a model can learn from them.
const LEAST_MIXED: usize = 2048;

/// The highest Brotli quality that takes hardly more time than the lower ones.
const USUAL_QUALITY: u8 = 5;
/// Assumed rate of a link of unknown rate when the processor is busy.
const USUAL_LINK: BitRate = BitRate::kbps(1000);
/// A link of this rate is not a bottleneck for short bodies.
const IDENTITY_FROM: BitRate = BitRate::kbps(1_000_000);
/// Longer texts arrive in 0.6 of the time of identity if coded with Zstandard 3; most texts of up to 32 KiB
/// do not.
const IDENTITY_BELOW: u64 = 32 * 1024;
/// From this rate on, Zstandard's speed is worth more than Brotli's ratio.
const ZSTD_FROM: BitRate = BitRate::kbps(50_000);
/// Below this rate a window of text arrives sooner with quality 10, which takes about 8 ms more than quality
/// 5 and saves about 7 % of the bytes. Quality 9 lies between them in both respects and is nowhere the best.
const HIGH_BELOW: BitRate = BitRate::kbps(500);
/// Below this rate the additional 2 % that quality 11 saves over quality 10 are worth 20 ms more, and one
/// core still serves a dozen such links.
const HIGHEST_BELOW: BitRate = BitRate::kbps(100);
