//! The address of a proxy and the credentials for it.
use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;

/// Port of a URL that names none.
const DEFAULT_PORT: u16 = 80;
/// Maximum length of a URL.
const MAX_URL: usize = 2048;
/// Maximum length of a host name (RFC 1035 section 2.3.4).
const MAX_HOST: usize = 253;

/// Name and password for a proxy (RFC 7617).
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    name: String,
    password: String,
}

/// Text that is no name and password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// There is no colon, or nothing before it.
    #[error("it is not `name:password`")]
    Form,
    /// RFC 7617 section 2 permits no control characters.
    #[error("name and password may not contain control characters")]
    Control,
}

impl Credentials {
    /// The credentials in `name:password`. The password may contain further colons.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn parse(text: &str) -> Result<Self, CredentialsError> {
        let (name, password) = text.split_once(':').ok_or(CredentialsError::Form)?;
        Self::new(name.to_owned(), password.to_owned())
    }

    fn new(name: String, password: String) -> Result<Self, CredentialsError> {
        if name.is_empty() {
            return Err(CredentialsError::Form);
        }
        if name.chars().chain(password.chars()).any(char::is_control) {
            return Err(CredentialsError::Control);
        }
        Ok(Self { name, password })
    }

    /// The value of the field `Proxy-Authorization`.
    pub fn authorization(&self) -> String {
        format!(
            "Basic {}",
            STANDARD.encode(format!("{}:{}", self.name, self.password))
        )
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Address of a proxy: `http://NAME:PASSWORD@HOST:PORT`. Its text, for logs and status, has no credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    host: String,
    port: u16,
    credentials: Option<Credentials>,
}

/// Text that is no address of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyUrlError {
    /// The credentials are malformed.
    #[error("the credentials in it are malformed: {0}")]
    Credentials(#[from] CredentialsError),
    /// The host is none.
    #[error("its host is not valid")]
    Host,
    /// The port is none.
    #[error("its port is not valid")]
    Port,
    /// There is a path, a query or a fragment.
    #[error("a proxy has no path: write http://HOST:PORT")]
    Path,
    /// The scheme is another one.
    #[error("proxies of the kind `{0}` are not supported: write http://HOST:PORT")]
    Scheme(String),
    /// The text is too long.
    #[error("it is too long")]
    TooLong,
}

impl ProxyUrl {
    /// Host name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Credentials of the URL.
    pub const fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// The same proxy with these credentials.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self {
            credentials: Some(credentials),
            ..self
        }
    }
}

impl FromStr for ProxyUrl {
    type Err = ProxyUrlError;

    fn from_str(text: &str) -> Result<Self, ProxyUrlError> {
        if text.len() > MAX_URL {
            return Err(ProxyUrlError::TooLong);
        }
        // As in curl and most other programs, a proxy without a scheme is an HTTP proxy.
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => return Err(ProxyUrlError::Scheme(scheme.to_owned())),
            None => text,
        };
        let (rest, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if !matches!(path, "" | "/") {
            return Err(ProxyUrlError::Path);
        }
        let (user, address) = match rest.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, rest),
        };
        let (host, port) = authority(address)?;
        Ok(Self {
            host,
            port,
            credentials: user.map(credentials).transpose()?,
        })
    }
}

/// The credentials of a URL, which are percent-encoded.
fn credentials(user: &str) -> Result<Credentials, CredentialsError> {
    let decoded = |text: &str| {
        let bytes = percent_decode_str(text).decode_utf8();
        bytes.map(Into::into).map_err(|_| CredentialsError::Form)
    };
    // A name alone is a user without a password.
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    Credentials::new(decoded(name)?, decoded(password)?)
}

