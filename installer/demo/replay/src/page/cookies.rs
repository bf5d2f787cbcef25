//! The cookies of one page load (RFC 6265): later requests carry the cookies that its responses set, as in a
//! fresh browser.
use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use http::{HeaderMap, header};
use url::Url;

/// Maximum number of cookies; browsers keep about 180 per site, and few sites of a page set any.
const MAX_COOKIES: usize = 1000;
/// Maximum length of name, value and attributes of one cookie, as in browsers.
const MAX_LENGTH: usize = 4096;

/// Cookie jar of one page load.
#[derive(Debug, Default)]
pub struct CookieJar {
    cookies: Mutex<Vec<Cookie>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    domain: String,
    /// Sent only to the host that set the cookie.
    host_only: bool,
    path: String,
    secure: bool,
    /// `SameSite=None`: also sent if a page of another site embeds this host.
    embedded: bool,
}

impl CookieJar {
    /// Stores the `Set-Cookie` fields of a response from `url`.
    pub fn store(&self, url: &Url, headers: &HeaderMap) {
        let mut cookies = self.cookies.lock();
        for field in headers.get_all(header::SET_COOKIE) {
            let text = String::from_utf8_lossy(field.as_bytes());
            let Some((cookie, lives)) = parse(&text, url) else {
                continue;
            };
            cookies.retain(|kept| {
                (&kept.name, &kept.domain, &kept.path) != (&cookie.name, &cookie.domain, &cookie.path)
            });
            if lives && cookies.len() < MAX_COOKIES {
                cookies.push(cookie);
            }
        }
    }

    /// Returns the `Cookie` field of a request to `url` by the page at `page`; `None` if no cookie matches.
    pub fn field(&self, url: &Url, page: &Url) -> Option<String> {
        let host = url.host_str()?;
        let same_site = site(host) == site(page.host_str()?);
        let cookies = self.cookies.lock();
        let mut fitting: Vec<&Cookie> = cookies
            .iter()
            .filter(|cookie| same_site || cookie.embedded)
            .filter(|cookie| host == cookie.domain || (!cookie.host_only && is_below(host, &cookie.domain)))
            .filter(|cookie| {
                path_matches(url.path(), &cookie.path) && (!cookie.secure || url.scheme() == "https")
            })
            .collect();
        // Longer paths come first; the sort keeps the order of creation among equal ones (section 5.4).
        fitting.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> = fitting
            .iter()
            .map(|cookie| format!("{}={}", cookie.name, cookie.value))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

/// Parses a cookie; the flag is false if the cookie has expired. `None` if the response may not set the
/// cookie.
fn parse(text: &str, url: &Url) -> Option<(Cookie, bool)> {
    if text.len() > MAX_LENGTH || text.contains(|c: char| c.is_control() && c != '\t') {
        return None;
    }
    let host = url.host_str()?;
    let mut parts = text.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let mut cookie = Cookie {
        name: name.trim().to_owned(),
        value: value.trim().to_owned(),
        domain: host.to_owned(),
        host_only: true,
        path: default_path(url.path()),
        secure: false,
        embedded: false,
    };
    let (mut max_age, mut expires) = (None, None);
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "domain" if !value.is_empty() => {
                cookie.domain = value.trim_start_matches('.').to_ascii_lowercase();
                cookie.host_only = false;
            }
            "path" if value.starts_with('/') => value.clone_into(&mut cookie.path),
            "secure" => cookie.secure = true,
            "samesite" => cookie.embedded = value.eq_ignore_ascii_case("none"),
            "max-age" => max_age = value.parse::<i64>().ok(),
            "expires" => expires = httpdate::parse_http_date(&value.replace('-', " ")).ok(),
            _ => {}
        }
    }
    // A cookie for a whole top-level domain would apply to all its sites.
    let own = host == cookie.domain || (is_below(host, &cookie.domain) && cookie.domain.contains('.'));
    let secure = (!cookie.secure && !cookie.embedded) || url.scheme() == "https";
    if cookie.name.is_empty() || !own || !secure || (cookie.embedded && !cookie.secure) {
        return None;
    }
    let lives = match (max_age, expires) {
        (Some(seconds), _) => seconds > 0,
        (None, Some(time)) => time
            .duration_since(SystemTime::now())
            .is_ok_and(|left| left > Duration::ZERO),
        (None, None) => true,
    };
    Some((cookie, lives))
}

/// The path up to its last slash (section 5.1.4).
fn default_path(path: &str) -> String {
    path.rfind('/')
        .filter(|&at| at > 0)
        .map_or("/", |at| &path[..at])
        .to_owned()
}

fn path_matches(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'))
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')) && host.parse::<IpAddr>().is_err()
}

/// The site of a host: the last two labels. This is too coarse for suffixes such as `co.uk`, which need the
/// Public Suffix List, but the jar contains the cookies of only one page.
fn site(host: &str) -> &str {
    let mut dots = host.rmatch_indices('.').map(|(at, _)| at);
    dots.nth(1)
        .filter(|_| host.parse::<IpAddr>().is_err())
        .map_or(host, |at| &host[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn jar(from: &str, fields: &[&str]) -> CookieJar {
        let jar = CookieJar::default();
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::SET_COOKIE, field.parse().unwrap());
        }
        jar.store(&url(from), &headers);
        jar
    }

    fn sent(jar: &CookieJar, to: &str, page: &str) -> String {
        jar.field(&url(to), &url(page)).unwrap_or_default()
    }

    #[test]
    fn domain_path_and_scheme_decide() {
        let page = "https://www.a.test/dir/page";
        let jar = jar(
            page,
            &[
                "own=1",
                "wide=2; Domain=.A.test; Path=/",
                "deep=3; path=/dir/sub",
                "safe=4; Secure; Path=/",
                "x=9; Domain=b.test",
                "tld=9; Domain=test",
            ],
        );
        assert_eq!(
            sent(&jar, "https://www.a.test/dir/sub/x", page),
            "deep=3; own=1; wide=2; safe=4"
        );
        assert_eq!(sent(&jar, "https://www.a.test/dirt", page), "wide=2; safe=4");
        assert_eq!(sent(&jar, "http://img.a.test/", page), "wide=2");
        assert_eq!(sent(&jar, "https://a.test.evil.test/", page), "");
        assert_eq!(sent(&jar, "https://nota.test/", page), "");
    }

    #[test]
    fn other_sites_embed_only_what_says_so() {
        let jar = jar(
            "https://ads.test/",
            &["lax=1", "open=2; SameSite=None; Secure", "bad=3; SameSite=None"],
        );
        assert_eq!(sent(&jar, "https://ads.test/", "https://page.test/"), "open=2");
        assert_eq!(
            sent(&jar, "https://ads.test/", "https://ads.test/"),
            "lax=1; open=2"
        );
    }

    #[test]
    fn the_newest_counts_and_dead_ones_go() {
        let page = "http://a.test/";
        let jar = jar(
            page,
            &[
                "a=1",
                "a=2",
                "b=1",
                "b=; Max-Age=0",
                "c=1; Expires=Sun, 09-Feb-2020 20:30:34 GMT",
                "d=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
                "novalue",
                "=x",
            ],
        );
        assert_eq!(sent(&jar, page, page), "a=2; d=1");
    }
}
