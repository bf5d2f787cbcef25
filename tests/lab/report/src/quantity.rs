//! Formatting of figures. A missing figure is a dash, never a zero.

/// Text for a missing figure.
pub(crate) const NONE: &str = "–";

/// Formats with about three significant digits.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if !(0.001..1e7).contains(&size) {
        format!("{value:.2e}")
    } else if size < 0.995 {
        format!("{value:.3}")
    } else if size < 9.995 {
        format!("{value:.2}")
    } else if size < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Formats a ratio: two decimals up to 10, so that 1.04 and 1.05 differ.
pub(crate) fn ratio(value: f64) -> String {
    if value.is_finite() && value.abs() < 9.995 {
        format!("{value:.2}")
    } else {
        number(value)
    }
}

/// Formats an optional ratio.
pub(crate) fn ratio_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), ratio)
}

/// Formats an optional figure.
pub(crate) fn number_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), number)
}

/// Formats a share as per cent.
pub(crate) fn percent(value: f64) -> String {
    let scaled = value * 100.0;
    if !scaled.is_finite() {
        NONE.to_owned()
    } else if scaled.abs() < 9.95 && scaled.fract() != 0.0 {
        format!("{scaled:.1} %")
    } else {
        format!("{scaled:.0} %")
    }
}

/// Formats an optional share as per cent.
pub(crate) fn percent_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), percent)
}

/// Formats bytes as kB (1000 bytes) or MB.
pub(crate) fn bytes(value: f64) -> String {
    if !value.is_finite() {
        NONE.to_owned()
    } else if value.abs() < 1000.0 {
        format!("{value:.0} B")
    } else if value.abs() < 1e6 {
        format!("{} kB", number(value / 1e3))
    } else {
        format!("{} MB", number(value / 1e6))
    }
}

/// Formats optional bytes.
pub(crate) fn bytes_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), bytes)
}

/// Formats a rate in bit/s, kbit/s or Mbit/s.
pub(crate) fn bit_rate(value: f64) -> String {
    if !value.is_finite() {
        NONE.to_owned()
    } else if value.abs() < 1000.0 {
        format!("{value:.0} bit/s")
    } else if value.abs() < 1e6 {
        format!("{} kbit/s", number(value / 1e3))
    } else {
        format!("{} Mbit/s", number(value / 1e6))
    }
}

/// Converts a count of the file into a figure. Counts above 2^53 lose their last digits, which are never
/// displayed.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn count(value: u64) -> f64 {
    value as f64
}

/// Converts a length of a list into a figure.
pub(crate) fn length(value: usize) -> f64 {
    count(u64::try_from(value).unwrap_or(u64::MAX))
}

/// Returns the quotient, if it is positive and finite.
pub(crate) fn quotient(above: f64, below: f64) -> Option<f64> {
    let value = above / below;
    (value.is_finite() && above >= 0.0 && below > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!(number(18.53), "18.5");
        assert_eq!(number(0.162), "0.162");
        assert_eq!(number(196.3), "196");
        assert_eq!(number(0.9999), "1.00");
        assert_eq!(number(f64::NAN), NONE);
        assert_eq!(ratio(1.049), "1.05");
        assert_eq!(ratio(f64::INFINITY), NONE);
        assert_eq!(bytes(88_268.0), "88.3 kB");
        assert_eq!(bit_rate(39_600.0), "39.6 kbit/s");
        assert_eq!(percent(0.02), "2 %");
        assert_eq!(percent(0.025), "2.5 %");
    }

    #[test]
    fn invalid_quotients_are_none() {
        assert_eq!(quotient(1.0, 0.0), None);
        assert_eq!(quotient(-1.0, 1.0), None);
        assert_eq!(quotient(f64::NAN, 1.0), None);
        assert_eq!(quotient(3.0, 2.0), Some(1.5));
    }
}
