use http::HeaderName;

use super::*;
use crate::Initiator;

const CHROMIUM: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));

/// Page load at `page`, whose responses set cookies.
struct Load {
    page: Url,
    jar: Jar,
}

impl Load {
    fn new(page: &str, user_agent: &'static str, cookie: &str) -> Self {
        let mut request = HeaderMap::new();
        request.insert(header::USER_AGENT, HeaderValue::from_static(user_agent));
        if !cookie.is_empty() {
            request.insert(header::COOKIE, HeaderValue::from_str(cookie).unwrap());
        }
        let page: Url = page.parse().unwrap();
        let jar = Jar::new(&page, &request, &CookiePathObservations::new());
        Self { page, jar }
    }

    fn chain(&self) -> RequestChain {
        RequestChain::document(Initiator::page(&self.page, &HeaderMap::new()))
    }

    /// Restarts in a session in which the browser sent the same cookies to the root.
    fn know_as_of_root(&mut self, cookie: &str) {
        let request: HeaderMap = [
            (header::COOKIE, HeaderValue::from_str(cookie).unwrap()),
            (
                header::USER_AGENT,
                HeaderValue::from_static(match self.jar.browser {
                    Browser::Chromium => CHROMIUM,
                    Browser::Firefox | Browser::Safari | Browser::Other => FIREFOX,
                }),
            ),
        ]
        .into_iter()
        .collect();
        let mut cookie_paths = CookiePathObservations::new();
        cookie_paths.observe(&self.page.join("/").unwrap(), &request);
        self.jar = Jar::new(&self.page, &request, &cookie_paths);
    }

    fn set(&mut self, url: &str, fields: &[&str]) {
        let fields = fields
            .iter()
            .map(|value| (header::SET_COOKIE, HeaderValue::from_str(value).unwrap()));
        let response: HeaderMap = fields.collect();
        let url = self.page.join(url).unwrap();
        let chain = self.chain();
        self.jar.store(&url, &response, Some(&chain), NOW);
    }

    fn sent(&self, url: &str) -> Option<String> {
        self.sent_at(url, NOW)
    }

    fn sent_at(&self, url: &str, now: UnixTime) -> Option<String> {
        let url = self.page.join(url).unwrap();
        match self.jar.cookies_for(&url, &self.chain(), now) {
            Cookies::Known(field) => Some(String::from_utf8_lossy(field?.as_bytes()).into_owned()),
            Cookies::Withheld => Some("withheld".to_owned()),
        }
    }
}

#[test]
fn the_pages_cookies_are_sent_to_its_host_in_order() {
    let load = Load::new("http://www.a.test:8080/", CHROMIUM, "z=1; a=2; flag; q=\"x y\"");
    let same = Some("z=1; a=2; flag; q=\"x y\"".to_owned());
    assert_eq!(load.sent("/x"), same);
    assert_eq!(load.sent("http://www.a.test:9/x"), same);
    for other in [
        "http://a.test/x",
        "http://sub.www.a.test/x",
        "http://b.test/x",
        "https://www.a.test/x",
    ] {
        assert_eq!(load.sent(other), None, "{other}");
    }
    assert_eq!(Load::new("http://a.test/", CHROMIUM, "").sent("/x"), None);
}

/// Cookies that Chromium 156 sent for the same responses.
#[test]
fn cookies_as_chromium_sends_them() {
    let mut load = Load::new("http://a.test/dir/two", CHROMIUM, "a=1; b=2; c=3");
    load.know_as_of_root("a=1; b=2; c=3");
    load.set(
        "/dir/two",
        &[
            "a=1; Path=/",
            "b=new; Path=/",
            "d=4; Path=/",
            "e=5; Path=/dir/",
            "f=6",
            "n=x; SameSite=None",
            "s=y; Secure",
            "dom=1; Domain=a.test; Path=/",
            "z=1; Max-Age=0",
            "=nameless",
            "q=\"quo ted\"",
            "sp  =  v  ; Path=/",
            "ss=1; SameSite=Strict; Path=/",
        ],
    );
    assert_eq!(
        load.sent("/dir/x.png").unwrap(),
        "e=5; f=6; nameless; q=\"quo ted\"; a=1; c=3; b=new; d=4; dom=1; sp=v; ss=1"
    );
    assert_eq!(
        load.sent("/y.png").unwrap(),
        "a=1; c=3; b=new; d=4; dom=1; sp=v; ss=1"
    );
    assert_eq!(load.sent("http://sub.a.test/z.png").unwrap(), "dom=1");
    assert_eq!(load.sent("http://b.test/w.png"), None);
}

