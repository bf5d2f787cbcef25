//! Bases that both ends have from the start: releases of libraries that many sites serve, and what style sheets of
//! different sites have in common. `docs/dictionaries.md` tells how they are made and what they save.
//!
//! They are named like any other base, by their content hash. Which ones an agent has it tells by the number of a
//! set (`docs/protocol/session.md` section 7.6): a set holds all of the one before, and what it holds never changes.
//!
//! ```
//! use longhaul_codec::dictionary;
//!
//! let hash = dictionary::all().next().unwrap();
//! assert!(dictionary::find(&hash.as_bytes()[..6]).is_some());
//! ```
mod fit;
mod kept;
mod shipped;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use longhaul_types::ContentHash;

use self::shipped::ALL;
pub(crate) use self::{
    fit::{Fit, Media},
    shipped::Shipped,
};

/// The newest set of this version.
pub const NEWEST_SET: u32 = 1;

/// The hashes of all dictionaries of this version.
pub fn all() -> impl Iterator<Item = ContentHash> {
    ALL.iter().map(|shipped| shipped.hash)
}

/// Whether the hash of a dictionary begins so.
pub fn knows(prefix: &[u8]) -> bool {
    named(prefix).is_some()
}

/// The dictionary whose hash begins so.
pub fn find(prefix: &[u8]) -> Option<Bytes> {
    named(prefix)?.contents()
}

/// Those of this version that are made for a text of this type, a `Content-Type` value, that begins so.
pub fn made_for(content_type: &str, first: &[u8]) -> Vec<Bytes> {
    let fitting = Media::of(content_type).map(|media| fitting(NEWEST_SET, media, first));
    fitting
        .into_iter()
        .flatten()
        .filter_map(Shipped::contents)
        .collect()
}

fn named(prefix: &[u8]) -> Option<&'static Shipped> {
    ALL.iter()
        .find(|shipped| !prefix.is_empty() && shipped.hash.as_bytes().starts_with(prefix))
}

/// Those of a set that are made for texts of this type that begin so.
pub(crate) fn fitting(set: u32, media: Media, first: &[u8]) -> impl Iterator<Item = &'static Shipped> {
    ALL.iter()
        .filter(move |shipped| shipped.set <= set && shipped.media == media && shipped.fit.suits(first))
}
