//! Invites: the line that an operator gives to a user, with all data that an agent needs.
use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{PublicKey, SecretKey};

/// Prefix of every invite; the digit is the version of the format.
const PREFIX: &str = "longhaul1:";
/// Gateway key, device secret, token.
const FIXED: usize = 32 + 32 + 32;
/// Length of the checksum: first bytes of a BLAKE3 hash over the rest, which distinguishes a truncated line
/// from a wrong key.
const CHECKSUM: usize = 4;
/// A DNS name has at most 253 characters, a port 5.
const MAX_ADDRESS: usize = 259;

/// An invite: the gateway's address and public key, the device's secret key, and the first token
/// (transport.md section 3.7).
///
/// The invite contains the device's secret: everybody who has the line can act as this device.
#[derive(Clone)]
pub struct Invite {
    address: String,
    gateway: PublicKey,
    device: SecretKey,
    token: [u8; 32],
}

/// Errors of parsing an invite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseInviteError {
    /// The line has another prefix.
    #[error("an invite starts with `{PREFIX}`: paste the whole line that the gateway's operator gave you")]
    Prefix,
    /// Characters are missing, changed or superfluous.
    #[error("the invite is damaged: paste the whole line again, without spaces or line breaks in it")]
    Damaged,
    /// The address is not HOST:PORT.
    #[error("the invite's gateway address is not HOST:PORT: ask the operator for a new invite")]
    Address,
}

impl Invite {
    /// Creates an invite for the device with secret key `device` to the gateway at `address` (`HOST:PORT`).
    ///
    /// # Errors
    /// The address is not `HOST:PORT`.
    pub fn new(
        address: String,
        gateway: PublicKey,
        device: SecretKey,
        token: [u8; 32],
    ) -> Result<Self, ParseInviteError> {
        if Self::is_address(&address) {
            Ok(Self {
                address,
                gateway,
                device,
                token,
            })
        } else {
            Err(ParseInviteError::Address)
        }
    }

    /// Returns true if an invite can contain this address: it is `HOST:PORT`.
    pub fn is_address(address: &str) -> bool {
        address.len() <= MAX_ADDRESS
            && address.is_ascii()
            && !address.contains(|c: char| c.is_ascii_whitespace() || c.is_ascii_control())
            && address.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
            })
    }

    /// Address of the gateway, `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }
    /// Static public key of the gateway.
    pub fn gateway(&self) -> PublicKey {
        self.gateway
    }
    /// Secret key of the device.
    pub fn device(&self) -> &SecretKey {
        &self.device
    }
    /// First token.
    pub fn token(&self) -> &[u8; 32] {
        &self.token
    }

    /// The same invite with another key of the device, which replaced the key of a one-time invite.
    #[must_use]
    pub fn with_device(&self, device: SecretKey) -> Self {
        Self {
            device,
            ..self.clone()
        }
    }

    /// The line to paste. It contains the device's secret.
    pub fn to_line(&self) -> String {
        let mut bytes = Vec::with_capacity(FIXED + self.address.len() + CHECKSUM);
        bytes.extend_from_slice(self.gateway.as_bytes());
        bytes.extend_from_slice(self.device.as_bytes());
        bytes.extend_from_slice(&self.token);
        bytes.extend_from_slice(self.address.as_bytes());
        let checksum = blake3::hash(&bytes);
        bytes.extend_from_slice(&checksum.as_bytes()[..CHECKSUM]);
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Invite {
    type Err = ParseInviteError;
    fn from_str(line: &str) -> Result<Self, ParseInviteError> {
        let text = line.trim().strip_prefix(PREFIX).ok_or(ParseInviteError::Prefix)?;
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| ParseInviteError::Damaged)?;
        if bytes.len() < FIXED + CHECKSUM {
            return Err(ParseInviteError::Damaged);
        }
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
        if &blake3::hash(body).as_bytes()[..CHECKSUM] != checksum {
            return Err(ParseInviteError::Damaged);
        }
        let (fixed, address) = body.split_at(FIXED);
        let key = |at: usize| -> [u8; 32] {
            let mut key = [0; 32];
            key.copy_from_slice(&fixed[at..at + 32]);
            key
        };
        let address = String::from_utf8(address.to_vec()).map_err(|_| ParseInviteError::Address)?;
        Self::new(
            address,
            PublicKey::from_bytes(key(0)),
            SecretKey::from_bytes(key(32)),
            key(64),
        )
    }
}

impl fmt::Debug for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invite")
            .field("address", &self.address)
            .field("gateway", &self.gateway)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invite() -> Invite {
        let gateway = SecretKey::from_bytes([1; 32]).public();
        Invite::new(
            "gw.example:4433".to_owned(),
            gateway,
            SecretKey::from_bytes([2; 32]),
            [3; 32],
        )
        .unwrap()
    }

    #[test]
    fn line_round_trips() {
        let line = invite().to_line();
        let read: Invite = format!("  {line}\n").parse().unwrap();
        assert_eq!(read.to_line(), line);
        assert_eq!(read.address(), "gw.example:4433");
        assert!(
            !format!("{read:?}").contains("AgIC"),
            "the secret must not be printed"
        );
    }

    #[test]
    fn a_damaged_invite_is_distinguished_from_other_text() {
        let line = invite().to_line();
        assert_eq!("hello".parse::<Invite>().unwrap_err(), ParseInviteError::Prefix);
        assert_eq!(
            line[..line.len() - 3].parse::<Invite>().unwrap_err(),
            ParseInviteError::Damaged
        );
        let mut swapped = line.into_bytes();
        swapped.swap(20, 60);
        let swapped = String::from_utf8(swapped).unwrap();
        assert_eq!(swapped.parse::<Invite>().unwrap_err(), ParseInviteError::Damaged);
        let no_port = Invite::new(
            "gw".to_owned(),
            invite().gateway(),
            SecretKey::from_bytes([2; 32]),
            [3; 32],
        );
        assert_eq!(no_port.unwrap_err(), ParseInviteError::Address);
    }
}