#[test]
fn only_chromium_moves_a_changed_cookie_to_the_end() {
    for (user_agent, expected) in [(CHROMIUM, "b=2; a=9"), (FIREFOX, "a=9; b=2")] {
        let mut load = Load::new("http://a.test/", user_agent, "a=1; b=2");
        load.set("/", &["a=9"]);
        assert_eq!(load.sent("/x").unwrap(), expected);
    }
}

#[test]
fn cookies_expire() {
    let mut load = Load::new("http://a.test/", FIREFOX, "gone=1; stays=1");
    load.set(
        "/",
        &[
            "gone=; Max-Age=0",
            "short=1; Max-Age=10",
            "date=1; Expires=Sun, 06 Nov 1994 08:49:37 GMT",
        ],
    );
    assert_eq!(load.sent("/x").unwrap(), "stays=1; short=1");
    let later = NOW + Duration::from_secs(10);
    assert_eq!(load.sent_at("/x", later).unwrap(), "stays=1");
}

#[test]
fn cookie_paths_must_match_the_request_path() {
    let mut load = Load::new("http://a.test/a/b/page", FIREFOX, "");
    load.set("/a/b/page", &["default=1", "a=1; Path=/a", "odd=1; Path=x"]);
    assert_eq!(load.sent("/a/b/c").unwrap(), "default=1; odd=1; a=1");
    assert_eq!(load.sent("/a/b").unwrap(), "default=1; odd=1; a=1");
    assert_eq!(load.sent("/a/bc").unwrap(), "a=1");
    assert_eq!(load.sent("/ab"), None);
    load.set("/style.css", &["root=1"]);
    assert_eq!(load.sent("/ab").unwrap(), "root=1");
}

#[test]
fn a_cookie_of_the_page_that_is_set_with_its_default_path_is_the_same_one() {
    let mut load = Load::new("http://a.test/dir/page", FIREFOX, "a=1; b=2");
    load.know_as_of_root("a=1; b=2");
    load.set("/dir/page", &["a=9"]);
    assert_eq!(load.sent("/dir/x").unwrap(), "a=9; b=2");
    load.set("/other/x", &["b=3; Path=/other"]);
    assert_eq!(load.sent("/other/y").unwrap(), "b=3; b=2");
}

#[test]
fn cookie_domains_must_cover_the_host_and_be_no_public_suffix() {
    let mut load = Load::new("http://www.a.co.uk/", FIREFOX, "");
    load.set(
        "/",
        &[
            "ok=1; Domain=.A.co.uk",
            "own=1; Domain=www.a.co.uk",
            "suffix=1; Domain=co.uk",
            "top=1; Domain=uk",
            "other=1; Domain=b.co.uk",
            "below=1; Domain=x.www.a.co.uk",
            "part=1; Domain=w.a.co.uk",
            "host=1",
        ],
    );
    assert_eq!(load.sent("/x").unwrap(), "ok=1; own=1; host=1");
    assert_eq!(load.sent("http://static.a.co.uk/x").unwrap(), "ok=1");
    assert_eq!(load.sent("http://x.www.a.co.uk/").unwrap(), "ok=1; own=1");
    assert_eq!(load.sent("http://xa.co.uk/"), None);

    let mut load = Load::new("http://127.0.0.1/", FIREFOX, "");
    load.set("/", &["ip=1; Domain=127.0.0.1", "no=1; Domain=0.0.1"]);
    assert_eq!(load.sent("/x").unwrap(), "ip=1");
    let mut load = Load::new("http://localhost/", FIREFOX, "");
    load.set("/", &["l=1; Domain=localhost"]);
    assert_eq!(load.sent("/x").unwrap(), "l=1");
    assert_eq!(load.sent("http://x.localhost/"), None);
}

#[test]
fn other_sites_neither_set_nor_get_cookies() {
    let mut load = Load::new("https://a.test/", FIREFOX, "");
    load.set("https://b.test/x", &["b=1; SameSite=None; Secure"]);
    load.set("https://me.github.io/", &["g=1"]);
    assert_eq!(load.sent("https://b.test/y"), None);
    load.set(
        "https://cdn.a.test/x",
        &["c=1; Domain=a.test; SameSite=None; Secure"],
    );
    assert_eq!(load.sent("/x").unwrap(), "c=1");
}

