//! Networks that let nothing out but what their HTTP proxy passes.
use std::os::unix::fs::PermissionsExt as _;

use longhaul_tests::client::{RawClient, ask, get};
use longhaul_types::Invite;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UdpSocket,
};

use super::{
    squid::{Login, Squid},
    *,
};
use crate::pair::{COMMAND_LIMIT, start_agent};

/// A name that only the proxy knows.
const GATEWAY: &str = "gateway.longhaul.invalid";

/// A file with this text that only its owner can read.
fn private_file(folder: &std::path::Path, text: &str) -> Result<String> {
    let path = folder.join("proxy-password");
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path.display().to_string())
}

/// A gateway with TLS, and the line of an invite that names it only by [`GATEWAY`].
async fn named_gateway(origin: &Origin) -> Result<(Pair, String, String)> {
    let pair = pair(origin, "udp", Link::Relayed).await?;
    block_udp(&pair);
    let port = pair
        .agent_argument("--carrier-tls-port")
        .context("a port")?
        .to_owned();
    let known: Invite = pair.second_invite().parse()?;
    let line = Invite::new(
        format!("{GATEWAY}:4433"),
        known.gateway(),
        known.device().clone(),
        [0; 32],
    )?;
    Ok((pair, line.to_line(), port))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finds_the_gateway_through_the_proxy_where_udp_is_blocked() -> Result<()> {
    let origin = origin().await?;
    let squid = Squid::start(Login::None, &[], "").await?;
    let more = ["--carrier-proxy", &squid.url()].map(str::to_owned);
    let mut pair = pair_with(&origin, "auto", Link::Relayed, &more).await?;
    pair.kill_agent().await?;
    block_udp(&pair);
    pair.start_agent().await?;
    let file = pair.get("http://files.test/file").await?;
    ensure!(is_the_file(&file), "{} {:?}", file.status, file.ending);
    let status = pair.status_until(|status| status["state"] == "open").await?;
    assert_eq!(
        (&status["session"]["carrier"], &status["http_proxy"]),
        (&"tls".into(), &squid.url().into()),
        "{status:#}"
    );
    let port = pair.agent_argument("--carrier-tls-port").context("a port")?;
    let tunnel = format!("CONNECT 127.0.0.1:{port} 200");
    pair.end().await?;
    squid.has_served(&tunnel).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_looks_the_gateway_up_and_gets_the_password() -> Result<()> {
    let origin = origin().await?;
    let (pair, line, port) = named_gateway(&origin).await?;
    let squid = Squid::start(Login::Basic, &[GATEWAY], "").await?;
    let folder = folder()?;
    let password = private_file(folder.path(), "anna:a secret@word\n")?;
    let fixed = [
        "--carrier",
        "tls",
        "--carrier-tls-port",
        &port,
        "--fallback-after",
        "never",
    ];
    let more = [
        "--carrier-proxy",
        &squid.url(),
        "--carrier-proxy-password-file",
        &password,
    ];
    let arguments: Vec<String> = fixed.iter().chain(&more).map(|word| (*word).to_owned()).collect();
    let agent = start_agent(folder.path(), &line, &arguments).await?;
    let file = ask(agent.address(), get("http://files.test/file", &[])).await?;
    ensure!(is_the_file(&file), "{} {:?}", file.status, file.ending);
    assert!(!agent.log().text().contains("secret"));
    agent.end("INT", LIMIT).await?;
    squid.has_served(&format!("CONNECT {GATEWAY}:{port} 200")).await?;
    drop(pair);
    Ok(())
}

/// Each check names what is wrong with the proxy; none of them is silence.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_proxy_is_named() -> Result<()> {
    let origin = origin().await?;
    let (_pair, line, port) = named_gateway(&origin).await?;
    let state = folder()?;
    let place = state.path().display().to_string();
    let enrolled = run(
        "longhaul",
        &["enroll", &line, "--state-dir", &place],
        COMMAND_LIMIT,
    )
    .await?;
    ensure!(enrolled.code == Some(0), "{}", enrolled.stderr);
    let check = |proxy: String, port: String| {
        let place = place.clone();
        async move {
            let variables = [
                ("LONGHAUL_CARRIER", "tls"),
                ("LONGHAUL_CARRIER_TLS_PORT", port.as_str()),
                ("LONGHAUL_CARRIER_PROXY", proxy.as_str()),
            ];
            let arguments = ["check-gateway", "--json", "--state-dir", &place];
            let checked = run_with("longhaul-agent", &arguments, &variables, LIMIT).await?;
            let answer: serde_json::Value = serde_json::from_str(&checked.stdout).context(checked.stderr)?;
            anyhow::Ok(answer["trouble"]["kind"].as_str().unwrap_or("none").to_owned())
        }
    };
    let open = Squid::start(Login::None, &[GATEWAY], "").await?;
    assert_eq!(check(open.url(), port.clone()).await?, "none");
    let closed = free_tcp_port().await?;
    assert_eq!(
        check(open.url(), closed.port().to_string()).await?,
        "proxy_no_way"
    );
    assert_eq!(
        check(format!("http://{closed}"), port.clone()).await?,
        "proxy_not_reached"
    );
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = format!("http://{}", other.local_addr()?);
    let answer = async {
        let (mut connection, _) = other.accept().await?;
        connection.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await?;
        // The agent has read enough when it closes the connection.
        let mut rest = Vec::new();
        let _reset = connection.read_to_end(&mut rest).await;
        anyhow::Ok(())
    };
    let (kind, ()) = tokio::try_join!(check(address, port.clone()), answer)?;
    assert_eq!(kind, "proxy_not_a_proxy");
    let protected = Squid::start(Login::Basic, &[GATEWAY], "").await?;
    assert_eq!(check(protected.url(), port.clone()).await?, "proxy_credentials");
    let wrong = protected.url().replace("://", "://anna:wrong@");
    assert_eq!(check(wrong, port.clone()).await?, "proxy_credentials");
    let right = protected.url().replace("://", "://anna:a%20secret%40word@");
    assert_eq!(check(right, port.clone()).await?, "none");
    let rules = "acl tls_port port 443\nacl tunnels method CONNECT\nhttp_access deny tunnels !tls_port";
    let strict = Squid::start(Login::None, &[GATEWAY], rules).await?;
    assert_eq!(check(strict.url(), port).await?, "proxy_forbids");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_load_through_the_proxy_while_the_gateway_is_away() -> Result<()> {
    let origin = origin().await?;
    let squid = Squid::start(Login::Basic, &["files.longhaul.invalid"], "").await?;
    let silent = UdpSocket::bind(("127.0.0.1", 0)).await?;
    let keys = longhaul_types::SecretKey::from_bytes([7; 32]);
    let invite = Invite::new(silent.local_addr()?.to_string(), keys.public(), keys, [0; 32])?;
    let folder = folder()?;
    let proxy = squid.url().replace("://", "://anna:a%20secret%40word@");
    let arguments = [
        "--carrier",
        "udp",
        "--fallback-after",
        "1s",
        "--carrier-proxy",
        &proxy,
    ]
    .map(str::to_owned);
    let agent = start_agent(folder.path(), &invite.to_line(), &arguments).await?;
    let site = format!("files.longhaul.invalid:{}", origin.address().port());
    for _ in 0..2 {
        let file = ask(agent.address(), get(&format!("http://{site}/file"), &[])).await?;
        ensure!(is_the_file(&file), "{} {:?}", file.status, file.ending);
    }
    squid.has_served(&format!("GET http://{site}/file 200")).await?;
    // A tunnel, with a request inside.
    let mut tunnel = RawClient::connect(agent.address()).await?;
    tunnel
        .send(format!("CONNECT {site} HTTP/1.1\r\nHost: {site}\r\n\r\n"))
        .await?;
    assert_eq!(tunnel.head().await?.status, 200);
    tunnel
        .send(format!(
            "GET /style.css HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n\r\n"
        ))
        .await?;
    let answer = tunnel.response().await?.text();
    assert!(answer.contains("margin: 7px"), "{answer}");
    drop(tunnel);
    squid.has_served(&format!("CONNECT {site} 200")).await?;
    // Name and password are for the proxy alone.
    for seen in origin.seen() {
        let is_for_proxy = |name: &http::HeaderName| name.as_str().starts_with("proxy-");
        assert!(!seen.headers.keys().any(is_for_proxy), "{seen:?}");
    }
    agent.end("INT", LIMIT).await?;
    Ok(())
}
