//! Certificates of origins with defects: the gateway fetches nothing, and the browser itself warns its user.
use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul_chromium::{Browser, BrowserOptions};
use longhaul_tests::{
    authority::{ServerIssuer, ServerOptions, TestAuthority, Validity, pin},
    origin::{AnswerBody, Origin},
};
use rcgen::KeyPair;
use tokio::time::timeout;

use super::{Accelerated, LOAD_LIMIT, client_config, exchange, load, load_error};
use crate::{content::ok, pair::LIMIT};

async fn answer(_: Request<Incoming>) -> Response<AnswerBody> {
    ok(
        "text/html",
        "<!doctype html><title>Origin</title><link rel=icon href=data:,><p>From the origin",
    )
}

/// An origin whose key the operator of the site's gateway denies.
async fn denied_site(authority: &TestAuthority, host: &str) -> Result<(Origin, Accelerated)> {
    let denied = KeyPair::generate()?;
    let deny = format!("deny-keys = ['{}']\n", pin(&denied));
    let options = ServerOptions {
        key: Some(denied),
        ..ServerOptions::default()
    };
    let origin = Origin::start(Some(authority.server_with(&[host], &options)?), |_| {}, answer).await?;
    let set = |setup: &mut crate::pair::Setup| setup.gateway_config.push_str(&deny);
    let site = Accelerated::start_with(&[(host, origin.address())], authority, "all", set).await?;
    Ok((origin, site))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_key_gets_an_error_page_and_the_host_can_be_bypassed() -> Result<()> {
    let authority = TestAuthority::new()?;
    let (origin, site) = denied_site(&authority, "safe.test").await?;
    let mut browser = site.browser(&[]).await?;
    let loaded = load(&mut browser, "https://safe.test/x").await?;
    assert!(
        loaded.text.contains("TlsDeniedKey") && loaded.text.contains("Open this website unaccelerated"),
        "{}",
        loaded.text
    );
    assert!(
        origin.seen().is_empty(),
        "the gateway sent a request to an origin with a denied key"
    );
    // Bypassing the host requires the token of the error page.
    let ours = site.exported_authority().await?;
    let guess = site.connect("safe.test", &ours, &[b"http/1.1"]).await?;
    let head =
        "POST /.well-known/longhaul/unaccelerated/0 HTTP/1.1\r\nHost: safe.test\r\nContent-Length: 0\r\n";
    let answer = exchange(guess, &format!("{head}Connection: close\r\n\r\n")).await?;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(site.bypassed_hosts().await?, [], "only the user decides");
    // Pressing the button leaves the error page, so that it cannot return a result.
    let press = "new Promise(done => { addEventListener('pagehide', () => done());
        document.querySelector('button').click() })";
    let _navigated = browser.evaluate("https://safe.test/x", press, LOAD_LIMIT).await;
    assert_eq!(
        site.wait_until_bypassed("safe.test").await?,
        "you chose to open it without acceleration"
    );
    let words = load_error(&mut browser, "https://safe.test/x").await?;
    assert!(words.contains("ERR_CERT_"), "{words}");
    Ok(())
}

/// A browser that follows the redirection of the button, or sends another request at that moment, must not do so
/// on its accelerated connection.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_accelerated_after_the_button_was_pressed() -> Result<()> {
    let authority = TestAuthority::new()?;
    let (origin, site) = denied_site(&authority, "safe.test").await?;
    let ours = site.exported_authority().await?;
    let stream = site.connect("safe.test", &ours, &[b"h2"]).await?;
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = |method: Method, path: &str| {
        let uri = format!("https://safe.test{path}");
        Request::builder()
            .method(method)
            .uri(uri)
            .body(Empty::<Bytes>::new())
    };
    let page = sender.send_request(request(Method::GET, "/x")?).await?;
    assert_eq!(page.status(), 502);
    let page = page.into_body().collect().await?.to_bytes();
    let page = String::from_utf8_lossy(&page);
    let (_, button) = page.split_once("action=\"").context("the button")?;
    let (path, _) = button.split_once('"').context("the button's path")?;

    let redirection = sender.send_request(request(Method::POST, path)?).await?;
    assert_eq!(redirection.status(), 303);
    // The agent has closed the connection for further requests before it answered.
    let followed = sender.send_request(request(Method::GET, "/x")?).await;
    assert!(followed.is_err(), "{followed:?}");
    drop((redirection, sender));
    timeout(LIMIT, connection).await???;
    assert!(origin.seen().is_empty());
    Ok(())
}

