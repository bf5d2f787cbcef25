//! Settings of a running gateway that a reload changes: each applies to the next request.
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use anyhow::{Context as _, Result};
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
    process::run,
};
use longhaul_types::Invite;
use tempfile::NamedTempFile;
use tokio::{net::UdpSocket, task::JoinHandle};

use crate::{
    content::ok,
    https::Accelerated,
    pair::{COMMAND_LIMIT, LIMIT, Pair, Setup, folder, start_gateway},
    services::reloads,
};

/// A DNS server that answers each query with one address, or with "no such name" (RFC 1035 section 4).
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl NameServer {
    pub(crate) async fn start(answer: Option<Ipv4Addr>) -> Result<Self> {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await?;
        let address = socket.local_addr()?;
        let task = tokio::spawn(async move {
            let mut query = [0; 1232];
            while let Ok((length, client)) = socket.recv_from(&mut query).await {
                if let Some(reply) = reply(&query[..length], answer) {
                    let _gone = socket.send_to(&reply, client).await;
                }
            }
        });
        Ok(Self { address, task })
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn reply(query: &[u8], answer: Option<Ipv4Addr>) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    const TYPE_A: [u8; 2] = [0, 1];
    let name = query.get(HEADER..)?.iter().position(|byte| *byte == 0)? + 1;
    // The name, the type and the class.
    let question = query.get(HEADER..HEADER + name + 4)?;
    let address = answer.filter(|_| question[name..name + 2] == TYPE_A);
    // An answer of the authority; error 3 is "no such name".
    let code = if answer.is_some() { 0 } else { 3 };
    let mut reply = query[..2].to_vec();
    reply.extend([
        0x85,
        0x80 | code,
        0,
        1,
        0,
        u8::from(address.is_some()),
        0,
        0,
        0,
        0,
    ]);
    reply.extend_from_slice(question);
    if let Some(address) = address {
        // The name of the question, type A, class IN, an hour to live, four bytes.
        reply.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0x0E, 0x10, 0, 4]);
        reply.extend(address.octets());
    }
    Some(reply)
}

/// Gives the gateway of a pair another configuration and waits until it is in force. `count` is the number of
/// reloads so far that changed `key`, this one included.
async fn reload(pair: &Pair, config: &str, key: &str, count: usize) -> Result<()> {
    std::fs::write(pair.folder().join("gateway.toml"), config)?;
    pair.gateway().signal("HUP").await?;
    reloads(pair.gateway(), key, count).await
}

async fn answer(_: Request<Incoming>) -> Response<AnswerBody> {
    ok("text/plain", "from the origin")
}

#[tokio::test]
async fn name_servers_apply_to_the_next_request() -> Result<()> {
    let origin = Origin::start(None, |_| {}, answer).await?;
    let knowing = NameServer::start(Some(Ipv4Addr::LOCALHOST)).await?;
    let ignorant = NameServer::start(None).await?;
    let config = |server: &NameServer| {
        let guard = "[guard]\nallow = ['127.0.0.0/8']\n";
        format!("{guard}[fetch]\ndns = ['{}']\n", server.address)
    };
    let setup = Setup {
        gateway_config: config(&ignorant),
        ..Setup::resolving(&[])
    };
    let pair = Pair::start(setup).await?;
    let url = format!("http://site.example:{}/", origin.address().port());
    let missing = pair.get(&url).await?;
    assert!(
        missing.status == 502 && missing.text().contains("no website of this name"),
        "{missing:?}"
    );

    reload(&pair, &config(&knowing), "fetch.dns", 1).await?;
    assert_eq!(pair.get(&url).await?.text(), "from the origin");

    // Neither the answer, which may be stored for an hour, nor the pooled connection is used further.
    reload(&pair, &config(&ignorant), "fetch.dns", 2).await?;
    let missing = pair.get(&url).await?;
    assert_eq!(missing.status, 502, "{missing:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_and_denied_keys_apply_to_the_next_request() -> Result<()> {
    let (first, second) = (TestAuthority::new()?, TestAuthority::new()?);
    let origin = Origin::start(Some(second.server(&["safe.test"])?), |_| {}, answer).await?;
    let names = [("safe.test", origin.address())];
    let site = Accelerated::start(&names, &first, "all").await?;
    let other = NamedTempFile::new()?;
    std::fs::write(other.path(), second.pem())?;
    let resolve = format!("[fetch.resolve]\n'safe.test:443' = '{}'\n", origin.address());
    let trusting = format!("{resolve}[fetch]\nextra-ca = ['{}']\n", other.path().display());
    let denying = format!("{trusting}deny-keys = ['{}']\n", second.pin());

    let page = site.get("safe.test", "/", "").await?;
    assert!(page.contains("TlsUnknownIssuer"), "{page}");
    // The host has become a tunnel.
    site.forget_bypasses().await?;
    reload(&site.pair, &trusting, "fetch.extra-ca", 1).await?;
    let page = site.get("safe.test", "/", "").await?;
    assert!(page.contains("from the origin"), "{page}");
    reload(&site.pair, &denying, "fetch.deny-keys", 1).await?;
    let page = site.get("safe.test", "/", "").await?;
    assert!(
        page.contains("TlsDeniedKey"),
        "although a connection is pooled: {page}"
    );
    reload(&site.pair, &trusting, "fetch.deny-keys", 2).await?;
    let page = site.get("safe.test", "/", "").await?;
    assert!(page.contains("from the origin"), "{page}");
    reload(&site.pair, &resolve, "fetch.extra-ca", 2).await?;
    let page = site.get("safe.test", "/", "").await?;
    assert!(page.contains("TlsUnknownIssuer"), "{page}");
    Ok(())
}

/// The address in an invite that the running gateway makes; the command has no configuration file.
async fn invited_address(folder: &Path, name: &str) -> Result<String> {
    let state = folder.join("gateway").display().to_string();
    let made = run(
        "longhaul-gateway",
        &["invite", name, "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    let line = made.stdout.lines().next().with_context(|| made.stderr.clone())?;
    Ok(line.parse::<Invite>()?.address().to_owned())
}

#[tokio::test]
async fn the_public_address_applies_to_the_next_invite() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, "public-address = 'old.example:4433'\n")?;
    let gateway = start_gateway(folder.path(), "127.0.0.1:0").await?;
    assert_eq!(invited_address(folder.path(), "one").await?, "old.example:4433");
    std::fs::write(&file, "public-address = 'new.example:443'\n")?;
    gateway.signal("HUP").await?;
    let log = gateway.log().contains("changed: public-address", LIMIT).await?;
    assert!(!log.contains("takes effect at the next start"), "{log}");
    assert_eq!(invited_address(folder.path(), "two").await?, "new.example:443");
    Ok(())
}
