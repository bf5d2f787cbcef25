//! Requests of browsers that cannot be processed, and the error page for each.
use http::StatusCode;

use super::{
    Page,
    failure::page,
    responsible::{AGENT, YOURS},
};

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

impl BadRequest {
    /// Returns the page for the browser.
    pub fn page(self) -> Page {
        let (status, title, what, advice) = match self {
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                "This is not a valid HTTP request",
                "The data received at the agent's proxy port is not HTTP, or violates its rules (two different lengths, for example).",
                "Check that the program is configured for an HTTP proxy or SOCKS 5, not for SOCKS 4 or an HTTPS proxy.",
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
