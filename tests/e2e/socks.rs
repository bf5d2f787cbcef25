//! SOCKS 5 on the agent's proxy port: real programs, outages, and who is served.
mod datagrams;
mod outages;
mod servers;

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    client::RawClient,
    origin::Origin,
    relay::{Direction, Passage},
};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use crate::{
    content::ok,
    https::Accelerated,
    pair::{Link, Pair, Setup},
};

/// A server whose protocol begins with its greeting, and which repeats what it gets.
async fn echo_server() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(b"hello\n").await?;
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await
            });
        }
    });
    Ok(address)
}

/// Asks for a tunnel to port 22 of a host; returns the connection and the code of the reply.
async fn tunnel(pair: &Pair, host: &str, port: u16) -> Result<(RawClient, u8)> {
    let mut client = RawClient::connect(pair.proxy()).await?;
    client.send([5, 1, 0]).await?;
    ensure!(client.read_exact(2).await? == [5, 0]);
    let head = [5, 1, 0, 3, u8::try_from(host.len())?];
    client
        .send([&head[..], host.as_bytes(), &port.to_be_bytes()].concat())
        .await?;
    let reply = client.read_exact(10).await?;
    Ok((client, reply[1]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_survives_an_outage() -> Result<()> {
    let server = echo_server().await?;
    let setup = Setup::resolving(&[("shell.test:22", server)]);
    let pair = Pair::start(setup.over(Link::Relayed)).await?;
    let (mut client, code) = tunnel(&pair, "shell.test", 22).await?;
    assert_eq!(code, 0);
    assert_eq!(client.read_exact(6).await?, b"hello\n");
    client.send("before").await?;
    assert_eq!(client.read_exact(6).await?, b"before");

    pair.relay().set(Direction::Up, Passage::Blocked);
    pair.relay().set(Direction::Down, Passage::Blocked);
    client.send("during").await?;
    pair.status_until(|status| status["state"] == "stalled").await?;
    pair.relay().set(Direction::Up, Passage::Open);
    pair.relay().set(Direction::Down, Passage::Open);
    assert_eq!(client.read_exact(6).await?, b"during");
    let status = pair.status_until(|status| status["state"] == "open").await?;
    assert_eq!((&status["sessions"], &status["tunnels"]), (&1.into(), &1.into()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_rules_for_tunnels_apply() -> Result<()> {
    let server = echo_server().await?;
    let pair = Pair::start(Setup::resolving(&[("mail.test:25", server)])).await?;
    // Mail servers, private addresses, the gateway's own computer, and names that do not exist.
    let cases = [
        ("mail.test", 25, 2),
        ("192.168.0.1", 22, 2),
        ("127.0.0.1", server.port(), 2),
        ("localhost", server.port(), 2),
    ];
    for (host, port, expected) in cases {
        let (_client, code) = tunnel(&pair, host, port).await?;
        assert_eq!(code, expected, "{host}:{port}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_gets_the_origins_certificate_of_an_accelerated_host() -> Result<()> {
    let authority = TestAuthority::new()?;
    let tls = authority.server(&["safe.test"])?;
    let origin = Origin::start(
        Some(tls),
        |_| {},
        |_: Request<Incoming>| async { ok("text/plain", "untouched") },
    )
    .await?;
    let site = Accelerated::start(&[("safe.test", origin.address())], &authority, "all").await?;
    let trusted = site.pair.folder().join("origin.pem");
    std::fs::write(&trusted, authority.pem())?;
    let mut curl = tokio::process::Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--max-time",
        "30",
        "--socks5-hostname",
    ])
    .arg(site.pair.proxy().to_string())
    .arg("--cacert")
    .arg(&trusted)
    .arg("https://safe.test/");
    let done = match curl.output().await {
        Ok(done) => done,
        Err(error) => {
            println!("SKIPPED: curl cannot be run: {error:#}");
            return Ok(());
        }
    };
    assert!(done.status.success(), "{done:?}");
    assert_eq!(done.stdout, b"untouched");
    assert_eq!(site.pair.status().await?["tunnels"], 1);
    Ok(())
}
