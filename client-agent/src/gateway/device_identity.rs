//! The key by which the gateway knows this device: that of the invite, or, after a one-time invite, the
//! device's own (docs/protocol/session.md section 11).
use longhaul_types::{Invite, PublicKey, SecretKey};

use crate::state_dir::{StateDir, StateError};

/// The invite, and the key that replaces its key.
#[derive(Debug)]
pub(super) struct DeviceIdentity {
    issued: Invite,
    /// The invite with the device's own key.
    own: Option<Invite>,
    uses_own: bool,
    /// True if the gateway refused the other key, and no session has opened since.
    has_tried_other: bool,
}

/// Errors of making a key.
#[derive(Debug, thiserror::Error)]
pub(super) enum OwnKeyError {
    /// The session already uses the device's own key.
    #[error("the gateway wants a new key although this device has replaced the invite's key already")]
    NotNeeded,
    /// The system provides no randomness.
    #[error("the system provides no random numbers: {0}")]
    Randomness(getrandom::Error),
    /// The key cannot be stored. It is not used then: after a restart the device would be locked out.
    #[error(transparent)]
    State(#[from] StateError),
    /// The task that stores the key has failed.
    #[error("the task that stores the key has failed")]
    Task,
}

impl DeviceIdentity {
    /// The invite, and the own key if the device has made one for it.
    pub(super) fn load(issued: Invite, state_dir: &StateDir) -> Self {
        let own = state_dir.own_key(&issued).map(|key| issued.with_device(key));
        Self {
            uses_own: own.is_some(),
            own,
            issued,
            has_tried_other: false,
        }
    }

    /// The invite with the key to use.
    pub(super) fn invite(&self) -> &Invite {
        match &self.own {
            Some(own) if self.uses_own => own,
            Some(_) | None => &self.issued,
        }
    }

    /// Changes to the other key after a refusal, once until a session opens; returns false if there is none.
    /// The device has two keys if it does not know whether its own key reached the gateway.
    pub(super) const fn try_other_key(&mut self) -> bool {
        if self.own.is_none() {
            return false;
        }
        self.uses_own = !self.uses_own;
        self.has_tried_other = !self.has_tried_other;
        self.has_tried_other
    }

    /// Notes that the gateway accepted the key.
    pub(super) const fn note_open(&mut self) {
        self.has_tried_other = false;
    }

    /// Makes and stores a key, if there is none, and returns its public half.
    ///
    /// # Errors
    /// The key cannot be made or stored.
    pub(super) async fn make_own_key(&mut self, state_dir: &StateDir) -> Result<PublicKey, OwnKeyError> {
        if self.uses_own {
            return Err(OwnKeyError::NotNeeded);
        }
        if let Some(own) = &self.own {
            return Ok(own.device().public());
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(OwnKeyError::Randomness)?;
        let key = SecretKey::from_bytes(bytes);
        let own = self.issued.with_device(key.clone());
        let (state_dir, issued) = (state_dir.clone(), self.issued.clone());
        let kept = tokio::task::spawn_blocking(move || state_dir.keep_own_key(&issued, &key));
        kept.await.map_err(|_| OwnKeyError::Task)??;
        let public = own.device().public();
        self.own = Some(own);
        Ok(public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invite() -> Invite {
        let gateway = SecretKey::from_bytes([1; 32]).public();
        let device = SecretKey::from_bytes([2; 32]);
        Invite::new("gw.test:4433".to_owned(), gateway, device, [3; 32]).unwrap()
    }

    #[tokio::test]
    async fn the_own_key_survives_a_restart_and_both_keys_are_tried() {
        let home = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(home.path().to_owned());
        let issued = invite().device().public();
        let mut first = DeviceIdentity::load(invite(), &state_dir);
        assert!(!first.try_other_key(), "an ordinary invite has one key");
        let own = first.make_own_key(&state_dir).await.unwrap();
        assert_eq!(first.make_own_key(&state_dir).await.unwrap(), own);
        assert_eq!(
            first.invite().device().public(),
            issued,
            "until the gateway closes the session"
        );
        assert!(first.try_other_key());
        assert_eq!(first.invite().device().public(), own);
        first.note_open();

        let mut restarted = DeviceIdentity::load(invite(), &state_dir);
        assert_eq!(restarted.invite().device().public(), own);
        assert!(
            restarted.try_other_key(),
            "the own key may not have reached the gateway"
        );
        assert_eq!(restarted.invite().device().public(), issued);
        assert!(!restarted.try_other_key(), "both are refused: the agent waits");
        assert_eq!(restarted.invite().device().public(), own);
    }
}
