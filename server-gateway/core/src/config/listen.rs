//! The UDP addresses of a gateway.
use std::{fmt, net::SocketAddr};

use longhaul_settings::{Value, Wrong, list, quoted};

/// Maximum number of addresses: agents try no more.
const MAX_ADDRESSES: usize = 8;

/// UDP addresses on which a gateway listens, at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddresses {
    /// The first one.
    pub first: SocketAddr,
    /// The others.
    pub others: Vec<SocketAddr>,
}

impl ListenAddresses {
    /// All addresses, in their order.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// The addresses of a setting: one text, texts with commas, or a list.
    pub(super) fn parse(value: &Value) -> Result<Self, Wrong> {
        let texts = match value {
            Value::List(_) => value.texts()?,
            Value::Boolean(_) | Value::Integer(_) | Value::Other(_) | Value::Table(_) | Value::Text(_) => {
                let texts = value.text()?.split(',');
                texts.map(|text| text.trim().to_owned()).collect()
            }
        };
        let mut addresses = Vec::with_capacity(texts.len());
        for text in &texts {
            let address: SocketAddr = text
                .parse()
                .map_err(|_| Wrong::new(format!("`{text}` is not ADDR:PORT")))?;
            if address.port() != 0 && addresses.contains(&address) {
                return Err(Wrong::new(format!("`{text}` is there twice")));
            }
            addresses.push(address);
        }
        if addresses.len() > MAX_ADDRESSES {
            return Err(Wrong::new(format!(
                "there are more than {MAX_ADDRESSES} addresses"
            )));
        }
        let mut addresses = addresses.into_iter();
        let first = addresses.next().ok_or_else(|| Wrong::new("it is empty"))?;
        Ok(Self {
            first,
            others: addresses.collect(),
        })
    }

    /// The addresses as TOML.
    pub(super) fn to_toml(&self) -> String {
        if self.others.is_empty() {
            quoted(&self.first.to_string())
        } else {
            list(self.iter())
        }
    }
}

impl From<SocketAddr> for ListenAddresses {
    fn from(first: SocketAddr) -> Self {
        Self {
            first,
            others: Vec::new(),
        }
    }
}

impl fmt::Display for ListenAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.others.iter().try_for_each(|other| write!(f, ", {other}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<String, String> {
        let text = |text: &&str| Value::Text((*text).to_owned());
        let value = match texts {
            [one] => text(one),
            _ => Value::List(texts.iter().map(text).collect()),
        };
        let parsed = ListenAddresses::parse(&value);
        parsed
            .map(|of| of.to_toml())
            .map_err(|wrong| format!("{wrong:?}"))
    }

    #[test]
    fn one_address_is_a_text_and_several_are_a_list() {
        assert_eq!(parse(&["[::]:4433"]), Ok("\"[::]:4433\"".to_owned()));
        let both = Ok("[\"[::]:443\", \"192.0.2.1:4433\"]".to_owned());
        assert_eq!(parse(&["[::]:443, 192.0.2.1:4433"]), both);
        assert_eq!(parse(&["[::]:443", "192.0.2.1:4433"]), both);
    }

    #[test]
    fn too_few_too_many_and_equal_addresses_are_refused() {
        let many: Vec<String> = (1..=9).map(|port| format!("127.0.0.1:{port}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (texts, problem) in [
            (&[][..], "empty"),
            (&[","], "not ADDR:PORT"),
            (&["127.0.0.1:1", "4433"], "`4433` is not ADDR:PORT"),
            (&["127.0.0.1:1", "127.0.0.1:1"], "twice"),
            (&many, "more than 8"),
        ] {
            let wrong = parse(texts).unwrap_err();
            assert!(wrong.contains(problem), "{wrong}");
        }
        assert!(parse(&many[1..]).is_ok());
        assert!(parse(&["127.0.0.1:0", "127.0.0.1:0"]).is_ok(), "any two ports");
    }
}
