//! For how long an origin keeps an idle connection, as its `Keep-Alive` field says.
use std::time::Duration;

use http::HeaderMap;

/// Returns the time for which a connection may be idle: `timeout` of `Keep-Alive`, less the second in which the origin may
/// already close the connection. `None` if the origin does not say.
pub(crate) fn usable_for(headers: &HeaderMap) -> Option<Duration> {
    let fields = headers.get_all("keep-alive").iter();
    let seconds = fields.filter_map(|value| value.to_str().ok()).find_map(timeout)?;
    Some(Duration::from_secs(seconds.saturating_sub(1)))
}

fn timeout(value: &str) -> Option<u64> {
    value.split([',', ';']).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_meant = name.trim().eq_ignore_ascii_case("timeout");
        is_meant.then(|| value.trim().trim_matches('"').parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn reads_the_timeout() {
        for (field, expected) in [
            ("timeout=5", Some(4)),
            ("timeout=5, max=100", Some(4)),
            ("max=100; Timeout = \"30\"", Some(29)),
            ("timeout=1", Some(0)),
            ("timeout=0", Some(0)),
            ("max=3", None),
            ("timeout=-1", None),
            ("timeout", None),
            ("5", None),
        ] {
            let headers =
                HeaderMap::from_iter([("keep-alive".parse().unwrap(), HeaderValue::from_static(field))]);
            assert_eq!(usable_for(&headers), expected.map(Duration::from_secs), "{field}");
        }
        assert_eq!(usable_for(&HeaderMap::new()), None);
    }
}
