//! Mistakes of users and operators, and failures of origins: each gets an error message with cause and
//! remedy.
use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{RawResponse, ask, get},
    origin::Origin,
    process::{Finished, run},
};
use longhaul_types::{Invite, SecretKey};
use tokio::{
    net::{TcpListener, UdpSocket},
    time::timeout,
};

use crate::{
    content::ok,
    pair::{
        COMMAND_LIMIT, LIMIT, Pair, Setup, control, folder, free_udp_port, invite, start_agent,
        start_gateway, status_until,
    },
};

const GATEWAY: &str = "longhaul-gateway";
const AGENT: &str = "longhaul-agent";

/// Prints a message for users and checks that it contains the words and no internal terms.
fn assert_says(what: &str, text: &str, words: &[&str]) {
    println!("--- {what}\n{}", text.trim_end());
    for word in words {
        assert!(text.contains(word), "{what}: no `{word}` in\n{text}");
    }
    for jargon in ["panicked", "RUST_BACKTRACE", "Os {", "Custom {"] {
        assert!(!text.contains(jargon), "{what}: `{jargon}` in\n{text}");
    }
}

/// Visible text of an error page.
fn page_text(page: &RawResponse) -> String {
    let html = page.text();
    let body = html.split("<main>").nth(1).unwrap_or(&html);
    let mut text = String::new();
    for part in body.split('<') {
        let (tag, rest) = part.split_once('>').unwrap_or(("", part));
        if matches!(tag, "/h1" | "/p" | "/dt" | "/dd" | "dt" | "dl") {
            text.push('\n');
        }
        text.push_str(rest);
    }
    text.replace("&#39;", "'")
        .replace("&quot;", "\"")
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

fn assert_page(what: &str, page: &RawResponse, status: u16, says: &[&str]) {
    let text = page_text(page);
    assert_eq!(page.status, status, "{what}: {text}");
    assert_says(&format!("{what} ({status})"), &text, says);
    assert_eq!(page.field("cache-control"), Some("no-store"), "{what}");
    assert!(
        page.field("content-type")
            .is_some_and(|kind| kind.starts_with("text/html")),
        "{what}"
    );
    for part in ["Whose fault?", "What to do"] {
        assert!(text.contains(part), "{what}: {text}");
    }
}

/// Asserts a failure that is no mistake of the configuration.
fn assert_refused(what: &str, finished: &Finished, says: &[&str]) {
    assert_failed(what, finished, 1, says);
}

/// Asserts a failure whose exit status says that the configuration has mistakes (EX_CONFIG of sysexits).
fn assert_misconfigured(what: &str, finished: &Finished, says: &[&str]) {
    assert_failed(what, finished, 78, says);
}

fn assert_failed(what: &str, finished: &Finished, code: i32, says: &[&str]) {
    assert_eq!(finished.code, Some(code), "{what}: {finished:?}");
    assert_eq!(finished.stdout, "", "{what}: nothing on stdout");
    assert_says(what, &finished.stderr, says);
}

async fn hello_origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/plain", "hello") },
    )
    .await
}

