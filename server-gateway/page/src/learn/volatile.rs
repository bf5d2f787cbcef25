//! URLs that change with every visit: cache busters, time stamps, random numbers.
use std::time::Duration;

use longhaul_types::UnixTime;

/// Returns true if a query value of the URL is evidently a current time or a random number.
pub(super) fn is_volatile(url: &str, now: UnixTime) -> bool {
    let Some((_, query)) = url.split_once('?') else {
        return false;
    };
    query.split('&').any(|pair| {
        let value = pair.split_once('=').map_or(pair, |(_, value)| value);
        is_fraction(value) || has_time_or_random(value, now)
    })
}

/// Returns the common form of URLs that differ only in query values.
pub(super) fn shape(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else {
        return url.to_owned();
    };
    let mut names: Vec<&str> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) => name,
            // A bare number or hash is a value without a name.
            None => "",
        })
        .collect();
    names.sort_unstable();
    format!("{path}?{}", names.join("&"))
}

/// True for a result of `Math.random()`.
fn is_fraction(value: &str) -> bool {
    value
        .strip_prefix("0.")
        .is_some_and(|digits| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// True if a run of digits is the current time in seconds or milliseconds, or long enough to be a random
/// number.
fn has_time_or_random(value: &str, now: UnixTime) -> bool {
    value
        .split(|char: char| !char.is_ascii_digit())
        .filter_map(|digits| Some((digits.len(), digits.parse::<u128>().ok()?)))
        .any(|(length, number)| match length {
            10 => is_recent(
                Duration::from_secs(u64::try_from(number).unwrap_or_default()),
                now,
            ),
            13 => is_recent(
                Duration::from_millis(u64::try_from(number).unwrap_or_default()),
                now,
            ),
            0..16 => false,
            _ => true,
        })
}

fn is_recent(time: Duration, now: UnixTime) -> bool {
    time.abs_diff(now.since_epoch()) < RECENT
}

/// A time stamp older than this denotes a version, not the time of the visit.
const RECENT: Duration = Duration::from_secs(2 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_timestamps_or_random_numbers_are_volatile() {
        let now = UnixTime::new(Duration::from_secs(1_760_000_000));
        for url in [
            "/x?_=1760000000123",
            "/x?t=1760000100",
            "/x?a=1&r=0.7312345678",
            "/x?cb=jQuery111_1759999999000",
            "/x?1760000000",
            "/x?ord=12345678901234567890",
        ] {
            assert!(is_volatile(url, now), "{url}");
        }
        for url in [
            "/x",
            "/x?v=3",
            "/x?id=1234567890123",
            "/x?v=1500000000",
            "/1760000000",
            "/x?r=0.5",
        ] {
            assert!(!is_volatile(url, now), "{url}");
        }
    }

    #[test]
    fn urls_with_equal_parameter_names_have_the_same_shape() {
        assert_eq!(shape("/x?b=1&a=2"), shape("/x?a=3&b=4"));
        assert_eq!(shape("/x?123"), shape("/x?456"));
        assert_ne!(shape("/x?a=1"), shape("/x?b=1"));
        assert_ne!(shape("/x"), shape("/y"));
    }
}
