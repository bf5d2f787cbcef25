//! Request targets of a proxy (RFC 9112 section 3.2).
use http::{
    HeaderMap, HeaderValue, Uri, header,
    uri::{Authority, PathAndQuery},
};

use crate::url_credentials;

/// Destination of a request in absolute form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Scheme, which determines the kind of connection to the origin.
    pub scheme: Scheme,
    /// Host in lower case, IPv6 literals without brackets.
    pub host: String,
    /// Port; the scheme's default if the target has none.
    pub port: u16,
    /// Path and query, unchanged; `*` for an `OPTIONS` of the whole server.
    pub path: PathAndQuery,
}

/// The schemes that the proxy fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`, port 80.
    Http,
    /// `https`, port 443.
    Https,
}

impl Scheme {
    /// Default port.
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
    /// Name as in a URL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Errors of a request target; the client's fault, answered with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The target has no host.
    #[error("the request names no host")]
    MissingHost,
    /// A CONNECT target has no port.
    #[error("the CONNECT request names no port")]
    MissingPort,
    /// The port is not a number from 1 to 65535.
    #[error("the port in the request is not a number from 1 to 65535")]
    BadPort,
    /// The host contains characters that are invalid in host names and address literals.
    #[error("the host in the request is not a host name")]
    BadHost,
    /// The path or query contains invalid characters.
    #[error("the path in the request is not a path")]
    BadPath,
    /// The target is not in absolute form, so it addresses this server and not another one.
    #[error("the request is addressed to the proxy itself, not to another server")]
    NotAbsolute,
    /// A scheme other than `http` and `https`.
    #[error("the request's scheme is neither http nor https")]
    UnsupportedScheme,
    /// User name or password where only a host may be.
    #[error("the request has a user name where only a host may be")]
    UserInfo,
}

/// Parses the target of a proxy request in absolute form. User name and password are no part of it: see
/// [`url_credentials`].
///
/// # Errors
/// The target is not one that a proxy fetches.
pub fn absolute(uri: &Uri) -> Result<Target, TargetError> {
    let scheme = match uri.scheme_str() {
        Some(scheme) if scheme.eq_ignore_ascii_case("http") => Scheme::Http,
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => Scheme::Https,
        Some(_) => return Err(TargetError::UnsupportedScheme),
        None => return Err(TargetError::NotAbsolute),
    };
    let (_, authority) = url_credentials::split(uri.authority().ok_or(TargetError::MissingHost)?);
    let (host, port) = parse_host_and_port(authority)?;
    let path = match uri.path_and_query() {
        None => PathAndQuery::from_static("/"),
        // Also the empty path before a fragment, which reads as "/" and is not equal to it.
        Some(path) if path.as_str() == "/" => PathAndQuery::from_static("/"),
        // An empty path is "/" (RFC 9112 section 3.2.1), also before a query.
        Some(path) if !path.as_str().starts_with('/') => {
            PathAndQuery::try_from(["/", path.as_str()].concat()).map_err(|_| TargetError::BadPath)?
        }
        Some(path) => path.clone(),
    };
    Ok(Target {
        scheme,
        host,
        port: port.unwrap_or_else(|| scheme.port()),
        path,
    })
}

/// Parses the target of a `CONNECT` request in authority form: host in lower case, without brackets, and
/// port.
///
/// # Errors
/// The target is not a host and a port.
pub fn authority(uri: &Uri) -> Result<(String, u16), TargetError> {
    if uri.scheme().is_some()
        || uri
            .path_and_query()
            .is_some_and(|path| !matches!(path.as_str(), "" | "/"))
    {
        return Err(TargetError::BadHost);
    }
    let authority = uri.authority().ok_or(TargetError::MissingHost)?;
    let (host, port) = host_and_port(authority)?;
    Ok((host, port.ok_or(TargetError::MissingPort)?))
}

/// Returns the host of an authority in lower case, without brackets, and the port if there is one.
///
/// # Errors
/// It is not a host with an optional port.
pub fn host_and_port(authority: &Authority) -> Result<(String, Option<u16>), TargetError> {
    parse_host_and_port(authority.as_str())
}

fn parse_host_and_port(text: &str) -> Result<(String, Option<u16>), TargetError> {
    if text.contains('@') {
        return Err(TargetError::UserInfo);
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(literal) => {
            let (address, rest) = literal.split_once(']').ok_or(TargetError::BadHost)?;
            let address: std::net::Ipv6Addr = address.parse().map_err(|_| TargetError::BadHost)?;
            (address.to_string(), rest)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            (text[..end].to_ascii_lowercase(), &text[end..])
        }
    };
    if host.is_empty() {
        return Err(TargetError::MissingHost);
    }
    let in_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    if host.len() > MAX_HOST || !host.chars().all(in_host) {
        return Err(TargetError::BadHost);
    }
    let port = match port.strip_prefix(':') {
        // "http://host:/" is valid and means the default port (RFC 3986 section 6.2.3).
        None | Some("") if port.len() <= 1 => None,
        None => return Err(TargetError::BadPort),
        Some(digits) => Some(self::port(digits).ok_or(TargetError::BadPort)?),
    };
    Ok((host, port))
}

/// Parses the port of a URL: digits only, so that nothing that judges a port reads another one than what connects to it.
pub fn port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port != 0)
}

impl Target {
    /// Returns the value of `Host`, without the scheme's default port.
    pub fn host_field(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == self.scheme.port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    /// Returns the target as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme.name(), self.host_field(), self.path)
    }

