//! Numbers as people read them. Pure.

/// Returns an amount of data: `980 B`, `12.3 kB`, `7.7 MB`, `1.2 GB`.
pub(crate) fn data(bytes: u64) -> String {
    scaled(bytes, ["B", "kB", "MB", "GB", "TB"])
}

/// Returns an amount that may be negative.
pub(crate) fn signed_data(bytes: i64) -> String {
    let amount = data(bytes.unsigned_abs());
    if bytes < 0 {
        format!("\u{2212}{amount}")
    } else {
        amount
    }
}

/// Returns a rate: `850 bit/s`, `384 kbit/s`, `7.7 Mbit/s`.
pub(crate) fn rate(bits_per_second: u64) -> String {
    scaled(bits_per_second, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// Returns a configured size, which is a multiple of a power of two: `256 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        let whole = bytes >> shift;
        if whole > 0 && whole << shift == bytes {
            return format!("{whole} {unit}");
        }
    }
    data(bytes)
}

/// Returns a time in s: `80 ms`, `1.4 s`, `12 min`, `3 h 5 min`, `2 d 4 h`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of people"
)]
pub(crate) fn time(seconds: f64) -> String {
    let is_some = seconds > 0.0;
    let milliseconds = (seconds.max(0.0) * 1000.0).round() as u64;
    let seconds = milliseconds / 1000;
    match seconds {
        0 if milliseconds == 0 && is_some => "under 1 ms".to_owned(),
        0 if milliseconds == 0 => "0 s".to_owned(),
        0 => format!("{milliseconds} ms"),
        1..10 => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Returns a part in per cent: `0 %`, `0.4 %`, `37 %`.
pub(crate) fn share(part: u64, whole: u64) -> String {
    let thousandths = u128::from(part) * 1000 / u128::from(whole.max(1));
    match thousandths {
        0 => "0 %".to_owned(),
        1..100 => format!("{}.{} %", thousandths / 10, thousandths % 10),
        _ => format!("{} %", thousandths / 10),
    }
}

/// Returns a count with its word.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn scaled(amount: u64, units: [&str; 5]) -> String {
    let mut divisor = 1;
    let mut units = units.into_iter();
    let mut unit = units.next().unwrap_or_default();
    // 999.5 k would be shown as 1000 k.
    while amount / divisor >= 1000
        && let Some(next) = units.next()
    {
        (divisor, unit) = (divisor * 1000, next);
    }
    let whole = amount / divisor;
    if divisor == 1 || whole >= 100 {
        format!("{whole} {unit}")
    } else {
        format!("{whole}.{} {unit}", amount % divisor * 10 / divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_their_units() {
        let found = [0, 999, 1000, 12_345, 268_435_456, 7_700_000, u64::MAX].map(data);
        assert_eq!(
            found,
            [
                "0 B",
                "999 B",
                "1.0 kB",
                "12.3 kB",
                "268 MB",
                "7.7 MB",
                "18446744 TB"
            ]
        );
        assert_eq!(signed_data(-1500), "\u{2212}1.5 kB");
        assert_eq!(
            [850, 384_000, 7_662_600].map(rate),
            ["850 bit/s", "384 kbit/s", "7.6 Mbit/s"]
        );
        assert_eq!(
            [256 << 20, 3 << 30, 1 << 10, 1_000_000].map(size),
            ["256 MiB", "3 GiB", "1 KiB", "1.0 MB"]
        );
        assert_eq!(time(0.0002), "under 1 ms");
        let times = [0.0, 0.0804, 1.44, 63.0, 720.0, 11_100.0, 187_200.0, -1.0].map(time);
        assert_eq!(
            times,
            [
                "0 s",
                "80 ms",
                "1.4 s",
                "63 s",
                "12 min",
                "3 h 5 min",
                "2 d 4 h",
                "0 s"
            ]
        );
        assert_eq!(share(4, 1000), "0.4 %");
        assert_eq!(
            (share(37, 100), share(1, 0)),
            ("37 %".to_owned(), "100 %".to_owned())
        );
    }
}
