//! Users of the gateway: devices with a session, and clients without an agent.
use longhaul_session::Preferences;

use crate::images::ImageRecipient;

/// A user of the gateway: what a response depends on besides its request.
///
/// [`ImageRecipient::device`] is the unit of fair shares.
pub(crate) trait Client: ImageRecipient {
    /// The user's settings.
    fn preferences(&self) -> Preferences;
}
