//! What the DevTools tell of a response.
use serde_json::Value;

/// A response's head, as far as a page load is concerned. Times are the browser's monotonic clock, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Response {
    /// The status; that of the cached response if a cached one was validated.
    pub(crate) status: u16,
    /// The browser's own number of the connection; 0 if there was none.
    pub(crate) connection: u64,
    /// It came from the browser's own cache, without a request.
    pub(crate) cached: bool,
    /// When the request was handed to the kernel.
    pub(crate) sent: Option<f64>,
    /// When the first byte arrived.
    pub(crate) first_byte: Option<f64>,
    /// Bytes received when the head was complete: those of the head.
    pub(crate) head_bytes: f64,
    /// Why a proxy made the response itself.
    pub(crate) proxy_error: Option<ProxyError>,
}

/// A proxy's own answer in place of the origin's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyError {
    /// The name does not exist.
    NoSuchName,
    /// Anything else, in the proxy's words.
    Other(String),
}

impl Response {
    pub(crate) fn parse(response: &Value) -> Self {
        let timing = &response["timing"];
        let base = timing["requestTime"].as_f64().filter(|base| *base > 0.0);
        let at = |name: &str| {
            let after = timing[name].as_f64().filter(|after| *after >= 0.0)?;
            base.map(|base| base + after / 1000.0)
        };
        let from = |name: &str| response[name].as_bool().unwrap_or(false);
        Self {
            status: status(&response["status"]).unwrap_or_default(),
            // Kept as a float by some versions.
            connection: response["connectionId"].as_f64().map_or(0, whole),
            cached: from("fromDiskCache") || from("fromPrefetchCache") || from("fromServiceWorker"),
            sent: at("sendStart"),
            first_byte: at("receiveHeadersStart").or_else(|| at("receiveHeadersEnd")),
            head_bytes: response["encodedDataLength"].as_f64().unwrap_or_default(),
            proxy_error: proxy_error(&response["headers"]),
        }
    }
}

/// A status of the DevTools.
pub(crate) fn status(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|status| u16::try_from(status).ok())
}

/// A count that the protocol keeps as a float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count below 2^53; `as` saturates"
)]
pub(crate) const fn whole(count: f64) -> u64 {
    count as u64
}

/// The proxy says in `Proxy-Status` (RFC 9209), Squid in `X-Squid-Error`, that no origin made this response.
fn proxy_error(headers: &Value) -> Option<ProxyError> {
    let headers = headers.as_object()?;
    let field = |name: &str| {
        let found = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| value.as_str())
    };
    if let Some(value) = field("x-squid-error") {
        return Some(if value.starts_with("ERR_DNS_FAIL") {
            ProxyError::NoSuchName
        } else {
            ProxyError::Other(value.to_owned())
        });
    }
    let value = field("proxy-status")?;
    // A member without an error, such as `cdn; received-status=404`, only tells of a response that was passed on.
    let passed_on = value.contains("received-status") && !value.contains("error=");
    (!passed_on).then(|| {
        if value.contains("error=dns_error") {
            ProxyError::NoSuchName
        } else {
            ProxyError::Other(value.to_owned())
        }
    })
}
