//! The secret by which the cache knows requests with equal credentials.
//!
//! It belongs to the cache, not to the enrolment: personal responses stay usable after a one-time invite, whose
//! key the device replaces, and after another enrolment. Whoever has read an invite does not know it.
use std::path::Path;

use longhaul_http::request_context::CredentialsSecret;
use longhaul_types::Invite;
use tracing::warn;

use super::open::FILE;
use crate::state_dir::StateDir;

/// Returns the secret of the state directory; makes one at the first start.
///
/// # Errors
/// The system provides no randomness.
pub(crate) fn load(
    state_dir: &StateDir,
    cache_dir: &Path,
    invite: &Invite,
) -> Result<CredentialsSecret, getrandom::Error> {
    if let Some(secret) = state_dir.credentials_secret() {
        return Ok(CredentialsSecret::from_bytes(secret));
    }
    let secret = if cache_dir.join(FILE).exists() {
        // Version 0.2.0 derived it from the invite: what that version stored stays usable.
        CredentialsSecret::derived_from(invite.device().as_bytes())
    } else {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        CredentialsSecret::from_bytes(bytes)
    };
    if let Err(error) = state_dir.keep_credentials_secret(secret.as_bytes()) {
        warn!(%error, "personal responses in the cache will not be used after the next start");
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    fn invite(device: u8) -> Invite {
        let gateway = SecretKey::from_bytes([1; 32]).public();
        let device = SecretKey::from_bytes([device; 32]);
        Invite::new("gw.test:4433".to_owned(), gateway, device, [3; 32]).unwrap()
    }

    fn secret_of(state_dir: &StateDir, cache: &Path, device: u8) -> [u8; 32] {
        *load(state_dir, cache, &invite(device)).unwrap().as_bytes()
    }

    #[test]
    fn the_secret_survives_restarts_and_enrolments_and_differs_for_each_device() {
        let home = tempfile::tempdir().unwrap();
        let state_dirs = ["a", "b"].map(|name| StateDir::new(home.path().join(name)));
        let first = state_dirs.each_ref().map(|state_dir| {
            state_dir.create().unwrap();
            secret_of(state_dir, home.path(), 7)
        });
        assert_ne!(first[0], first[1], "random, although the invite is the same");
        let again = state_dirs
            .each_ref()
            .map(|state_dir| secret_of(state_dir, home.path(), 8));
        assert_eq!(first, again);
    }

    #[test]
    fn a_cache_of_an_earlier_version_keeps_its_secret() {
        let home = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(home.path().to_owned());
        std::fs::write(home.path().join(FILE), "").unwrap();
        let earlier = CredentialsSecret::derived_from(invite(7).device().as_bytes());
        assert_eq!(secret_of(&state_dir, home.path(), 7), *earlier.as_bytes());
        assert_eq!(secret_of(&state_dir, home.path(), 8), *earlier.as_bytes());
    }
}
