//! The codings that bodies have between agent and gateway.

/// How the windows of a body are coded, as the header of a body names it (`docs/protocol/body.md` section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// The decoded bytes themselves.
    Identity,
    /// One Zstandard frame (RFC 8878), window at most 1 MiB (4 MiB with a base).
    Zstd,
    /// One Brotli stream (RFC 7932), window at most 1 MiB (4 MiB with a base, which is its prefix dictionary: RFC 9841).
    Brotli,
    /// Context mixing (`docs/protocol/mix.md`), up to 8 MiB of memory: only for peers that said they take it.
    Mix,
}

impl Coding {
    /// The number that stands for it on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Identity => 0,
            Self::Zstd => 1,
            Self::Brotli => 2,
            Self::Mix => 3,
        }
    }
}

impl TryFrom<u8> for Coding {
    type Error = UnknownCoding;
    fn try_from(code: u8) -> Result<Self, UnknownCoding> {
        match code {
            0 => Ok(Self::Identity),
            1 => Ok(Self::Zstd),
            2 => Ok(Self::Brotli),
            3 => Ok(Self::Mix),
            other => Err(UnknownCoding(other)),
        }
    }
}

/// A number that names no coding of this version: the peer is newer or misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer named the unknown body coding {0}")]
pub struct UnknownCoding(pub u8);

/// A coding together with the effort that the encoder spends on it. Decoders need only its [`Coding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coder {
    /// No coding.
    Identity,
    /// Zstandard at a level of 1 to 19; values beyond are clamped.
    Zstd {
        /// The compression level.
        level: u8,
    },
    /// Brotli at a quality of 0 to 11; values beyond are clamped.
    Brotli {
        /// The quality.
        quality: u8,
    },
}

impl Coder {
    /// The coding that it produces.
    pub const fn coding(self) -> Coding {
        match self {
            Self::Identity => Coding::Identity,
            Self::Zstd { .. } => Coding::Zstd,
            Self::Brotli { .. } => Coding::Brotli,
        }
    }
}

/// Binary logarithm of the largest window of both coders: the memory that one stream needs in the decoder.
/// 1 MiB covers all but the largest pages whole.
pub(crate) const MAX_WINDOW_LOG: u8 = 20;
/// The same where there is a base, which Zstandard reaches only within its window: [`MAX_BASE`](crate::MAX_BASE) and as
/// much of the body behind it.
pub(crate) const MAX_BASED_WINDOW_LOG: u8 = 22;
