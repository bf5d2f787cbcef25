//! Recognises loss bursts, which are short outages and no congestion (congestion.md section 7.2).
use longhaul_types::Timestamp;

use super::parameters::LossBurstParameters;

/// Packets of one arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    pub(super) now: Timestamp,
    /// Missing packet numbers directly before the arriving one; `None` if the packet was late.
    pub(super) skipped: Option<u64>,
    /// Packets declared lost since the last arrival.
    pub(super) lost: f64,
    /// s: transmission time of a full packet, in seconds.
    pub(super) packet_time: f64,
}

/// Packets, and how many of them are missing.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    packets: f64,
    missing: f64,
}

impl Side {
    fn add(&mut self, missing: f64) {
        self.packets += 1.0 + missing;
        self.missing += missing;
    }
}

/// A gap that may be a burst; the packets behind it decide.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    /// Missing packets of the gap.
    packets: f64,
    /// Those of them that are declared lost, and not counted so far.
    withheld: f64,
    after: Side,
}

/// Separates the losses of bursts from all others.
#[derive(Clone, Debug)]
pub(super) struct BurstFilter {
    parameters: &'static LossBurstParameters,
    /// Arrival of the newest packet in order.
    newest: Option<Timestamp>,
    /// The packets before the next gap.
    before: Side,
    suspect: Option<Suspect>,
    /// Packets of the last burst that are not declared lost yet.
    undeclared: f64,
    /// Time in seconds that bursts may still take.
    allowance: f64,
}

impl BurstFilter {
    pub(super) fn new(parameters: &'static LossBurstParameters) -> Self {
        Self {
            parameters,
            newest: None,
            before: Side::default(),
            suspect: None,
            undeclared: 0.0,
            allowance: parameters.allowance_most,
        }
    }

    /// Returns the losses that count now. The losses of a gap that may be a burst count later, or never.
    pub(super) fn on_arrival(&mut self, arrivals: &Arrivals) -> f64 {
        let mut counted = 0.0;
        match arrivals.skipped {
            Some(skipped) => counted += self.on_newest(arrivals, skipped),
            None => self.on_late(),
        }
        let mut lost = arrivals.lost;
        let forgiven = lost.min(self.undeclared);
        self.undeclared -= forgiven;
        lost -= forgiven;
        if let Some(suspect) = &mut self.suspect {
            let withheld = lost.min(suspect.packets - suspect.withheld);
            suspect.withheld += withheld;
            lost -= withheld;
        }
        counted + lost
    }

    /// Processes a packet with a new highest number; returns the losses of a gap that was no burst.
    #[expect(clippy::cast_precision_loss, reason = "packets are few")]
    fn on_newest(&mut self, arrivals: &Arrivals, skipped: u64) -> f64 {
        let parameters = self.parameters;
        let silence = self
            .newest
            .replace(arrivals.now)
            .map_or(0.0, |newest| arrivals.now.saturating_since(newest).as_secs_f64());
        self.allowance =
            (self.allowance + parameters.allowance_share * silence).min(parameters.allowance_most);
        let skipped = skipped as f64;
        let released = self.continue_suspect(skipped);
        let is_suspect = self.suspect.is_none()
            && skipped >= parameters.least_packets
            && silence
                >= parameters
                    .least_time
                    .max(parameters.silence_share * skipped * arrivals.packet_time)
            && silence <= self.allowance
            && self.before.packets >= self.side(skipped)
            && self.is_clean(self.before);
        if is_suspect {
            self.allowance -= silence;
            self.suspect = Some(Suspect {
                packets: skipped,
                withheld: 0.0,
                after: Side::default(),
            });
            self.before = Side::default();
        } else {
            self.before.add(skipped);
            if self.before.packets > 2.0 * parameters.side_most {
                self.before.packets /= 2.0;
                self.before.missing /= 2.0;
            }
        }
        released
    }

    /// Processes a late packet: one packet less of the burst can be declared lost.
    fn on_late(&mut self) {
        match &mut self.suspect {
            Some(suspect) => suspect.packets = (suspect.packets - 1.0).max(suspect.withheld),
            None => self.undeclared = (self.undeclared - 1.0).max(0.0),
        }
    }

    /// Counts a packet behind a suspect, and decides when there are enough of them.
    fn continue_suspect(&mut self, skipped: f64) -> f64 {
        let Some(mut suspect) = self.suspect.take() else {
            return 0.0;
        };
        suspect.after.add(skipped);
        let side = self.side(suspect.packets);
        if suspect.after.missing > self.parameters.side_loss * side.max(suspect.after.packets) {
            self.before.packets += suspect.packets;
            self.before.missing += suspect.packets;
            return suspect.withheld;
        }
        if suspect.after.packets < side {
            self.suspect = Some(suspect);
            return 0.0;
        }
        self.undeclared = suspect.packets - suspect.withheld;
        0.0
    }

