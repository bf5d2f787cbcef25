//! The token of the control port: any client that presents it may make changes.
//!
//! The agent creates the token at each start and stores it in the state directory, readable only by its own
//! user (and root). A browser gets it once, in the address of the dashboard, and then sends a cookie.
//! Browsers send cookies to all ports of a host, and another user of this machine may own one of these ports;
//! therefore a cookie is valid only for the user to whom it was given.
use crate::access::UserId;

/// The token.
pub struct ControlToken([u8; 32]);

/// Error: the system provides no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system provides no random numbers")]
pub struct NoRandomness;

impl ControlToken {
    /// Creates a token.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn make() -> Result<Self, NoRandomness> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
        Ok(Self(bytes))
    }

    /// The token as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// True if a text equals the token; takes the same time for every text.
    pub(super) fn is(&self, text: &str) -> bool {
        // blake3 compares hashes in constant time.
        blake3::Hash::from_hex(text).is_ok_and(|shown| shown == blake3::Hash::from_bytes(self.0))
    }

    /// The cookie that represents the token for this user.
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
    fn the_token_is_recognised_and_its_cookies_are_per_user() {
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
