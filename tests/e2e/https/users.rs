//! Isolation between users and between sites over https.
use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::Result;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
};
use longhaul_types::BitRate;
use tokio_rustls::TlsConnector;

use super::{Accelerated, client_config, exported_authority, open};
use crate::{
    content::{ok, prose},
    hop_bytes::{HopBytes, METRICS, assert_equal_sizes},
    pair::Link,
};

/// `Cache-Control` of the account's responses.
const CACHING: [&str; 7] = [
    "",
    "private",
    "private, max-age=600",
    "no-store",
    "no-cache",
    "max-age=600",
    "private, no-transform, max-age=600",
];

/// A user of a device.
struct User {
    proxy: SocketAddr,
    trusted: String,
    cookie: String,
}

impl User {
    async fn at(proxy: SocketAddr, state: &Path, cookie: &str) -> Result<Self> {
        Ok(Self {
            proxy,
            trusted: exported_authority(state).await?,
            cookie: cookie.to_owned(),
        })
    }

    /// The body of a URL that a page of `from` requests, with the fields of a browser.
    async fn get(&self, host: &str, path: &str, from: &str) -> Result<Bytes> {
        let mut config = client_config(&self.trusted)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = open(self.proxy, host).await?;
        let tls = TlsConnector::from(Arc::new(config)).connect(host.to_owned().try_into()?, stream);
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls.await?)).await?;
        tokio::spawn(connection);
        let is_page = from.is_empty();
        let mut request = Request::get(path)
            .header(header::HOST, host)
            .header(header::COOKIE, &self.cookie)
            .header(header::ACCEPT_ENCODING, "gzip, br")
            .header("sec-fetch-mode", if is_page { "navigate" } else { "no-cors" })
            .header("sec-fetch-dest", if is_page { "document" } else { "script" });
        if !is_page {
            let relation = if from == host { "same-origin" } else { "cross-site" };
            request = request
                .header(header::REFERER, format!("https://{from}/"))
                .header("sec-fetch-site", relation);
        }
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        anyhow::ensure!(response.status() == 200, "{path}: {response:?}");
        Ok(response.into_body().collect().await?.to_bytes())
    }

    async fn text(&self, host: &str, path: &str, from: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.get(host, path, from).await?).into_owned())
    }
}

fn cookie(request: &Request<Incoming>) -> String {
    let cookie = request.headers().get(header::COOKIE);
    let cookie = cookie.and_then(|cookie| cookie.to_str().ok());
    cookie.unwrap_or("nobody").to_owned()
}

fn with_caching(mut response: Response<AnswerBody>, caching: &'static str) -> Response<AnswerBody> {
    if !caching.is_empty() {
        let value = http::HeaderValue::from_static(caching);
        response.headers_mut().insert(header::CACHE_CONTROL, value);
    }
    response
}

