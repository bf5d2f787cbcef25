//! Origins with TLS as servers have it: versions, cipher suites and chains that rustls cannot serve, by Python's OpenSSL.
use std::{net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::case::{TLS_WAYS, TlsWay};

/// Longest start: it makes keys and certificates by some thirty commands.
const START: Duration = Duration::from_secs(120);

/// A running server with a port for each of [`TLS_WAYS`]; it ends when dropped.
#[derive(Debug)]
pub(crate) struct TlsOrigin {
    addresses: Vec<SocketAddr>,
    pins: Vec<String>,
    folder: TempDir,
    _child: Child,
}

impl TlsOrigin {
    /// Starts a server in front of the origin for plain HTTP. None if Python or OpenSSL is not installed.
    pub(crate) async fn start(plain: SocketAddr) -> Result<Option<Self>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed =
            |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        if !installed("python3") || !installed("openssl") {
            return Ok(None);
        }
        let folder = tempfile::Builder::new().prefix("longhaul-tls-").tempdir()?;
        let ways: Vec<Value> = TLS_WAYS.iter().map(described).collect();
        let mut child = Command::new("python3")
            .args([
                "-W",
                "ignore",
                "-c",
                include_str!("tls/origin.py"),
                &plain.port().to_string(),
            ])
            .arg(folder.path())
            .arg(Value::Array(ways).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        let line = timeout(START, lines.next_line()).await.context("TLS origin")??;
        let said: Value = serde_json::from_str(&line.context("the TLS origin ended")?)?;
        let list = |name: &str| said[name].as_array().cloned().unwrap_or_default();
        let port = |port: &Value| {
            let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
            Ok(SocketAddr::new(plain.ip(), port.context("a port")?))
        };
        Ok(Some(Self {
            addresses: list("ports").iter().map(port).collect::<Result<_>>()?,
            pins: list("pins")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            folder,
            _child: child,
        }))
    }

    /// The names of the hosts of each way, and where they are.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (String, SocketAddr)> {
        let host = |(way, address): (usize, &SocketAddr)| (format!("*.p{way}.tls.test:443"), *address);
        self.addresses.iter().enumerate().map(host)
    }

    /// Hashes of the keys that browsers trust.
    pub(crate) fn pins(&self) -> &[String] {
        &self.pins
    }

    /// The certificate of the authority that the gateway trusts.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    /// An intermediate certificate that some chains do not have, and to which they lead.
    pub(crate) fn between(&self) -> Result<Vec<u8>> {
        Ok(std::fs::read(self.folder.path().join("between.der"))?)
    }
}

fn described(way: &TlsWay) -> Value {
    json!({
        "kind": way.kind,
        "chain": way.chain,
        "key": way.key,
        "versions": way.versions,
        "ciphers": way.ciphers,
        "group": way.group,
        "alpn": way.alpn,
        "does": way.does,
        "instead": way.instead,
    })
}
