//! Addresses that the user gives for names.

/// One `--resolve NAME=ADDR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// `NAME`, `*.SUFFIX` or `*`, with or without `:PORT`.
    pub name: String,
    /// `ADDRESS` or `ADDRESS:PORT`.
    pub address: String,
}

/// A text that is not `NAME=ADDR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write NAME=ADDR, such as www.example.org=10.0.0.7 or *.test:443=127.0.0.1:8443")]
pub struct ParseOverrideError;

impl std::str::FromStr for Override {
    type Err = ParseOverrideError;
    fn from_str(text: &str) -> Result<Self, ParseOverrideError> {
        let (name, address) = text.split_once('=').ok_or(ParseOverrideError)?;
        let address_valid =
            address.parse::<std::net::IpAddr>().is_ok() || address.parse::<std::net::SocketAddr>().is_ok();
        let name_valid =
            !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '/' || c == '"');
        if name_valid && address_valid {
            Ok(Self {
                name: name.to_owned(),
                address: address.to_owned(),
            })
        } else {
            Err(ParseOverrideError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_name_and_address() {
        for good in [
            "a.test=10.0.0.1",
            "*.test=::1",
            "*:443=127.0.0.1:8443",
            "a=[::1]:80",
        ] {
            let parsed: Override = good.parse().unwrap();
            assert_eq!(format!("{}={}", parsed.name, parsed.address), good);
        }
        for bad in [
            "",
            "a",
            "a=",
            "=1.2.3.4",
            "a=b.test",
            "a b=1.2.3.4",
            "http://a=1.2.3.4",
            "a=1.2.3.4:99999",
        ] {
            assert_eq!(bad.parse::<Override>(), Err(ParseOverrideError), "{bad}");
        }
    }
}