async fn account(request: Request<Incoming>) -> Response<AnswerBody> {
    let cookie = cookie(&request);
    if request.uri().path() == "/" {
        let scripts: String = (0..CACHING.len())
            .map(|number| format!("<script src=/own.js?{number}></script>"))
            .collect();
        return ok(
            "text/html",
            format!("<!doctype html><link rel=icon href=data:,>{scripts}<p>{cookie}"),
        );
    }
    let number: usize = request
        .uri()
        .query()
        .and_then(|query| query.parse().ok())
        .unwrap_or(0);
    let body = format!("/* account of {cookie} */");
    with_caching(
        ok("text/javascript", body),
        CACHING.get(number).copied().unwrap_or_default(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_one_gateway_receive_their_own_accounts() -> Result<()> {
    let authority = TestAuthority::new()?;
    let origin = Origin::start(Some(authority.server(&["site.test"])?), |_| {}, account).await?;
    let names = [("site.test", origin.address())];
    let site = Accelerated::start(&names, &authority, "all").await?;
    let second = site
        .pair
        .second_agent_with("second", &["--https-accelerate", "all"])
        .await?;
    let folder = site.pair.folder();
    let users = [
        (
            "user=anna",
            User::at(site.pair.proxy(), &folder.join("agent"), "user=anna").await?,
        ),
        (
            "user=bert",
            User::at(second.address(), &folder.join("second/agent"), "user=bert").await?,
        ),
    ];
    assert_ne!(
        users[0].1.trusted, users[1].1.trusted,
        "two devices have the same certificate authority"
    );
    for round in 0..4 {
        let visits = users.iter().map(|(name, user)| async move {
            let page = user.text("site.test", "/", "").await?;
            assert!(page.ends_with(&format!("<p>{name}")), "round {round}: {page}");
            let paths: Vec<_> = (0..CACHING.len())
                .map(|number| format!("/own.js?{number}"))
                .collect();
            let scripts = paths.iter().map(|path| user.text("site.test", path, "site.test"));
            for (script, caching) in futures_util::future::try_join_all(scripts)
                .await?
                .iter()
                .zip(CACHING)
            {
                assert_eq!(
                    *script,
                    format!("/* account of {name} */"),
                    "round {round}, `{caching}`"
                );
            }
            anyhow::Ok(())
        });
        futures_util::future::try_join_all(visits).await?;
    }
    let status = site.pair.status().await?;
    assert!(
        status["pushed_objects"].as_u64() > Some(0),
        "page loads were accelerated: {status}"
    );
    let never_kept = origin
        .seen()
        .iter()
        .filter(|seen| seen.path == "/own.js?3")
        .count();
    assert!(
        never_kept >= 8,
        "a no-store response was reused: {never_kept} requests"
    );
    Ok(())
}

async fn fresh_response_count(site: &Accelerated) -> Result<u64> {
    let status = site.pair.status().await?;
    Ok(status["exits"]["lookup.fresh"].as_u64().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_cached_for_one_site_do_not_answer_another_site() -> Result<()> {
    let authority = TestAuthority::new()?;
    let answer = |request: Request<Incoming>| async move {
        let body = format!("/* {} */", request.uri().path());
        with_caching(ok("text/javascript", body), "max-age=3600")
    };
    let origin = Origin::start(Some(authority.server(&["site.test"])?), |_| {}, answer).await?;
    let site = Accelerated::start(&[("site.test", origin.address())], &authority, "all").await?;
    let user = User::at(site.pair.proxy(), &site.pair.folder().join("agent"), "a=1").await?;
    user.get("site.test", "/visited.js", "site.test").await?;
    while fresh_response_count(&site).await? == 0 {
        user.get("site.test", "/visited.js", "site.test").await?;
    }
    let before = fresh_response_count(&site).await?;
    for path in ["/visited.js", "/never.js"] {
        let probe = user.text("site.test", path, "other.test").await?;
        assert_eq!(probe, format!("/* {path} */"));
    }
    assert_eq!(
        fresh_response_count(&site).await?,
        before,
        "a cached response answered the probe"
    );
    Ok(())
}

/// A page of another site requests URLs with guesses of a secret, and the site repeats the guess in a page as
/// large as the one with the secret. Sizes on the hop must not depend on the guess.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_another_site_do_not_change_response_sizes() -> Result<()> {
    const SECRET: &str = "c0ffee-5ca1ab1e-facade-deadbeef";
    let authority = TestAuthority::new()?;
    let answer = |request: Request<Incoming>| async move {
        if request.uri().path() == "/last" {
            return with_caching(ok("text/plain", "last"), "no-store");
        }
        let mut page = prose(20_000, 1);
        match request.uri().query() {
            Some(guess) => page.extend_from_slice(guess.repeat(40).as_bytes()),
            None if cookie(&request) == "sid=1" => page.extend_from_slice(format!("<p>{SECRET}").as_bytes()),
            None => {}
        }
        with_caching(ok("text/html", page), "no-cache")
    };
    let origin = Origin::start(Some(authority.server(&["site.test"])?), |_| {}, answer).await?;
    let guesses = [
        SECRET,
        "0ffc0e-1ab1e5ca-defaca-beefdead",
        "not-like-it-at-all-in-any-way-x",
    ];
    assert_equal_sizes(&guesses, async |guess| {
        let set = |setup: &mut crate::pair::Setup| {
            setup.link = Link::Paced(BitRate::kbps(8_000));
            setup.gateway_config.push_str(METRICS);
        };
        let names = [("site.test", origin.address())];
        let site = Accelerated::start_with(&names, &authority, "all", set).await?;
        let user = User::at(site.pair.proxy(), &site.pair.folder().join("agent"), "sid=1").await?;
        let mut received = 0;
        for _ in 0..5 {
            let attack = format!("/page?{guess}");
            received += user.get("site.test", &attack, "other.test").await?.len();
        }
        received += user.get("site.test", "/last", "other.test").await?.len();
        let before = HopBytes::of(&site.pair, received).await?;
        let page = user.get("site.test", "/page", "").await?;
        assert!(String::from_utf8_lossy(&page).contains(SECRET));
        received += page.len();
        received += user.get("site.test", "/last", "other.test").await?.len();
        let size = HopBytes::of(&site.pair, received).await?.since(&before);
        let used = &site.pair.status().await?["bases_used"];
        assert_eq!(*used, 0, "a base was used for a guess");
        Ok(size)
    })
    .await
}
