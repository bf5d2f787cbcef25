//! A client without an agent that uses up its bytes of the month. It needs no namespaces.
use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_tests::{
    client::{Ending, RawResponse, ask, get, request},
    process::Running,
    raw_origin::RawOrigin,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{interval, timeout},
};

use crate::{
    content::noise,
    operator::operate,
    pair::{LIMIT, Setup, folder, start_gateway},
};

const SIZE: usize = 6_000_000;
const QUOTA: usize = 2_000_000;
const FILE: &str = "http://files.test/file";
/// Body of an upload, which the origin does not read.
const UPLOAD: usize = 100_000;
pub(super) const PAGE: &str = "http://files.test/page";
/// Part of the line in the gateway's log with the address of its proxy.
pub(crate) const LISTENS: &str = "clients without an agent may use the HTTP proxy";

/// A gateway with a proxy, and an origin.
pub(super) struct Proxy {
    folder: TempDir,
    gateway: Option<Running>,
    origin: RawOrigin,
    pub(super) address: SocketAddr,
}

impl Proxy {
    async fn start() -> Result<Self> {
        let file = noise(SIZE, 78);
        let origin = RawOrigin::start(move |path| match path {
            "/file" => [head(SIZE).as_bytes(), &file].concat(),
            _ => [head(4).as_bytes(), b"page"].concat(),
        })
        .await?;
        Self::of(origin).await
    }

    /// A proxy through which `files.test` is this origin.
    pub(super) async fn of(origin: RawOrigin) -> Result<Self> {
        let folder = folder()?;
        let resolve = Setup::resolving(&[("files.test", origin.address())]).gateway_config;
        let port = origin.address().port();
        let config = format!(
            "[clientless]\nlisten = \"127.0.0.1:0\"\nallow = [\"127.0.0.0/8\"]\nports = [\"{port}\"]\n\
             [metrics]\nlisten = \"127.0.0.1:0\"\n[guard]\nallow = [\"127.0.0.0/8\"]\n{resolve}"
        );
        std::fs::write(folder.path().join("gateway.toml"), config)?;
        let (gateway, address) = gateway(folder.path()).await?;
        Ok(Self {
            folder,
            gateway: Some(gateway),
            origin,
            address,
        })
    }

    fn gateway(&self) -> &Running {
        self.gateway.as_ref().expect("a running gateway")
    }

    async fn restart(&mut self) -> Result<()> {
        let gateway = self.gateway.take().context("a running gateway")?;
        let status = gateway.end("TERM", LIMIT).await?;
        ensure!(status.success(), "{status}");
        let (gateway, address) = self::gateway(self.folder.path()).await?;
        (self.gateway, self.address) = (Some(gateway), address);
        Ok(())
    }

    pub(super) async fn operate(&self, words: &[&str]) -> Result<String> {
        operate(self.folder.path(), words).await
    }

    /// Adds a client; returns its `Proxy-Authorization`.
    pub(super) async fn add(&self, name: &str) -> Result<String> {
        let password = self.operate(&["client", "add", name]).await?;
        Ok(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
    }

    pub(super) async fn load(&self, url: &str, who: &str) -> Result<RawResponse> {
        ask(self.address, get(url, &[("Proxy-Authorization", who)])).await
    }

    async fn upload(&self, who: &str) -> Result<()> {
        let length = UPLOAD.to_string();
        let fields = [("Proxy-Authorization", who), ("Content-Length", &length)];
        let head = request("POST", PAGE, &fields);
        let answer = ask(self.address, [head.as_bytes(), &vec![b'x'; UPLOAD]].concat()).await?;
        ensure!(answer.status == 200, "{}", answer.status);
        Ok(())
    }

    /// Loads the page until it has this status: changes of the list apply within a second.
    pub(super) async fn page_until(&self, who: &str, status: u16) -> Result<RawResponse> {
        let mut looks = interval(Duration::from_millis(200));
        let wait = async {
            loop {
                looks.tick().await;
                let page = self.load(PAGE, who).await?;
                if page.status == status {
                    return Ok(page);
                }
            }
        };
        timeout(LIMIT, wait)
            .await
            .context("the page has another status")?
    }

    /// Asks for a tunnel to the origin; returns the head of the answer.
    pub(super) async fn tunnel(&self, who: &str) -> Result<(TcpStream, String)> {
        let mut stream = TcpStream::connect(self.address).await?;
        let host = self.origin.address();
        let request =
            format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: {who}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(LIMIT, stream.read_u8()).await??);
        }
        Ok((stream, String::from_utf8(head)?))
    }

    /// A client, as `client list` shows it.
    async fn client(&self, name: &str) -> Result<Value> {
        let list: Value = serde_json::from_str(&self.operate(&["client", "list", "--json"]).await?)?;
        let clients = list["clients"].as_array().context("a list of clients")?;
        let client = clients.iter().find(|client| client["name"] == name);
        client.cloned().context("the client")
    }

    async fn metrics(&self) -> Result<String> {
        let address = logged_address(self.gateway(), "metrics are served").await?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        Ok(ask(address, request).await?.text())
    }
}