    /// Sets `Host` from the target and replaces any existing value (RFC 9112 section 3.2.2).
    ///
    /// # Errors
    /// The host is not a valid field value; this is impossible for a parsed target.
    pub fn set_host(&self, headers: &mut HeaderMap) -> Result<(), TargetError> {
        let value = HeaderValue::try_from(self.host_field()).map_err(|_| TargetError::BadHost)?;
        headers.insert(header::HOST, value);
        Ok(())
    }
}

/// Maximum length of a DNS name in text form (RFC 1035 section 2.3.4).
const MAX_HOST: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, TargetError> {
        absolute(&text.parse().unwrap())
    }

    #[test]
    fn targets_without_a_path_are_equal() {
        let expected = parse("http://a.test/");
        assert_eq!(parse("http://a.test"), expected);
        assert_eq!(parse("http://a.test#x"), expected);
    }

    #[test]
    fn absolute_form_targets_are_parsed() {
        let target = parse("HTTP://Www.Example.TEST:80/a/../b?q=%20x").unwrap();
        assert_eq!(target.host, "www.example.test");
        assert_eq!((target.scheme, target.port), (Scheme::Http, 80));
        assert_eq!(target.path.as_str(), "/a/../b?q=%20x");
        assert_eq!(target.url(), "http://www.example.test/a/../b?q=%20x");
        assert_eq!(parse("http://a.test").unwrap().path.as_str(), "/");
        assert_eq!(parse("http://a.test?x").unwrap().path.as_str(), "/?x");
        assert_eq!(parse("https://a.test:8443/").unwrap().host_field(), "a.test:8443");
        assert_eq!(parse("http://a.test:/").unwrap().port, 80);
        for url in [
            "http://user:pw@a.test:81/x",
            "http://b.test@a.test:81/x",
            "http://u@b@a.test:81/x",
        ] {
            assert_eq!(parse(url).unwrap().url(), "http://a.test:81/x", "{url}");
        }
        let v6 = parse("http://[2001:DB8:0::1]:8080/").unwrap();
        assert_eq!(
            (v6.host.as_str(), v6.host_field().as_str()),
            ("2001:db8::1", "[2001:db8::1]:8080")
        );
    }

    #[test]
    fn invalid_targets_are_rejected() {
        assert_eq!(parse("/index.html"), Err(TargetError::NotAbsolute));
        assert_eq!(parse("*"), Err(TargetError::NotAbsolute));
        assert_eq!(parse("a.test:443"), Err(TargetError::NotAbsolute));
        assert_eq!(parse("ftp://a.test/"), Err(TargetError::UnsupportedScheme));
        assert_eq!(parse("http://a.test:0/"), Err(TargetError::BadPort));
        for odd in [
            "http://a.test:65536/",
            "http://a.test:+80/",
            "http://a$b.test/",
            "http://[::1/",
            "http://[v1.x]/",
        ] {
            if let Ok(uri) = odd.parse::<Uri>() {
                assert!(absolute(&uri).is_err(), "{odd}");
            }
        }
        let long = format!("http://{}/", "a".repeat(254));
        assert_eq!(parse(&long), Err(TargetError::BadHost));
        assert!(parse(&long.replacen('a', "", 1)).is_ok());
        assert_eq!(parse_host_and_port("[::1]443"), Err(TargetError::BadPort));
    }

    #[test]
    fn connect_targets_are_parsed() {
        let connect = |text: &str| authority(&text.parse().unwrap());
        assert_eq!(connect("A.test:443"), Ok(("a.test".to_owned(), 443)));
        assert_eq!(connect("[::1]:8443"), Ok(("::1".to_owned(), 8443)));
        assert_eq!(connect("a.test"), Err(TargetError::MissingPort));
        assert_eq!(connect("a.test:"), Err(TargetError::MissingPort));
        assert_eq!(connect("u@a.test:443"), Err(TargetError::UserInfo));
        assert_eq!(connect("/x"), Err(TargetError::BadHost));
        assert_eq!(connect("http://a.test:443/"), Err(TargetError::BadHost));
    }

    #[test]
    fn host_comes_from_the_target() {
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, HeaderValue::from_static("evil.test"));
        headers.append(header::HOST, HeaderValue::from_static("evil2.test"));
        parse("http://a.test:81/")
            .unwrap()
            .set_host(&mut headers)
            .unwrap();
        let hosts: Vec<_> = headers.get_all(header::HOST).iter().collect();
        assert_eq!(hosts, ["a.test:81"]);
    }

    proptest::proptest! {
        #[test]
        fn a_parsed_target_means_the_same_when_written_out(
            host in "[a-zA-Z0-9_.-]{1,20}|\\[[0-9a-f:]{2,12}\\]",
            port in proptest::option::of(0_u32..70_000),
            path in "(/[!-~]{0,10})?(\\?[!-~]{0,10})?",
        ) {
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            if let Ok(target) = format!("http://{host}{port}{path}").parse().map_err(drop).and_then(|uri| absolute(&uri).map_err(drop)) {
                proptest::prop_assert_eq!(parse(&target.url()), Ok(target));
            }
        }

        #[test]
        fn no_request_target_panics(text in "[ -~]{0,40}") {
            if let Ok(uri) = text.parse() {
                let _ = absolute(&uri);
                let _ = authority(&uri);
            }
        }
    }
}
