//! Background recoding: encodes popular bodies at the highest effort while the processor is idle.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use longhaul_codec::{BodyEncoder, CodedBody, Coder, MAX_WINDOW};
use longhaul_types::{ByteCount, ContentHash};
use longhaul_webcache::IdlePeriod;
use tracing::debug;

use super::{EncodedCache, SMALLEST};

/// The highest effort, with the largest coder window that the protocol allows.
pub(super) const BEST: Coder = Coder::Brotli { quality: 11 };
/// Idle time after which recoding starts: the remaining requests of a page arrive sooner.
const IDLE: Duration = Duration::from_secs(3);
/// Maximum length of a body that is recoded.
const MAX_BODY: ByteCount = ByteCount::mib(4);
/// Maximum time of an attempt; a megabyte takes two seconds.
const MAX_TIME: Duration = Duration::from_secs(30);
/// Placeholder window key: results are stored without window checks.
const KEY: [u8; 32] = [0; 32];

/// Result of an attempt.
enum Recoded {
    Done(Box<CodedBody>, Duration),
    /// Aborted, because work arrived or the time limit was reached.
    GivenUp,
    /// The body cannot be encoded.
    Failed,
}

impl EncodedCache {
    /// Recodes popular bodies one at a time until this future is dropped.
    pub async fn recode(&self) {
        loop {
            let Some(chk) = self.popular().next() else {
                self.waiting.notified().await;
                continue;
            };
            let idle = self.cpu_pool.idle_for(IDLE).await;
            self.recode_one(chk, idle).await;
        }
    }

    pub(super) async fn recode_one(&self, chk: ContentHash, idle: IdlePeriod) {
        let Some(cache) = &self.cache else {
            return self.popular().settled(&chk);
        };
        let body = cache.whole(chk, MAX_BODY).await;
        let Some(body) = body.filter(|body| body.len() as u64 >= SMALLEST) else {
            return self.popular().settled(&chk);
        };
        let cpu_pool = Arc::clone(&self.cpu_pool);
        let work = move || code(&body, chk, || cpu_pool.is_still_idle(idle));
        match tokio::task::spawn_blocking(work).await.unwrap_or(Recoded::Failed) {
            Recoded::Done(body, took) => {
                self.store(cache, chk, *body, BEST, took).await;
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

/// Encodes a body at the highest effort while `may_go_on` returns true. The check runs between windows, each
/// of which takes about 50 ms.
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
    fn recoding_can_be_aborted_between_windows() {
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
