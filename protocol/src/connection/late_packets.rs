//! Packets of this side that the peer reports as not received while its own packets arrive (transport.md section 8.3): the
//! path loses everything in one direction.
use std::{collections::VecDeque, time::Duration};

use longhaul_types::{ByteCount, Timestamp};

use super::probe::LATEST_ANSWER;
use crate::congestion::ByteRate;

/// Packets that are sent within this time, or within this share of a round-trip time, count once: one burst of losses
/// takes them all.
const LEAST_DISTANCE: Duration = Duration::from_millis(20);
const DISTANCE_IN_RTT: u32 = 8;
/// Number of late packets from which the path is doubtful, and from which it counts as dead: lossy links lose single ones.
const DOUBTFUL: usize = 3;
const DEAD: usize = 5;
/// Records kept, of at least four round-trip times. Without older ones a path is found dead later.
const MOST_RECORDS: usize = 32;
/// Longest estimate of a transmission time.
const LONGEST_TRANSMISSION: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at: Timestamp,
    /// Bytes of eliciting packets sent up to and including this packet.
    counter: u64,
}

/// A report of the peer about the packets that it has received.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateReport {
    /// Largest number received, the time at which this packet was sent, and the bytes up to it.
    pub(super) largest: u64,
    pub(super) sent: Timestamp,
    pub(super) counter: u64,
    /// Time between the arrival of this packet and the report.
    pub(super) hold: Duration,
    /// Time by which a packet may be late.
    pub(super) margin: Duration,
    /// Rate at which the path is known to deliver.
    pub(super) rate: ByteRate,
}

/// Sent packets that the peer has not reported, feedback included: during a download an agent sends little else.
#[derive(Clone, Debug, Default)]
pub(super) struct LatePackets {
    sent: VecDeque<Sent>,
    /// Arrival of the first report that showed late packets, since the peer last received one.
    asked: Option<Timestamp>,
    is_doubtful: bool,
    is_dead: bool,
}

impl LatePackets {
    /// Records a packet. The first one after `asked` is recorded in any case: it asks the peer again.
    pub(super) fn on_sent(&mut self, now: Timestamp, number: u64, counter: u64, srtt: Duration) {
        let distance = LEAST_DISTANCE.max(srtt / DISTANCE_IN_RTT);
        let is_same = |last: &Sent| {
            let asks = self.asked.is_some_and(|asked| last.at < asked);
            now.saturating_since(last.at) < distance && !asks
        };
        if self.sent.back().is_some_and(is_same) {
            return;
        }
        if self.sent.len() == MOST_RECORDS {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent {
            number,
            at: now,
            counter,
        });
    }

    /// The peer has received a packet that it had not reported before.
    pub(super) fn on_heard(&mut self, largest: u64) {
        while self.sent.front().is_some_and(|sent| sent.number <= largest) {
            self.sent.pop_front();
        }
        (self.asked, self.is_doubtful, self.is_dead) = (None, false, false);
    }

    /// Records a report; returns true if it is the first one that shows late packets, so that a question is due. The path
    /// is dead only if a packet that was sent after this report is late, too: the reports may have waited for the peer.
    pub(super) fn on_report(&mut self, now: Timestamp, report: &LateReport) -> bool {
        let lateness = |sent: &Sent| {
            let by_time = sent.at.saturating_since(report.sent);
            let bytes = ByteCount::new(sent.counter.saturating_sub(report.counter));
            let by_rate = report.rate.transmission_time(bytes, LONGEST_TRANSMISSION);
            report.hold.saturating_sub(by_time.max(by_rate))
        };
        let unreported = self.sent.iter().filter(|sent| sent.number > report.largest);
        let late = || unreported.clone().filter(|sent| lateness(sent) > report.margin);
        let count = late().count();
        if count == 0 {
            return false;
        }
        self.is_doubtful |= count >= DOUBTFUL;
        let asked = *self.asked.get_or_insert(now);
        let was_asked = late().any(|sent| sent.at >= asked);
        let is_old = late().any(|sent| lateness(sent) >= LATEST_ANSWER);
        self.is_dead |= count >= DEAD && was_asked && is_old;
        asked == now
    }

    /// Returns true if reports show that several of the newest packets are late.
    pub(super) const fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Returns true if reports show that the peer receives nothing.
    pub(super) const fn is_dead(&self) -> bool {
        self.is_dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRTT: Duration = Duration::from_millis(100);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(milliseconds)
    }

    /// Report about packet 0, sent at 0, after `hold` milliseconds without another packet.
    fn report(hold: u64) -> LateReport {
        LateReport {
            largest: 0,
            sent: Timestamp::ZERO,
            counter: 0,
            hold: Duration::from_millis(hold),
            margin: Duration::from_millis(20),
            rate: ByteRate::new(10_000.0),
        }
    }

    /// Packets 1 to 6, one each 50 ms.
    fn sent() -> LatePackets {
        let mut late_packets = LatePackets::default();
        (1..=6).for_each(|number| late_packets.on_sent(at(number * 50), number, 0, SRTT));
        late_packets
    }

    #[test]
    fn a_path_is_dead_when_the_packet_that_asks_is_late_too() {
        let mut late_packets = sent();
        assert!(!late_packets.on_report(at(110), &report(60)), "no packet is late");
        assert!(late_packets.on_report(at(500), &report(400)), "the first report");
        assert!(late_packets.is_doubtful() && !late_packets.is_dead());
        late_packets.on_sent(at(500), 7, 60, SRTT);
        assert!(!late_packets.on_report(at(560), &report(460)), "it was under way");
        assert!(!late_packets.is_dead());
        late_packets.on_report(at(700), &report(530));
        assert!(late_packets.is_dead());
        late_packets.on_heard(7);
        assert!(!late_packets.is_doubtful() && !late_packets.is_dead());
        assert!(
            !late_packets.on_report(at(900), &report(800)),
            "nothing was sent since"
        );
    }

    #[test]
    fn packets_that_wait_behind_the_bytes_of_an_upload_are_not_late() {
        let mut late_packets = LatePackets::default();
        // Each takes 300 ms at 10 kB/s.
        (1..=6).for_each(|number| late_packets.on_sent(at(number * 50), number, number * 3000, SRTT));
        assert!(!late_packets.on_report(at(400), &report(290)));
        assert!(late_packets.on_report(at(500), &report(400)));
        assert!(!late_packets.is_doubtful(), "only the first one is late");
    }

    #[test]
    fn packets_that_one_burst_of_losses_takes_count_once() {
        let mut late_packets = LatePackets::default();
        (1..=20).for_each(|number| late_packets.on_sent(at(100 + number), number, 0, SRTT));
        late_packets.on_report(at(800), &report(700));
        assert!(!late_packets.is_doubtful());
    }
}