/// Uses another host in a page as image, script, frame and by `fetch()`; each use must fail.
const USES: &str = "(async () => {
    const end = element => new Promise(done => {
        element.onload = () => done('loaded'); element.onerror = () => done('failed');
        document.head.append(element) });
    const make = (kind, set) => end(Object.assign(document.createElement(kind), set));
    const url = 'https://HOST/thing';
    return [await make('img', { src: url }), await make('script', { src: url }),
        await make('link', { rel: 'stylesheet', href: url }),
        await fetch(url).then(() => 'loaded', () => 'failed')].join(' ') })()";

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_warns_of_each_certificate_defect_itself_and_nothing_is_fetched() -> Result<()> {
    let authority = TestAuthority::new()?;
    let options = ServerOptions::default;
    let mut cases = Vec::new();
    for (host, name, options) in [
        (
            "over.test",
            "over.test",
            ServerOptions {
                validity: Validity::Over,
                ..options()
            },
        ),
        (
            "to-come.test",
            "to-come.test",
            ServerOptions {
                validity: Validity::ToCome,
                ..options()
            },
        ),
        ("other.test", "wrong.test", options()),
        (
            "self.test",
            "self.test",
            ServerOptions {
                issuer: ServerIssuer::Itself,
                ..options()
            },
        ),
    ] {
        let tls = authority.server_with(&[name], &options)?;
        cases.push((host, Origin::start(Some(tls), |_| {}, answer).await?));
    }
    let good = Origin::start(Some(authority.server(&["good.test"])?), |_| {}, answer).await?;
    let mut names: Vec<_> = cases
        .iter()
        .map(|(host, origin)| (*host, origin.address()))
        .collect();
    names.push(("good.test", good.address()));
    let site = Accelerated::start(&names, &authority, "all").await?;
    let mut browser = site.browser(&[]).await?;
    for (host, origin) in &cases {
        let uses = browser
            .evaluate("https://good.test/", &USES.replace("HOST", host), LOAD_LIMIT)
            .await?;
        assert_eq!(uses, "failed failed failed failed", "{host}");
        let words = load_error(&mut browser, &format!("https://{host}/")).await?;
        assert!(words.contains("ERR_CERT_"), "{host}: {words}");
        assert!(
            origin.seen().is_empty(),
            "{host}: the gateway sent a request to an origin with an invalid certificate"
        );
    }
    assert!(!good.seen().is_empty());
    let bypassed: Vec<_> = site
        .bypassed_hosts()
        .await?
        .into_iter()
        .map(|(host, _)| host)
        .collect();
    assert_eq!(bypassed, ["other.test", "over.test", "self.test", "to-come.test"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_excluded_host_presents_its_own_certificate() -> Result<()> {
    let authority = TestAuthority::new()?;
    // Excluded by the user's settings, and by the built-in list.
    let hosts = ["excluded.test", "www.mychart.com"];
    let tls = authority.server(&hosts)?;
    let origin = Origin::start(Some(tls), |_| {}, answer).await?;
    let names = hosts.map(|host| (host, origin.address()));
    let except = ["--https-except".to_owned(), hosts[0].to_owned()];
    let set = |setup: &mut crate::pair::Setup| setup.agent_arguments.extend(except);
    let site = Accelerated::start_with(&names, &authority, "all", set).await?;
    let mut ours_alone = site.browser(&[]).await?;
    let mut options = BrowserOptions::behind(site.pair.proxy());
    options.trust_spki = vec![authority.pin().to_owned()];
    let mut origins_alone = Browser::start(&options).await?;
    for host in hosts {
        let url = format!("https://{host}/");
        let words = load_error(&mut ours_alone, &url).await?;
        assert!(words.contains("ERR_CERT_AUTHORITY_INVALID"), "{host}: {words}");
        let loaded = load(&mut origins_alone, &url).await?;
        assert!(loaded.text.contains("From the origin"), "{host}: {}", loaded.text);
        let stream = site.connect_as(host, client_config(authority.pem())?).await?;
        let shown = stream.get_ref().1.peer_certificates().context("certificates")?;
        let authority: &[u8] = authority.certificate();
        assert!(
            shown.len() == 2 && *shown[1] == *authority,
            "the origin's own certificate"
        );
    }
    assert!(origin.seen().iter().all(|seen| !seen.headers.contains_key("via")));
    assert_eq!(site.bypassed_hosts().await?, []);
    Ok(())
}
