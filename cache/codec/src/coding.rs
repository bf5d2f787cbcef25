//! Codings of bodies between agent and gateway.

/// Coding of the windows of a body (`docs/protocol/body.md` section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// The decoded bytes themselves.
    Identity,
    /// One Zstandard frame (RFC 8878), window at most 1 MiB (4 MiB with a base).
    Zstd,
    /// One Brotli stream (RFC 7932), window at most 1 MiB; with a base 4 MiB, and the base is its prefix
    /// dictionary (RFC 9841).
    Brotli,
    /// Context mixing (`docs/protocol/mix.md`), up to 8 MiB of memory; only for peers that accept it.
    Mix,
}

impl Coding {
    /// Stable number of the coding, for the keys of encoded bodies.
    pub const fn code(self) -> u8 {
        match self {
            Self::Identity => 0,
            Self::Zstd => 1,
            Self::Brotli => 2,
            Self::Mix => 3,
        }
    }
}

/// A coding with the effort of its encoder. Decoders need only the [`Coding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coder {
    /// No coding.
    Identity,
    /// Zstandard at level 1 to 19; other values are clamped.
    Zstd {
        /// Compression level.
        level: u8,
    },
    /// Brotli at quality 0 to 11; other values are clamped.
    Brotli {
        /// Quality.
        quality: u8,
    },
}

impl Coder {
    /// The coding that the coder produces.
    pub const fn coding(self) -> Coding {
        match self {
            Self::Identity => Coding::Identity,
            Self::Zstd { .. } => Coding::Zstd,
            Self::Brotli { .. } => Coding::Brotli,
        }
    }
}

/// Failure of a coder. No input causes it; the machine probably lacks memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the local {0} coder failed, probably for lack of memory")]
pub struct EncodeError(pub(crate) &'static str);

/// Position of a window in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Perhaps not the last window: the coded bytes end on a byte boundary and decode without further input.
    More,
    /// The last window: the coder ends its stream.
    End,
}

/// Binary logarithm of the largest window of Zstandard and Brotli: the memory that one stream needs in the
/// decoder. 1 MiB covers all but the largest pages completely.
pub(crate) const MAX_WINDOW_LOG: u8 = 20;
/// As `MAX_WINDOW_LOG`, for a body with a base, which Zstandard reaches only within its window:
/// [`MAX_BASE`](crate::MAX_BASE) and as many bytes of the body after it.
pub(crate) const MAX_BASED_WINDOW_LOG: u8 = 22;