    /// Number of packets on each side of a gap of `packets` that must have arrived.
    const fn side(&self, packets: f64) -> f64 {
        packets.clamp(self.parameters.side_least, self.parameters.side_most)
    }

    fn is_clean(&self, side: Side) -> bool {
        side.missing <= self.parameters.side_loss * side.packets
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::congestion::CongestionParameters;

    const PACKET_TIME: Duration = Duration::from_millis(1);

    /// Returns the losses of 20,000 packets, and those of them that count. A packet that arrives comes `delay` after
    /// its time if it is held back; a gap is declared after three later packets.
    fn run(is_lost: impl Fn(u64) -> bool, arrival: impl Fn(u64) -> Duration) -> (f64, f64) {
        let mut filter = BurstFilter::new(&CongestionParameters::STANDARD.burst);
        let (mut lost, mut counted, mut skipped) = (0.0, 0.0, 0_u32);
        let mut pending: Vec<(u64, f64)> = Vec::new();
        for number in 0..20_000 {
            if is_lost(number) {
                skipped += 1;
                lost += 1.0;
                continue;
            }
            if skipped > 0 {
                pending.push((number, f64::from(skipped)));
            }
            let due = pending.partition_point(|(since, _)| since + 3 <= number);
            let declared: f64 = pending.drain(..due).map(|(_, lost)| lost).sum();
            counted += filter.on_arrival(&Arrivals {
                now: Timestamp::ZERO + arrival(number),
                skipped: Some(u64::from(skipped)),
                lost: declared,
                packet_time: PACKET_TIME.as_secs_f64(),
            });
            skipped = 0;
        }
        (lost, counted)
    }

    fn at_once(number: u64) -> Duration {
        PACKET_TIME * u32::try_from(number).expect("few")
    }

    #[test]
    fn short_outages_do_not_count() {
        for (length, interval) in [(20, 200), (100, 1_000), (300, 3_000), (3, 100)] {
            let (lost, counted) = run(|number| number % interval >= interval - length, at_once);
            let few = 20.0_f64.max(lost / 10.0);
            // The end of the first outage of 3 ms is too early for a silence.
            let few = if length == 3 { lost } else { few };
            assert!(
                counted <= few,
                "{length} of {interval}: {counted} of {lost} count"
            );
        }
    }

    #[test]
    fn random_losses_beside_outages_count() {
        let is_lost = |number: u64| number % 1_000 >= 900 || number.is_multiple_of(25);
        let (lost, counted) = run(is_lost, at_once);
        let random = 20_000.0 / 25.0;
        assert!(
            (counted - random).abs() < random / 5.0,
            "{counted} of {lost} count, {random} are random"
        );
    }

    #[test]
    fn the_losses_of_a_policer_count() {
        for passed in [2, 4, 10, 20] {
            let is_lost = move |number: u64| number > 500 && !number.is_multiple_of(passed);
            let (lost, counted) = run(is_lost, at_once);
            assert!(
                counted >= lost * 0.98,
                "one of {passed} passes: {counted} of {lost} count"
            );
        }
    }

    /// A policer whose bucket is filled once in 100 ms lets half of the packets pass, all of them at once.
    #[test]
    fn most_losses_of_a_policer_with_long_intervals_count() {
        let (lost, counted) = run(|number| number % 100 >= 50, at_once);
        assert!(counted >= lost / 2.0, "{counted} of {lost} count");
    }

    /// A full buffer loses packets while others continue to arrive without a pause.
    #[test]
    fn losses_without_a_silence_count() {
        let arrival = |number: u64| {
            let arrived = number / 100 * 50 + (number % 100).min(50);
            at_once(arrived)
        };
        let (lost, counted) = run(|number| number % 100 >= 50, arrival);
        assert!(counted >= lost * 0.99, "{counted} of {lost} count");
    }

    #[test]
    fn a_late_packet_and_a_second_gap_do_not_disturb_the_counts() {
        let mut filter = BurstFilter::new(&CongestionParameters::STANDARD.burst);
        let mut arrive = |at: u64, skipped, lost| {
            filter.on_arrival(&Arrivals {
                now: Timestamp::ZERO + Duration::from_millis(at),
                skipped,
                lost,
                packet_time: 0.001,
            })
        };
        for at in 0..100 {
            assert!(arrive(at, Some(0), 0.0) == 0.0);
        }
        // Twenty packets are missing; two of them come late, and the others are declared lost.
        assert!(arrive(120, Some(20), 0.0) == 0.0);
        assert!(arrive(121, None, 0.0) == 0.0);
        assert!(arrive(122, None, 0.0) == 0.0);
        assert!(arrive(123, Some(0), 18.0) == 0.0);
        for at in 124..160 {
            assert!(arrive(at, Some(0), 0.0) == 0.0);
        }
        // The two that arrived are not forgiven later.
        assert!(arrive(161, Some(1), 0.0) == 0.0);
        assert!(arrive(162, Some(0), 1.0) == 1.0);
    }
}
