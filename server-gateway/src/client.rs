//! Users of the gateway: devices with a session, and clients without an agent.
use longhaul_session::Preferences;
use longhaul_types::BitRate;

use crate::images::ImageRecipient;

/// A user of the gateway: what a response depends on besides its request.
///
/// [`ImageRecipient::device`] is the unit of fair shares.
pub(crate) trait Client: ImageRecipient {
    /// Rate towards the client, if it is known.
    fn link_rate(&self) -> Option<BitRate>;
    /// The user's settings.
    fn preferences(&self) -> Preferences;
}
