//! Additional time of the chosen coder compared with the best one in hindsight.
use longhaul_types::BitRate;

use super::attempt::Attempt;
use crate::statistics::{float, quantile};

/// Returns the time to code a text and then to send it.
pub(super) fn total(attempt: &Attempt, link: BitRate) -> f64 {
    attempt.time_s + float(attempt.wire.len()) / link.bytes_per_second()
}

/// Returns the attempt whose last byte arrives first.
pub(super) fn best(attempts: &[Attempt], link: BitRate) -> Option<&Attempt> {
    attempts
        .iter()
        .min_by(|one, other| total(one, link).total_cmp(&total(other, link)))
}

/// Distribution of regrets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) p90: f64,
    pub(super) worst: f64,
}

impl Spread {
    pub(super) fn of(mut regrets: Vec<f64>) -> Self {
        Self {
            median: quantile(&mut regrets, 0.5),
            p90: quantile(&mut regrets, 0.9),
            worst: quantile(&mut regrets, 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(coder: &str, bytes: usize, time_s: f64) -> Attempt {
        Attempt {
            coder: coder.to_owned(),
            wire: vec![0; bytes],
            time_s,
        }
    }

    #[test]
    fn the_best_coder_depends_on_the_rate() {
        let ways = [
            attempt("quick", 20_000, 0.001),
            attempt("small", 10_000, 0.1),
            attempt("neither", 20_000, 0.1),
        ];
        let at = |kbps| best(&ways, BitRate::kbps(kbps)).unwrap().coder.as_str();
        assert_eq!(at(40), "small");
        assert_eq!(at(10_000), "quick");
        assert!((total(&ways[1], BitRate::kbps(40)) - 2.1).abs() < 1e-9);
        assert!(best(&[], BitRate::kbps(40)).is_none());
    }

    #[test]
    fn spreads_are_of_sorted_regrets() {
        let spread = Spread::of(vec![1.5, 1.0, 3.0, 1.0, 1.0, 1.1, 1.2, 1.3, 1.4, 2.0, 1.0]);
        let expected = Spread {
            median: 1.2,
            p90: 2.0,
            worst: 3.0,
        };
        assert_eq!(spread, expected);
        assert_eq!(Spread::of(Vec::new()).worst, 0.0);
    }
}
