//! Popular bodies are coded as hard as it can be while there is nothing else to do.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use longhaul_codec::{BodyEncoder, CodedBody, Coder, MAX_WINDOW};
use longhaul_types::{ByteCount, ContentHash};
use tracing::debug;

use super::{Coded, SMALLEST};
use crate::computing::Quiet;

/// The best that there is, with a window as large as the protocol allows.
pub(super) const BEST: Coder = Coder::Brotli { quality: 11 };
/// After so long without anything to do the gateway is idle: what a page still asks for comes sooner.
const QUIET: Duration = Duration::from_secs(3);
/// Longer bodies are not recoded.
const MAX_BODY: ByteCount = ByteCount::mib(4);
/// Nor those that take longer; a megabyte takes two seconds.
const MAX_TIME: Duration = Duration::from_secs(30);
/// Nobody gets windows of this key: they are kept without their hashes.
const KEY: [u8; 32] = [0; 32];

/// What came of it.
enum Recoded {
    Done(Box<CodedBody>, Duration),
    /// Work arrived, or it took too long.
    GivenUp,
    /// It cannot be coded.
    Failed,
}

impl Coded {
    /// Recodes what is popular, one body at a time, for as long as it is polled.
    pub(crate) async fn recode(&self) {
        loop {
            let Some(chk) = self.popular().next() else {
                self.waiting.notified().await;
                continue;
            };
            let quiet = self.computing.quiet(QUIET).await;
            self.recode_one(chk, quiet).await;
        }
    }

    pub(super) async fn recode_one(&self, chk: ContentHash, quiet: Quiet) {
        let Some(cache) = &self.cache else {
            return self.popular().settled(&chk);
        };
        let body = cache.whole(chk, MAX_BODY).await;
        let Some(body) = body.filter(|body| body.len() as u64 >= SMALLEST) else {
            return self.popular().settled(&chk);
        };
        let computing = Arc::clone(&self.computing);
        let work = move || code(&body, chk, || computing.is_still(quiet));
        match tokio::task::spawn_blocking(work).await.unwrap_or(Recoded::Failed) {
            Recoded::Done(body, took) => {
                self.put(cache, chk, *body, BEST, took).await;
                self.counters.recoded();
                self.popular().settled(&chk);
            }
            Recoded::GivenUp => {
                self.counters.given_up();
                self.popular().tried(&chk);
            }
            Recoded::Failed => {
                debug!("a popular body cannot be recoded");
                self.popular().settled(&chk);
            }
        }
    }
}

/// Codes a body as hard as it can be, as long as `may_go_on`: asked between windows, of which one takes a twentieth of a
/// second.
fn code(body: &Bytes, chk: ContentHash, may_go_on: impl Fn() -> bool) -> Recoded {
    let begun = Instant::now();
    let length = Some(ByteCount::new(body.len() as u64));
    let Ok(mut encoder) = BodyEncoder::new(KEY, BEST, length) else {
        return Recoded::Failed;
    };
    let mut wire = Vec::new();
    for window in body.chunks(MAX_WINDOW) {
        if !may_go_on() || begun.elapsed() >= MAX_TIME {
            return Recoded::GivenUp;
        }
        if encoder.push(window, &mut wire).is_err() {
            return Recoded::Failed;
        }
    }
    if encoder.finish(&mut wire).is_err() {
        return Recoded::Failed;
    }
    match CodedBody::of_windows(KEY, BEST.coding(), &wire) {
        Some((coded, hash)) if hash == chk => Recoded::Done(Box::new(coded), begun.elapsed()),
        Some(_) | None => Recoded::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn it_is_given_up_between_windows() {
        let body = Bytes::from(b"some words of a page ".repeat(10_000));
        let chk = ContentHash::of(&body);
        let asked = Cell::new(0);
        let twice = || {
            asked.set(asked.get() + 1);
            asked.get() <= 2
        };
        assert!(matches!(code(&body, chk, twice), Recoded::GivenUp));
        assert_eq!(asked.get(), 3);
        let Recoded::Done(coded, _) = code(&body, chk, || true) else {
            panic!("it is coded")
        };
        assert_eq!(coded.length(), body.len() as u64);
        assert!(matches!(
            code(&body, ContentHash::of(b""), || true),
            Recoded::Failed
        ));
    }
}
