//! What the sessions of a device prove and must not repeat: its key, the newest token, the newest stamp.
use std::time::Duration;

use longhaul_session::{Message, NewKey};
use tracing::{info, warn};

use super::Dialer;
use crate::{gateway::gateway_session::GatewaySession, wall_clock};

impl Dialer {
    /// Makes a key of the device's own, if it has none, and sends its public half. The gateway then closes the
    /// session, and the next one uses the new key.
    pub(super) async fn replace_key(&mut self, session: &GatewaySession) {
        match self.identity.make_own_key(&self.config.state_dir).await {
            Ok(key) => {
                info!("the invite is for one device: this device replaces the invite's key by its own");
                session.send_control(Message::NewKey(NewKey { key: *key.as_bytes() }));
            }
            Err(error) => warn!("the key of the one-time invite cannot be replaced: {error}"),
        }
    }

    /// Stores the newest token, and compares the clocks by it. The caller publishes the result.
    pub(super) async fn store_token(&mut self, token: Option<[u8; 32]>) {
        let Some(token) = token else {
            return;
        };
        self.token = token;
        self.compare_clocks(&token);
        let (state_dir, invite) = (self.config.state_dir.clone(), self.identity.invite().clone());
        let kept = tokio::task::spawn_blocking(move || state_dir.keep_token(&invite, &token)).await;
        if let Ok(Err(error)) = kept {
            // Without the stored token the next start takes one more round trip, nothing else.
            warn!("{error}");
        }
    }

    /// Stores the time of a dial, so that later dials have greater stamps even if the wall clock is set back.
    pub(super) async fn store_stamp(&mut self) {
        let now = wall_clock::now();
        let stamp = self.stamp.map_or(now, |last| last.max(now));
        self.stamp = Some(stamp + Duration::from_millis(1));
        let state_dir = self.config.state_dir.clone();
        let kept = tokio::task::spawn_blocking(move || state_dir.keep_stamp(stamp)).await;
        if let Ok(Err(error)) = kept {
            warn!("{error}");
        }
    }
}
