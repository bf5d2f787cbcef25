//! Certificates of origins: the error page names each defect, and nothing is fetched.
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

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_certificate_gets_an_error_page_and_the_host_can_be_bypassed() -> Result<()> {
    let (known, unknown) = (TestAuthority::new()?, TestAuthority::new()?);
    for (signing, of, detail) in [
        (&unknown, "safe.test", "TlsUnknownIssuer"),
        (&known, "another.test", "TlsNameMismatch"),
    ] {
        let tls = signing.server(&[of])?;
        let origin = Origin::start(Some(tls), |_| {}, answer).await?;
        let site = Accelerated::start(&[("safe.test", origin.address())], &known, "all").await?;
        let mut browser = site.browser(&[]).await?;
        let loaded = load(&mut browser, "https://safe.test/x").await?;
        assert!(
            loaded.text.contains(detail) && loaded.text.contains("Open this website unaccelerated"),
            "{}",
            loaded.text
        );
        assert!(
            origin.seen().is_empty(),
            "the gateway sent a request to an origin with an invalid certificate"
        );
        // Bypassing the host requires the token of the error page.
        let ours = site.exported_authority().await?;
        let guess = site.connect("safe.test", &ours, &[b"http/1.1"]).await?;
        let head =
            "POST /.well-known/longhaul/unaccelerated/0 HTTP/1.1\r\nHost: safe.test\r\nContent-Length: 0\r\n";
        let answer = exchange(guess, &format!("{head}Connection: close\r\n\r\n")).await?;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
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
    }
    Ok(())
}

/// A browser that follows the redirection of the button, or sends another request at that moment, must not do so
/// on its accelerated connection.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_accelerated_after_the_button_was_pressed() -> Result<()> {
    let (known, unknown) = (TestAuthority::new()?, TestAuthority::new()?);
    let origin = Origin::start(Some(unknown.server(&["safe.test"])?), |_| {}, answer).await?;
    let site = Accelerated::start(&[("safe.test", origin.address())], &known, "all").await?;
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
async fn each_certificate_defect_is_named_and_nothing_is_fetched() -> Result<()> {
    let (authority, denied) = (TestAuthority::new()?, KeyPair::generate()?);
    let deny = format!("deny-keys = ['{}']\n", pin(&denied));
    let options = ServerOptions::default;
    let mut cases = Vec::new();
    for (host, name, options, detail, what) in [
        (
            "over.test",
            "over.test",
            ServerOptions {
                validity: Validity::Over,
                ..options()
            },
            "TlsExpired",
            "has expired",
        ),
        (
            "to-come.test",
            "to-come.test",
            ServerOptions {
                validity: Validity::ToCome,
                ..options()
            },
            "TlsExpired",
            "not valid yet",
        ),
        (
            "other.test",
            "wrong.test",
            options(),
            "TlsNameMismatch",
            "belongs to another website",
        ),
        (
            "self.test",
            "self.test",
            ServerOptions {
                issuer: ServerIssuer::Itself,
                ..options()
            },
            "TlsUnknownIssuer",
            "not from an authority that is trusted",
        ),
        (
            "denied.test",
            "denied.test",
            ServerOptions {
                key: Some(denied),
                ..options()
            },
            "TlsDeniedKey",
            "a key that the gateway's operator does not trust",
        ),
    ] {
        let tls = authority.server_with(&[name], &options)?;
        let origin = Origin::start(Some(tls), |_| {}, answer).await?;
        cases.push((host, origin, detail, what));
    }
    let good = Origin::start(Some(authority.server(&["good.test"])?), |_| {}, answer).await?;
    let mut names: Vec<_> = cases
        .iter()
        .map(|(host, origin, ..)| (*host, origin.address()))
        .collect();
    names.push(("good.test", good.address()));
    let set = |setup: &mut crate::pair::Setup| setup.gateway_config.push_str(&deny);
    let site = Accelerated::start_with(&names, &authority, "all", set).await?;
    let mut browser = site.browser(&[]).await?;
    for (host, origin, detail, what) in &cases {
        let loaded = load(&mut browser, &format!("https://{host}/")).await?;
        let text = loaded.text;
        assert!(text.contains(detail) && text.contains(what), "{host}: {text}");
        assert!(text.contains("Open this website unaccelerated"), "{host}: {text}");
        let uses = browser
            .evaluate("https://good.test/", &USES.replace("HOST", host), LOAD_LIMIT)
            .await?;
        assert_eq!(uses, "failed failed failed failed", "{host}");
        assert!(
            origin.seen().is_empty(),
            "{host}: the gateway sent a request to an origin with an invalid certificate"
        );
    }
    assert!(!good.seen().is_empty());
    assert_eq!(
        site.bypassed_hosts().await?,
        [],
        "only the user bypasses a host with an invalid certificate"
    );
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
