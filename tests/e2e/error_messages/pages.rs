//! Error pages in the browser.
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use longhaul_tests::{
    client::{ask, get},
    origin::Origin,
};
use tokio::{net::TcpListener, time::timeout};

use super::{assert_page, hello_origin};
use crate::pair::{
    LIMIT, Pair, Setup, control, folder, free_udp_port, invite, start_agent, start_gateway, status_until,
};

#[tokio::test]
async fn impossible_requests_get_an_error_page() -> Result<()> {
    let pair = Pair::start(Setup::resolving(&[])).await?;
    let cookie = format!(
        "GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nCookie: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let long = format!(
        "GET http://site.test/{} HTTP/1.1\r\nHost: site.test\r\n\r\n",
        "x".repeat(40_000)
    );
    for (what, request, status, says) in [
        (
            "a header of 1 MB",
            cookie.as_str(),
            431,
            &["64 KiB", "cookies"][..],
        ),
        ("an address of 40 kB", &long, 414, &["address", "long"]),
        (
            "not HTTP",
            "\u{16}\u{3}\u{1} hello\r\n\r\n",
            400,
            &["not a valid HTTP request", "SOCKS"],
        ),
        (
            "no URL",
            "GET nonsense HTTP/1.1\r\nHost: x\r\n\r\n",
            400,
            &["address"],
        ),
        (
            "another scheme",
            &get("ftp://site.test/", &[]),
            400,
            &["address", "scheme"],
        ),
        (
            "a bad port",
            &get("http://site.test:99999/", &[]),
            400,
            &["address"],
        ),
        (
            "user information",
            "CONNECT user:word@no.invalid:443 HTTP/1.1\r\nHost: no.invalid:443\r\n\r\n",
            400,
            &["user name"],
        ),
        (
            "two lengths",
            "POST http://site.test/ HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            400,
            &["length"],
        ),
    ] {
        // A server may respond before it has read the whole request and then close, so that sending can fail.
        let mut client = longhaul_tests::client::RawClient::connect(pair.proxy()).await?;
        let _refused = client.send(request).await;
        let page = client.response().await.with_context(|| what.to_owned())?;
        assert_page(what, &page, status, says);
    }
    Ok(())
}

#[tokio::test]
async fn failures_of_origins_get_specific_error_pages() -> Result<()> {
    let closed = TcpListener::bind(("127.0.0.1", 0)).await?;
    let refused = closed.local_addr()?;
    drop(closed);
    let mute = longhaul_tests::raw_origin::RawOrigin::start(|_| Vec::new()).await?;
    let strange = longhaul_tests::raw_origin::RawOrigin::start(|_| b"220 smtp ready\r\n".to_vec()).await?;
    let silent = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut setup = Setup::resolving(&[
        ("refused.test", refused),
        ("mute.test", mute.address()),
        ("strange.test", strange.address()),
        ("silent.test", silent.local_addr()?),
    ]);
    setup
        .gateway_config
        .push_str("[fetch]\nresponse-timeout = '1s'\n");
    let pair = Pair::start(setup).await?;
    for (what, url, status, says) in [
        (
            "a closed port",
            "http://refused.test/",
            502,
            &["refuses connections", "website"][..],
        ),
        ("no answer but the end", "http://mute.test/", 502, &["website"]),
        (
            "another protocol",
            // At port 80 it could be HTTP/0.9.
            "http://strange.test:8080/",
            502,
            &["violates the rules of HTTP"],
        ),
        (
            "silence",
            "http://silent.test/",
            504,
            &["does not answer", "website"],
        ),
        (
            "no such name",
            "http://no-such-name.invalid/",
            502,
            &["name", "website"],
        ),
        (
            "loopback",
            "http://127.0.0.1:80/",
            403,
            &["not allowed", "private or internal", "operator"],
        ),
        (
            "loopback by another spelling",
            "http://2130706433/",
            403,
            &["not allowed"],
        ),
        (
            "loopback, mapped",
            "http://[::ffff:127.0.0.1]/",
            403,
            &["not allowed"],
        ),
        ("a private address", "http://10.1.2.3/", 403, &["not allowed"]),
        (
            "metadata",
            "http://169.254.169.254/latest/",
            403,
            &["not allowed"],
        ),
        ("localhost", "http://localhost:80/", 403, &["not allowed"]),
    ] {
        let browser = [("User-Agent", "Mozilla/5.0")];
        let answer = ask(pair.proxy(), get(url, &browser)).await?;
        assert_page(what, &answer, status, says);
    }
    Ok(())
}

/// Waits until requests pass through the gateway again.
async fn wait_for_the_gateway(proxy: SocketAddr, origin: &Origin) -> Result<()> {
    timeout(LIMIT, async {
        loop {
            let before = origin.seen().len();
            let response = ask(proxy, get("http://127.0.0.1/", &[("User-Agent", "Mozilla/5.0")])).await?;
            // Without the gateway no server listens on port 80; at the gateway the name resolves to the
            // origin.
            if response.status == 200 && origin.seen().len() > before {
                return Ok(());
            }
        }
    })
    .await?
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_gateway_the_agent_shows_an_error_then_fetches_directly() -> Result<()> {
    let origin = hello_origin().await?;
    let folder = folder()?;
    // A port that is closed until the gateway starts there.
    let address = free_udp_port().await?.to_string();
    let line = invite(folder.path(), "early", &address).await?;

    let never = folder.path().join("never");
    std::fs::create_dir(&never)?;
    let strict = start_agent(&never, &line, &["--fallback-after".into(), "never".into()]).await?;
    let lenient = start_agent(
        folder.path(),
        &line,
        &["--fallback-after", "1s", "--direct-allow", "127.0.0.1"].map(String::from),
    )
    .await?;
    let direct_url = format!("http://{}/", origin.address());
    let (page, direct) = tokio::try_join!(
        ask(strict.address(), get("http://site.test/", &[])),
        ask(
            lenient.address(),
            get(&direct_url, &[("User-Agent", "Mozilla/5.0")])
        )
    )?;
    assert_page(
        "no gateway",
        &page,
        502,
        &["gateway does not run", "port is closed", "operator"],
    );
    assert_eq!(
        (direct.status, direct.text().as_str()),
        (200, "hello"),
        "without the gateway"
    );
    let status = status_until(control(folder.path())?, |status| status["direct_in_use"] == true).await?;
    assert_eq!(status["direct_requests"], 1, "{status:#}");
    assert_ne!(status["state"], "open", "{status:#}");

    // The gateway resolves the name to another port, so that the test can tell direct requests from those
    // through the gateway.
    std::fs::write(
        folder.path().join("gateway.toml"),
        format!("[fetch.resolve]\n\"127.0.0.1:80\" = \"{}\"\n", origin.address()),
    )?;
    let _gateway = start_gateway(folder.path(), &address).await?;
    let status = status_until(control(folder.path())?, |status| status["state"] == "open").await?;
    assert_eq!(status["direct_in_use"], false, "{status:#}");
    wait_for_the_gateway(lenient.address(), &origin).await?;
    Ok(())
}
