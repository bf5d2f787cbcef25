//! Numbered packets, and a caller that observes the link's contract.
use std::time::Duration;

use longhaul_netem::{Capacity, Delivery, Enqueued, Link, LinkConfig, Packet};
use longhaul_types::{BitRate, ByteCount, Timestamp};

/// A packet with a number, with a length but without contents, that records an inverted bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) number: u64,
    pub(crate) len: u64,
    pub(crate) flipped: Option<u64>,
}

impl Probe {
    pub(crate) fn new(number: u64, len: u64) -> Self {
        Self {
            number,
            len,
            flipped: None,
        }
    }
}

impl Packet for Probe {
    fn len_on_link(&self) -> ByteCount {
        ByteCount::new(self.len)
    }
    fn flip_bit(&mut self, bit: u64) {
        assert_eq!(self.flipped.replace(bit), None, "at most one bit is inverted");
    }
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + ms(millis)
}

/// A link of this rate in kbit/s with a delay of 10 ms and a queue of 1 MB.
pub(crate) fn config(kbps: u64) -> LinkConfig {
    let rate = Capacity::Rate(BitRate::kbps(kbps));
    LinkConfig::new(rate, ms(10), ByteCount::kb(1000))
}

/// Polls the link at its events until nothing more can arrive.
pub(crate) fn drain(link: &mut Link<Probe>) -> Vec<Delivery<Probe>> {
    let mut out = Vec::new();
    while let Some(next) = link.next_event() {
        let before = out.len();
        while let Some(delivery) = link.poll_deliver(next) {
            assert_eq!(
                delivery.arrived, next,
                "the event was announced too late or too early"
            );
            out.push(delivery);
        }
        let progressed = out.len() > before || link.next_event().is_none_or(|later| later > next);
        assert!(
            progressed,
            "the link announces {next:?} repeatedly without progress"
        );
    }
    out
}

/// Sends `count` packets of 1000 bytes, each when the link is idle, and returns the deliveries.
pub(crate) fn send_spaced(link: &mut Link<Probe>, count: u64, gap: Duration) -> Vec<Delivery<Probe>> {
    let mut out = Vec::new();
    let mut now = Timestamp::ZERO;
    for number in 0..count {
        assert_eq!(link.enqueue(now, Probe::new(number, 1000)), Enqueued::Accepted);
        out.extend(std::iter::from_fn(|| link.poll_deliver(now)));
        now += gap;
    }
    out.extend(drain(link));
    out
}