async fn gateway(folder: &Path) -> Result<(Running, SocketAddr)> {
    let gateway = start_gateway(folder, "127.0.0.1:0").await?;
    let address = logged_address(&gateway, LISTENS).await?;
    Ok((gateway, address))
}

/// The address in the line of the log that contains these words.
pub(crate) async fn logged_address(gateway: &Running, words: &str) -> Result<SocketAddr> {
    let log = gateway.log().contains(words, LIMIT).await?;
    let line = log.lines().find(|line| line.contains(words)).context("a line")?;
    let address = line.split("address=").nth(1).context("an address")?;
    Ok(address.split_whitespace().next().context("an address")?.parse()?)
}

pub(super) fn head(length: usize) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: no-store\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn a_client_whose_month_is_used_up_is_told_so_and_others_go_on() -> Result<()> {
    let mut proxy = Proxy::start().await?;
    let ann = proxy.add("ann").await?;
    proxy
        .operate(&["client", "quota", "ann", "--month", "2MB"])
        .await?;
    // The gateway reads the list again when it has changed: once it knows Bob, it knows the quota.
    let bob = proxy.add("bob").await?;
    for who in [&ann, &bob] {
        proxy.page_until(who, 200).await?;
    }
    let (mut idle, opened) = proxy.tunnel(&ann).await?;
    assert!(opened.starts_with("HTTP/1.1 200"), "{opened}");

    let cut = proxy.load(FILE, &ann).await?;
    assert_eq!((cut.status, cut.ending), (200, Ending::Truncated));
    let got = cut.body.len();
    println!("{got} bytes arrived of {SIZE}; the quota is {QUOTA}");
    assert!((QUOTA / 2..=QUOTA).contains(&got), "{got}");
    // A tunnel that carries nothing ends, too: by its end or a reset.
    let mut rest = Vec::new();
    let _reset = timeout(LIMIT, idle.read_to_end(&mut rest))
        .await
        .context("the tunnel stays open")?;

    let listed = proxy.client("ann").await?;
    assert_eq!(listed["quota_reached"], true, "{listed:#}");
    let until = listed["month_ends"].as_str().context("the end of the month")?;
    let words = format!("the monthly quota of the client `ann` (2MB) is used up until {until}");
    let refused = proxy.load(PAGE, &ann).await?;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains(&words), "{}", refused.text());
    let (_, refused) = proxy.tunnel(&ann).await?;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    proxy.gateway().log().contains(&words, LIMIT).await?;
    let metrics = proxy.metrics().await?;
    for series in [
        "longhaul_failures_total{reason=\"quota_reached\"} 2",
        "longhaul_limits_reached_total{limit=\"quota\"} 2",
    ] {
        assert!(metrics.contains(series), "no {series} in {metrics}");
    }
    assert_eq!(proxy.load(PAGE, &bob).await?.status, 200);
    proxy.upload(&bob).await?;
    let bob_uses = proxy.client("bob").await?;
    let up = bob_uses["month_bytes_up"].as_u64();
    assert_eq!(up, Some(UPLOAD as u64), "{bob_uses:#}");

    proxy.restart().await?;
    assert_eq!(
        proxy.load(PAGE, &ann).await?.status,
        403,
        "a restart forgets nothing"
    );
    let after = proxy.client("ann").await?;
    assert_eq!(after["month_bytes_down"], listed["month_bytes_down"], "{after:#}");
    let table = proxy.operate(&["client", "list"]).await?;
    assert!(table.contains(&format!("2MB, used up until {until}")), "{table}");

    proxy
        .operate(&["client", "quota", "ann", "--month", "none"])
        .await?;
    proxy.page_until(&ann, 200).await?;
    let whole = proxy.load(FILE, &ann).await?;
    assert_eq!((whole.ending, whole.body.len()), (Ending::Whole, SIZE));
    Ok(())
}
