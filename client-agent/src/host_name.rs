//! Names of hosts that the user gives.
use std::fmt;

/// Maximum length of a host name (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 253;

/// A host name in lower case, or an IP address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostName(String);

/// Error: the text is not a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a host: give a name such as example.org, without scheme and path")]
pub struct InvalidHost(pub String);

impl std::str::FromStr for HostName {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let name = text.trim().trim_end_matches('.').to_ascii_lowercase();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
            return Err(InvalidHost(text.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Host names are looked up by text.
impl std::borrow::Borrow<str> for HostName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl HostName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_checked() {
        let name = |text: &str| text.parse().map(|host: HostName| host.to_string());
        assert_eq!(name(" Example.ORG. ").as_deref(), Ok("example.org"));
        assert_eq!(name("[::1]").as_deref(), Ok("::1"));
        for wrong in ["", "https://a.test/", "a b", &"x".repeat(300)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
