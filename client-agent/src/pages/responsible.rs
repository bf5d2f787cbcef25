//! The parties at fault, in the words of error pages.

/// The website, while the gateway works.
pub(super) const SITE: &str = "The website or its network. Longhaul is working.";
/// The website, while the gateway does not answer.
pub(super) const DIRECT_SITE: &str =
    "The website or its network. The gateway does not answer either, so the page was requested without it.";
/// The rules of the gateway.
pub(super) const POLICY: &str = "Nobody's: the gateway's operator does not allow it.";
/// The gateway.
pub(super) const GATEWAY: &str = "The gateway. The website may be fine.";
/// The hop or the gateway.
pub(super) const LINK: &str =
    "Most likely the link to the gateway, or the gateway itself. The website may be fine.";
/// The request.
pub(super) const YOURS: &str = "The request that this browser or program sent.";
/// The agent.
pub(super) const AGENT: &str = "The agent on this computer.";
