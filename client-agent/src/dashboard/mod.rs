//! The status of the agent: for tools as `/status.json` ([`Status`]), for people as the status page.
mod status;
mod status_page;

pub use status::{
    BypassedHost, HttpsStatus, KeptSavings, PeriodSavings, SavingsDays, SavingsStatus, SessionStatus, Status,
    TroubleStatus, WaitingStatus,
};
pub(crate) use status_page::{POLICY, status_page};

/// Path for changes of the image level.
pub(crate) const PICTURES: &str = "/pictures";
/// Path for deletion at agent and gateway.
pub(crate) const FORGET: &str = "/forget";
/// Path of the certificate of the authority in use.
pub(crate) const AUTHORITY: &str = "/ca.pem";
/// Path for the removal of the certificate authority.
pub(crate) const REMOVE_AUTHORITY: &str = "/ca/remove";
/// Path for forgetting why hosts are bypassed.
pub(crate) const HTTPS_FORGET: &str = "/https/forget";
/// Path for giving up a page that waits for the hop.
pub(crate) const CANCEL_WAITING: &str = "/waiting/cancel";
/// Path for the change to the invite of the state directory.
pub(crate) const USE_INVITE: &str = "/invite/use";
