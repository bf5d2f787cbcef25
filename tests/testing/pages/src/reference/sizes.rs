//! Sizes of the objects in bytes.
use super::{catalogue::Recipe, random::Random};

/// Returns the sizes of `count` images whose sum is `total`: quantiles of a log-normal distribution, which
/// web objects follow (Crovella and Bestavros, 1996), within the recipe's bounds. Ascending.
pub(super) fn images(recipe: &Recipe, count: usize, total: usize) -> Vec<usize> {
    let (smallest, largest) = recipe.images;
    let at_median = |median: f64| -> Vec<usize> {
        let size = |index: usize| {
            let share = (fraction(index) + 0.5) / fraction(count);
            let size = median * (recipe.spread * normal_quantile(share)).exp();
            whole(size).clamp(smallest, largest)
        };
        (0..count).map(size).collect()
    };
    let (mut low, mut high) = (1.0, 200_000.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_median(middle).iter().sum::<usize>() < total {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut sizes = at_median(low);
    let mut missing = total.saturating_sub(sizes.iter().sum());
    for size in sizes.iter_mut().rev() {
        let more = missing.min(largest.saturating_sub(*size)).min(1 + *size / 20);
        *size += more;
        missing -= more;
    }
    sizes
}

/// Divides `total` bytes of text among `count` objects, each within a third of the mean.
pub(super) fn texts(random: &mut Random, count: usize, total: usize) -> Vec<usize> {
    let weights: Vec<usize> = (0..count).map(|_| random.range(70, 130)).collect();
    let sum: usize = weights.iter().sum::<usize>().max(1);
    let mut sizes: Vec<usize> = weights.iter().map(|weight| total * weight / sum).collect();
    let missing = total.saturating_sub(sizes.iter().sum());
    if let Some(first) = sizes.first_mut() {
        *first += missing;
    }
    sizes
}

/// Quantile of the standard normal distribution: Hastings' approximation (Abramowitz and Stegun 26.2.23), within
/// 0.00045.
fn normal_quantile(share: f64) -> f64 {
    let tail = share.min(1.0 - share).max(1e-9);
    let t = (-2.0 * tail.ln()).sqrt();
    let upper = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let lower = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let quantile = t - upper / lower;
    if share < 0.5 { -quantile } else { quantile }
}

#[expect(clippy::cast_precision_loss, reason = "counts of objects are small")]
fn fraction(count: usize) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and is then clamped to the bounds of an image"
)]
fn whole(size: f64) -> usize {
    size.round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::catalogue::RECIPES;

    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        for (share, expected) in [(0.5, 0.0), (0.841_345, 1.0), (0.022_75, -2.0), (0.977_25, 2.0)] {
            assert!((normal_quantile(share) - expected).abs() < 0.001);
        }
    }

    #[test]
    fn sizes_have_the_given_sum() {
        for recipe in RECIPES {
            let count = recipe.published.objects - 1 - recipe.styles - recipe.scripts - recipe.frames;
            let total = usize::try_from(recipe.published.bytes).unwrap() - recipe.text;
            let sizes = images(recipe, count, total);
            assert_eq!(sizes.iter().sum::<usize>(), total, "{}", recipe.name);
            assert!(sizes.is_sorted());
        }
        let sizes = texts(&mut Random::new(1), 5, 10_007);
        assert_eq!(sizes.iter().sum::<usize>(), 10_007);
    }
}
