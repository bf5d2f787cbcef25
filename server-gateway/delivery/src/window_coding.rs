//! Coding of a body's windows, as in its `Body` message.
use longhaul_codec::{Base, Coding};
use longhaul_session::{BodyCoding, ShortHash};
use longhaul_types::ContentHash;

/// Coding of a body's windows, as in its `Body` message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCoding {
    /// The coding.
    pub coding: BodyCoding,
    /// Short hash of the base, if any.
    pub base: Option<ShortHash>,
}

impl WindowCoding {
    pub(crate) const IDENTITY: Self = Self {
        coding: BodyCoding::Identity,
        base: None,
    };

    /// Resolves `base`; `offered` lists the hashes of the offered bases.
    pub(crate) fn new(coding: Coding, base: Option<Base>, offered: &[ContentHash]) -> Self {
        let base = match base {
            Some(Base::Offered(place)) => offered.get(place).map(ShortHash::of),
            Some(Base::BuiltInDictionary(hash)) => Some(ShortHash::of(&hash)),
            None => None,
        };
        Self {
            coding: body_coding(coding),
            base,
        }
    }
}

const fn body_coding(coding: Coding) -> BodyCoding {
    match coding {
        Coding::Identity => BodyCoding::Identity,
        Coding::Zstd => BodyCoding::Zstd,
        Coding::Brotli => BodyCoding::Brotli,
        Coding::Mix => BodyCoding::Mix,
    }
}
