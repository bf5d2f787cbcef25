//! A download during which the gateway is killed, and the origin of its file.
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::origin::{AnswerBody, Origin};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::watch,
    time::{interval, timeout},
};

use crate::{
    content::{noise, pieces, whole},
    pair::{LIMIT, Pair},
};

const SIZE: usize = 1_200_000;
/// Bytes at the browser when the gateway is killed.
const BYTES_BEFORE_KILL: usize = 300_000;
/// First byte of a range request.
pub(super) const RANGE_START: usize = 100_001;
/// Bytes that the slow origin sends every [`PAUSE`].
const PIECE: usize = 10_000;
const PAUSE: Duration = Duration::from_millis(50);

/// Received bytes with their times.
#[derive(Debug, Default)]
struct Received {
    bytes: Vec<u8>,
    times: Vec<(Instant, usize)>,
}

impl Received {
    /// Time of the first bytes after the longest silence since `killed`.
    fn resumed(&self, killed: Instant) -> Result<Instant> {
        let at: Vec<Instant> = self.times.iter().map(|(at, _)| *at).collect();
        let gaps = at.windows(2).filter(|pair| pair[1] > killed);
        let longest = gaps.max_by_key(|pair| pair[1] - pair[0]);
        Ok(longest.context("no bytes after the restart")?[1])
    }

    /// The body of the response, which must have this status.
    fn body(&self, status: &str) -> Result<&[u8]> {
        let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let (head, body) = self.bytes.split_at(end.context("a head")? + 4);
        let head = String::from_utf8_lossy(head);
        ensure!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        Ok(body)
    }
}

/// An origin of a file that is slow at the first request; the path selects the validators of the response.
pub(super) async fn slow_origin(tls: Option<Arc<ServerConfig>>) -> Result<Origin> {
    let asked = Arc::new(AtomicUsize::new(0));
    Origin::start(
        tls,
        |_| {},
        move |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            let is_first = path.contains("slow") && asked.fetch_add(1, Relaxed).is_multiple_of(2);
            let from = request
                .headers()
                .get("range")
                .and_then(|range| range.to_str().ok());
            let from = from.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
            std::future::ready(file(&path, from, is_first))
        },
    )
    .await
}

/// The complete file, or the part from an offset.
fn file(path: &str, from: Option<usize>, is_slow: bool) -> Response<AnswerBody> {
    let content = noise(SIZE, 31).split_off(from.unwrap_or(0));
    let response = Response::builder()
        .header("Content-Type", "application/octet-stream")
        .header("Cache-Control", "no-store")
        .header("Content-Length", content.len());
    let response = match from {
        Some(from) => response
            .status(206)
            .header("Content-Range", format!("bytes {from}-{}/{SIZE}", SIZE - 1)),
        None => response,
    };
    let response = match path.rsplit('/').next() {
        Some("EntityTag") => response.header("ETag", "\"one\""),
        Some("LastModified") => response.header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        _ => response,
    };
    if !is_slow {
        return response.body(whole(content)).expect("a response");
    }
    let (sender, body) = pieces();
    tokio::spawn(async move {
        let mut ticks = interval(PAUSE);
        for piece in content.chunks(PIECE) {
            ticks.tick().await;
            if sender.send(Ok(piece.to_vec().into())).await.is_err() {
                return;
            }
        }
    });
    response.body(body).expect("a response")
}

/// Reads a response to its end and records the times of its bytes; `so_far` gets their number.
async fn download(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: String,
    so_far: watch::Sender<usize>,
) -> Result<Received> {
    stream.write_all(request.as_bytes()).await?;
    let mut received = Received::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = timeout(2 * LIMIT, stream.read(&mut buffer)).await;
        let length = match read.context("no further bytes")? {
            Ok(length) => length,
            // A truncated TLS stream is an error.
            Err(error) => return Err(error).context(format!("after {} bytes", received.bytes.len())),
        };
        if length == 0 {
            return Ok(received);
        }
        received.bytes.extend_from_slice(&buffer[..length]);
        received.times.push((Instant::now(), received.bytes.len()));
        so_far.send_replace(received.bytes.len());
    }
}

/// Kills the gateway during a download and restarts it at once. Returns the time from the restart to the next
/// byte.
pub(super) async fn kill_during_download(
    pair: &mut Pair,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: String,
    while_dead: impl FnOnce(&Pair) -> Result<()>,
) -> Result<Duration> {
    let (so_far, mut progress) = watch::channel(0);
    let request_range = request.contains("Range: ").then_some(RANGE_START);
    let restart = async {
        timeout(LIMIT, progress.wait_for(|bytes| *bytes > BYTES_BEFORE_KILL))
            .await
            .context("the download did not begin")??;
        pair.kill_gateway().await?;
        let killed = Instant::now();
        while_dead(pair)?;
        pair.start_gateway().await?;
        anyhow::Ok((killed, Instant::now()))
    };
    let (received, (killed, restarted)) = tokio::try_join!(download(stream, request, so_far), restart)?;
    let (status, expected) = match request_range {
        Some(from) => ("206", noise(SIZE, 31).split_off(from)),
        None => ("200", noise(SIZE, 31)),
    };
    ensure!(
        received.body(status)? == expected,
        "{} bytes that differ from the file",
        received.bytes.len()
    );
    Ok(received.resumed(killed)?.saturating_duration_since(restarted))
}
