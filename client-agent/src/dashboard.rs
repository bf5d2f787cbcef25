//! The status of the agent: for tools as `/status.json` ([`Status`]), for people as the dashboard.
mod background_calls;
mod figures;
mod live;
mod page;
mod page_loads;
mod rules_status;
mod samples;
mod status;

pub(crate) use live::LiveFigures;
pub(crate) use page::{
    POLICY, Parts, SCRIPT, STYLE, View, dashboard_page, enrolment_page, load_page, rows, told_page,
};
pub(crate) use page_loads::{failures, find, newest};
pub use rules_status::{RuleStatus, RulesStatus};
pub(crate) use samples::{Counted, Sample, Samples};
pub use status::{
    BypassedHost, HoldOutStatus, HttpsStatus, KeptSavings, PeriodSavings, SavingsDays, SavingsStatus,
    SessionStatus, Status, TroubleStatus, WaitingStatus,
};

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
/// Path for letting an accelerated host pass through for a while.
pub(crate) const HTTPS_BYPASS: &str = "/https/bypass";
/// Path for giving up a page that waits for the hop.
pub(crate) const CANCEL_WAITING: &str = "/waiting/cancel";
/// Path for reaching the host of the network's login page.
pub(crate) const PERMIT_LOGIN: &str = "/login-page/permit";
/// Path for the invite of an agent that has none.
pub(crate) const ENROL: &str = "/enrol";
/// Path for the change to the invite of the state directory.
pub(crate) const USE_INVITE: &str = "/invite/use";
/// Path of the event stream.
pub(crate) const LIVE: &str = "/live";
/// Path of whether the network is metered.
pub(crate) const METERED: &str = "/metered.json";
/// Path for a measurement of the link by a page of the journal.
pub(crate) const MEASURE: &str = "/measure";
/// Bytes that a measurement takes at most.
pub(crate) const MAX_MEASURED: u64 = 30_000_000;
/// Path of the journal.
pub(crate) const JOURNAL: &str = "/journal.json";
/// Path of one page of the journal.
pub(crate) const PAGE: &str = "/page";
/// Path of the user's rules for sites.
pub(crate) const RULES: &str = "/rules.json";
/// Path for setting the rules of a site.
pub(crate) const RULES_SET: &str = "/rules/set";
/// Path for original images on the pages of a site for a while.
pub(crate) const RULES_ORIGINALS: &str = "/rules/originals";
/// Path for pausing a site, or everything.
pub(crate) const RULES_PAUSE: &str = "/rules/pause";
/// Path for the end of a pause.
pub(crate) const RULES_RESUME: &str = "/rules/resume";
/// Path for the removal of rules.
pub(crate) const RULES_REMOVE: &str = "/rules/remove";
/// Path for deletion of a page of the journal.
pub(crate) const FORGET_PAGE: &str = "/page/forget";
