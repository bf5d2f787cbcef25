//! Users of the gateway: devices with a session, and clients without an agent.
use longhaul_images::ImageRecipient;
use longhaul_session::Preferences;

/// A user of the gateway: what a response depends on besides its request.
///
/// [`ImageRecipient::device`] is the unit of fair shares.
pub trait Client: ImageRecipient {
    /// The user's settings.
    fn preferences(&self) -> Preferences;
}
