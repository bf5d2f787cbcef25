//! The odd origin: it answers each case with exactly its bytes, and serves the driver's page beside.
mod hpack;
mod http1;
mod http2;
mod sha1;
mod socket;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use anyhow::{Context as _, Result};
use longhaul_hosting::Http2;
use longhaul_tests::authority::TestAuthority;
use parking_lot::Mutex;
use rustls::{ServerConfig, server::Acceptor};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::LazyConfigAcceptor;

use crate::case::{Frame, Script};

/// The page that loads the cases.
const DRIVER: &str = concat!(
    "<!doctype html><link rel=icon href=data:,><script>",
    include_str!("driver.js"),
    "</script>"
);

/// Hosts whose names begin with this letter speak HTTP/2.
pub(crate) const HTTP2_HOSTS: char = 'h';

/// What the origin answers to the paths `/c/NUMBER/`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts(Arc<Mutex<BTreeMap<u64, Played>>>, Arc<OnceLock<Vec<u8>>>);

/// A script, and how often it was asked for frames.
type Played = (Arc<Script>, u64);

impl Scripts {
    /// Replaces all scripts: only those of the running cases are kept.
    pub(crate) fn replace(&self, scripts: impl IntoIterator<Item = (u64, Script)>) {
        let scripts = scripts
            .into_iter()
            .map(|(number, script)| (number, (Arc::new(script), 0)));
        *self.0.lock() = scripts.collect();
    }

    /// Serves a certificate at the address that other certificates name.
    pub(crate) fn serve_certificate(&self, certificate: Vec<u8>) {
        // It is the same for all of a run.
        let _once = self.1.set(certificate);
    }

    fn of(&self, path: &str) -> Option<Arc<Script>> {
        self.0
            .lock()
            .get(&number(path)?)
            .map(|(script, _)| Arc::clone(script))
    }

    fn frames(&self, path: &str) -> Option<Vec<Frame>> {
        let mut scripts = self.0.lock();
        let (script, asked) = scripts.get_mut(&number(path)?)?;
        *asked += 1;
        let (first, later) = &script.frames;
        Some(if *asked == 1 { first.clone() } else { later.clone() })
    }
}

/// The number of a case in a path.
fn number(path: &str) -> Option<u64> {
    path.strip_prefix("/c/")?.split('/').next()?.parse().ok()
}

/// A running origin, over http and https, for all names; it ends when dropped.
#[derive(Debug)]
pub(crate) struct OddOrigin {
    /// Where it listens for http.
    pub(crate) plain: SocketAddr,
    /// Where it listens for https.
    pub(crate) secure: SocketAddr,
    _tasks: JoinSet<()>,
}

impl OddOrigin {
    /// Starts an origin on free loopback ports.
    pub(crate) async fn start(authority: &TestAuthority, scripts: Scripts) -> Result<Self> {
        let plain = TcpListener::bind(("127.0.0.1", 0)).await.context("a free port")?;
        let secure = TcpListener::bind(("127.0.0.1", 0)).await.context("a free port")?;
        let addresses = (plain.local_addr()?, secure.local_addr()?);
        let configs = [Http2::Off, Http2::On].map(|http2| authority.server_for_any_name(http2));
        let [http1, http2] = configs;
        let configs = [http1?, http2?];
        let mut tasks = JoinSet::new();
        let plain_scripts = scripts.clone();
        tasks.spawn(async move {
            while let Ok((stream, _)) = plain.accept().await {
                let _unset = stream.set_nodelay(true);
                tokio::spawn(http1::serve(stream, plain_scripts.clone()));
            }
        });
        tasks.spawn(async move {
            while let Ok((stream, _)) = secure.accept().await {
                let _unset = stream.set_nodelay(true);
                tokio::spawn(serve_secure(stream, configs.clone(), scripts.clone()));
            }
        });
        Ok(Self {
            plain: addresses.0,
            secure: addresses.1,
            _tasks: tasks,
        })
    }
}

async fn serve_secure(stream: TcpStream, [http1, http2]: [Arc<ServerConfig>; 2], scripts: Scripts) {
    let Ok(start) = LazyConfigAcceptor::new(Acceptor::default(), stream).await else {
        return;
    };
    let named = start
        .client_hello()
        .server_name()
        .is_some_and(|name| name.starts_with(HTTP2_HOSTS));
    let Ok(stream) = start.into_stream(if named { http2 } else { http1 }).await else {
        return;
    };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(stream, scripts).await;
    } else {
        http1::serve(stream, scripts).await;
    }
}

/// The answer to a path that belongs to no case: type and body.
fn ordinary(path: &str, cookie: &str) -> (&'static str, Vec<u8>) {
    match path {
        "/drive" => ("text/html", DRIVER.as_bytes().to_vec()),
        "/ok.gif" => (
            "image/gif",
            b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;".to_vec(),
        ),
        "/ok.css" => ("text/css", b"p { color: green }".to_vec()),
        "/ok.js" => ("text/javascript", b"document.title = 'The script ran'".to_vec()),
        _ if path.starts_with("/cookies/") => ("text/plain", cookie.as_bytes().to_vec()),
        _ => (
            "text/html",
            b"<!doctype html><title>Target</title><p>The target".to_vec(),
        ),
    }
}
