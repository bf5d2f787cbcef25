//! Key phases: key updates during a session (transport.md section 2.3; the method of RFC 9001 section 6).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::aead::{OpenError, PacketKey};
use crate::wire::KeyPhase;

/// Time for which packets under the previous key are accepted: three times the longest stall (40 s) after
/// which a link is expected to deliver held packets.
pub const OLD_KEY_KEPT: Duration = Duration::from_secs(120);

/// Limits of a phase after which a side that may update the keys does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RekeyLimits {
    /// Packet numbers used in the phase.
    pub packets: u64,
    /// Time since the start of the phase.
    pub time: Duration,
}

impl RekeyLimits {
    /// A million packets or five minutes, so that a stolen key decrypts only a part of a session. A key
    /// update costs no bytes and a few hundred nanoseconds.
    pub const RECOMMENDED: Self = Self {
        packets: 1 << 20,
        time: Duration::from_secs(300),
    };
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Old {
    key: PacketKey,
    until: Timestamp,
}

/// Full keys of both directions at one side.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct KeyPhases {
    send: PacketKey,
    receive: PacketKey,
    old: Option<Old>,
    /// Numbers of the sending and the receiving phase; they differ by at most one.
    sending: u32,
    receiving: u32,
    /// First packet number of the sending phase.
    sent_from: u64,
    /// Smallest packet number received in the receiving phase; packets of the other phase bit below it belong
    /// to the previous phase.
    received_from: u64,
    /// Start of the sending phase.
    since: Timestamp,
}

impl KeyPhases {
    /// Starts with the keys of the handshake at `now`.
    pub const fn new(send: PacketKey, receive: PacketKey, now: Timestamp) -> Self {
        Self {
            send,
            receive,
            old: None,
            sending: 0,
            receiving: 0,
            sent_from: 0,
            received_from: 0,
            since: now,
        }
    }

    /// Number of updates of the sealing key.
    pub const fn replaced(&self) -> u32 {
        self.sending
    }

    /// Returns the key that seals packet `number`, and its phase. `acknowledged` is the largest packet number
    /// that the peer reported as received: the keys are updated only if the peer has shown that it holds the
    /// current keys.
    pub fn sealing(
        &mut self,
        now: Timestamp,
        number: u64,
        acknowledged: Option<u64>,
        limits: RekeyLimits,
    ) -> (&PacketKey, KeyPhase) {
        let is_due = number.saturating_sub(self.sent_from) >= limits.packets
            || now.saturating_since(self.since) >= limits.time;
        let is_allowed = self.sending == self.receiving
            && acknowledged.is_some_and(|acknowledged| acknowledged >= self.sent_from);
        // Follows a key update of the peer at once.
        if self.sending < self.receiving || is_due && is_allowed {
            self.send = self.send.next();
            self.sending += 1;
            self.sent_from = number;
            self.since = now;
        }
        (&self.send, KeyPhase::of(self.sending))
    }