#[tokio::test]
async fn a_revoked_device_gets_an_explanation_and_its_session_ends() -> Result<()> {
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    assert_eq!(pair.get("http://site.test/").await?.text(), "hello");
    let state = pair.folder().join("gateway").display().to_string();
    let revoked = run(
        GATEWAY,
        &["device", "revoke", "test", "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    let down = pair.status_until(|status| status["state"] == "down").await?;
    assert_says(
        "the status of a revoked device",
        down["reason"].as_str().unwrap_or_default(),
        &["refused", "operator"],
    );
    let page = pair.get("http://site.test/").await?;
    assert_page(
        "a page of a revoked device",
        &page,
        502,
        &["gateway refuses this device", "operator", "revoked"],
    );
    assert_eq!(
        origin.seen().len(),
        1,
        "the gateway fetches nothing for the revoked device"
    );
    Ok(())
}

/// An invite with the parts of an existing one and other keys.
fn invite_with(address: &str, gateway: &SecretKey, device: u8) -> Result<String> {
    let device = SecretKey::from_bytes([device; 32]);
    Ok(Invite::new(address.to_owned(), gateway.public(), device, [0; 32])?.to_line())
}

#[tokio::test]
async fn wrong_keys_are_refused_with_an_explanation() -> Result<()> {
    let pair = Pair::start(Setup::resolving(&[])).await?;
    let address = pair.gateway().address().to_string();
    let never = ["--fallback-after".to_owned(), "never".to_owned()];

    // An unknown device: the correct gateway key with another device's key.
    let line = invite(pair.folder(), "known", &address).await?;
    let known: Invite = line.parse()?;
    let unknown = Invite::new(
        address.clone(),
        known.gateway(),
        SecretKey::from_bytes([9; 32]),
        [0; 32],
    )?
    .to_line();
    let other_gateway = invite_with(&address, &SecretKey::from_bytes([8; 32]), 7)?;
    for (what, line, code, title, reason) in [
        (
            "unknown device",
            unknown,
            502,
            "gateway refuses this device",
            "operator",
        ),
        (
            "wrong gateway key",
            other_gateway,
            504,
            "gateway does not answer",
            "key is not this gateway's",
        ),
    ] {
        let folder = pair.folder().join(what);
        std::fs::create_dir(&folder)?;
        let agent = start_agent(&folder, &line, &never).await?;
        let (page, status) = tokio::try_join!(
            ask(agent.address(), get("http://site.test/", &[])),
            status_until(control(&folder)?, |status| status["reason"].is_string()),
        )?;
        assert_page(&format!("a page with {what}"), &page, code, &[title]);
        assert_says(
            &format!("the status with {what}"),
            status["reason"].as_str().unwrap_or_default(),
            &[reason],
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_port_in_use_is_named_in_the_error() -> Result<()> {
    let folder = folder()?;
    let state = folder.path().join("state").display().to_string();
    let taken = UdpSocket::bind(("127.0.0.1", 0)).await?;
    let address = taken.local_addr()?.to_string();
    let gateway = run(
        GATEWAY,
        &["run", "--listen", &address, "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    let port = taken.local_addr()?.port().to_string();
    assert_refused(
        "the gateway's port in use",
        &gateway,
        &[&port, "taken by another program", "--listen"],
    );

    let line = invite_with("gw.test:4433", &SecretKey::from_bytes([8; 32]), 7)?;
    let taken = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = taken.local_addr()?.to_string();
    for (flag, other) in [("--listen", "--control"), ("--control", "--listen")] {
        let arguments = [
            "run",
            flag,
            &address,
            other,
            "127.0.0.1:0",
            "--state-dir",
            &state,
            "--invite",
            &line,
        ];
        let agent = run(AGENT, &arguments, COMMAND_LIMIT).await?;
        assert_refused(
            &format!("the agent's {flag} in use"),
            &agent,
            &[&address, "in use", flag],
        );
    }
    Ok(())
}

#[tokio::test]
async fn all_mistakes_in_settings_are_reported_with_their_position() -> Result<()> {
    let folder = folder()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let state = path("state");
    let line = invite_with("gw.test:4433", &SecretKey::from_bytes([8; 32]), 7)?;
    std::fs::write(folder.path().join("unknown.toml"), "lissten = '127.0.0.1:1'\n")?;
    std::fs::write(folder.path().join("no-toml.toml"), "listen 127.0.0.1\n")?;
    std::fs::write(folder.path().join("binary.toml"), [0xff, 0xfe, 0, 1])?;
    for program in [GATEWAY, AGENT] {
        for (file, says) in [
            ("missing.toml", &["missing.toml"][..]),
            ("unknown.toml", &["unknown.toml", "lissten"]),
            ("no-toml.toml", &["no-toml.toml", "line 1"]),
            ("binary.toml", &["binary.toml"]),
            ("", &["configuration"]),
        ] {
            let config = path(file);
            for command in ["check-config", "run"] {
                let mut arguments = vec![command, "--config", &config, "--state-dir", &state];
                if program == AGENT {
                    arguments.extend(["--invite", &line]);
                }
                let refused = run(program, &arguments, COMMAND_LIMIT).await?;
                assert_misconfigured(&format!("{program} {command} with `{file}`"), &refused, says);
            }
        }
    }
    let arguments = [
        "check-config",
        "--listen",
        "4433",
        "--allow",
        "10.0.0.0/33",
        "--resolve",
        "a.test",
        "--state-dir",
        &state,
    ];
    let refused = run(GATEWAY, &arguments, COMMAND_LIMIT).await?;
    assert_misconfigured(
        "three mistakes of an operator",
        &refused,
        &["--listen", "ADDR:PORT", "--allow", "--resolve", "NAME=ADDR"],
    );
    let arguments = [
        "check-config",
        "--listen",
        "3128",
        "--control",
        "0.0.0.0:1",
        "--link",
        "fast",
        "--fallback-after",
        "10",
        "--invite",
        &line,
    ];
    let refused = run(AGENT, &arguments, COMMAND_LIMIT).await?;
    assert_misconfigured(
        "four mistakes of a user",
        &refused,
        &[
            "--listen",
            "--control",
            "--link",
            "--fallback-after",
            "needs a unit",
        ],
    );
    Ok(())
}

#[tokio::test]
async fn invalid_invites_are_refused_with_an_explanation() -> Result<()> {
    let folder = folder()?;
    let state = folder.path().join("state").display().to_string();
    let line = invite_with("gw.test:4433", &SecretKey::from_bytes([8; 32]), 7)?;
    let cut = &line[..line.len() - 3];
    for (what, invite, says) in [
        ("a cut invite", cut, "damaged"),
        ("another text", "hello", "longhaul1:"),
    ] {
        let arguments = [
            "run",
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
            &state,
            "--invite",
            invite,
        ];
        let refused = run(AGENT, &arguments, COMMAND_LIMIT).await?;
        assert_misconfigured(what, &refused, &["--invite", says, "whole line"]);
        let refused = run(
            "longhaul",
            &["enroll", invite, "--state-dir", &state],
            COMMAND_LIMIT,
        )
        .await?;
        assert_eq!(refused.code, Some(2), "{what}");
        assert_says(
            &format!("enrolling {what}"),
            &refused.stderr,
            &[says, "whole line"],
        );
    }
    let arguments = ["run", "--listen", "127.0.0.1:0", "--state-dir", &state];
    let refused = run(AGENT, &arguments, COMMAND_LIMIT).await?;
    assert_misconfigured(
        "no invite",
        &refused,
        &["not enrolled", "longhaul enroll", "operator"],
    );
    let refused = run(
        GATEWAY,
        &[
            "invite",
            "--state-dir",
            &state,
            "--name",
            "x",
            "--address",
            "gw.test",
        ],
        COMMAND_LIMIT,
    )
    .await?;
    assert_refused("an invite without a port", &refused, &["--address", "HOST:PORT"]);
    Ok(())
}

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
            &get("http://user:word@no.invalid/", &[]),
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
            "http://strange.test/",
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
        assert_page(what, &pair.get(url).await?, status, says);
    }
    Ok(())
}

/// Waits until requests pass through the gateway again.
async fn wait_for_the_gateway(proxy: SocketAddr, origin: &Origin) -> Result<()> {
    timeout(LIMIT, async {
        loop {
            let before = origin.seen().len();
            let response = ask(proxy, get("http://127.0.0.1/", &[])).await?;
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
        ask(lenient.address(), get(&direct_url, &[]))
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

#[tokio::test]
async fn an_agent_that_starts_right_after_its_invite_is_admitted() -> Result<()> {
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let line = invite(pair.folder(), "hasty", &pair.gateway().address().to_string()).await?;
    let folder: &Path = &pair.folder().join("hasty");
    std::fs::create_dir(folder)?;
    let agent = start_agent(folder, &line, &["--fallback-after".into(), "never".into()]).await?;
    let page = timeout(
        Duration::from_secs(10),
        ask(agent.address(), get("http://site.test/", &[])),
    )
    .await??;
    ensure!(page.status == 200, "{}: {}", page.status, page_text(&page));
    Ok(())
}
