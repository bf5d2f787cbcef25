//! Dates of cookies (RFC 6265 section 5.1.1): tokens in any order.
use std::time::Duration;

use longhaul_types::UnixTime;

/// Parses a cookie date. Dates before 1970 count as 1970.
pub(super) fn parse(text: &[u8]) -> Option<UnixTime> {
    let mut found = Found::default();
    for token in text.split(|byte| is_delimiter(*byte)) {
        found.take(token);
    }
    found.time()
}

#[derive(Default)]
struct Found {
    clock: Option<(u64, u64, u64)>,
    day: Option<i64>,
    month: Option<i64>,
    year: Option<i64>,
}

impl Found {
    /// Takes a token; the first token of each form counts.
    fn take(&mut self, token: &[u8]) {
        if self.clock.is_none() {
            self.clock = clock(token);
            if self.clock.is_some() {
                return;
            }
        }
        if self.day.is_none() {
            self.day = number(token, 1, 2);
            if self.day.is_some() {
                return;
            }
        }
        if self.month.is_none() {
            self.month = month(token);
            if self.month.is_some() {
                return;
            }
        }
        if self.year.is_none() {
            self.year = number(token, 2, 4).map(|year| match year {
                70..=99 => year + 1900,
                0..=69 => year + 2000,
                _ => year,
            });
        }
    }

    fn time(&self) -> Option<UnixTime> {
        let (hour, minute, second) = self.clock?;
        let (day, month, year) = (self.day?, self.month?, self.year?);
        if !(1..=31).contains(&day) || year < 1601 || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = u64::try_from(days_since_epoch(year, month, day)).unwrap_or_default();
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        Some(UnixTime::new(Duration::from_secs(seconds)))
    }
}

fn clock(token: &[u8]) -> Option<(u64, u64, u64)> {
    let mut parts = token.splitn(3, |byte| *byte == b':');
    let mut part = || u64::try_from(number(parts.next()?, 1, 2)?).ok();
    Some((part()?, part()?, part()?))
}

/// Parses a number of `least` to `most` digits, which any byte except a digit may follow.
fn number(token: &[u8], least: usize, most: usize) -> Option<i64> {
    let digits = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(least..=most).contains(&digits) {
        return None;
    }
    std::str::from_utf8(&token[..digits]).ok()?.parse().ok()
}

fn month(token: &[u8]) -> Option<i64> {
    let name = token.get(..3)?.to_ascii_lowercase();
    let position = MONTHS.iter().position(|month| **month == *name)?;
    i64::try_from(position + 1).ok()
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. Years start in March, so that the leap day is the
/// last day of a year.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, 0x09 | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e)
}

const MONTHS: [&[u8]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_dates_are_parsed_in_all_forms() {
        let seconds = |text: &str| parse(text.as_bytes()).map(|time| time.since_epoch().as_secs());
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "6 november 1994 8:49:37",
            "1994 08:49:37 nov 06",
        ] {
            assert_eq!(seconds(text), Some(784_111_777), "{text}");
        }
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        assert_eq!(seconds("Fri, 31 Dec 9999 23:59:59 GMT"), Some(253_402_300_799));
        assert_eq!(seconds("Mon, 01 Jan 1601 00:00:00 GMT"), Some(0));
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994",
            "32 Jan 2020 00:00:00",
            "1 Jan 2020 24:00:00",
            "1 Foo 2020 00:00:00",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
