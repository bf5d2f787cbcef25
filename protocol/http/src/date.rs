//! HTTP dates (RFC 9110 section 5.6.7) as [`UnixTime`].
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, header::AsHeaderName};
use longhaul_types::UnixTime;

/// Returns the only value of a date field, if it is a date. Dates before 1970 count as 1970, because no rule
/// distinguishes them.
pub(crate) fn field(headers: &HeaderMap, name: impl AsHeaderName) -> Option<UnixTime> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    parse(value.to_str().ok()?)
}

/// Parses a date in any of the three formats. Names of days, months and the time zone may be in any case: dates are case
/// sensitive (RFC 9110 section 5.6.7), but not for caches (RFC 9111 section 4.2). The day of the week may be a wrong one,
/// as for browsers: it says nothing that the rest does not say.
pub(crate) fn parse(text: &str) -> Option<UnixTime> {
    let text = text.trim();
    let time = httpdate::parse_http_date(text).ok().or_else(|| lenient(text))?;
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(UnixTime::new(since_epoch))
}

/// Parses a date whose names are in another case, or whose day of the week is another one.
fn lenient(text: &str) -> Option<SystemTime> {
    let text = usual_case(text);
    let (day, rest) = text.split_once(' ')?;
    let (day, comma) = day.strip_suffix(',').map_or((day, ""), |day| (day, ","));
    let names = [DAYS, DAYS.map(|name| &name[..3])]
        .into_iter()
        .find(|names| names.contains(&day))?;
    names
        .iter()
        .find_map(|name| httpdate::parse_http_date(&format!("{name}{comma} {rest}")).ok())
}

/// Names begin with an upper-case letter; the time zone is in upper case.
fn usual_case(text: &str) -> String {
    let word = |word: &str| match word.split_at_checked(1) {
        Some(_) if word.eq_ignore_ascii_case("GMT") => "GMT".to_owned(),
        Some((first, rest)) => first.to_ascii_uppercase() + &rest.to_ascii_lowercase(),
        None => word.to_owned(),
    };
    let words: Vec<_> = text
        .split(' ')
        .map(|part| part.split('-').map(word).collect::<Vec<_>>().join("-"))
        .collect();
    words.join(" ")
}

/// Formats a date in the preferred format.
pub(crate) fn write(time: UnixTime) -> HeaderValue {
    // A formatted date is always a valid field value; the empty value would be an invalid date, which is
    // harmless.
    HeaderValue::from_str(&httpdate::fmt_http_date(system(time)))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Converts to `SystemTime`, at most the last second of 9999, the latest HTTP date.
pub(crate) fn system(time: UnixTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + time.since_epoch().min(LAST)
}

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const LAST: Duration = Duration::from_secs(253_402_300_799);

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    #[test]
    fn three_forms_are_read_and_one_is_written() {
        let expected = UnixTime::new(Duration::from_secs(784_111_777));
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "sUN, 06 nOV 1994 08:49:37 gmt",
            "SUNDAY, 06-NOV-94 08:49:37 GMT",
            "sun nov  6 08:49:37 1994",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "tuesday, 06-nov-94 08:49:37 GMT",
            "Sat Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        assert_eq!(write(expected), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in [
            "",
            "0",
            "-1",
            "1994-11-06",
            "Day, 06 Nov 1994 08:49:37 GMT",
            "06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sün, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(
            write(UnixTime::new(Duration::MAX)),
            "Fri, 31 Dec 9999 23:59:59 GMT"
        );
    }

    #[test]
    fn a_repeated_date_is_ignored() {
        let mut headers = HeaderMap::new();
        headers.append(
            header::EXPIRES,
            HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"),
        );
        assert!(field(&headers, header::EXPIRES).is_some());
        headers.append(
            header::EXPIRES,
            HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"),
        );
        assert_eq!(field(&headers, header::EXPIRES), None);
    }
}
