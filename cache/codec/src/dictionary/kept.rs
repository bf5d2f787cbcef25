//! Dictionaries that were unpacked lately.
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use longhaul_types::ContentHash;

/// Bytes that stay unpacked: the dictionaries of a page of the common kind.
const MAX_KEPT: usize = 1024 * 1024;

/// The latest last.
static KEPT: Mutex<Vec<(ContentHash, Bytes)>> = Mutex::new(Vec::new());

/// What is unpacked already, or else what `unpack` makes.
pub(super) fn kept(hash: ContentHash, unpack: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
    if let Some(contents) = with(|kept| take(kept, hash)) {
        return Some(contents);
    }
    // Another thread may do the same meanwhile; that does no harm.
    let contents = unpack()?;
    with(|kept| {
        kept.retain(|(held, _)| *held != hash);
        kept.push((hash, contents.clone()));
        let mut total: usize = kept.iter().map(|(_, contents)| contents.len()).sum();
        while total > MAX_KEPT && kept.len() > 1 {
            total -= kept.remove(0).1.len();
        }
    });
    Some(contents)
}

/// Finds one, and makes it the latest.
fn take(kept: &mut Vec<(ContentHash, Bytes)>, hash: ContentHash) -> Option<Bytes> {
    let place = kept.iter().position(|(held, _)| *held == hash)?;
    let found = kept.remove(place);
    let contents = found.1.clone();
    kept.push(found);
    Some(contents)
}

fn with<R>(work: impl FnOnce(&mut Vec<(ContentHash, Bytes)>) -> R) -> R {
    // Whole between any two statements.
    work(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
pub(super) fn bytes_kept() -> usize {
    with(|kept| kept.iter().map(|(_, contents)| contents.len()).sum())
}
