//! Identities of networks.
use std::{fmt, str::FromStr};

/// Identity of a network: a keyed hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId([u8; Self::LENGTH]);

impl NetworkId {
    /// Number of bytes.
    pub const LENGTH: usize = 16;

    /// The identity with these bytes.
    pub const fn new(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error: the text is no identity of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {len} hexadecimal digits", len = 2 * NetworkId::LENGTH)]
pub struct ParseNetworkIdError;

impl FromStr for NetworkId {
    type Err = ParseNetworkIdError;

    fn from_str(text: &str) -> Result<Self, ParseNetworkIdError> {
        let mut id = [0; Self::LENGTH];
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 2 * Self::LENGTH || !text.bytes().all(is_hex) {
            return Err(ParseNetworkIdError);
        }
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| ParseNetworkIdError)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| ParseNetworkIdError)?;
        }
        Ok(Self(id))
    }
}
