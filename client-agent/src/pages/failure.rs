//! Failures of requests, and the error page for each.
use http::StatusCode;
use longhaul_origin::{AddressClass, FetchError, TlsDefect};
use longhaul_session::FailureReason;

use super::{Page, hop};
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

/// Errors of a browser's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadRequest {
    /// The request is not HTTP, or violates its rules.
    Malformed,
    /// A proxy cannot fetch the target.
    Target(longhaul_http::target::TargetError),
    /// The length of the body is ambiguous.
    Framing(longhaul_http::framing::FramingError),
    /// The header section is too large.
    HeaderTooLarge,
    /// The URL is too long.
    TargetTooLong,
    /// The request is for the agent itself, which has no such page.
    NoSuchPage,
    /// The request has already passed through this agent.
    Loop,
    /// The request body ended early.
    Upload,
    /// The agent is at one of its limits.
    Overloaded,
}

const SITE: &str = "The website or its network. Longhaul is working.";
const DIRECT_SITE: &str =
    "The website or its network. The gateway does not answer either, so the page was requested without it.";
const POLICY: &str = "Nobody's: the gateway's operator does not allow it.";
pub(super) const GATEWAY: &str = "The gateway. The website may be fine.";
pub(super) const LINK: &str =
    "Most likely the link to the gateway, or the gateway itself. The website may be fine.";
const YOURS: &str = "The request that this browser or program sent.";
pub(super) const AGENT: &str = "The agent on this computer.";

