//! The sender's record of sent packets and their contents, until they are acknowledged or lost (transport.md
//! section 5.1).
use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
    time::Duration,
};

use longhaul_types::{ByteCount, StreamId, Timestamp};

use crate::{
    congestion::ByteRate,
    streams::SentControl,
    wire::{GapKind, Gaps},
};

/// Maximum number of unacknowledged packets to which the tail rule applies. If more are missing, the link is
/// down, and probes find out when it returns.
pub const MAX_TAIL: usize = 32;
/// Longest estimate of a transmission time in the tail rule: eleven days, more than any session is silent.
const LONGEST_TRANSMISSION: Duration = Duration::from_secs(1_000_000);

/// Content of a packet that is retransmitted after a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentContent {
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: StreamId,
        /// Byte offsets.
        range: Range<u64>,
        /// True if the frame ends the stream.
        fin: bool,
    },
    /// A control frame of the streams.
    Control(SentControl),
    /// A token for the peer's next INIT.
    Token([u8; 32]),
}

/// A recorded packet.
#[derive(Clone, Debug)]
pub struct SentPacket {
    /// Time of sending.
    pub at: Timestamp,
    /// Size with IP and UDP headers; 0 if the packet elicits no feedback and is exempt from credit.
    pub size: u64,
    /// Total counted bytes up to and including this packet.
    pub counter: u64,
    /// Contents that a loss makes it necessary to send again.
    pub contents: Vec<SentContent>,
}

/// Effect of a feedback on the record.
#[derive(Debug, Default)]
pub struct Report {
    /// Contents of acknowledged packets.
    pub acked: Vec<SentContent>,
    /// Contents of lost packets, for retransmission.
    pub lost: Vec<SentContent>,
    /// Number of counted packets acknowledged.
    pub acked_packets: u64,
    /// Number of counted packets lost.
    pub lost_packets: u64,
    /// Size of the largest acknowledged packet.
    pub largest_acked: Option<u64>,
    /// Sending times and sizes of lost packets.
    pub lost_sizes: Vec<(Timestamp, u64)>,
    /// True if the feedback contained new information.
    pub progress: bool,
}

/// Sent packets by number. A lookup is an index operation; an acknowledgement costs time proportional to the
/// acknowledged packets and those in gaps, not to the whole window.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct SentPackets {
    /// Number of the first entry.
    base: u64,
    /// `None` if the packet is acknowledged, lost, or was never counted.
    entries: VecDeque<Option<SentPacket>>,
    /// Unacknowledged packets at or below `largest`, which were in a pending gap.
    lagging: BTreeSet<u64>,
    /// Largest number that the peer reported, with the counter after that packet.
    largest: Option<(u64, u64)>,
    /// Total counted bytes sent.
    counter: u64,
    /// Counter after the last entry removed from the front.
    base_counter: u64,
    /// Number of counted packets that are not yet acknowledged or lost.
    awaited: u64,
    /// Numbers and sizes of packets beyond `largest` that the tail rule declared lost (section 5.3): their
    /// credit is free again.
    lost_beyond: Vec<(u64, u64)>,
    /// Largest reported packet at the first application of the tail rule, and the next number at that time.
    /// Packets sent later are not declared lost until the peer reports a newer packet; otherwise the sender
    /// would fill a dead link again and again.
    tail_round: Option<(u64, u64)>,
    /// Start of the oldest declared gap that the peer still reports.
    peer_gap: Option<u64>,
    /// True if the peer declares no gaps, so that FORWARD concerns pending ones.
    forwards_pending: bool,
}

impl SentPackets {
    /// `forwards_pending`: true if the peer declares no gaps.
    pub fn new(forwards_pending: bool) -> Self {
        Self {
            forwards_pending,
            ..Self::default()
        }
    }

    /// Number of counted packets that are neither acknowledged nor lost.
    #[cfg(test)]
    pub fn awaited(&self) -> u64 {
        self.awaited
    }

