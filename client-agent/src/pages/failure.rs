//! Failures of requests, and the error page for each.
use http::StatusCode;
use longhaul_origin::{AddressClass, FetchError, TlsDefect};
use longhaul_proxy::ProxyError;
use longhaul_session::FailureReason;

use super::{
    BadRequest, Page,
    gateway_reason::{Words, words},
    hop,
    responsible::{DIRECT_SITE, LINK, SITE},
};
use crate::trouble::Trouble;

/// Reason why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The browser's request cannot be processed.
    Request(BadRequest),
    /// The gateway reports a failure.
    Gateway {
        /// The typed reason.
        reason: FailureReason,
        /// The gateway's description.
        detail: String,
    },
    /// No gateway answers, and the direct fallback is disabled or failed.
    NoGateway {
        /// What is wrong with the hop; `None` if nothing is known yet.
        trouble: Option<Trouble>,
        /// Error of the direct fetch, if one was tried.
        direct: Option<FetchError>,
    },
    /// The gateway refuses this device, or has no common version.
    Refused(Trouble),
    /// The direct fetch failed at the origin.
    Direct {
        /// Error of the direct fetch.
        error: FetchError,
        /// The reason why the page was not loaded through the gateway, if one is known.
        trouble: Option<Trouble>,
    },
    /// A host of the local network was not reached.
    Local(FetchError),
    /// The session ended while the request was in progress.
    Lost(Lost),
}

/// Consequence of a session loss for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The request may have reached the origin and must not be repeated.
    PerhapsSent,
    /// The request was repeated as often as allowed.
    TooOften,
    /// The request's body has been read and was too large to keep.
    BodyGone,
}

impl Failure {
    /// Returns the page for the browser.
    pub fn page(&self) -> Page {
        match self {
            Self::Request(bad) => bad.page(),
            Self::Gateway { reason, detail } => gateway_page(*reason, detail),
            Self::NoGateway { trouble, direct } => hop::page(trouble.as_ref(), direct.as_ref()),
            Self::Refused(trouble) => hop::page(Some(trouble), None),
            Self::Direct { error, trouble } => hop::direct_page(error, trouble.as_ref())
                .unwrap_or_else(|| direct_page(error, "loaded without the gateway, which does not answer")),
            Self::Local(error) => direct_page(
                error,
                "loaded without the gateway, as a host of the local network",
            ),
            Self::Lost(lost) => lost_page(*lost),
        }
    }
}

pub(super) fn page(
    status: StatusCode,
    whose: &'static str,
    title: &str,
    what: &str,
    advice: &str,
    detail: String,
) -> Page {
    Page {
        status,
        title: title.to_owned(),
        what: what.to_owned(),
        whose,
        advice: advice.to_owned(),
        detail,
        reason: None,
    }
}

fn lost_page(lost: Lost) -> Page {
    let (what, advice) = match lost {
        Lost::PerhapsSent => (
            "The session with the gateway ended after this request was sent and before its answer arrived. The website may \
             or may not have received it. It was not sent again, so that nothing is ordered or posted twice.",
            "Check whether the action took place before you repeat it.",
        ),
        Lost::TooOften => (
            "The session with the gateway ended repeatedly while this page was loading.",
            "Wait a moment and reload.",
        ),
        Lost::BodyGone => (
            "The request had to be sent again, but it was too large to be kept on this computer.",
            "The website has not received it. Send it again.",
        ),
    };
    page(
        StatusCode::BAD_GATEWAY,
        LINK,
        "The connection to the gateway was lost",
        what,
        advice,
        format!("session lost: {lost:?}"),
    )
}

fn gateway_page(reason: FailureReason, detail: &str) -> Page {
    page_of(reason, format!("{reason:?}: {detail}"))
}

/// Returns the page of a reason, with a detail.
fn page_of(reason: FailureReason, detail: String) -> Page {
    let Words {
        status,
        whose,
        title,
        what,
        advice,
    } = words(reason);
    Page {
        reason: Some(reason),
        ..page(status, whose, title, what, advice, detail)
    }
}

fn direct_page(error: &FetchError, how: &str) -> Page {
    let reason = match error {
        FetchError::BadUrl(_) => FailureReason::BadUrl,
        FetchError::ConnectTimeout => FailureReason::ConnectTimeout,
        FetchError::DnsFailed(_) => FailureReason::DnsFailed,
        FetchError::DnsNotFound => FailureReason::DnsNotFound,
        FetchError::GuardRefused(refusal) => return direct_refusal(refusal.class),
        FetchError::HeaderTooLarge => FailureReason::HeaderTooLarge,
        FetchError::Protocol => FailureReason::MalformedResponse,
        FetchError::Refused => FailureReason::ConnectionRefused,
        FetchError::ResponseTimeout => FailureReason::ResponseTimeout,
        FetchError::Tls(defect) => tls_reason(*defect),
        FetchError::Unreachable => FailureReason::Unreachable,
        FetchError::Reset => FailureReason::ConnectionReset,
        FetchError::Proxy(error) => return direct_proxy(error),
        FetchError::Upload => return BadRequest::Upload.page(),
        FetchError::Cancelled | FetchError::Overloaded(_) | FetchError::Resources | _ => {
            return BadRequest::Overloaded.page();
        }
    };
    let page = page_of(reason, format!("{how}: {error}"));
    let whose = if page.whose == SITE {
        DIRECT_SITE
    } else {
        page.whose
    };
    Page { whose, ..page }
}

fn direct_proxy(error: &ProxyError) -> Page {
    page(
        StatusCode::BAD_GATEWAY,
        hop::proxy_whose(error),
        "The HTTP proxy of this network does not load this page",
        "The gateway does not answer, and without it the agent loads pages through the HTTP proxy of `carrier.proxy`.",
        "The detail below says what to do.",
        format!(
            "loaded without the gateway, which does not answer: {}: {error}",
            error.kind()
        ),
    )
}

fn direct_refusal(class: AddressClass) -> Page {
    Page {
        reason: Some(FailureReason::AddressRefused),
        ..page(
            StatusCode::FORBIDDEN,
            "Nobody's: these are the settings of the agent on this computer.",
            "This address is not allowed",
            "The gateway does not answer, and without it the agent loads nothing from this computer itself, and from a \
             private network only if the address is given as a number.",
            "If this is a device in your own network, open it without the proxy (the proxy script of the agent does so by \
             itself), or name its range in `direct.allow` of the agent's settings.",
            if class == AddressClass::Own {
                "direct.allow: one of the agent's own ports".to_owned()
            } else {
                format!("direct.allow: {class}")
            },
        )
    }
}

const fn tls_reason(defect: TlsDefect) -> FailureReason {
    match defect {
        TlsDefect::ClientCertificate => FailureReason::TlsClientCertificate,
        TlsDefect::DeniedKey => FailureReason::TlsDeniedKey,
        TlsDefect::Expired | TlsDefect::NotValidYet => FailureReason::TlsExpired,
        TlsDefect::NameMismatch => FailureReason::TlsNameMismatch,
        TlsDefect::UnknownIssuer => FailureReason::TlsUnknownIssuer,
        TlsDefect::NotTls
        | TlsDefect::Other
        | TlsDefect::Revoked
        | TlsDefect::Timeout
        | TlsDefect::Version
        | _ => FailureReason::TlsOther,
    }
}
