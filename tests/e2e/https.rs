//! Acceleration of HTTPS (docs/https.md).
mod certificates;
mod clients;
mod device_authority;
mod host_selection;
mod incompatible_clients;
mod incompatible_hosts;
mod large_bodies;
mod outage;
mod requests;
mod revisits;
mod rules;
mod streaming;
mod users;
mod video;
mod webm;
mod websockets;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions, Loaded};
use longhaul_tests::{
    authority::{self, TestAuthority},
    process::run,
};
use rcgen::KeyPair;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::pair::{COMMAND_LIMIT, Pair, Setup};

/// Maximum duration of a page load.
pub(crate) const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// A pair whose agent accelerates HTTPS.
#[derive(Debug)]
pub(crate) struct Accelerated {
    pub(crate) pair: Pair,
    /// Certificate of the authority that the gateway trusts; the gateway reads the file at each start.
    _trusted: NamedTempFile,
}

impl Accelerated {
    /// A pair whose gateway trusts this authority and resolves these hosts to port 443 of these addresses,
    /// and whose agent accelerates the hosts that the setting `hosts` selects.
    pub(crate) async fn start(
        names: &[(&str, SocketAddr)],
        trusted: &TestAuthority,
        hosts: &str,
    ) -> Result<Self> {
        Self::start_with(names, trusted, hosts, |_| {}).await
    }

    /// [`Self::start`] with further settings. Lines that `set` appends to the gateway's configuration belong
    /// to `[fetch]`.
    pub(crate) async fn start_with(
        names: &[(&str, SocketAddr)],
        trusted: &TestAuthority,
        hosts: &str,
        set: impl FnOnce(&mut Setup),
    ) -> Result<Self> {
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), trusted.pem())?;
        let keys: Vec<String> = names.iter().map(|(name, _)| format!("{name}:443")).collect();
        let addresses = names.iter().map(|(_, address)| *address);
        let resolved: Vec<_> = keys.iter().map(String::as_str).zip(addresses).collect();
        let mut setup = Setup::resolving(&resolved);
        let extra_ca = format!("[fetch]\nextra-ca = ['{}']\n", file.path().display());
        setup.gateway_config = format!("{}\n{extra_ca}", setup.gateway_config);
        let accelerate = ["--https-accelerate".to_owned(), hosts.to_owned()];
        setup.agent_arguments.extend(accelerate);
        set(&mut setup);
        Ok(Self {
            pair: Pair::start(setup).await?,
            _trusted: file,
        })
    }

    /// Hash of the public key of the agent's authority.
    pub(crate) fn pin(&self) -> Result<String> {
        let key = std::fs::read_to_string(self.pair.folder().join("agent/ca.key"))?;
        Ok(authority::pin(&KeyPair::from_pem(&key)?))
    }

    /// Certificate of the agent's authority in PEM, from the command `ca export`.
    pub(crate) async fn exported_authority(&self) -> Result<String> {
        exported_authority(&self.pair.folder().join("agent")).await
    }

    /// A browser that trusts the agent's authority and the authorities whose keys have these hashes.
    pub(crate) async fn browser(&self, pins: &[&str]) -> Result<Browser> {
        let mut options = BrowserOptions::behind(self.pair.proxy());
        options.trust_spki = vec![self.pin()?];
        options
            .trust_spki
            .extend(pins.iter().map(|pin| (*pin).to_owned()));
        Ok(Browser::start(&options).await?)
    }

    /// The bypassed hosts with the reasons, from the agent's status.
    async fn bypassed_hosts(&self) -> Result<Vec<(String, String)>> {
        bypassed_hosts(&self.pair.status().await?)
    }

    /// Forgets all bypasses.
    pub(crate) async fn forget_bypasses(&self) -> Result<()> {
        let state = self.pair.folder().join("agent").display().to_string();
        let arguments = ["https", "forget", "--state-dir", &state];
        let done = run("longhaul-agent", &arguments, COMMAND_LIMIT).await?;
        ensure!(done.code == Some(0), "{done:?}");
        Ok(())
    }

    /// Waits until a host is bypassed and returns the reason.
    async fn wait_until_bypassed(&self, host: &str) -> Result<String> {
        let is_there = |status: &Value| {
            bypassed_hosts(status).is_ok_and(|hosts| hosts.iter().any(|(name, _)| name == host))
        };
        let status = self.pair.status_until(is_there).await?;
        let found = bypassed_hosts(&status)?
            .into_iter()
            .find(|(name, _)| name == host);
        Ok(found.context("the host")?.1)
    }

    /// A TLS connection to a host through the agent's proxy, with trust only in this authority.
    pub(crate) async fn connect(
        &self,
        host: &str,
        trusted: &str,
        alpn: &[&[u8]],
    ) -> Result<TlsStream<TcpStream>> {
        let mut config = client_config(trusted)?;
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        self.connect_as(host, config).await
    }

    /// [`Self::connect`] with this TLS configuration.
    async fn connect_as(&self, host: &str, config: ClientConfig) -> Result<TlsStream<TcpStream>> {
        let stream = self.open(host).await?;
        let name = host.to_owned().try_into()?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }

    /// A connection to a host through the agent's proxy on which nothing has been sent.
    async fn open(&self, host: &str) -> Result<TcpStream> {
        open(self.pair.proxy(), host).await
    }

    /// Response of a host to a GET over HTTP/1.1, head and body, for a client that trusts the agent's
    /// authority.
    pub(crate) async fn get(&self, host: &str, path: &str, fields: &str) -> Result<String> {
        let stream = self
            .connect(host, &self.exported_authority().await?, &[b"http/1.1"])
            .await?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        exchange(stream, &head).await
    }
}

/// Certificate of the authority of the agent with this state directory, in PEM.
async fn exported_authority(state: &Path) -> Result<String> {
    let state = state.display().to_string();
    let exported = run(
        "longhaul-agent",
        &["ca", "export", "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    ensure!(exported.code == Some(0), "{exported:?}");
    Ok(exported.stdout)
}

/// A CONNECT tunnel to port 443 of a host through a proxy.
async fn open(proxy: SocketAddr, host: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy).await?;
    stream
        .write_all(format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n").as_bytes())
        .await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    ensure!(
        head.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&head)
    );
    Ok(stream)
}

/// TLS configuration with trust only in this authority.
fn client_config(trusted: &str) -> Result<ClientConfig> {
    Ok(trusting(trusted)?.with_no_client_auth())
}

fn trusting(trusted: &str) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots))
}

/// Sends text on a connection and reads until the end of the stream.
pub(crate) async fn exchange(mut stream: TlsStream<TcpStream>, text: &str) -> Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut answer = Vec::new();
    let _no_close_notify = stream.read_to_end(&mut answer).await;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn bypassed_hosts(status: &Value) -> Result<Vec<(String, String)>> {
    let hosts = status["https"]["bypassed"].as_array().context("a list")?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
    let hosts = hosts
        .iter()
        .map(|host| Ok((text(&host["host"])?, text(&host["why"])?)));
    hosts.collect()
}

/// Loads a page that must load without error.
pub(crate) async fn load(browser: &mut Browser, url: &str) -> Result<Loaded> {
    Ok(browser.load(url, &LoadOptions::within(LOAD_LIMIT)).await?)
}

/// The browser's error for a page that must not load.
async fn load_error(browser: &mut Browser, url: &str) -> Result<String> {
    match browser.load(url, &LoadOptions::within(LOAD_LIMIT)).await {
        Ok(loaded) => anyhow::bail!("the page was loaded: {}", loaded.text),
        Err(error) => Ok(format!("{error:#}")),
    }
}