    /// Decrypts a packet with the key of its phase, like [`PacketKey::open`].
    ///
    /// # Errors
    /// The packet does not authenticate, or its key was erased. The keys are then unchanged.
    pub fn open<'a>(
        &mut self,
        now: Timestamp,
        number: u64,
        phase: KeyPhase,
        datagram: &'a mut [u8],
        payload_start: usize,
    ) -> Result<&'a mut [u8], OpenError> {
        self.forget(now);
        if phase == KeyPhase::of(self.receiving) {
            let plain = self.receive.open(number, datagram, payload_start)?;
            self.received_from = self.received_from.min(number);
            return Ok(plain);
        }
        if number < self.received_from {
            let old = self.old.as_ref().ok_or(OpenError)?;
            return old.key.open(number, datagram, payload_start);
        }
        // A peer that has received nothing from this side in the current phase must not enter the next one.
        if self.receiving > self.sending {
            return Err(OpenError);
        }
        let next = self.receive.next();
        let plain = next.open(number, datagram, payload_start)?;
        self.old = Some(Old {
            key: std::mem::replace(&mut self.receive, next),
            until: now + OLD_KEY_KEPT,
        });
        self.receiving += 1;
        self.received_from = number;
        Ok(plain)
    }

    /// Erases the previous key when its time has passed.
    pub fn forget(&mut self, now: Timestamp) {
        if self.old.as_ref().is_some_and(|old| old.until <= now) {
            self.old = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: RekeyLimits = RekeyLimits {
        packets: 4,
        time: Duration::from_secs(300),
    };

    /// A sealed packet in flight.
    #[derive(Clone, Debug)]
    struct Sealed {
        number: u64,
        generation: u32,
        phase: KeyPhase,
        /// Largest number that its sender had received.
        acknowledges: Option<u64>,
        bytes: Vec<u8>,
    }

    /// One side and its state.
    struct Side {
        keys: KeyPhases,
        next: u64,
        largest: Option<u64>,
        acknowledged: Option<u64>,
        received: std::collections::BTreeSet<u64>,
    }

    impl Side {
        fn pair() -> [Self; 2] {
            let key = |byte| PacketKey::new(&[byte; 32]);
            [(1, 2), (2, 1)].map(|(send, receive)| Self {
                keys: KeyPhases::new(key(send), key(receive), Timestamp::ZERO),
                next: 0,
                largest: None,
                acknowledged: None,
                received: std::collections::BTreeSet::new(),
            })
        }

        fn seal(&mut self, now: Timestamp) -> Sealed {
            let number = self.next;
            self.next += 1;
            let (key, phase) = self.keys.sealing(now, number, self.acknowledged, LIMITS);
            let mut bytes = vec![0x80, 1, 2];
            key.seal(number, &mut bytes, 0, 1);
            Sealed {
                number,
                generation: self.keys.sending,
                phase,
                acknowledges: self.largest,
                bytes,
            }
        }

        fn open(&mut self, now: Timestamp, packet: &Sealed) -> Result<(), OpenError> {
            let mut bytes = packet.bytes.clone();
            let plain = self.keys.open(now, packet.number, packet.phase, &mut bytes, 1)?;
            assert_eq!(plain, [1, 2]);
            self.received.insert(packet.number);
            self.largest = self.largest.max(Some(packet.number));
            self.acknowledged = self.acknowledged.max(packet.acknowledges);
            Ok(())
        }
    }

    fn seconds(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn key_updates_follow_packet_count_and_time_after_confirmation_by_the_peer() {
        let [mut a, mut b] = Side::pair();
        for _ in 0..9 {
            a.seal(seconds(0));
        }
        assert_eq!(a.keys.sending, 0, "nobody has acknowledged anything");
        let packet = a.seal(seconds(0));
        b.open(seconds(0), &packet).unwrap();
        a.open(seconds(0), &b.seal(seconds(0))).unwrap();
        let packet = a.seal(seconds(0));
        assert_eq!((packet.generation, packet.phase), (1, KeyPhase::Odd));
        for _ in 0..9 {
            assert_eq!(a.seal(seconds(400)).generation, 1, "the peer has not followed");
        }
        b.open(seconds(1), &packet).unwrap();
        let followed = b.seal(seconds(1));
        assert_eq!(followed.generation, 1);
        a.open(seconds(1), &followed).unwrap();
        assert_eq!(a.seal(seconds(1)).generation, 2, "more than four packets since");
        // The other side's time limit has passed, but its packets of this phase are not acknowledged.
        assert_eq!(b.seal(seconds(500)).generation, 1);
    }

    #[test]
    fn old_keys_are_kept_for_two_minutes() {
        let [mut a, mut b] = Side::pair();
        let late = a.seal(seconds(0));
        let later = a.seal(seconds(0));
        let packet = a.seal(seconds(0));
        b.open(seconds(0), &packet).unwrap();
        a.open(seconds(0), &b.seal(seconds(0))).unwrap();
        for _ in 0..2 {
            a.seal(seconds(0));
        }
        let fresh = a.seal(seconds(0));
        assert_eq!(fresh.generation, 1);
        b.open(seconds(10), &fresh).unwrap();
        b.open(seconds(129), &late).unwrap();
        assert_eq!(b.open(seconds(130), &later), Err(OpenError));
    }

    #[test]
    fn a_forged_phase_changes_nothing() {
        let [mut a, mut b] = Side::pair();
        let mut packet = a.seal(seconds(0));
        packet.phase = KeyPhase::Odd;
        assert_eq!(b.open(seconds(0), &packet), Err(OpenError));
        packet.phase = KeyPhase::Even;
        b.open(seconds(0), &packet).unwrap();
        assert_eq!((b.keys.receiving, b.seal(seconds(0)).generation), (0, 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(usize),
        /// Delivers any one of the packets in flight to this side.
        Arrive(usize, prop::sample::Index),
        Lose(usize, prop::sample::Index),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0_usize..2).prop_map(Step::Send),
            8 => (0_usize..2, any::<prop::sample::Index>()).prop_map(|(side, which)| Step::Arrive(side, which)),
            1 => (0_usize..2, any::<prop::sample::Index>()).prop_map(|(side, which)| Step::Lose(side, which)),
            1 => (0_u64..150).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// With any loss, delay and reordering: a packet opens if it belongs to the current phase, the next
        /// phase, or the previous phase within two minutes of its end. The sides are never more than one
        /// phase apart.
        #[test]
        fn both_sides_keep_the_same_key_phase(steps in prop::collection::vec(step(), 1..300)) {
            let mut sides = Side::pair();
            let mut ways: [Vec<Sealed>; 2] = [Vec::new(), Vec::new()];
            let mut now = Timestamp::ZERO;
            // Time at which each side began to receive in its current phase.
            let mut began = [Timestamp::ZERO; 2];
            for step in steps {
                match step {
                    Step::Send(side) => ways[1 - side].push(sides[side].seal(now)),
                    Step::Wait(time) => now += Duration::from_secs(time),
                    Step::Lose(side, which) => {
                        if !ways[side].is_empty() {
                            let at = which.index(ways[side].len());
                            ways[side].remove(at);
                        }
                    }
                    Step::Arrive(side, which) => {
                        if ways[side].is_empty() {
                            continue;
                        }
                        let at = which.index(ways[side].len());
                        let packet = ways[side].remove(at);
                        let before = sides[side].keys.receiving;
                        let opened = sides[side].open(now, &packet).is_ok();
                        let expected = match packet.generation {
                            generation if generation == before || generation == before + 1 => true,
                            generation if generation + 1 == before => now < began[side] + OLD_KEY_KEPT,
                            _ => false,
                        };
                        prop_assert_eq!(opened, expected, "{:?} at {:?}, phase {}", packet, now, before);
                        if sides[side].keys.receiving > before {
                            began[side] = now;
                        }
                    }
                }
                for side in &sides {
                    prop_assert!(side.keys.sending.abs_diff(side.keys.receiving) <= 1);
                }
                let [a, b] = &sides;
                prop_assert!(a.keys.sending.abs_diff(b.keys.sending) <= 1);
                prop_assert!(a.keys.receiving <= b.keys.sending && b.keys.receiving <= a.keys.sending);
            }
        }
    }
}
