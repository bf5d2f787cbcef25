//! Hosts that do not get along with acceleration: the gateway cannot verify their certificates, or fails in TLS or
//! HTTP where a browser may not. Such a host is bypassed at once, and the client repeats the request in a tunnel if
//! it can: there the browser decides for itself, as without Longhaul.
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use longhaul_session::FailureReason;

use crate::{
    https::{BypassReason, Https, HttpsDecision},
    pages::{Page, page_response},
    proxy_body::ProxyBody,
};

/// Time that requests in progress have after their host becomes bypassed.
const ENDING_TIME: Duration = Duration::from_secs(5);
/// The same if the reason lies in other requests: downloads and event streams go on.
const UNHURRIED: Duration = Duration::from_secs(24 * 3600);

/// The request, as far as it says whether and how it can be repeated.
pub(super) struct Repeatable {
    is_safe: bool,
    is_h2: bool,
    is_upgrade: bool,
    uri: Uri,
}

/// The response to a request, or its repetition.
pub(super) enum Answer {
    Response(Box<Response<ProxyBody>>),
    /// The client repeats the request on a new connection, which becomes a tunnel.
    Repeated,
}

impl Repeatable {
    pub(super) fn of<B>(request: &Request<B>, is_upgrade: bool) -> Self {
        Self {
            is_safe: matches!(*request.method(), Method::GET | Method::HEAD),
            is_h2: request.version() == Version::HTTP_2,
            is_upgrade,
            uri: request.uri().clone(),
        }
    }

    /// Bypasses the host if the response says that the gateway does not get along with it.
    pub(super) fn repeated(self, https: &Https, host: &str, response: Response<ProxyBody>) -> Answer {
        let page: Option<&Page> = response.extensions().get();
        let found = page.and_then(|page| Some((page, page.reason?, effect_of(page.reason?)?)));
        let Some((page, reason, effect)) = found else {
            return Answer::Response(Box::new(response));
        };
        https.bypass(host, effect.why);
        // Without a tunnel the next request would fail in the same way.
        let may_repeat = (effect.is_unsent || self.is_safe) && !https.accelerates(host);
        if may_repeat && self.is_h2 {
            return Answer::Repeated;
        }
        if self.is_upgrade {
            return Answer::Response(Box::new(response));
        }
        let mut answer = reload_page(page, reason, effect.is_unsent);
        if let (true, Some(location)) = (may_repeat && self.is_safe, self.location()) {
            redirect(&mut answer, location);
        }
        Answer::Response(Box::new(answer))
    }

    /// The same URL, relative to the host.
    fn location(&self) -> Option<HeaderValue> {
        let path = self.uri.path_and_query()?.as_str();
        // Two slashes would begin with a host.
        let is_path = path.starts_with('/') && !path.starts_with("//");
        HeaderValue::from_str(path).ok().filter(|_| is_path)
    }
}

/// What a failure means for the host.
struct Effect {
    why: BypassReason,
    /// True if the host has received nothing of the request.
    is_unsent: bool,
}

/// Returns `None` if a tunnel through the gateway would fail, too, or if the operator has decided.
const fn effect_of(reason: FailureReason) -> Option<Effect> {
    let (why, is_unsent) = match reason {
        FailureReason::TlsClientCertificate => (BypassReason::RequestsClientCertificate, true),
        FailureReason::TlsExpired
        | FailureReason::TlsUnknownIssuer
        | FailureReason::TlsNameMismatch
        | FailureReason::TlsOther => (BypassReason::IncompatibleHost, true),
        FailureReason::MalformedResponse | FailureReason::HeaderTooLarge => {
            (BypassReason::IncompatibleHost, false)
        }
        FailureReason::DnsNotFound
        | FailureReason::DnsFailed
        | FailureReason::ConnectionRefused
        | FailureReason::Unreachable
        | FailureReason::ConnectTimeout
        | FailureReason::ResponseTimeout
        | FailureReason::ConnectionReset
        | FailureReason::AddressRefused
        | FailureReason::TargetRefused
        | FailureReason::BadUrl
        | FailureReason::TooEarly
        | FailureReason::UnknownBase
        | FailureReason::Changed
        | FailureReason::Overloaded
        | FailureReason::Malformed
        | FailureReason::Internal
        | FailureReason::TlsDeniedKey
        | FailureReason::QuotaReached => return None,
    };
    Some(Effect { why, is_unsent })
}

/// Sends an HTTP/1.1 client, which does not repeat a request by itself, to the same URL on another connection, which
/// becomes a tunnel. There the host answers, so that there is no second redirection.
fn redirect(answer: &mut Response<ProxyBody>, location: HeaderValue) {
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    let headers = answer.headers_mut();
    headers.insert(header::LOCATION, location);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// The error page with the advice to repeat what the client cannot repeat by itself.
fn reload_page(page: &Page, reason: FailureReason, is_unsent: bool) -> Response<ProxyBody> {
    let advice = match (reason, is_unsent) {
        (FailureReason::TlsClientCertificate, _) => return page_response(page),
        (_, true) => {
            "Nothing has been sent to the website. Reload the page: the website is no longer accelerated, so that this \
             browser itself connects to it."
        }
        (_, false) => {
            "The website may have received the request. If you want to send it again, reload the page: the website is \
             no longer accelerated."
        }
    };
    let page = Page {
        advice: advice.to_owned(),
        ..page.clone()
    };
    page_response(&page)
}

/// Time for requests in progress of a host that has become bypassed.
pub(super) fn ending_time(https: &Https, host: &str) -> Duration {
    if https.decide(host) == HttpsDecision::Bypassed(BypassReason::IncompatibleHost) {
        UNHURRIED
    } else {
        ENDING_TIME
    }
}
