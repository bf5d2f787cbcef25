//! Dictionaries: bases that both ends ship. They are releases of libraries that many sites serve, and
//! fragments that style sheets of different sites have in common. `docs/dictionaries.md` describes how they
//! are made and what they save.
//!
//! Like any other base, a dictionary is named by its content hash. An agent states which ones it has by the
//! number of a set (`docs/protocol/session.md` section 7.6): a set contains all dictionaries of the previous
//! set and never changes.
//!
//! ```
//! use longhaul_codec::dictionary;
//!
//! let hash = dictionary::all().next().unwrap();
//! assert!(dictionary::find(&hash.as_bytes()[..6]).is_some());
//! ```
mod built_in;
mod fit;
mod kept;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use longhaul_types::ContentHash;

use self::built_in::ALL;
pub(crate) use self::{
    built_in::BuiltInDictionary,
    fit::{Fit, Media},
};

/// Newest dictionary set of this version.
pub const NEWEST_SET: u32 = 1;

/// Content hashes of all dictionaries of this version.
pub fn all() -> impl Iterator<Item = ContentHash> {
    ALL.iter().map(|dictionary| dictionary.hash)
}

/// True if the content hash of a dictionary begins with `prefix`.
pub fn knows(prefix: &[u8]) -> bool {
    named(prefix).is_some()
}

/// Returns the dictionary whose content hash begins with `prefix`.
pub fn find(prefix: &[u8]) -> Option<Bytes> {
    named(prefix)?.contents()
}

/// Returns the dictionaries of this version for a text of this `Content-Type` value that begins with `first`.
pub fn made_for(content_type: &str, first: &[u8]) -> Vec<Bytes> {
    let fitting = Media::of(content_type).map(|media| fitting(NEWEST_SET, media, first));
    fitting
        .into_iter()
        .flatten()
        .filter_map(BuiltInDictionary::contents)
        .collect()
}

fn named(prefix: &[u8]) -> Option<&'static BuiltInDictionary> {
    ALL.iter()
        .find(|dictionary| !prefix.is_empty() && dictionary.hash.as_bytes().starts_with(prefix))
}

/// Dictionaries of a set for texts of this kind that begin with `first`.
pub(crate) fn fitting(
    set: u32,
    media: Media,
    first: &[u8],
) -> impl Iterator<Item = &'static BuiltInDictionary> {
    ALL.iter().filter(move |dictionary| {
        dictionary.set <= set && dictionary.media == media && dictionary.fit.suits(first)
    })
}
