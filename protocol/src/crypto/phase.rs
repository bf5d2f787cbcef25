//! Key phases: a session's keys are replaced while it runs (transport.md section 2.3; the method of RFC 9001 section 6).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::aead::{OpenError, PacketKey};
use crate::wire::KeyPhase;

/// How long packets under the keys before are taken: three times the longest stall after which a link still hands over what it
/// held, 40 s.
pub const OLD_KEY_KEPT: Duration = Duration::from_secs(120);

/// After what a side that may replaces the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RekeyLimits {
    /// Packet numbers used in a phase.
    pub packets: u64,
    /// Time since the phase began.
    pub time: Duration,
}

impl RekeyLimits {
    /// A million packets or five minutes: what a stolen key opens is a part of a session. The next keys cost no bytes, and a few
    /// hundred nanoseconds.
    pub const RECOMMENDED: Self = Self {
        packets: 1 << 20,
        time: Duration::from_secs(300),
    };
}

#[derive(Debug)]
struct Old {
    key: PacketKey,
    until: Timestamp,
}

/// The keys of both directions under the full keys, as one side has them.
#[derive(Debug)]
pub struct KeyPhases {
    send: PacketKey,
    receive: PacketKey,
    old: Option<Old>,
    /// Number of the phase in which this side sends, and that of what it received; they differ by at most one.
    sending: u32,
    receiving: u32,
    /// The first packet number of the phase that this side sends in.
    sent_from: u64,
    /// The smallest packet number received in the current phase: what is below and of the other phase is older.
    received_from: u64,
    /// When this side's phase began.
    since: Timestamp,
}

impl KeyPhases {
    /// The keys of the handshake, from `now` on.
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

    /// How often this side has replaced the key that it seals with.
    pub const fn replaced(&self) -> u32 {
        self.sending
    }

    /// The key that seals packet `number`, and its phase. `acknowledged` is the largest packet number that the peer reported as
    /// received: only when the peer has shown that it holds the current keys may they be replaced.
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
        // A peer that went ahead is followed at once.
        if self.sending < self.receiving || is_due && is_allowed {
            self.send = self.send.next();
            self.sending += 1;
            self.sent_from = number;
            self.since = now;
        }
        (&self.send, KeyPhase::of(self.sending))
    }

    /// Decrypts a packet, as [`PacketKey::open`] does, with the key of its phase.
    ///
    /// # Errors
    /// The packet does not authenticate, or the keys that sealed it are gone. The keys are then as before.
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
        // Who has heard nothing from this side in the current phase may not go to the next.
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

    /// Forgets the keys before, if it is time.
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

    /// A sealed packet on its way.
    #[derive(Clone, Debug)]
    struct Sealed {
        number: u64,
        generation: u32,
        phase: KeyPhase,
        /// The largest number that its sender had received.
        acknowledges: Option<u64>,
        bytes: Vec<u8>,
    }

    /// One side with what it knows.
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
    fn keys_are_replaced_by_number_and_by_time_once_the_peer_has_shown_them() {
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
        // The other side's time has come, but its packets of this phase are not acknowledged.
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
        /// Of what is on the way to this side, one arrives, any.
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
        /// Whatever is lost, late or overtaken: a packet opens if it is of the current phase, the next, or of the one before
        /// within two minutes of its end, and the sides are never more than a phase apart.
        #[test]
        fn sides_stay_together(steps in prop::collection::vec(step(), 1..300)) {
            let mut sides = Side::pair();
            let mut ways: [Vec<Sealed>; 2] = [Vec::new(), Vec::new()];
            let mut now = Timestamp::ZERO;
            // When each side began to receive in its current phase.
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
