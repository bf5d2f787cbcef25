//! Whether a smaller picture is sooner across the hop than the picture as it is.
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use longhaul_transcode::inspect;
use longhaul_types::{BitRate, ByteCount};

/// What a megapixel takes on one core at [`longhaul_transcode::Effort::Quick`] (docs/benchmarks/coding.md).
const MEGAPIXEL: Duration = Duration::from_millis(200);
/// What each picture takes besides: looking it up, a thread, keeping the result.
const EACH: Duration = Duration::from_millis(1);
/// What a level leaves of a picture's bytes, at most in the mean (docs/benchmarks/coding.md): in percent.
const LEFT: u64 = 50;

/// Until when a session's hop is busy with pictures that have been decided on.
#[derive(Debug, Default)]
pub(crate) struct Promised(Mutex<Option<Instant>>);

impl Promised {
    /// For how long from now on.
    pub(crate) fn ahead(&self, now: Instant) -> Duration {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    fn add(&self, bytes: ByteCount, rate: BitRate, now: Instant) {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = until.map_or(now, |until| until.max(now));
        *until = Some(begins + bytes / rate);
    }
}

/// Computing for pictures that has been decided on and has not ended.
#[derive(Debug, Default)]
pub(super) struct Pending(AtomicU64);

/// One picture's part of it, until this is dropped.
#[derive(Debug)]
pub(super) struct Share<'a>(&'a Pending, u64);

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Relaxed);
    }
}

impl Pending {
    pub(super) fn add(&self, work: Duration) -> Share<'_> {
        let nanos = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX >> 16);
        self.0.fetch_add(nanos, Relaxed);
        Share(self, nanos)
    }

    /// How long a picture waits for a core.
    pub(super) fn wait(&self, cores: usize) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed) / u64::try_from(cores.max(1)).unwrap_or(1))
    }
}

/// What a picture takes on one core. What is no picture is noticed at once.
pub(super) fn work(picture: &[u8]) -> Duration {
    let pixels = inspect(picture).map_or(0, |header| {
        let frames = header.animation.map_or(1, |animation| animation.frames);
        u64::from(header.width) * u64::from(header.height) * u64::from(frames.max(1))
    });
    EACH + Duration::from_nanos(pixels.saturating_mul(nanos_a_pixel()))
}

const fn nanos_a_pixel() -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "a constant of milliseconds")]
    let nanos = MEGAPIXEL.as_nanos() as u64;
    nanos / 1_000_000
}

/// Decides for a picture of so many bytes, and notes what will cross the hop for it. `ready` is when a smaller one would
/// be made, `queued` what the transport has to send besides. While the hop is busy with others, making it costs nothing;
/// from then on it must be made in less time than it saves.
pub(super) fn is_sooner(
    promised: &Promised,
    (length, rate): (ByteCount, BitRate),
    queued: Duration,
    ready: Duration,
    now: Instant,
) -> bool {
    let smaller = ByteCount::new(length.bytes() * LEFT / 100);
    let saved = (length / rate).saturating_sub(smaller / rate);
    let sooner = ready < promised.ahead(now).max(queued) + saved;
    promised.add(if sooner { smaller } else { length }, rate, now);
    sooner
}

#[cfg(test)]
mod tests {
    use super::*;

    const LTE: BitRate = BitRate::kbps(12_000);

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_picture_becomes_smaller_if_that_takes_less_time_than_it_saves() {
        let (promised, now) = (Promised::default(), Instant::now());
        // 15 kB take 10 ms, half of them 5 ms.
        let picture = (ByteCount::new(15_000), LTE);
        assert!(!is_sooner(
            &promised,
            picture,
            Duration::ZERO,
            milliseconds(6),
            now
        ));
        let promised = Promised::default();
        assert!(is_sooner(
            &promised,
            picture,
            Duration::ZERO,
            milliseconds(4),
            now
        ));
    }

    #[test]
    fn computing_costs_nothing_while_the_hop_is_busy() {
        let (promised, now) = (Promised::default(), Instant::now());
        let picture = (ByteCount::new(15_000), LTE);
        let slow = milliseconds(20);
        let decided: Vec<bool> = (0..4)
            .map(|_| is_sooner(&promised, picture, Duration::ZERO, slow, now))
            .collect();
        // Two pictures as they are keep the hop busy for 20 ms; the next are made meanwhile.
        assert_eq!(decided, [false, false, true, true]);
        assert_eq!(promised.ahead(now), milliseconds(30));
        assert_eq!(promised.ahead(now + milliseconds(31)), Duration::ZERO);
        let idle = Promised::default();
        assert!(is_sooner(&idle, picture, milliseconds(16), slow, now));
    }

    #[test]
    fn pictures_wait_for_cores() {
        let pending = Pending::default();
        let first = pending.add(milliseconds(10));
        let second = pending.add(milliseconds(30));
        assert_eq!(pending.wait(2), milliseconds(20));
        drop(first);
        assert_eq!(pending.wait(2), milliseconds(15));
        drop(second);
        assert_eq!(pending.wait(2), Duration::ZERO);
    }
}
