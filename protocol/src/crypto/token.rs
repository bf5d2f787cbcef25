//! Tokens, by which a gateway recognises the sender of an INIT before any public-key operation (transport.md
//! section 3.7).
use std::time::Duration;

use longhaul_types::{PublicKey, UnixTime};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::wire::{field, init::TOKEN_LEN};

/// Lifetime of a token: a device that was not used for a month opens its next session without early data.
pub const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
const HOUR: u64 = 3600;

/// Token key and number of the current epoch. The key is stored on disk. A new epoch begins when the gateway
/// has lost its record of accepted stamps, which is at every start.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct EpochKeys {
    /// Current epoch: a random number.
    pub epoch: u32,
    /// 32 secret random bytes.
    pub key: [u8; 32],
}

impl std::fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EpochKeys {{ epoch: {}, key: <secret> }}", self.epoch)
    }
}

/// Errors of checking a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The tag is wrong: the token is forged, or older than the key.
    #[error("the token's tag is wrong")]
    Tag,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
}

/// A token with a valid tag that has not expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidToken {
    /// Identifier of the token.
    pub id: [u8; 8],
    /// Epoch in which the token was minted.
    pub epoch: u32,
}

impl EpochKeys {
    /// Creates a token for `device` that is valid until `expiry` (rounded down to the hour). `random`
    /// distinguishes the tokens of a device.
    pub fn mint(&self, device: &PublicKey, random: [u8; 4], expiry: UnixTime) -> [u8; TOKEN_LEN] {
        let hours = u32::try_from(expiry.since_epoch().as_secs() / HOUR).unwrap_or(u32::MAX);
        let mut token = [0; TOKEN_LEN];
        token[..4].copy_from_slice(&random);
        token[4..8].copy_from_slice(&self.device_part(random, device));
        token[8..12].copy_from_slice(&hours.to_be_bytes());
        token[12..16].copy_from_slice(&self.epoch.to_be_bytes());
        let tag: [u8; 16] = super::keyed(&self.key, &[&token[..16]]);
        token[16..].copy_from_slice(&tag);
        token
    }

    /// Checks the tag and the expiry, which are all checks that are possible before the device is known.
    ///
    /// # Errors
    /// The tag is wrong, or the token has expired.
    pub fn check(&self, token: &[u8; TOKEN_LEN], now: UnixTime) -> Result<ValidToken, TokenError> {
        let mut input = &token[..];
        let parts = (|| {
            let id = field::array(&mut input)?;
            let hours = field::u32(&mut input)?;
            let epoch = field::u32(&mut input)?;
            Ok::<_, field::Truncated>((id, hours, epoch, field::array(&mut input)?))
        })();
        let (id, hours, epoch, tag) = parts.map_err(|_| TokenError::Tag)?;
        if !super::tags_equal(&super::keyed(&self.key, &[&token[..16]]), &tag) {
            return Err(TokenError::Tag);
        }
        if now.since_epoch().as_secs() / HOUR >= u64::from(hours) {
            return Err(TokenError::Expired);
        }
        Ok(ValidToken { id, epoch })
    }

    /// Returns true if a valid token was minted for `device`.
    pub fn is_for(&self, token: &ValidToken, device: &PublicKey) -> bool {
        let [a, b, c, d, minted @ ..] = token.id;
        self.device_part([a, b, c, d], device) == minted
    }

    fn device_part(&self, random: [u8; 4], device: &PublicKey) -> [u8; 4] {
        super::keyed(&self.key, &[&random, device.as_bytes()])
    }
}

/// Start of the hour in which the gateway's clock was when it minted a token, which shows an agent that its
/// own clock is wrong; `None` if the expiry is shorter than a lifetime. The tag is not checked: only a token
/// from an authenticated message says anything.
pub fn minted_hour(token: &[u8; TOKEN_LEN]) -> Option<UnixTime> {
    let [.., a, b, c, d] = token.first_chunk::<12>().copied()?;
    let expiry = Duration::from_secs(u64::from(u32::from_be_bytes([a, b, c, d])) * HOUR);
    expiry.checked_sub(LIFETIME).map(UnixTime::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEVICE: PublicKey = PublicKey::from_bytes([5; 32]);

    fn keys() -> EpochKeys {
        EpochKeys {
            epoch: 3,
            key: [9; 32],
        }
    }

    fn at(hours: u64) -> UnixTime {
        UnixTime::new(Duration::from_secs(hours * HOUR))
    }

    #[test]
    fn a_token_is_valid_for_one_device_until_it_expires() {
        let token = keys().mint(&DEVICE, [1; 4], at(100));
        let valid = keys().check(&token, at(99)).unwrap();
        assert_eq!(valid.epoch, 3);
        assert!(keys().is_for(&valid, &DEVICE));
        assert!(!keys().is_for(&valid, &PublicKey::from_bytes([6; 32])));
        assert_eq!(keys().check(&token, at(100)), Err(TokenError::Expired));
        let other = EpochKeys {
            epoch: 3,
            key: [8; 32],
        };
        assert_eq!(other.check(&token, at(99)), Err(TokenError::Tag));
    }

    #[test]
    fn a_token_of_the_previous_epoch_is_valid_and_reports_its_epoch() {
        let token = keys().mint(&DEVICE, [1; 4], at(100));
        let restarted = EpochKeys {
            epoch: 4,
            key: [9; 32],
        };
        assert_eq!(restarted.check(&token, at(1)).map(|valid| valid.epoch), Ok(3));
    }

    #[test]
    fn a_token_shows_the_hour_of_the_gateways_clock() {
        let now = UnixTime::new(Duration::from_secs(1_800_000_000));
        let token = keys().mint(&DEVICE, [1; 4], now + LIFETIME);
        let hour = minted_hour(&token).unwrap().since_epoch().as_secs();
        assert_eq!(hour, 1_800_000_000);
        let later = keys().mint(&DEVICE, [1; 4], now + LIFETIME + Duration::from_secs(HOUR - 1));
        assert_eq!(minted_hour(&later), minted_hour(&token));
        assert_eq!(minted_hour(&[0; TOKEN_LEN]), None);
    }

    proptest! {
        #[test]
        fn every_flipped_bit_is_noticed(bit in 0_usize..256) {
            let mut token = keys().mint(&DEVICE, [1; 4], at(100));
            token[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(keys().check(&token, at(1)), Err(TokenError::Tag));
        }
    }
}