#[test]
fn secure_cookies_and_prefixes() {
    let mut load = Load::new("https://a.test/dir/p", FIREFOX, "");
    load.set(
        "/dir/p",
        &[
            "s=1; Secure; Path=/",
            "__Host-ok=1; Secure; Path=/",
            "__Host-path=1; Secure",
            "__Host-dom=1; Secure; Path=/; Domain=a.test",
            "__host-plain=1; Path=/",
            "__Secure-ok=1; Secure; Path=/",
            "__Secure-no=1; Path=/",
            "=__Host-x=1; Secure; Path=/",
        ],
    );
    assert_eq!(load.sent("/x").unwrap(), "s=1; __Host-ok=1; __Secure-ok=1");
    let mut load = Load::new("http://a.test/", FIREFOX, "");
    load.set("/", &["s=1; Secure", "n=1; SameSite=None"]);
    assert_eq!(load.sent("/x"), None);
    let mut load = Load::new("http://localhost/", FIREFOX, "");
    load.set("/", &["s=1; Secure"]);
    assert_eq!(load.sent("/x").unwrap(), "s=1");
}

#[test]
fn the_jar_is_bounded() {
    let mut load = Load::new("http://a.test/", FIREFOX, "page=1");
    for index in 0..100 {
        load.set("/", &[&format!("c{index}=1")]);
    }
    assert_eq!(load.jar.cookies.len(), 1 + MAX_OF_HOST);
    for host in 0..20 {
        for index in 0..50 {
            load.set(&format!("http://h{host}.a.test/"), &[&format!("c{index}=1")]);
        }
    }
    assert_eq!(load.jar.cookies.len(), MAX_COOKIES);
    let mut request = HeaderMap::new();
    for index in 0..1000 {
        let value = HeaderValue::from_str(&format!("c{index}=1")).unwrap();
        request.append(HeaderName::from_static("cookie"), value);
    }
    let jar = Jar::new(&load.page, &request, &CookiePathObservations::new());
    assert_eq!(jar.cookies.len(), MAX_PAGE_COOKIES);
}

/// For a cookie of the page's request only an upper bound of its path is known.
#[test]
fn the_pages_cookies_are_sent_where_every_possible_path_allows() {
    let load = Load::new("http://host.test/~alice/", CHROMIUM, "session=1");
    for (target, expected) in [
        ("/~alice/", Some("session=1")),
        ("/~alice/pic.png", Some("session=1")),
        ("/~alice/sub/x", Some("session=1")),
        ("/~alice", Some("withheld")),
        ("/~alice2/x", Some("withheld")),
        ("/~mallory/log", Some("withheld")),
        ("/", Some("withheld")),
        ("http://sub.host.test/~alice/x", None),
    ] {
        assert_eq!(load.sent(target).as_deref(), expected, "{target}");
    }
    // Without a trailing slash the page's path may be the cookie's path itself.
    let load = Load::new("http://host.test/~alice", CHROMIUM, "session=1");
    assert_eq!(load.sent("/~mallory").as_deref(), Some("withheld"));
    assert_eq!(load.sent("/~alice/x").as_deref(), Some("session=1"));
    // One cookie with unknown path suffices to withhold all: half of a login is useless.
    let mut load = Load::new("http://host.test/~alice/", FIREFOX, "session=1");
    load.set("/", &["new=1; Path=/"]);
    assert_eq!(load.sent("/~mallory/").as_deref(), Some("withheld"));
    assert_eq!(load.sent("/~alice/").as_deref(), Some("session=1; new=1"));
}

