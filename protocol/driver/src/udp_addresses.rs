//! The gateway's UDP addresses of an agent's session (docs/protocol/transport.md section 7.8): which one is probed when the
//! session's does not answer.
use std::{net::SocketAddr, time::Duration};

use longhaul_protocol::endpoint::MAX_ADDRESSES;
use tokio::time::Instant;

/// Pause after each address was probed without an answer; it doubles with each such round.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time for the first packets on an address that has answered.
const SETTLING: Duration = Duration::from_secs(2);

/// The addresses, and the progress of their probes.
#[derive(Clone, Debug)]
pub(crate) struct UdpAddresses {
    all: Vec<SocketAddr>,
    /// The address that is being probed.
    probed: Option<SocketAddr>,
    /// Addresses that did not answer in this round.
    silent: Vec<SocketAddr>,
    /// Time before which nothing is probed.
    due: Option<Instant>,
    pause: Duration,
}

impl UdpAddresses {
    /// The addresses in the order in which they are tried.
    pub(crate) fn new(all: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut addresses = Self {
            all: Vec::new(),
            probed: None,
            silent: Vec::new(),
            due: None,
            pause: FIRST_PAUSE,
        };
        addresses.replace(all);
        addresses
    }

    /// Replaces the addresses after a change of the network.
    pub(crate) fn replace(&mut self, all: impl IntoIterator<Item = SocketAddr>) {
        self.all.clear();
        for address in all {
            if self.all.len() < MAX_ADDRESSES && !self.all.contains(&address) {
                self.all.push(address);
            }
        }
        self.start_anew();
    }

    fn start_anew(&mut self) {
        self.silent.clear();
        self.due = None;
        self.pause = FIRST_PAUSE;
    }

    /// The address to probe now, if the address that the session uses is `silent`.
    pub(crate) fn poll(&mut self, now: Instant, silent: Option<SocketAddr>) -> Option<SocketAddr> {
        let is_settling = self.due.is_some_and(|due| due > now);
        let Some(used) = silent else {
            if !is_settling {
                self.start_anew();
            }
            return None;
        };
        if self.probed.is_some() || is_settling {
            return None;
        }
        self.due = None;
        let mut left = self.all.iter().filter(|address| **address != used);
        self.probed = left.find(|address| !self.silent.contains(address)).copied();
        self.probed
    }

    /// True if this address is being probed.
    pub(crate) fn is_probed(&self, address: SocketAddr) -> bool {
        self.probed == Some(address)
    }

    /// Records the result of a probe. Returns true if it was one of these addresses, which now answers.
    pub(crate) fn on_probed(&mut self, now: Instant, address: SocketAddr, answers: bool) -> bool {
        if self.probed.take_if(|probed| *probed == address).is_none() {
            return false;
        }
        if answers {
            self.start_anew();
            self.due = Some(now + SETTLING);
            return true;
        }
        self.silent.push(address);
        // All but the one that the session uses.
        if self.silent.len() + 1 >= self.all.len() {
            self.silent.clear();
            self.due = Some(now + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        false
    }

    /// The address after this one, in a circle; `None` after the last one before `first`.
    pub(crate) fn after(&self, address: SocketAddr, first: SocketAddr) -> Option<SocketAddr> {
        let place = self.all.iter().position(|other| *other == address)?;
        let next = *self.all.get((place + 1) % self.all.len())?;
        (next != first && next != address).then_some(next)
    }

    /// Time of the next call of [`Self::poll`], if the address in use is still silent then.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[test]
    fn the_others_are_probed_one_after_the_other_and_then_after_pauses() {
        let mut addresses = UdpAddresses::new([1, 2, 3, 2].map(address));
        let mut now = Instant::now();
        assert_eq!(addresses.poll(now, None), None);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            for port in [2, 3] {
                assert_eq!(addresses.poll(now, Some(address(1))), Some(address(port)));
                assert_eq!(addresses.poll(now, Some(address(1))), None, "one at a time");
                assert!(!addresses.on_probed(now, address(port), false));
            }
            assert_eq!(addresses.poll(now, Some(address(1))), None);
            let due = addresses.due().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn an_address_that_answers_has_time_for_its_first_packets() {
        let mut addresses = UdpAddresses::new([1, 2].map(address));
        let now = Instant::now();
        assert_eq!(addresses.poll(now, Some(address(1))), Some(address(2)));
        assert!(
            !addresses.on_probed(now, address(7), true),
            "not one of these probes"
        );
        assert!(addresses.on_probed(now, address(2), true));
        assert_eq!(addresses.poll(now, Some(address(2))), None);
        let later = addresses.due().unwrap();
        assert_eq!(addresses.poll(later, Some(address(2))), Some(address(1)));
    }

    #[test]
    fn a_single_address_is_never_probed() {
        let mut addresses = UdpAddresses::new([address(1)]);
        assert_eq!(addresses.poll(Instant::now(), Some(address(1))), None);
        assert_eq!(addresses.due(), None);
        assert_eq!(addresses.after(address(1), address(1)), None);
    }

    #[test]
    fn a_round_ends_before_the_address_with_which_it_began() {
        let addresses = UdpAddresses::new([1, 2, 3].map(address));
        assert_eq!(addresses.after(address(2), address(2)), Some(address(3)));
        assert_eq!(addresses.after(address(3), address(2)), Some(address(1)));
        assert_eq!(addresses.after(address(1), address(2)), None);
        assert_eq!(addresses.after(address(9), address(2)), None);
    }
}