fn authority(address: &str) -> Result<(String, u16), ProxyUrlError> {
    let (host, port) = if let Some(rest) = address.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or(ProxyUrlError::Host)?;
        let host: std::net::Ipv6Addr = host.parse().map_err(|_| ProxyUrlError::Host)?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':').ok_or(ProxyUrlError::Port)?),
        };
        (host.to_string(), port)
    } else {
        let (host, port) = match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if host.is_empty() || host.len() > MAX_HOST || !host.bytes().all(is_plain) {
            return Err(ProxyUrlError::Host);
        }
        (host.to_ascii_lowercase(), port)
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = match port {
        None => DEFAULT_PORT,
        Some(text) if is_number(text) => match text.parse() {
            Ok(port) if port > 0 => port,
            Ok(_) | Err(_) => return Err(ProxyUrlError::Port),
        },
        Some(_) => return Err(ProxyUrlError::Port),
    };
    Ok((host, port))
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "http://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "http://{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<(String, u16, bool), ProxyUrlError> {
        let url: ProxyUrl = text.parse()?;
        Ok((url.host().to_owned(), url.port(), url.credentials().is_some()))
    }

    #[test]
    fn the_usual_spellings_are_read() {
        let is = |host: &str, port, has_credentials| Ok((host.to_owned(), port, has_credentials));
        assert_eq!(read("http://proxy.corp:3128"), is("proxy.corp", 3128, false));
        assert_eq!(read("HTTP://Proxy.Corp:3128/"), is("proxy.corp", 3128, false));
        assert_eq!(read("proxy.corp:8080"), is("proxy.corp", 8080, false));
        assert_eq!(read("http://proxy.corp"), is("proxy.corp", 80, false));
        assert_eq!(read("http://[2001:DB8::1]:3128"), is("2001:db8::1", 3128, false));
        assert_eq!(
            read("http://anna:p%40ss@10.0.0.1:3128"),
            is("10.0.0.1", 3128, true)
        );
        let url: ProxyUrl = "http://anna:p%40:s@10.0.0.1:3128".parse().unwrap();
        // RFC 7617: `anna:p@:s` in base64.
        assert_eq!(url.credentials().unwrap().authorization(), "Basic YW5uYTpwQDpz");
        assert_eq!(
            (url.to_string(), format!("{url:?}")),
            (url.to_string(), url.to_string())
        );
        assert!(!url.to_string().contains("anna"));
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        for (text, error) in [
            ("https://proxy:443", ProxyUrlError::Scheme("https".to_owned())),
            ("socks5h://proxy", ProxyUrlError::Scheme("socks5h".to_owned())),
            ("http://proxy:0", ProxyUrlError::Port),
            ("http://proxy:", ProxyUrlError::Port),
            ("http://proxy:+80", ProxyUrlError::Port),
            ("http://proxy:65536", ProxyUrlError::Port),
            ("http://:80", ProxyUrlError::Host),
            ("", ProxyUrlError::Host),
            ("http://pro xy:80", ProxyUrlError::Host),
            ("http://[::1", ProxyUrlError::Host),
            ("http://[::1]80", ProxyUrlError::Port),
            ("http://proxy:80/x", ProxyUrlError::Path),
            ("http://:secret@proxy:80", CredentialsError::Form.into()),
            ("http://a%0a:secret@proxy:80", CredentialsError::Control.into()),
        ] {
            assert_eq!(text.parse::<ProxyUrl>(), Err(error), "{text}");
        }
        assert_eq!(
            "x".repeat(MAX_URL + 1).parse::<ProxyUrl>(),
            Err(ProxyUrlError::TooLong)
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}", host in "[a-z0-9.@:/%\\[\\]-]{0,40}") {
            let _any = text.parse::<ProxyUrl>();
            if let Ok(url) = format!("http://{host}").parse::<ProxyUrl>() {
                let again: ProxyUrl = url.to_string().parse().unwrap();
                prop_assert_eq!((again.host(), again.port()), (url.host(), url.port()));
            }
        }

        #[test]
        fn credentials_survive_their_encoding(name in "[^:\\pC]{1,20}", password in "\\PC{0,20}", port in 1_u16..) {
            let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
            let text = format!("http://{}:{}@proxy.test:{port}", encoded(&name), encoded(&password));
            let url: ProxyUrl = text.parse().unwrap();
            prop_assert_eq!(url.port(), port);
            let expected = Credentials::parse(&format!("{name}:{password}")).unwrap();
            prop_assert_eq!(url.credentials(), Some(&expected));
        }
    }
}
