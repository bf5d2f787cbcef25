//! The status of the agent: for tools as `/status.json` ([`Status`]), for people as the status page.
mod html;
mod status;

pub(crate) use html::{POLICY, html};
pub use status::{BypassedHost, HttpsStatus, SessionStatus, Status};

/// Path for changes of the image level.
pub(crate) const PICTURES: &str = "/pictures";
/// Path for deletion at agent and gateway.
pub(crate) const FORGET: &str = "/forget";
