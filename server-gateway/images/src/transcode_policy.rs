//! Decision whether transcoding makes an image arrive earlier than the original would.
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_transcode::Header;
use longhaul_types::{BitRate, ByteCount, PublicKey};

/// Time for a megapixel on one core at [`longhaul_transcode::TranscodeEffort::Quick`] (docs/benchmarks/coding.md).
const MEGAPIXEL: Duration = Duration::from_millis(200);
/// Fixed time per image: lookup, thread, storing the result.
const EACH: Duration = Duration::from_millis(1);
/// Size of a transcoded image in percent of the original: the largest mean of all levels
/// (docs/benchmarks/coding.md).
const LEFT: u64 = 50;

/// Time until which a session's hop is reserved for images already decided.
#[derive(Debug, Default)]
pub struct HopReservations(Mutex<Option<Instant>>);

impl HopReservations {
    /// Remaining reserved time.
    pub fn ahead(&self, now: Instant) -> Duration {
        let until = *self.0.lock();
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    fn add(&self, bytes: ByteCount, rate: BitRate, now: Instant) {
        let mut until = self.0.lock();
        let begins = until.map_or(now, |until| until.max(now));
        *until = Some(begins + bytes / rate);
    }
}

/// Estimated work of transcodings that were decided and have not ended, by device; devices without work have
/// no entry.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<BTreeMap<PublicKey, Duration>>);

/// Work of one image, subtracted on drop.
#[derive(Debug)]
pub(super) struct Share {
    pending: Arc<Pending>,
    device: PublicKey,
    work: Duration,
}

impl Drop for Share {
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
        self.0.lock()
    }

    pub(super) fn add(pending: &Arc<Self>, device: PublicKey, work: Duration) -> Share {
        let mut devices = pending.lock();
        let sum = devices.entry(device).or_default();
        *sum = sum.saturating_add(work);
        drop(devices);
        Share {
            pending: Arc::clone(pending),
            device,
            work,
        }
    }

    /// Estimated wait of an image of this device for a core. Devices take turns, so each other device gets at
    /// most as much work done meanwhile as this device.
    pub(super) fn wait(&self, device: &PublicKey, cores: usize) -> Duration {
        let devices = self.lock();
        let own = devices.get(device).copied().unwrap_or_default();
        let before: Duration = devices.values().map(|work| (*work).min(own)).sum();
        before / u32::try_from(cores.max(1)).unwrap_or(u32::MAX)
    }
}

/// Estimated work of an image on one core.
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

/// Decides for an image of `length` bytes and reserves the hop for the chosen form. `ready` is the time until
/// the transcoded image would be available, `queued` the time that the transport needs for data already
/// queued. Transcoding costs nothing while the hop is busy with other data; beyond that it must take less
/// time than it saves.
pub(super) fn arrives_earlier(
    reservations: &HopReservations,
    (length, rate): (ByteCount, BitRate),
    queued: Duration,
    ready: Duration,
    now: Instant,
) -> bool {
    let (smaller, saved) = saving(length, rate);
    let is_earlier = ready < reservations.ahead(now).max(queued) + saved;
    reservations.add(if is_earlier { smaller } else { length }, rate, now);
    is_earlier
}

/// Expected length of the smaller form of an image of `length` bytes, and the time that it saves on the hop.
pub(super) fn saving(length: ByteCount, rate: BitRate) -> (ByteCount, Duration) {
    let smaller = ByteCount::new(length.bytes() * LEFT / 100);
    (smaller, (length / rate).saturating_sub(smaller / rate))
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
    fn an_image_is_transcoded_if_that_saves_time() {
        let (promised, now) = (HopReservations::default(), Instant::now());
        // At this rate 15 kB take 10 ms, half of them 5 ms.
        let picture = (ByteCount::new(15_000), LTE);
        assert!(!arrives_earlier(
            &promised,
            picture,
            Duration::ZERO,
            milliseconds(6),
            now
        ));
        let promised = HopReservations::default();
        assert!(arrives_earlier(
            &promised,
            picture,
            Duration::ZERO,
            milliseconds(4),
            now
        ));
    }

    #[test]
    fn transcoding_is_free_while_the_hop_is_busy() {
        let (promised, now) = (HopReservations::default(), Instant::now());
        let picture = (ByteCount::new(15_000), LTE);
        let slow = milliseconds(20);
        let decided: Vec<bool> = (0..4)
            .map(|_| arrives_earlier(&promised, picture, Duration::ZERO, slow, now))
            .collect();
        // Two originals keep the hop busy for 20 ms, in which the next images are transcoded.
        assert_eq!(decided, [false, false, true, true]);
        assert_eq!(promised.ahead(now), milliseconds(30));
        assert_eq!(promised.ahead(now + milliseconds(31)), Duration::ZERO);
        let idle = HopReservations::default();
        assert!(arrives_earlier(&idle, picture, milliseconds(16), slow, now));
    }

    #[test]
    fn transcoding_waits_for_cores() {
        let device = SecretKey::from_bytes([1; 32]).public();
        let pending = Arc::<Pending>::default();
        let first = Pending::add(&pending, device, milliseconds(10));
        let second = Pending::add(&pending, device, milliseconds(30));
        assert_eq!(pending.wait(&device, 2), milliseconds(20));
        drop(first);
        assert_eq!(pending.wait(&device, 2), milliseconds(15));
        drop(second);
        assert_eq!(pending.wait(&device, 2), Duration::ZERO);
        assert!(pending.lock().is_empty());
    }

    #[test]
    fn a_device_does_not_wait_for_all_jobs_of_another() {
        let [greedy, other] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let pending = Arc::<Pending>::default();
        let _much = Pending::add(&pending, greedy, milliseconds(60_000));
        assert_eq!(pending.wait(&other, 2), Duration::ZERO);
        let _little = Pending::add(&pending, other, milliseconds(10));
        assert_eq!(pending.wait(&other, 2), milliseconds(10));
        assert_eq!(pending.wait(&greedy, 2), milliseconds(30_005));
    }
}
