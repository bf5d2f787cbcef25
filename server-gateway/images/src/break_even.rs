//! The end of the wait for a smaller image.
//!
//! How long a transcoding takes is an estimate, and on a link whose rate is unknown nobody knows what it saves. While the
//! hop carries other data, to wait costs nothing. On an idle hop, a wait as long as the time that the smaller image saves
//! has lost as much as it can win: then the original is sent. The transfer takes at most as much longer as it would have
//! been shortened (the rule of the rent-or-buy problem).
use std::{future::Future, time::Duration};

use longhaul_types::ByteCount;
use tokio::{task::JoinSet, time::sleep};

use super::{FAST, ImageRecipient, transcode_policy::saving};

/// Time between two looks at the hop, whose queue and known rate change.
const STEP: Duration = Duration::from_millis(5);
/// The same on a link that is not fast, where only a measurement that turns out to be wrong changes anything.
const SLOW_STEP: Duration = Duration::from_millis(100);

/// Completes when the hop, free of the images that were decided before (`reserved`) and of other data, has been idle for
/// as long as the smaller form of an image of `length` bytes saves. Does not complete while the rate is unknown or below
/// [`FAST`]: on slower links the bytes count, and the load of the moment decides nothing.
pub(super) async fn reached(recipient: &impl ImageRecipient, length: ByteCount, reserved: Duration) {
    sleep(reserved).await;
    let mut idle = Duration::ZERO;
    loop {
        let rate = recipient.link_rate().filter(|rate| rate.as_bps() > 0);
        let queued = recipient.queued();
        let step = match rate {
            Some(rate) if rate < FAST => SLOW_STEP,
            Some(rate) if queued.is_zero() && idle >= saving(length, rate).1 => return,
            Some(_) | None => STEP,
        };
        if queued.is_zero() {
            idle += step;
        }
        sleep(step.max(queued)).await;
    }
}

/// Returns the result of `making`; `None` if the limit is reached before. Then `making` goes on in the background. If
/// this future is dropped, it ends.
pub(super) async fn within<T: Send + 'static>(
    limit: impl Future<Output = ()>,
    making: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut task = JoinSet::new();
    task.spawn(making);
    tokio::select! {
        biased;
        made = task.join_next() => made?.ok(),
        () = limit => {
            task.detach_all();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longhaul_types::{BitRate, ContentHash, PublicKey, SecretKey};
    use parking_lot::Mutex;
    use tokio::{
        sync::oneshot,
        time::{Instant, sleep_until},
    };

    use super::*;
    use crate::HopReservations;

    /// A hop whose rate becomes known and whose queue empties at these times.
    struct Hop {
        start: Instant,
        rate: BitRate,
        known: Duration,
        busy: Duration,
        reservations: HopReservations,
    }

    impl Hop {
        fn new(rate: BitRate, known: u64, busy: u64) -> Self {
            Self {
                start: Instant::now(),
                rate,
                known: Duration::from_millis(known),
                busy: Duration::from_millis(busy),
                reservations: HopReservations::default(),
            }
        }

        async fn break_even(&self, length: u64, reserved: u64) -> u128 {
            reached(self, ByteCount::new(length), Duration::from_millis(reserved)).await;
            self.start.elapsed().as_millis()
        }
    }

    impl ImageRecipient for Hop {
        fn device(&self) -> PublicKey {
            SecretKey::from_bytes([1; 32]).public()
        }

        fn link_rate(&self) -> Option<BitRate> {
            (self.start.elapsed() >= self.known).then_some(self.rate)
        }

        fn queued(&self) -> Duration {
            let is_known = self.start.elapsed() >= self.known;
            if is_known {
                self.busy.saturating_sub(self.start.elapsed())
            } else {
                Duration::ZERO
            }
        }

        fn promised(&self) -> &HopReservations {
            &self.reservations
        }

        fn holds(&self, _: &ContentHash) -> bool {
            false
        }
    }

    const LTE: BitRate = BitRate::kbps(12_000);

    #[tokio::test(start_paused = true)]
    async fn the_wait_on_an_idle_hop_is_as_long_as_the_time_that_it_saves() {
        // Half of 84 kB takes 28 ms at this rate.
        assert_eq!(Hop::new(LTE, 0, 0).break_even(84_000, 0).await, 30);
        let limit = Hop::new(BitRate::kbps(4_000), 0, 0);
        assert_eq!(limit.break_even(84_000, 0).await, 85);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_is_free_while_the_hop_is_busy_or_promised() {
        assert_eq!(Hop::new(LTE, 0, 200).break_even(84_000, 0).await, 230);
        assert_eq!(Hop::new(LTE, 0, 0).break_even(84_000, 100).await, 130);
        assert_eq!(Hop::new(LTE, 0, 60).break_even(84_000, 100).await, 130);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_that_becomes_known_decides_at_once() {
        assert_eq!(Hop::new(LTE, 130, 0).break_even(84_000, 0).await, 130);
        // On a slow link it decides to wait.
        let slow = Hop::new(BitRate::kbps(384), 130, 0);
        let waits = tokio::time::timeout(Duration::from_secs(60), slow.break_even(84_000, 0));
        assert!(waits.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_result_is_finished_without_its_request() {
        let finished = Arc::new(Mutex::new(0));
        let made = |after: u64, finished: &Arc<Mutex<u32>>| {
            let (at, finished) = (
                Instant::now() + Duration::from_millis(after),
                Arc::clone(finished),
            );
            let (done, wait) = oneshot::channel();
            let making = async move {
                sleep_until(at).await;
                *finished.lock() += 1;
                let _gone = done.send(());
                7
            };
            (making, wait)
        };
        let limit = || sleep(Duration::from_millis(30));
        let (making, _) = made(20, &finished);
        assert_eq!(within(limit(), making).await, Some(7));
        let (making, late) = made(50, &finished);
        assert_eq!(within(limit(), making).await, None);
        late.await.unwrap();
        assert_eq!(*finished.lock(), 2);
        // A request that is cancelled cancels its image.
        let (making, never) = made(20, &finished);
        drop(tokio::time::timeout(Duration::from_millis(10), within(limit(), making)).await);
        assert!(never.await.is_err());
    }
}
