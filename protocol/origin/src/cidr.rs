//! Address ranges in CIDR notation (RFC 4632, RFC 4291 section 2.3).
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Range of IPv4 or IPv6 addresses, such as `10.0.0.0/8` or `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

/// Errors of parsing an address range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CidrError {
    /// The part before the slash is not an address.
    #[error("`{0}` does not begin with an IPv4 or IPv6 address")]
    Address(String),
    /// Bits after the prefix are set, so that the range is probably not the intended one.
    #[error("`{text}` has bits set behind its prefix; write `{meant}`")]
    HostBits {
        /// The text as written.
        text: String,
        /// The range that contains the address as written.
        meant: Cidr,
    },
    /// The part after the slash is not a number from 0 to 32 (IPv4) or 128 (IPv6).
    #[error("`{0}` has no valid prefix length behind the slash")]
    Prefix(String),
}

impl Cidr {
    /// Returns the range of all addresses that share the first `prefix` bits of `address`; `None` if `prefix`
    /// is too long.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let network = match address {
            IpAddr::V4(_) if prefix > 32 => return None,
            IpAddr::V6(_) if prefix > 128 => return None,
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask_v4(prefix))),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask_v6(prefix))),
        };
        Some(Self { network, prefix })
    }

    /// The first address.
    pub const fn network(&self) -> IpAddr {
        self.network
    }

    /// Number of bits that all addresses share.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns true if the range contains the address. An IPv4 address and its IPv4-mapped IPv6 address are
    /// different addresses here.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(v4)) => v4.to_bits() & mask_v4(self.prefix) == network.to_bits(),
            (IpAddr::V6(network), IpAddr::V6(v6)) => v6.to_bits() & mask_v6(self.prefix) == network.to_bits(),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Parses `ADDRESS/PREFIX`; an address without prefix is the range of this one address.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| CidrError::Address(text.to_owned()))?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| CidrError::Prefix(text.to_owned()))?
            }
            Some(_) => return Err(CidrError::Prefix(text.to_owned())),
        };
        let range = Self::new(address, prefix).ok_or_else(|| CidrError::Prefix(text.to_owned()))?;
        if range.network != address {
            return Err(CidrError::HostBits {
                text: text.to_owned(),
                meant: range,
            });
        }
        Ok(range)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl TryFrom<String> for Cidr {
    type Error = CidrError;

    fn try_from(text: String) -> Result<Self, CidrError> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(range: Cidr) -> Self {
        range.to_string()
    }
}

fn mask_v4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0)
}

fn mask_v6(prefix: u8) -> u128 {
    u128::MAX
        .checked_shl(128 - u32::from(prefix.min(128)))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_contains_exactly_its_addresses() {
        let ten = parse("10.0.0.0/8");
        assert!(ten.contains(address("10.255.255.255")));
        assert!(!ten.contains(address("11.0.0.0")));
        assert!(!ten.contains(address("::ffff:10.0.0.1")));
        assert!(parse("0.0.0.0/0").contains(address("255.255.255.255")));
        assert!(!parse("0.0.0.0/0").contains(address("::1")));
        assert!(parse("::/0").contains(address("ffff::")));
        assert!(parse("192.0.2.7").contains(address("192.0.2.7")));
        assert!(!parse("192.0.2.7").contains(address("192.0.2.6")));
        let odd = parse("2001:db8:8000::/33");
        assert!(odd.contains(address("2001:db8:ffff::1")));
        assert!(!odd.contains(address("2001:db8:7fff::1")));
    }

    #[test]
    fn invalid_address_ranges_are_rejected() {
        for text in ["", "/8", "ten/8", "10/8", "10.0.0.0.0/8", "1.2.3.4:80/8"] {
            assert_eq!(
                text.parse::<Cidr>(),
                Err(CidrError::Address(text.to_owned())),
                "{text}"
            );
        }
        for text in [
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "::/129",
            "::/999",
        ] {
            assert_eq!(
                text.parse::<Cidr>(),
                Err(CidrError::Prefix(text.to_owned())),
                "{text}"
            );
        }
        assert_eq!(
            "10.1.0.0/8".parse::<Cidr>(),
            Err(CidrError::HostBits {
                text: "10.1.0.0/8".to_owned(),
                meant: parse("10.0.0.0/8")
            })
        );
    }

    #[test]
    fn survives_a_round_trip_as_text() {
        for text in ["10.0.0.0/8", "fd00::/8", "127.0.0.1/32", "::/0"] {
            assert_eq!(parse(text).to_string(), text);
            let json = serde_json::to_string(&parse(text)).unwrap();
            assert_eq!(serde_json::from_str::<Cidr>(&json).unwrap(), parse(text));
        }
    }
}
