//! The proxy of the environment, as curl and most other programs understand it.
use crate::{Exceptions, HttpProxy, ProxyUrl};

/// Variables that name a proxy. The first one that names an HTTP proxy counts.
pub const VARIABLES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// Returns the HTTP proxy of these variables; `None` if they name none.
///
/// `http_proxy` is not read: CONNECT is for the hosts of `https_proxy`. A variable that names a proxy of another kind is
/// not meant for this program.
pub fn of_environment<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Option<HttpProxy> {
    let filled = |name: &str| get(name).map(str::trim).filter(|value| !value.is_empty());
    let url: ProxyUrl = VARIABLES
        .into_iter()
        .find_map(|name| filled(name)?.parse().ok())?;
    let except = filled("no_proxy")
        .or_else(|| filled("NO_PROXY"))
        .unwrap_or_default();
    Some(HttpProxy::new(url, Exceptions::parse(except)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &'static str)]) -> Option<String> {
        let get = |name: &str| {
            variables
                .iter()
                .find(|(of, _)| *of == name)
                .map(|(_, value)| *value)
        };
        let proxy = of_environment(get)?;
        let direct = if proxy.covers("gw.test", 443) {
            ""
        } else {
            " not for gw.test"
        };
        Some(format!("{}{direct}", proxy.url()))
    }

    #[test]
    fn the_most_specific_variable_counts() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("HTTP_PROXY", "http://a:1"), ("HTTPS_PROXY", "")]), None);
        assert_eq!(
            of(&[("ALL_PROXY", "http://a:1"), ("HTTPS_PROXY", "http://b:2")]),
            text("http://b:2")
        );
        assert_eq!(
            of(&[("https_proxy", "c:3"), ("HTTPS_PROXY", "http://b:2")]),
            text("http://c:3")
        );
        assert_eq!(
            of(&[("ALL_PROXY", "http://a:1"), ("NO_PROXY", "gw.test")]),
            text("http://a:1 not for gw.test")
        );
        assert_eq!(of(&[("ALL_PROXY", "socks5://a:1")]), None);
        assert_eq!(
            of(&[("HTTPS_PROXY", "https://a:1"), ("ALL_PROXY", "b:2")]),
            text("http://b:2")
        );
    }
}
