//! The control port's secret: who has it may change things, whoever they are.
//!
//! It is made anew at each start and lies in the state directory, where only the agent's own user (and root) can read it.
//! A browser gets it once, in the address of the status page, and from then on shows a cookie. Browsers send cookies to all
//! ports of a host, of which another user of this machine may have one; so a cookie is worth something only from the user
//! to whom it was given.
use crate::listener::UserId;

/// The token.
pub struct ControlToken([u8; 32]);

/// The system has no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no randomness")]
pub struct NoRandomness;

impl ControlToken {
    /// A new one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn make() -> Result<Self, NoRandomness> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
        Ok(Self(bytes))
    }

    /// It in 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Whether a text is it. Takes the same time for each text.
    pub(super) fn is(&self, text: &str) -> bool {
        // blake3 compares hashes in constant time.
        blake3::Hash::from_hex(text).is_ok_and(|shown| shown == blake3::Hash::from_bytes(self.0))
    }

    /// The cookie that stands for it when this user shows it.
    pub(super) fn cookie(&self, user: Option<UserId>) -> blake3::Hash {
        let whose = user.map_or_else(|| "nobody in particular".to_owned(), |user| user.to_string());
        blake3::keyed_hash(&self.0, whose.as_bytes())
    }
}

impl std::fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControlToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_and_its_cookies_are_for_one_user() {
        let (token, other) = (ControlToken::make().unwrap(), ControlToken::make().unwrap());
        assert!(token.is(&token.to_hex()) && !token.is(&other.to_hex()));
        for wrong in ["", "0", &token.to_hex()[1..], "zz"] {
            assert!(!token.is(wrong), "{wrong}");
        }
        let [one, two] = [1, 2].map(|user| token.cookie(Some(UserId::new(user))));
        assert_ne!(one, two);
        assert_ne!(one, token.cookie(None));
        assert_ne!(one, other.cookie(Some(UserId::new(1))));
        assert!(!format!("{token:?}").contains(&token.to_hex()[..8]));
    }
}
