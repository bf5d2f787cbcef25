//! Order statistics.

/// Returns the quantile of the values by linear interpolation; 0 without values.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else {
        return 0.0;
    };
    let place = share.clamp(0.0, 1.0) * float(last);
    let low = values
        .iter()
        .enumerate()
        .take_while(|(index, _)| float(*index) <= place)
        .last();
    let Some((index, &low)) = low else { return 0.0 };
    let high = values.get(index + 1).copied().unwrap_or(low);
    low + (high - low) * (place - float(index))
}

/// Returns the mean; 0 without values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / float(values.len().max(1))
}

/// Converts a count for calculations.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of bytes and pictures, below 2^53"
)]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = &mut [3.0, 1.0, 2.0];
        assert_eq!(quantile(values, 0.5), 2.0);
        assert_eq!(quantile(values, 0.0), 1.0);
        assert_eq!(quantile(values, 1.0), 3.0);
        assert_eq!(quantile(values, 0.25), 1.5);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
