//! Replay window of packet numbers (transport.md section 2.2; the method of RFC 6479).

/// Number of packet numbers in the window: 100 Mbit/s x 600 ms are 6,250 packets; twice this number, as a
/// power of two.
pub const WINDOW: u64 = 16_384;
const WORDS: usize = (WINDOW / 64) as usize;

/// Reasons to reject a packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Replay {
    /// A packet with this number was accepted before.
    #[error("the packet number was seen before")]
    Seen,
    /// The number is below the window, so its state is unknown.
    #[error("the packet number is below the replay window")]
    TooOld,
}

/// Records which of the newest 16,384 packet numbers were accepted. Check before decryption, mark after
/// authentication.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow {
    /// A ring of [`WORDS`] words. Words that were never reached are not allocated, so that a session without
    /// traffic needs few.
    bits: Vec<u64>,
    largest: Option<u64>,
}

impl ReplayWindow {
    /// Largest marked number.
    pub const fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Checks that a packet with this number may be accepted.
    ///
    /// # Errors
    /// The number was accepted before, or is below the window.
    pub fn check(&self, number: u64) -> Result<(), Replay> {
        match self.largest {
            None => Ok(()),
            Some(largest) if number > largest => Ok(()),
            Some(largest) if largest - number >= WINDOW => Err(Replay::TooOld),
            Some(_) if self.word(number) & Self::bit(number) != 0 => Err(Replay::Seen),
            Some(_) => Ok(()),
        }
    }

    /// Records that a packet with this number authenticated. A number below the window has no effect.
    pub fn mark(&mut self, number: u64) {
        match self.largest {
            Some(largest) if number <= largest => {
                if largest - number >= WINDOW {
                    return;
                }
            }
            largest => {
                // Words that enter the window contain bits of numbers that left it.
                let entered = number / 64;
                let left = largest.map_or(0, |largest| largest / 64);
                for step in 0..(entered - left).min(WORDS as u64) {
                    if let Some(word) = self.bits.get_mut(Self::slot(entered - step)) {
                        *word = 0;
                    }
                }
                self.largest = Some(number);
            }
        }
        let slot = Self::slot(number / 64);
        if slot >= self.bits.len() {
            self.bits.resize((slot + 1).next_power_of_two().min(WORDS), 0);
        }
        self.bits[slot] |= Self::bit(number);
    }

    fn word(&self, number: u64) -> u64 {
        // A word that is not allocated contains no number.
        self.bits.get(Self::slot(number / 64)).copied().unwrap_or(0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below 256")]
    const fn slot(word: u64) -> usize {
        (word % WORDS as u64) as usize
    }

    const fn bit(number: u64) -> u64 {
        1 << (number % 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_number_is_accepted_once() {
        let mut window = ReplayWindow::default();
        for number in [0, 5, 3, 20_000, 19_999] {
            assert_eq!(window.check(number), Ok(()));
            window.mark(number);
            assert_eq!(window.check(number), Err(Replay::Seen));
        }
        // The ring spans a whole window, so the oldest and the newest numbers share a word: no number of that
        // word may be accepted again.
        assert_eq!(window.check(20_000 - WINDOW), Err(Replay::TooOld));
        assert_eq!(window.check(20_000 - WINDOW + 1), Ok(()));
    }

    proptest! {
        #[test]
        fn the_replay_window_agrees_with_a_set(start in prop_oneof![Just(0_u64), Just(1_u64 << 24), Just(1_u64 << 40)], steps in proptest::collection::vec((any::<bool>(), 0_u64..40_000), 1..200)) {
            let mut window = ReplayWindow::default();
            let mut seen = BTreeSet::new();
            for (back, step) in steps {
                let base = window.largest().unwrap_or(start);
                let number = if back { base.saturating_sub(step / 2) } else { base + step };
                let expected = match window.largest() {
                    Some(largest) if largest >= number && largest - number >= WINDOW => Err(Replay::TooOld),
                    _ if seen.contains(&number) => Err(Replay::Seen),
                    _ => Ok(()),
                };
                prop_assert_eq!(window.check(number), expected);
                if expected.is_ok() {
                    window.mark(number);
                    seen.insert(number);
                }
            }
        }
    }
}
