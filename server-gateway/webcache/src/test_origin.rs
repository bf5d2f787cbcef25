//! A cache with a real origin on loopback, for unit tests.
use std::{sync::Arc, time::Duration};

use longhaul_cache::{Cache, CacheConfig};
use longhaul_http::policy::Reload;
use longhaul_origin::{Guard, OriginClient, OriginConfig};
use longhaul_types::ByteCount;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    time::timeout,
};

use crate::{
    BodyReader, CacheRequest, CacheStatus, Content, CpuPool, GatewayResponse, OverflowLimits, Purpose,
    WebCache,
    test_requests::{identity_of, request_parts},
};

/// An origin that answers each request with the next of its answers.
pub(crate) struct TestOrigin {
    port: u16,
    /// The heads of the requests, in the order of their arrival.
    arrived: mpsc::UnboundedReceiver<String>,
    /// Number of bytes of each answer that may be sent.
    may_send: watch::Sender<usize>,
    connections: Arc<Mutex<usize>>,
}

impl TestOrigin {
    /// Starts an origin.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (arrivals, arrived) = mpsc::unbounded_channel();
        let (may_send, may_send_now) = watch::channel(usize::MAX);
        let connections = Arc::new(Mutex::new(0));
        let count = Arc::clone(&connections);
        let answers: Vec<_> = answers.into_iter().collect();
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                *count.lock() += 1;
                let (arrivals, answers) = (arrivals.clone(), Arc::clone(&answers));
                let mut may_send = may_send_now.clone();
                tokio::spawn(async move {
                    while let Some(request) = read_head(&mut connection).await {
                        let Some(answer) = answers.lock().next() else {
                            return;
                        };
                        let _over = arrivals.send(request);
                        if send(&mut connection, &answer, &mut may_send).await.is_none() {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            port,
            arrived,
            may_send,
            connections,
        }
    }

    /// Lets requests wait for their answers after this number of bytes.
    pub(crate) fn hold_after(&self, bytes: usize) {
        self.may_send.send_replace(bytes);
    }

    /// Sends the answers that wait.
    pub(crate) fn release(&self) {
        self.may_send.send_replace(usize::MAX);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The head of the next request, in lower case.
    pub(crate) async fn request(&mut self) -> String {
        let arrived = timeout(Duration::from_secs(60), self.arrived.recv()).await;
        arrived.expect("the request is sent").unwrap()
    }

    /// Number of requests that arrived and were not taken.
    pub(crate) fn arrived(&self) -> usize {
        self.arrived.len()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock()
    }
}

/// Reads a request without body.
async fn read_head(connection: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

/// Sends an answer as far as it may be sent; `None` if the connection ends.
async fn send(
    connection: &mut TcpStream,
    answer: &[u8],
    may_send: &mut watch::Receiver<usize>,
) -> Option<()> {
    let mut sent = 0;
    while sent < answer.len() {
        let until = (*may_send.wait_for(|until| *until > sent).await.ok()?).min(answer.len());
        connection.write_all(&answer[sent..until]).await.ok()?;
        sent = until;
    }
    (!answer.starts_with(b"HTTP/1.0")).then_some(())
}

/// A response that leaves the connection open.
pub(crate) fn answer(status: &str, fields: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("content-length: {}", body.len());
    raw_answer(
        &format!("HTTP/1.1 {status}"),
        &[fields, &[&length]].concat(),
        body,
    )
}

/// A response of this form, byte for byte. One of HTTP/1.0 ends its connection.
pub(crate) fn raw_answer(line: &str, fields: &[&str], body: &[u8]) -> Vec<u8> {
    let head = [&[line], fields].concat().join("\r\n");
    [head.as_bytes(), b"\r\n\r\n", body].concat()
}

/// A cache that reaches loopback, with this quota for stored responses.
pub(crate) fn web_cache(quota: Option<ByteCount>) -> (TempDir, WebCache) {
    let dir = tempfile::tempdir().unwrap();
    let cache = quota.map(|quota| {
        let config = CacheConfig {
            dir: dir.path().to_owned(),
            file: "test.db",
            quota,
        };
        Cache::open(config, 1).unwrap().cache
    });
    let origin = OriginClient::new(OriginConfig {
        guard: Guard::new(["127.0.0.0/8".parse().unwrap()], []),
        ..OriginConfig::default()
    });
    let overflow = OverflowLimits {
        dir: dir.path().to_owned(),
        per_device: ByteCount::mib(16),
        total: ByteCount::mib(16),
    };
    let web = WebCache::new(cache, origin.unwrap(), CpuPool::new(1), overflow);
    (dir, web)
}

/// A request of a page of the same origin, as the gateway sends it for a browser.
pub(crate) fn cache_request(device: u8, url: &str, fields: &[(&'static str, &str)]) -> CacheRequest {
    let usual = [("accept-encoding", "gzip, deflate, br, zstd"), ("referer", url)];
    let parts = request_parts(url, &[&usual, fields].concat());
    CacheRequest {
        identity: identity_of(device, &parts),
        browser: parts.headers.clone(),
        parts,
        reload: Reload::None,
        purpose: Purpose::Requested,
    }
}

/// Fetches, and reads the whole body.
pub(crate) async fn fetch(web: &WebCache, request: CacheRequest) -> (CacheStatus, Vec<u8>) {
    whole(web.fetch(request).await.unwrap()).await
}

/// Reads the whole body of a response.
pub(crate) async fn whole(response: GatewayResponse) -> (CacheStatus, Vec<u8>) {
    let mut body = Vec::new();
    if let Content::Body(mut reader) = response.content {
        body = read(&mut reader).await;
    }
    (response.response_context.cache_status, body)
}

pub(crate) async fn read(reader: &mut BodyReader) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(chunk) = reader.next().await {
        body.extend_from_slice(&chunk.unwrap());
    }
    body
}
