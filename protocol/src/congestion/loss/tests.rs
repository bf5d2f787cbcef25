use super::*;
use crate::congestion::CongestionParameters;

/// A link of 100 packets per second, evaluated once per second.
struct Link {
    meter: LossMeter,
    now: Timestamp,
}

impl Link {
    fn new() -> Self {
        let now = Timestamp::ZERO + Duration::from_secs(1);
        Self {
            meter: LossMeter::new(&CongestionParameters::STANDARD),
            now,
        }
    }

    /// Returns the first class within `seconds` that is not ordinary.
    fn verdict(&mut self, lost: u32, seconds: u32) -> LossClass {
        for _ in 0..seconds {
            for packet in 0..100_u32 {
                self.now += Duration::from_millis(10);
                // Losses are spread evenly.
                let is_lost = (packet + 1) * lost / 100 > packet * lost / 100;
                let received = if is_lost { 0.0 } else { 1.0 };
                self.meter.on_packets(self.now, received, 1.0 - received, 0.0);
                let verdict = self.meter.classify(self.now, 1.0, 0.0, 0.1);
                if verdict != LossClass::Ordinary {
                    return verdict;
                }
            }
        }
        LossClass::Ordinary
    }

    fn try_less(&mut self, share: f64) {
        self.meter
            .begin_trial(self.now + Duration::from_secs(1), 100_000.0, share);
    }
}

#[test]
fn loss_that_a_window_cut_does_not_change_is_random_loss() {
    let mut link = Link::new();
    assert_eq!(link.verdict(20, 5), LossClass::TrialNeeded);
    link.try_less(0.7);
    assert!(link.meter.on_trial());
    assert_eq!(link.verdict(20, 5), LossClass::RandomLoss(100_000.0));
    assert_eq!(link.verdict(20, 28), LossClass::Ordinary);
    assert_eq!(link.verdict(20, 5), LossClass::TrialNeeded);
    // A confirmed result is believed for longer.
    link.try_less(0.7);
    assert_eq!(link.verdict(20, 5), LossClass::RandomLoss(100_000.0));
    assert_eq!(link.verdict(20, 58), LossClass::Ordinary);
}

#[test]
fn loss_that_a_window_cut_ends_is_congestion_loss() {
    let mut link = Link::new();
    assert_eq!(link.verdict(50, 5), LossClass::TrialNeeded);
    link.try_less(0.45);
    assert!(
        matches!(link.verdict(0, 5), LossClass::CongestionLoss(kept) if (49_000.0..51_000.0).contains(&kept))
    );
    assert!(matches!(
        link.verdict(50, 5),
        LossClass::Heavy { .. } | LossClass::TrialNeeded
    ));
}

#[test]
fn loss_that_falls_when_many_sessions_cut_is_congestion_loss() {
    let mut link = Link::new();
    assert_eq!(link.verdict(80, 5), LossClass::TrialNeeded);
    link.try_less(0.4);
    // Before, a fifth of the packets arrived: at a share of 0.4, congestion alone would lose half.
    assert!(matches!(link.verdict(50, 5), LossClass::CongestionLoss(_)));
}

#[test]
fn a_loss_ratio_of_one_half_is_never_random_loss() {
    let mut link = Link::new();
    assert_eq!(link.verdict(50, 5), LossClass::TrialNeeded);
    link.try_less(0.45);
    assert!(matches!(link.verdict(50, 5), LossClass::CongestionLoss(_)));
}

#[test]
fn losses_of_a_full_buffer_are_not_the_links_own_after_the_base_has_risen() {
    let mut meter = Link::new().meter;
    let arrive = |meter: &mut LossMeter, from: u64, queue: f64, lost: f64| {
        for number in from..from + 100 {
            meter.on_packets(Timestamp::ZERO + Duration::from_millis(number), 1.0, lost, queue);
        }
    };
    arrive(&mut meter, 0, 0.02, 0.0);
    arrive(&mut meter, 100, 0.12, 0.1);
    assert!(meter.baseline_ratio() < 1e-9);
    // The queue has not been empty for as long as the window of the base.
    meter.on_base_rise(0.05);
    assert!((meter.largest_queue() - 0.07).abs() < 1e-9);
    arrive(&mut meter, 200, 0.07, 0.1);
    assert!(meter.baseline_ratio() < 1e-9, "{}", meter.baseline_ratio());
    meter.on_base_rise(1.0);
    assert!(meter.largest_queue() < 1e-9);
}

#[test]
fn a_small_loss_ratio_is_ordinary_without_a_trial() {
    assert_eq!(Link::new().verdict(5, 600), LossClass::Ordinary);
}

/// The losses of a first flight show only at the first packet behind it.
#[test]
fn losses_of_packets_before_the_estimate_do_not_count() {
    let mut link = Link::new();
    let effective = link.now + Duration::from_millis(100);
    link.meter.expect_unmeasured_until(effective);
    link.meter.on_packets(link.now, 10.0, 40.0, 0.0);
    link.meter
        .on_packets(effective + Duration::from_millis(1), 1.0, 60.0, 0.0);
    assert_eq!(link.verdict(0, 5), LossClass::Ordinary);
    assert!(link.meter.baseline_ratio() < 0.01);
}
