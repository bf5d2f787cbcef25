//! The codings of bodies, in the session's messages and in the codec.
use longhaul_session::BodyCoding;

/// Converts a coding of the session's messages to the codec's type.
pub(crate) const fn coding_of(coding: BodyCoding) -> longhaul_codec::Coding {
    match coding {
        BodyCoding::Identity => longhaul_codec::Coding::Identity,
        BodyCoding::Zstd => longhaul_codec::Coding::Zstd,
        BodyCoding::Brotli => longhaul_codec::Coding::Brotli,
        BodyCoding::Mix => longhaul_codec::Coding::Mix,
    }
}

/// Converts a coding of the codec to the session's type.
pub(crate) const fn body_coding_of(coding: longhaul_codec::Coding) -> BodyCoding {
    match coding {
        longhaul_codec::Coding::Identity => BodyCoding::Identity,
        longhaul_codec::Coding::Zstd => BodyCoding::Zstd,
        longhaul_codec::Coding::Brotli => BodyCoding::Brotli,
        longhaul_codec::Coding::Mix => BodyCoding::Mix,
    }
}
