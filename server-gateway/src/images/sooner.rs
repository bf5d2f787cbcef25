//! Whether a smaller picture is sooner across the hop than the picture as it is.
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use longhaul_transcode::Header;
use longhaul_types::{BitRate, ByteCount, PublicKey};

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

/// Computing for pictures that has been decided on and has not ended, by device; those without any are not in it.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<BTreeMap<PublicKey, Duration>>);

/// One picture's part of it, until this is dropped.
#[derive(Debug)]
pub(super) struct Share<'a> {
    pending: &'a Pending,
    device: PublicKey,
    work: Duration,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut devices = self.pending.lock();
        if let Some(work) = devices.get_mut(&self.device) {
            *work = work.saturating_sub(self.work);
            if work.is_zero() {
                devices.remove(&self.device);
            }
        }
    }
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, device: PublicKey, work: Duration) -> Share<'_> {
        let mut devices = self.lock();
        let sum = devices.entry(device).or_default();
        *sum = sum.saturating_add(work);
        drop(devices);
        Share {
            pending: self,
            device,
            work,
        }
    }

    /// How long a picture of this device waits for a core. Devices take turns: each other one has as much made meanwhile
    /// as this one at most.
    pub(super) fn wait(&self, device: &PublicKey, cores: usize) -> Duration {
        let devices = self.lock();
        let own = devices.get(device).copied().unwrap_or_default();
        let before: Duration = devices.values().map(|work| (*work).min(own)).sum();
        before / u32::try_from(cores.max(1)).unwrap_or(u32::MAX)
    }
}

/// What a picture takes on one core.
pub(super) fn work(header: &Header) -> Duration {
    let frames = header.animation.map_or(1, |animation| animation.frames);
    let pixels = u64::from(header.width) * u64::from(header.height) * u64::from(frames.max(1));
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
    use longhaul_types::SecretKey;

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
        let device = SecretKey::from_bytes([1; 32]).public();
        let pending = Pending::default();
        let first = pending.add(device, milliseconds(10));
        let second = pending.add(device, milliseconds(30));
        assert_eq!(pending.wait(&device, 2), milliseconds(20));
        drop(first);
        assert_eq!(pending.wait(&device, 2), milliseconds(15));
        drop(second);
        assert_eq!(pending.wait(&device, 2), Duration::ZERO);
        assert!(pending.lock().is_empty());
    }

    #[test]
    fn another_device_does_not_wait_for_all_that_one_wants() {
        let [greedy, other] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let pending = Pending::default();
        let _much = pending.add(greedy, milliseconds(60_000));
        assert_eq!(pending.wait(&other, 2), Duration::ZERO);
        let _little = pending.add(other, milliseconds(10));
        assert_eq!(pending.wait(&other, 2), milliseconds(10));
        assert_eq!(pending.wait(&greedy, 2), milliseconds(30_005));
    }
}
