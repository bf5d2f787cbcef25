//! The response to one request, before it is written.
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_gateway_core::{device_streams::StreamSlot, failure::Failure};
use longhaul_session::{FailureReason, Fault, class};
use longhaul_types::Priority;
use longhaul_webcache::BodyReader;

use super::{access::Denied, encoding::AppliedCoding, head::HeadError, prefetch::BodyTap};

/// The response to one request.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: AnswerBody,
    /// Class of the body among those of a connection (docs/protocol/session.md section 2).
    pub(super) class: Priority,
    /// The content coding to apply, which the fields describe.
    pub(super) coding: Option<AppliedCoding>,
    /// True if the connection ends after it.
    pub(super) closes: bool,
    /// Sees the body.
    pub(super) tap: Option<BodyTap>,
    /// Held until the body is written.
    pub(super) _slot: Option<StreamSlot>,
}

/// The body of a response.
pub(super) enum AnswerBody {
    None,
    Whole(Bytes),
    Stream(BodyReader),
}

impl AnswerBody {
    /// Bytes that the response keeps in memory until its turn.
    pub(super) fn held(&self, most: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Stream(reader) => reader.length().unwrap_or(most).min(most),
        }
    }
}

const REALM: HeaderValue = HeaderValue::from_static("Basic realm=\"Longhaul\", charset=\"UTF-8\"");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

impl Answer {
    /// A text of the proxy itself.
    pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, TEXT);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        Self {
            status,
            headers,
            body: AnswerBody::Whole(Bytes::from(text.into())),
            class: class::PAGE,
            coding: None,
            closes: false,
            tap: None,
            _slot: None,
        }
    }

    fn closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// The answer to a head that was rejected.
    pub(super) fn of_head_error(error: HeadError) -> Self {
        Self::text(error.status(), format!("{error}\n")).closing()
    }

    /// The answer to a client that is not served.
    pub(super) fn of_denied(denied: Denied) -> Self {
        match denied {
            // As any other server answers a request that it does not know.
            Denied::Outside | Denied::Silent | Denied::Straight | Denied::LookUps => {
                Self::text(StatusCode::NOT_FOUND, "Not Found\n").closing()
            }
            Denied::Password => {
                let text = "This proxy needs a name and a password.\n";
                let mut answer = Self::text(StatusCode::PROXY_AUTHENTICATION_REQUIRED, text);
                answer.headers.insert(header::PROXY_AUTHENTICATE, REALM);
                answer
            }
        }
    }

    /// The answer to a request whose body does not arrive in time (RFC 9110 section 15.5.9).
    pub(super) fn of_late_body() -> Self {
        let text = "The request's body did not arrive in time.\n";
        Self::text(StatusCode::REQUEST_TIMEOUT, text).closing()
    }

    /// The answer to a request without a response, which says whose fault it is.
    pub(super) fn of_failure(failure: &Failure) -> Self {
        let who = match failure.reason.fault() {
            Fault::Request | Fault::Agent => "The request cannot be carried out as it is",
            Fault::Origin => "The website or its network failed",
            Fault::Policy => "A rule of this proxy's operator forbids the request",
            Fault::Gateway => "This proxy failed; try again",
        };
        let text = format!("{who}: {}.\n", failure.detail);
        Self::text(status_of(failure.reason), text)
    }
}

/// Status of the response to a failed request.
fn status_of(reason: FailureReason) -> StatusCode {
    let is_late = matches!(
        reason,
        FailureReason::ConnectTimeout | FailureReason::ResponseTimeout | FailureReason::DnsFailed
    );
    match reason.fault() {
        Fault::Origin if is_late => StatusCode::GATEWAY_TIMEOUT,
        Fault::Origin => StatusCode::BAD_GATEWAY,
        Fault::Gateway if reason == FailureReason::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        Fault::Gateway => StatusCode::INTERNAL_SERVER_ERROR,
        Fault::Request | Fault::Agent => StatusCode::BAD_REQUEST,
        Fault::Policy => StatusCode::FORBIDDEN,
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::ContentHash;

    use super::*;

    #[test]
    fn the_status_says_who_failed() {
        for (reason, status) in [
            (FailureReason::ConnectTimeout, 504),
            (FailureReason::ResponseTimeout, 504),
            (FailureReason::DnsFailed, 504),
            (FailureReason::DnsNotFound, 502),
            (FailureReason::ConnectionRefused, 502),
            (FailureReason::TlsExpired, 502),
            (FailureReason::Overloaded, 503),
            (FailureReason::Internal, 500),
            (FailureReason::BadUrl, 400),
            (FailureReason::AddressRefused, 403),
            (FailureReason::QuotaReached, 403),
        ] {
            let answer = Answer::of_failure(&Failure::new(reason, "why"));
            assert_eq!(answer.status.as_u16(), status, "{reason:?}");
        }
    }

    #[test]
    fn clients_that_are_not_served_learn_nothing_of_the_proxy() {
        for denied in [Denied::Outside, Denied::Silent, Denied::Straight, Denied::LookUps] {
            let answer = Answer::of_denied(denied);
            assert_eq!(answer.status, StatusCode::NOT_FOUND);
            assert!(answer.closes && !answer.headers.contains_key(header::PROXY_AUTHENTICATE));
        }
        let answer = Answer::of_denied(Denied::Password);
        assert_eq!(answer.status, StatusCode::PROXY_AUTHENTICATION_REQUIRED);
        assert!(!answer.closes && answer.headers.contains_key(header::PROXY_AUTHENTICATE));
    }

    #[test]
    fn a_response_that_waits_keeps_its_body_in_memory() {
        let chk = ContentHash::from_bytes([1; 32]);
        let stream = || AnswerBody::Stream(BodyReader::of_bytes(Bytes::from_static(&[0; 500]), chk));
        assert_eq!(AnswerBody::None.held(1000), 0);
        assert_eq!(AnswerBody::Whole(Bytes::from_static(b"hello")).held(1000), 5);
        assert_eq!(stream().held(1000), 500);
        assert_eq!(stream().held(100), 100);
    }
}
