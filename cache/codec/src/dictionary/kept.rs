//! Recently decompressed dictionaries.
use parking_lot::Mutex;

use bytes::Bytes;
use longhaul_types::ContentHash;

/// Maximum bytes of decompressed dictionaries in memory: the dictionaries of a typical page.
const MAX_KEPT: usize = 1024 * 1024;

/// Least recently used first.
static KEPT: Mutex<Vec<(ContentHash, Bytes)>> = Mutex::new(Vec::new());

/// Returns the decompressed dictionary `hash`; decompresses it with `unpack` if it is not in memory.
pub(super) fn kept(hash: ContentHash, unpack: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
    if let Some(contents) = with(|kept| take(kept, hash)) {
        return Some(contents);
    }
    // Another thread may do the same concurrently; this is harmless.
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

/// Finds a dictionary and makes it the most recently used one.
fn take(kept: &mut Vec<(ContentHash, Bytes)>, hash: ContentHash) -> Option<Bytes> {
    let place = kept.iter().position(|(held, _)| *held == hash)?;
    let found = kept.remove(place);
    let contents = found.1.clone();
    kept.push(found);
    Some(contents)
}

fn with<R>(work: impl FnOnce(&mut Vec<(ContentHash, Bytes)>) -> R) -> R {
    work(&mut KEPT.lock())
}

#[cfg(test)]
pub(super) fn bytes_kept() -> usize {
    with(|kept| kept.iter().map(|(_, contents)| contents.len()).sum())
}
