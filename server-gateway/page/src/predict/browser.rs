//! Detection of browser engines.
use http::{HeaderMap, header};

/// Browser engines whose requests differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Browser {
    /// Chrome, Edge, Opera and others.
    Chromium,
    /// Firefox and derived browsers.
    Firefox,
    /// Safari and all browsers of iOS.
    Safari,
    /// Unknown: only the common behaviour of all engines is assumed.
    Other,
}

impl Browser {
    /// Determines the engine from `User-Agent`.
    pub fn of(request: &HeaderMap) -> Self {
        let user_agent = request.get(header::USER_AGENT);
        let text = user_agent
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if text.contains("Chrome/") || text.contains("Chromium/") {
            Self::Chromium
        } else if text.contains("Firefox/") && text.contains("Gecko/") {
            Self::Firefox
        } else if text.contains("AppleWebKit/") {
            Self::Safari
        } else {
            Self::Other
        }
    }
}

/// Returns the major version of a Chromium-based browser.
pub(super) fn chromium_version(request: &HeaderMap) -> Option<u32> {
    let text = request.get(header::USER_AGENT)?.to_str().ok()?;
    let (_, version) = text.split_once("Chrome/")?;
    version.split(['.', ' ']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn browser_engines_are_distinguished() {
        let cases = [
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36",
                Browser::Chromium,
            ),
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
                Browser::Firefox,
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
                Browser::Safari,
            ),
            ("curl/8.0", Browser::Other),
        ];
        for (text, expected) in cases {
            let mut request = HeaderMap::new();
            request.insert(header::USER_AGENT, HeaderValue::from_static(text));
            assert_eq!(Browser::of(&request), expected, "{text}");
            let version = chromium_version(&request);
            assert_eq!(version, (expected == Browser::Chromium).then_some(156), "{text}");
        }
        assert_eq!(Browser::of(&HeaderMap::new()), Browser::Other);
    }
}