    /// Number of the next packet.
    pub fn next_number(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// Records the next packet.
    pub fn on_sent(&mut self, at: Timestamp, size: u64, contents: Vec<SentContent>) {
        self.counter += size;
        if size == 0 && contents.is_empty() {
            if self.entries.is_empty() {
                self.base += 1;
                self.base_counter = self.counter;
            } else {
                self.entries.push_back(None);
            }
            return;
        }
        self.awaited += 1;
        self.entries.push_back(Some(SentPacket {
            at,
            size,
            counter: self.counter,
            contents,
        }));
    }

    fn take(&mut self, number: u64) -> Option<SentPacket> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let packet = self.entries.get_mut(index)?.take()?;
        self.awaited -= 1;
        self.lagging.remove(&number);
        Some(packet)
    }

    fn entry(&self, number: u64) -> Option<&SentPacket> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.entries.get(index)?.as_ref()
    }

    /// Counter after packet `number`. Missing entries contain no counter: those after the last report were
    /// not counted or were declared lost by the tail rule. The nearest earlier entry is therefore exact or
    /// slightly low, which makes the sender send less, never more.
    fn counter_at(&self, number: u64) -> u64 {
        let (reported, counter) = self.largest.unwrap_or((0, 0));
        if number < self.base {
            return self.base_counter.max(counter);
        }
        (reported.max(self.base)..=number)
            .rev()
            .find_map(|number| self.entry(number))
            .map_or(counter, |packet| packet.counter.max(counter))
    }

    /// Processes feedback about packets up to `largest`; returns `None` if the feedback is invalid.
    pub fn on_feedback(&mut self, largest: u64, gaps: &Gaps) -> Option<Report> {
        if largest >= self.next_number() {
            return None;
        }
        let mut report = Report::default();
        gaps.floor(largest)?;
        let ranges: Vec<_> = gaps.ranges(largest).collect();
        let counter = self.counter_at(largest);
        let from = self.largest.map_or(0, |(number, _)| number + 1);
        if from <= largest {
            report.progress = true;
            self.largest = Some((largest, counter));
            self.lost_beyond.retain(|(number, _)| *number > largest);
        }
        self.peer_gap = ranges
            .iter()
            .find(|(kind, _)| *kind == GapKind::Declared || self.forwards_pending)
            .map(|(_, range)| range.start);
        for (kind, range) in &ranges {
            if *kind == GapKind::Declared {
                self.lose_range(range.clone(), &mut report);
            }
        }
        let late: Vec<u64> = self.lagging.iter().copied().collect();
        let new = from.max(self.base)..largest + 1;
        for number in late.into_iter().chain(new) {
            let missing = ranges.partition_point(|(_, range)| range.end <= number);
            let missing = ranges
                .get(missing)
                .is_some_and(|(_, range)| range.contains(&number));
            if missing {
                if self.entry(number).is_some() {
                    self.lagging.insert(number);
                }
            } else if let Some(packet) = self.take(number) {
                report.progress = true;
                report.acked_packets += 1;
                report.largest_acked = report.largest_acked.max(Some(packet.size));
                report.acked.extend(packet.contents);
            }
        }
        self.trim();
        Some(report)
    }

    fn lose_range(&mut self, range: Range<u64>, report: &mut Report) {
        let range = range.start.max(self.base)..range.end.min(self.next_number());
        for number in range {
            self.lose(number, report);
        }
    }

    fn lose(&mut self, number: u64, report: &mut Report) {
        if let Some(packet) = self.take(number) {
            report.progress = true;
            report.lost_packets += 1;
            report.lost_sizes.push((packet.at, packet.size));
            report.lost.extend(packet.contents);
        }
    }

    /// Applies the tail rule (section 5.3): declares packets beyond `largest` lost that should have arrived
    /// within `hold` at `rate`, unless more than `most` are unacknowledged.
    pub fn lose_tail(
        &mut self,
        hold: Duration,
        margin: Duration,
        sent_largest: Timestamp,
        rate: ByteRate,
        most: usize,
    ) -> Report {
        let mut report = Report::default();
        let Some((largest, counter)) = self.largest else {
            return report;
        };
        let (_, end) = match self.tail_round {
            Some(round) if round.0 == largest => round,
            _ => (largest, self.next_number()),
        };
        // Probes consume numbers, too, but each one repeats the contents of the previous one.
        let missing = (largest + 1).max(self.base)..end;
        let missing = missing.filter(|number| self.entry(*number).is_some());
        if missing.take(most.saturating_add(1)).count() > most {
            return report;
        }
        for number in (largest + 1).max(self.base)..end {
            let Some(packet) = self.entry(number) else {
                continue;
            };
            let by_time = packet.at.saturating_since(sent_largest);
            let between = packet.counter.saturating_sub(counter);
            let by_rate = rate.transmission_time(ByteCount::new(between), LONGEST_TRANSMISSION);
            if hold <= by_time.max(by_rate) + margin {
                break;
            }
            let size = packet.size;
            self.tail_round = Some((largest, end));
            self.lost_beyond.push((number, size));
            self.lose(number, &mut report);
        }
        self.trim();
        report
    }

    /// Declares all packets lost, because the gateway dropped the early data.
    pub fn lose_all(&mut self) -> Report {
        let mut report = Report::default();
        self.lose_range(self.base..self.next_number(), &mut report);
        self.largest = None;
        self.base_counter = self.counter;
        self.trim();
        // None of these bytes is in flight any more.
        if let Some(last) = self.next_number().checked_sub(1) {
            self.largest = Some((last, self.counter));
        }
        report
    }

    /// Removes the packet whose contents the next probe carries (section 5.3): the last probe if it is still
    /// unacknowledged, because it has the oldest contents; otherwise the oldest packet.
    pub fn take_for_probe(&mut self, last_probe: Option<u64>) -> Option<SentPacket> {
        let last = last_probe.filter(|number| self.entry(*number).is_some());
        let number = last.or_else(|| self.oldest())?;
        let packet = self.take(number);
        self.trim();
        packet
    }

    fn trim(&mut self) {
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.base += 1;
        }
        match self.entries.front() {
            Some(Some(packet)) => self.base_counter = packet.counter - packet.size,
            Some(None) | None => self.base_counter = self.counter,
        }
    }

    /// Number of the oldest unacknowledged packet.
    pub fn oldest(&self) -> Option<u64> {
        (self.awaited > 0).then_some(self.base)
    }
    /// Number below which all packets are acknowledged or lost: the floor of FORWARD.
    pub fn floor(&self) -> u64 {
        self.base
    }
    /// Returns true if the peer keeps gaps below the floor, so that FORWARD is to be sent.
    pub fn forward_due(&self) -> bool {
        self.peer_gap.is_some_and(|gap| gap < self.base)
    }
    /// Returns true if any packet is unacknowledged.
    pub const fn is_awaiting(&self) -> bool {
        self.awaited > 0
    }
    /// Counted bytes sent beyond the largest reported packet and not declared lost (section 6).
    pub fn outstanding(&self) -> u64 {
        let from = self.largest.map_or(0, |(_, counter)| counter);
        let lost: u64 = self.lost_beyond.iter().map(|(_, size)| size).sum();
        (self.counter - from).saturating_sub(lost)
    }
    /// Counted bytes sent up to the largest reported packet.
    pub fn reported_bytes(&self) -> u64 {
        self.largest.map_or(0, |(_, counter)| counter)
    }
    /// Bytes of eliciting packets sent.
    pub const fn sent_bytes(&self) -> u64 {
        self.counter
    }
    /// Number of the largest reported packet.
    pub fn largest(&self) -> Option<u64> {
        self.largest.map(|(number, _)| number)
    }
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests;
