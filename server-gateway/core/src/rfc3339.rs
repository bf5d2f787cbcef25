//! Times as operators and users read them (RFC 3339).
use std::time::SystemTime;

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// A time in RFC 3339, in whole seconds.
pub fn rfc3339(time: SystemTime) -> String {
    OffsetDateTime::from(time)
        .replace_nanosecond(0)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// An HTTP date of the file as RFC 3339. A text that is no date stays as somebody wrote it.
pub fn normalised(date: &str) -> String {
    httpdate::parse_http_date(date).map_or_else(|_| date.to_owned(), rfc3339)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_whole_seconds_and_dates_of_files_as_times() {
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_999);
        assert_eq!(rfc3339(time), "1970-01-01T00:00:01Z");
        assert_eq!(
            normalised("Thu, 01 Jan 1970 00:00:01 GMT"),
            "1970-01-01T00:00:01Z"
        );
        assert_eq!(normalised("yesterday"), "yesterday");
    }
}
