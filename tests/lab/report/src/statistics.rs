//! Medians, quantiles and means of a few repetitions. Values that are not finite are ignored.

/// Returns the middle value; the mean of the two middle ones for an even count. `None` without finite values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns the quantile `share` (0 to 1) by linear interpolation between the order statistics (Hyndman and
/// Fan's type 7, the default of R and NumPy). `None` without finite values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values), share)
}

/// Returns the geometric mean of the positive values, which is suitable for ratios because a half and a
/// double cancel. `None` without positive finite values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: Vec<f64> = positive(values).map(f64::ln).collect();
    mean(&logarithms).map(f64::exp)
}

/// Returns the arithmetic mean. `None` without finite values.
pub fn mean(values: &[f64]) -> Option<f64> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let count = u32::try_from(finite.len()).ok().filter(|count| *count > 0)?;
    // Dividing first keeps the sum of very large values finite.
    Some(finite.iter().map(|value| value / f64::from(count)).sum())
}

/// Distribution of a figure over repetitions or pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of finite values.
    pub count: usize,
    /// The minimum.
    pub min: f64,
    /// The lower quartile.
    pub lower_quartile: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub upper_quartile: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// Returns the distribution of these values; `None` without finite values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let ordered = sorted(values);
        Some(Self {
            count: ordered.len(),
            min: *ordered.first()?,
            lower_quartile: quantile_of_sorted(&ordered, 0.25)?,
            median: quantile_of_sorted(&ordered, 0.5)?,
            upper_quartile: quantile_of_sorted(&ordered, 0.75)?,
            max: *ordered.last()?,
        })
    }
}

fn positive(values: &[f64]) -> impl Iterator<Item = f64> + '_ {
    values
        .iter()
        .copied()
        .filter(|value| value.is_finite() && *value > 0.0)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    finite
}

fn quantile_of_sorted(ordered: &[f64], share: f64) -> Option<f64> {
    let last = ordered.len().checked_sub(1)?;
    let share = if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        return None;
    };
    let mut position = share * f64::from(u32::try_from(last).ok()?);
    let mut index = 0;
    // Counts down instead of casting: the lists are short and the index is exact.
    while position >= 1.0 && index < last {
        position -= 1.0;
        index += 1;
    }
    let below = *ordered.get(index)?;
    let above = ordered.get(index + 1).copied().unwrap_or(below);
    Some(below + (above / 2.0 - below / 2.0) * 2.0 * position)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn median_handles_odd_even_and_empty_lists() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, f64::INFINITY]), None);
        assert_eq!(median(&[f64::NAN, 7.0]), Some(7.0));
    }

    #[test]
    fn quantiles_interpolate_as_type_7() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 0.25), Some(2.0));
        assert_eq!(quantile(&values, 1.0), Some(5.0));
        let value = quantile(&[10.0, 20.0], 0.95).expect("two values");
        assert!((value - 19.5).abs() < 1e-9, "{value}");
        assert_eq!(quantile(&values, f64::NAN), None);
    }

    #[test]
    fn geometric_mean_cancels_half_and_double() {
        let value = geometric_mean(&[0.5, 2.0]).expect("two values");
        assert!((value - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[0.0, -1.0]), None);
    }

    #[test]
    fn spread_of_one_value_is_a_point() {
        let spread = Spread::of(&[2.5]).expect("one value");
        assert_eq!(
            (spread.count, spread.min, spread.median, spread.max),
            (1, 2.5, 2.5, 2.5)
        );
        assert_eq!(Spread::of(&[]), None);
    }

    proptest! {
        #[test]
        fn spread_is_ordered(values in proptest::collection::vec(-1e300f64..1e300, 1..50)) {
            let spread = Spread::of(&values).expect("finite values");
            prop_assert!(spread.min <= spread.lower_quartile && spread.lower_quartile <= spread.median);
            prop_assert!(spread.median <= spread.upper_quartile && spread.upper_quartile <= spread.max);
        }

        #[test]
        fn means_lie_between_the_extremes(values in proptest::collection::vec(1e-6f64..1e6, 1..50)) {
            let spread = Spread::of(&values).expect("finite values");
            for value in [mean(&values), geometric_mean(&values)].into_iter().flatten() {
                prop_assert!(value >= spread.min * (1.0 - 1e-9) && value <= spread.max * (1.0 + 1e-9));
            }
        }
    }
}