/// Requests to other URLs and `Set-Cookie` fields narrow the paths of the cookies of a page's request.
#[test]
fn earlier_requests_reveal_cookie_paths() {
    let request = |cookie: &str| -> HeaderMap {
        let fields = [
            (header::COOKIE, HeaderValue::from_str(cookie).unwrap()),
            (header::USER_AGENT, HeaderValue::from_static(CHROMIUM)),
        ];
        fields.into_iter().collect()
    };
    let url = |path: &str| Url::parse("https://a.test").unwrap().join(path).unwrap();
    let page = url("/news/2026/article");
    let sent = |cookie_paths: &CookiePathObservations, cookie: &str, path: &str| {
        let load = Load {
            page: page.clone(),
            jar: Jar::new(&page, &request(cookie), cookie_paths),
        };
        load.sent(path).unwrap()
    };
    let mut cookie_paths = CookiePathObservations::new();
    assert_eq!(sent(&cookie_paths, "a=1", "/static/x.css"), "withheld");
    cookie_paths.observe(&url("/news/2026/other"), &request("a=1"));
    assert_eq!(sent(&cookie_paths, "a=1", "/static/x.css"), "withheld");
    assert_eq!(sent(&cookie_paths, "a=1", "/news/2026/x.css"), "a=1");
    cookie_paths.observe(&url("/static/y.css"), &request("a=1"));
    assert_eq!(sent(&cookie_paths, "a=1", "/static/x.css"), "a=1");
    // Another value is another cookie, and so is another host or scheme.
    assert_eq!(sent(&cookie_paths, "a=2", "/static/x.css"), "withheld");
    cookie_paths.observe(&Url::parse("http://a.test/").unwrap(), &request("a=2"));
    cookie_paths.observe(&Url::parse("https://b.a.test/").unwrap(), &request("a=2"));
    assert_eq!(sent(&cookie_paths, "a=2", "/static/x.css"), "withheld");
    // After a cookie with path `/`, all cookies have path `/`, in the order of browsers.
    assert_eq!(sent(&cookie_paths, "a=1; b=1", "/static/x.css"), "a=1; b=1");
    assert_eq!(sent(&cookie_paths, "b=1; a=1", "/static/x.css"), "withheld");
    assert_eq!(
        sent(&cookie_paths, "__Host-b=1; c=1", "/static/x.css"),
        "__Host-b=1; c=1"
    );
    // `Set-Cookie` determines the path: `/news` does not match `/static`.
    let set = |value: &str| -> HeaderMap {
        let fields = [(header::SET_COOKIE, HeaderValue::from_str(value).unwrap())];
        fields.into_iter().collect()
    };
    cookie_paths.observe_response(&url("/login"), &set("root=1; Path=/; HttpOnly"));
    cookie_paths.observe_response(&url("/login"), &set("news=1; Path=/news"));
    cookie_paths.observe_response(&url("/login"), &set("foreign=1; Path=/; Domain=b.test"));
    assert_eq!(sent(&cookie_paths, "root=1", "/static/x.css"), "root=1");
    assert_eq!(sent(&cookie_paths, "news=1; root=1", "/static/x.css"), "root=1");
    assert_eq!(
        sent(&cookie_paths, "news=1; root=1", "/news/x.css"),
        "news=1; root=1"
    );
    assert_eq!(sent(&cookie_paths, "foreign=1", "/static/x.css"), "withheld");
}

#[test]
fn strict_cookies_are_not_sent_with_cross_site_navigations() {
    let mut load = Load::new("https://a.test/", FIREFOX, "");
    load.set(
        "/",
        &["strict=1; SameSite=Strict", "lax=1; SameSite=Lax", "default=1"],
    );
    let of_navigation = |navigation| match load.jar.cookies_of_navigation(&load.page, navigation, NOW) {
        Cookies::Known(Some(field)) => field.to_str().unwrap().to_owned(),
        Cookies::Known(None) | Cookies::Withheld => String::new(),
    };
    assert_eq!(of_navigation(Navigation::SameSite), "strict=1; lax=1; default=1");
    assert_eq!(of_navigation(Navigation::CrossSite), "lax=1; default=1");
}

#[test]
fn cookie_sightings_are_bounded() {
    let mut cookie_paths = CookiePathObservations::new();
    let page: Url = "http://a.test/".parse().unwrap();
    for number in 0..5000 {
        let request = [(
            header::COOKIE,
            HeaderValue::from_str(&format!("c{number}=1")).unwrap(),
        )];
        cookie_paths.observe(&page, &request.into_iter().collect());
    }
    assert!(cookie_paths.len() <= 4096);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The cookies of the page's request are reproduced byte for byte.
        #[test]
        fn a_cookie_string_round_trips(pairs in proptest::collection::vec("[a-z]{1,3}=[!-:<-~]{0,8}", 1..30)) {
            let cookie = pairs.join("; ");
            let load = Load::new("http://a.test/", CHROMIUM, &cookie);
            prop_assert_eq!(load.sent("/x"), Some(cookie));
        }

        #[test]
        fn any_set_cookie_field_is_stored_or_ignored(field in proptest::collection::vec(0x20_u8..=0xff, 0..100)) {
            let mut load = Load::new("http://a.test/p", FIREFOX, "a=1");
            if let Ok(value) = HeaderValue::from_bytes(&field) {
                let response: HeaderMap = [(header::SET_COOKIE, value)].into_iter().collect();
                load.jar.store(&load.page.clone(), &response, None, NOW);
            }
            prop_assert!(load.sent("/p").is_some() || load.jar.cookies.is_empty());
        }
    }
}