impl Failure {
    /// Returns the page for the browser.
    pub fn page(&self) -> Page {
        match self {
            Self::Request(bad) => bad.page(),
            Self::Gateway { reason, detail } => gateway_page(*reason, detail),
            Self::NoGateway { trouble, direct } => hop::page(trouble.as_ref(), direct.as_ref()),
            Self::Refused(trouble) => hop::page(Some(trouble), None),
            Self::Direct { error, trouble } => {
                hop::direct_page(error, trouble.as_ref()).unwrap_or_else(|| direct_page(error))
            }
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

fn direct_page(error: &FetchError) -> Page {
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
        FetchError::Upload => return BadRequest::Upload.page(),
        FetchError::Cancelled | FetchError::Overloaded(_) | FetchError::Resources | _ => {
            return BadRequest::Overloaded.page();
        }
    };
    let page = page_of(
        reason,
        format!("loaded without the gateway, which does not answer: {error}"),
    );
    let whose = if page.whose == SITE {
        DIRECT_SITE
    } else {
        page.whose
    };
    Page { whose, ..page }
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

struct Words {
    status: StatusCode,
    whose: &'static str,
    title: &'static str,
    what: &'static str,
    advice: &'static str,
}

const fn of(
    status: StatusCode,
    whose: &'static str,
    title: &'static str,
    what: &'static str,
    advice: &'static str,
) -> Words {
    Words {
        status,
        whose,
        title,
        what,
        advice,
    }
}

const fn tls(what: &'static str) -> Words {
    of(
        StatusCode::BAD_GATEWAY,
        SITE,
        "The website's identity cannot be confirmed",
        what,
        "Do not enter passwords there. Tell the website's operator, or try again later.",
    )
}

const RELOAD: &str = "Try again later; there is nothing to change on this computer.";

fn words(reason: FailureReason) -> Words {
    use FailureReason as Why;
    const BAD_GATEWAY: StatusCode = StatusCode::BAD_GATEWAY;
    const TIMEOUT: StatusCode = StatusCode::GATEWAY_TIMEOUT;
    match reason {
        Why::DnsNotFound => of(
            BAD_GATEWAY,
            SITE,
            "There is no website of this name",
            "The name in the address does not exist on the Internet.",
            "Check the address for typing errors.",
        ),
        Why::DnsFailed => of(
            BAD_GATEWAY,
            SITE,
            "The website's name cannot be looked up",
            "The name servers that know this website's address gave no usable answer.",
            RELOAD,
        ),
        Why::ConnectionRefused => of(
            BAD_GATEWAY,
            SITE,
            "The website refuses connections",
            "The website's computer is there, but nothing answers at this address and port.",
            "Check the address, also the port if it names one, or try again later.",
        ),
        Why::Unreachable => of(
            BAD_GATEWAY,
            SITE,
            "The website cannot be reached",
            "There is no way through the Internet to the website's computer at the moment.",
            RELOAD,
        ),
        Why::ConnectTimeout | Why::ResponseTimeout => of(
            TIMEOUT,
            SITE,
            "The website does not answer",
            "The website did not answer in time.",
            RELOAD,
        ),
        Why::TlsExpired => tls("The website's certificate has expired or is not valid yet."),
        Why::TlsUnknownIssuer => tls("The website's certificate is not from an authority that is trusted."),
        Why::TlsNameMismatch => tls("The website's certificate belongs to another website."),
        Why::TlsOther => tls("A secure connection to the website could not be established."),
        Why::TlsDeniedKey => tls(
            "The website's certificate, or that of an authority that signed it, has a key that the gateway's operator \
             does not trust.",
        ),
        Why::TlsClientCertificate => of(
            BAD_GATEWAY,
            "Nobody's: the website requests a certificate that only this browser has.",
            "The website requests a certificate from you",
            "The gateway cannot present a certificate, because yours exists only in this browser. Nothing has been sent to \
             the website.",
            "Reload the page: the website is no longer accelerated, so that this browser can present it.",
        ),
        Why::ConnectionReset => of(
            BAD_GATEWAY,
            SITE,
            "The website closed the connection",
            "The website closed the connection before it answered.",
            RELOAD,
        ),
        Why::MalformedResponse | Why::HeaderTooLarge => of(
            BAD_GATEWAY,
            SITE,
            "The website's answer is not valid",
            "The website's answer violates the rules of HTTP.",
            RELOAD,
        ),
        Why::Changed => of(
            BAD_GATEWAY,
            SITE,
            "The page changed while it was loaded",
            "The rest of the page no longer belongs to what was loaded before.",
            "Reload the page.",
        ),
        Why::AddressRefused => of(
            StatusCode::FORBIDDEN,
            POLICY,
            "This address is not allowed",
            "The address belongs to a private or internal network. The gateway does not connect there.",
            "If this is a device in your own network, open it without the proxy (the proxy script of the agent does so by \
             itself). Otherwise ask the gateway's operator.",
        ),
        Why::TargetRefused => of(
            StatusCode::FORBIDDEN,
            POLICY,
            "This port or protocol is not allowed",
            "The gateway does not connect to this port or with this protocol.",
            "Ask the gateway's operator.",
        ),
        Why::BadUrl => of(
            StatusCode::BAD_REQUEST,
            YOURS,
            "This address cannot be loaded",
            "The address is not one that can be fetched.",
            "Check the address for typing errors.",
        ),
        Why::Overloaded => of(
            StatusCode::SERVICE_UNAVAILABLE,
            GATEWAY,
            "A limit of the gateway is reached",
            "The gateway limits the simultaneous use by each device, so that all devices get their share. The detail below \
             names the limit.",
            "Close pages that load or stream for long, wait a moment and reload.",
        ),
        Why::TooEarly | Why::UnknownBase | Why::Malformed => of(
            BAD_GATEWAY,
            AGENT,
            "Agent and gateway do not understand each other",
            "The gateway could not interpret the agent's request.",
            "Reload. If it happens again, update the agent, and tell the gateway's operator.",
        ),
        Why::Internal => of(
            BAD_GATEWAY,
            GATEWAY,
            "The gateway failed",
            "The gateway had an internal error with this page.",
            "Reload. If it happens again, tell the gateway's operator.",
        ),
    }
}

impl BadRequest {
    /// Returns the page for the browser.
    pub fn page(self) -> Page {
        let (status, title, what, advice) = match self {
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                "This is not a valid HTTP request",
                "The data received at the agent's proxy port is not HTTP, or violates its rules (two different lengths, for example).",
                "Check that the program is configured for an HTTP proxy, not for SOCKS or an HTTPS proxy.",
            ),
            Self::Target(_) => (
                StatusCode::BAD_REQUEST,
                "This address cannot be loaded",
                "The address is not one that the proxy can fetch.",
                "Check the address for typing errors.",
            ),
            Self::Framing(_) => (
                StatusCode::BAD_REQUEST,
                "The request's length is ambiguous",
                "The request declares its length twice or not validly, so it cannot be forwarded safely.",
                "Update the program that sent it.",
            ),
            Self::HeaderTooLarge => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "The request's header is too large",
                "The browser sent more header fields (most often cookies) than the agent accepts: 64 KiB.",
                "Delete this website's cookies and reload.",
            ),
            Self::TargetTooLong => (
                StatusCode::URI_TOO_LONG,
                "The address is too long",
                "The address is longer than the agent accepts: 32 KiB.",
                "Shorten the address.",
            ),
            Self::NoSuchPage => (
                StatusCode::NOT_FOUND,
                "The agent has no such page",
                "This is the Longhaul agent's proxy port. It has the pages / and /proxy.pac.",
                "Open the page /.",
            ),
            Self::Loop => (
                StatusCode::LOOP_DETECTED,
                "The request has looped",
                "The request has come through this agent before.",
                "Check that the agent's own traffic does not go through a proxy that leads back to it.",
            ),
            Self::Upload => (
                StatusCode::BAD_REQUEST,
                "The request ended early",
                "The browser's request ended before it was complete.",
                "Send it again.",
            ),
            Self::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many requests",
                "The agent or this computer is at its limit of requests or connections.",
                "Wait a moment and reload.",
            ),
        };
        let whose = if self == Self::Overloaded { AGENT } else { YOURS };
        let detail = match self {
            Self::Target(error) => error.to_string(),
            Self::Framing(error) => error.to_string(),
            Self::Malformed
            | Self::HeaderTooLarge
            | Self::TargetTooLong
            | Self::NoSuchPage
            | Self::Loop
            | Self::Upload
            | Self::Overloaded => format!("{self:?}"),
        };
        page(status, whose, title, what, advice, detail)
    }
}
