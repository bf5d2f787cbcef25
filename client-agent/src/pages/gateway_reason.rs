//! The words of error pages for each reason that the gateway reports.
use http::StatusCode;
use longhaul_session::FailureReason;

use super::responsible::{AGENT, GATEWAY, POLICY, SITE, YOURS};

/// The words for one reason.
pub(super) struct Words {
    pub(super) status: StatusCode,
    pub(super) whose: &'static str,
    pub(super) title: &'static str,
    pub(super) what: &'static str,
    pub(super) advice: &'static str,
}

/// Returns the words for a reason.
pub(super) fn words(reason: FailureReason) -> Words {
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
        Why::QuotaReached => of(
            StatusCode::FORBIDDEN,
            POLICY,
            "The monthly quota of this device is used up",
            "The gateway's operator permits this device so many bytes in a month, and they have been transferred. The \
             detail below names the device, the quota, and the time when the next month begins.",
            "Wait until the next month, or ask the gateway's operator for a larger quota.",
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
