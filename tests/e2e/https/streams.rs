//! What streams over https, accelerated and through tunnels, over a hop that is away for a while: events, long polls,
//! uploads, downloads, parts of a video, gRPC-Web.
use std::{convert::Infallible, io, time::Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
    relay::{Direction, Passage},
};
use ring::digest::{Context, SHA256};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::Accelerated;
use crate::{
    content::{noise, ok, pieces, whole},
    engine::peak_memory,
    pair::{LIMIT, Link},
};

/// Accelerated; the other one passes through a tunnel.
const FAST: &str = "fast.test";
const PLAIN: &str = "plain.test";
const HOSTS: [&str; 2] = [FAST, PLAIN];
const PIECE: usize = 64 * 1024;

type Sender = mpsc::Sender<Result<Bytes, io::Error>>;
type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Answers that the test brings piece by piece, by the host and path that they are for.
#[derive(Clone)]
struct Script(watch::Sender<Vec<(String, Sender)>>);

impl Script {
    fn begin(&self, host: &str, path: &str) -> AnswerBody {
        let (sender, body) = pieces();
        self.0
            .send_modify(|begun| begun.push((format!("{host}{path}"), sender)));
        body
    }

    /// Waits for the request.
    async fn sender(&self, host: &str, path: &str) -> Result<Sender> {
        let key = format!("{host}{path}");
        let mut begun = self.0.subscribe();
        let is_there = |begun: &Vec<(String, Sender)>| begun.iter().any(|(of, _)| *of == key);
        let begun = timeout(LIMIT, begun.wait_for(is_there))
            .await
            .context("no request")??;
        let found = begun.iter().find(|(of, _)| *of == key);
        Ok(found.context("the request")?.1.clone())
    }
}

/// A client of one host: HTTP/2 with the agent, HTTP/1.1 with the origin.
enum Client {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Client {
    async fn connect(site: &Accelerated, authority: &TestAuthority, host: &str) -> Result<Self> {
        if host == FAST {
            let stream = site.connect(host, &site.exported().await?, &[b"h2"]).await?;
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(Self::Http2(sender));
        }
        let stream = site.connect(host, authority.pem(), &[b"http/1.1"]).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self::Http1(sender))
    }

    async fn send(
        &mut self,
        request: http::request::Builder,
        host: &str,
        path: &str,
        body: Body,
    ) -> Result<Response<Incoming>> {
        let sent = match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                let request = request.uri(path).header(header::HOST, host).body(body)?;
                timeout(3 * LIMIT, sender.send_request(request)).await
            }
            Self::Http2(sender) => {
                let request = request.uri(format!("https://{host}{path}")).body(body)?;
                timeout(3 * LIMIT, sender.send_request(request)).await
            }
        };
        Ok(sent.context("no answer")??)
    }

    async fn get(&mut self, host: &str, path: &str) -> Result<Response<Incoming>> {
        self.send(Request::get("/"), host, path, nothing()).await
    }
}

fn nothing() -> Body {
    Empty::new()
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// So many bytes of a body, which must come while it is open.
async fn read(body: &mut Incoming, length: usize) -> Result<Vec<u8>> {
    let mut read = BytesMut::new();
    let reading = async {
        while read.len() < length {
            let frame = body.frame().await.context("the body ended")??;
            if let Ok(data) = frame.into_data() {
                read.extend_from_slice(&data);
            }
        }
        anyhow::Ok(())
    };
    let came = timeout(LIMIT, reading).await;
    came.with_context(|| format!("{} bytes of {length} came", read.len()))??;
    ensure!(read.len() == length, "{} bytes, not {length}", read.len());
    Ok(read.to_vec())
}

/// A clean end, without anything before it.
async fn end(body: &mut Incoming) -> Result<()> {
    // HTTP/2 may say it in a frame of its own.
    while let Some(frame) = timeout(LIMIT, body.frame()).await.context("no end")? {
        let data = frame?.into_data();
        ensure!(data.as_ref().is_ok_and(Bytes::is_empty), "{data:?}");
    }
    Ok(())
}

/// Blocks the hop until the agent has noticed it, and for what is done meanwhile.
async fn outage(site: &Accelerated, meanwhile: impl Future<Output = Result<()>>) -> Result<()> {
    let relay = site.pair.relay();
    for direction in [Direction::Down, Direction::Up] {
        relay.set(direction, Passage::Blocked);
    }
    meanwhile.await?;
    // What waits for an answer notices a silence sooner than what only listens.
    let asks = site.pair.get("http://nobody.invalid/");
    let ends = async {
        site.pair
            .status_until(|status| status["state"] == "stalled")
            .await?;
        for direction in [Direction::Down, Direction::Up] {
            relay.set(direction, Passage::Open);
        }
        Ok(())
    };
    let (answered, ()) = tokio::try_join!(asks, ends)?;
    ensure!(answered.status == 502, "{answered:?}");
    Ok(())
}

/// One message or the trailers of gRPC-Web (github.com/grpc/grpc, doc/PROTOCOL-WEB.md): flags, length, contents.
fn frame(flags: u8, contents: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(flags);
    frame.put_u32(u32::try_from(contents.len()).unwrap_or(u32::MAX));
    frame.extend_from_slice(contents);
    frame.freeze()
}

async fn scripted() -> Result<(Script, TestAuthority, Origin, Accelerated)> {
    let authority = TestAuthority::new()?;
    let script = Script(watch::Sender::default());
    let of = script.clone();
    let answer = move |request: Request<Incoming>| {
        let script = of.clone();
        async move {
            let host = request.headers()[header::HOST]
                .to_str()
                .unwrap_or_default()
                .to_owned();
            let path = request.uri().path().to_owned();
            let _whole = request.into_body().collect().await;
            let kind = match path.as_str() {
                "/events" => "text/event-stream",
                "/call" => "application/grpc-web+proto",
                _ => "text/plain",
            };
            let mut response = Response::new(script.begin(&host, &path));
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
            response
        }
    };
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let names = HOSTS.map(|host| (host, origin.address()));
    let set = |setup: &mut crate::pair::Setup| setup.link = Link::Relayed;
    let site = Accelerated::start_with(&names, &authority, FAST, set).await?;
    Ok((script, authority, origin, site))
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_calls_arrive_while_their_streams_are_open() -> Result<()> {
    let (script, authority, origin, site) = scripted().await?;
    let mut streams = Vec::new();
    for host in HOSTS {
        let mut client = Client::connect(&site, &authority, host).await?;
        let post = Request::post("/").header(header::CONTENT_TYPE, "application/grpc-web+proto");
        let call = whole(frame(0, b"what?"));
        for (path, request, body) in [("/events", Request::get("/"), nothing()), ("/call", post, call)] {
            let mut own = if host == FAST {
                None
            } else {
                Some(Client::connect(&site, &authority, host).await?)
            };
            let client = own.as_mut().unwrap_or(&mut client);
            let answering = client.send(request, host, path, body);
            // The head of a stream comes when it begins, before its first event.
            let (response, sender) = tokio::join!(answering, script.sender(host, path));
            let sender = sender?;
            let response = response?;
            ensure!(response.status() == 200, "{host}{path}: {response:?}");
            streams.push((host, path, sender, response.into_body()));
        }
    }
    let event = |path: &str, number: usize| match path {
        "/events" => Bytes::from(format!("id: {number}\ndata: event {number}\n\n")),
        _ => frame(0, format!("message {number}").as_bytes()),
    };
    for number in 0..6 {
        let sent = async {
            for (_, path, sender, _) in &streams {
                sender.send(Ok(event(path, number))).await?;
            }
            Ok(())
        };
        if number == 3 {
            outage(&site, sent).await?;
        } else {
            sent.await?;
        }
        for (host, path, _, body) in &mut streams {
            let expected = event(path, number);
            let came = read(body, expected.len()).await?;
            assert_eq!(came, expected, "{host}{path}");
        }
    }
    // The script's own ends of them.
    script.0.send_replace(Vec::new());
    for (host, path, sender, mut body) in streams {
        let trailers = frame(0x80, b"grpc-status: 0\r\n");
        if path == "/call" {
            sender.send(Ok(trailers.clone())).await?;
            assert_eq!(read(&mut body, trailers.len()).await?, trailers, "{host}");
        }
        drop(sender);
        end(&mut body).await.with_context(|| format!("{host}{path}"))?;
    }
    let asked = origin.seen();
    assert_eq!(asked.len(), 4, "nothing was asked for twice");
    let relayed = asked
        .iter()
        .filter(|seen| seen.headers.contains_key("via"))
        .count();
    assert_eq!(relayed, 2, "the tunnel's were not read");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_is_answered_after_an_outage() -> Result<()> {
    let authority = TestAuthority::new()?;
    let (answer_now, asked) = (watch::Sender::new(false), watch::Sender::new(0));
    let (told, count) = (answer_now.clone(), asked.clone());
    let answer = move |_: Request<Incoming>| {
        let mut told = told.subscribe();
        count.send_modify(|count| *count += 1);
        async move {
            let _told = told.wait_for(|now| *now).await;
            ok("application/json", "{\"news\":1}")
        }
    };
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let names = HOSTS.map(|host| (host, origin.address()));
    let set = |setup: &mut crate::pair::Setup| setup.link = Link::Relayed;
    let site = Accelerated::start_with(&names, &authority, FAST, set).await?;
    let mut clients = Vec::new();
    for host in HOSTS {
        clients.push((host, Client::connect(&site, &authority, host).await?));
    }
    let [(fast, first), (plain, second)] = clients.as_mut_slice() else {
        anyhow::bail!("two clients")
    };
    let polls = async { tokio::try_join!(first.get(fast, "/poll"), second.get(plain, "/poll")) };
    let away = async {
        let mut asked = asked.subscribe();
        timeout(LIMIT, asked.wait_for(|asked| *asked == 2)).await??;
        outage(&site, async {
            // The answer comes while there is no link.
            answer_now.send_replace(true);
            Ok(())
        })
        .await
    };
    let ((first, second), ()) = tokio::try_join!(polls, away)?;
    for response in [first, second] {
        assert_eq!(response.into_body().collect().await?.to_bytes(), "{\"news\":1}");
    }
    assert_eq!(origin.seen().len(), 2, "nothing was asked for twice");
    Ok(())
}

/// Bytes of each transfer: `LONGHAUL_TRANSFER_MB`, else 100.
fn pieces_of_a_transfer() -> u64 {
    let megabytes = std::env::var("LONGHAUL_TRANSFER_MB")
        .ok()
        .and_then(|text| text.parse().ok());
    megabytes.unwrap_or(100_u64) * 1_000_000 / PIECE as u64
}

/// Noise, which nothing makes smaller, and its hash.
fn transfer(pieces: u64) -> (impl Iterator<Item = Bytes> + Send, String) {
    let pieces = move || (0..pieces).map(|number| Bytes::from(noise(PIECE, number + 1)));
    let mut hash = Context::new(&SHA256);
    pieces().for_each(|piece| hash.update(&piece));
    (pieces(), format!("{:?}", hash.finish()))
}

fn streamed(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(futures_util::stream::iter(
        pieces.map(|piece| Ok(Frame::data(piece))),
    ))
    .boxed_unsync()
}

async fn hash_of(mut body: Incoming) -> Result<(u64, String)> {
    let (mut hash, mut length) = (Context::new(&SHA256), 0);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            hash.update(&data);
            length += data.len() as u64;
        }
    }
    Ok((length, format!("{:?}", hash.finish())))
}

async fn transfers(request: Request<Incoming>) -> Response<AnswerBody> {
    if request.method() == Method::GET {
        let (pieces, _) = transfer(pieces_of_a_transfer());
        return Response::new(streamed(pieces));
    }
    match hash_of(request.into_body()).await {
        Ok((length, hash)) => ok("text/plain", format!("{length} {hash}")),
        Err(error) => {
            let mut response = ok("text/plain", format!("{error:#}"));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        }
    }
}

/// A download with an outage in its midst, and an upload.
async fn transfers_through(host: &str) -> Result<()> {
    /// More than this would be bodies in memory.
    const GROWTH: u64 = 48 << 20;
    let authority = TestAuthority::new()?;
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, transfers).await?;
    let names = HOSTS.map(|host| (host, origin.address()));
    let set = |setup: &mut crate::pair::Setup| setup.link = Link::Relayed;
    let site = Accelerated::start_with(&names, &authority, FAST, set).await?;
    let programs = [
        ("agent", site.pair.agent().pid()),
        ("gateway", site.pair.gateway().pid()),
    ];
    let before = programs.map(|(_, pid)| peak_memory(pid).unwrap_or(0));
    let pieces = pieces_of_a_transfer();
    let length = pieces * PIECE as u64;
    let (_, expected) = transfer(pieces);
    let mut client = Client::connect(&site, &authority, host).await?;
    let began = Instant::now();
    let away = async {
        let relay = site.pair.relay();
        relay.has_passed(Direction::Down, length / 3, LIMIT).await?;
        outage(&site, async { Ok(()) }).await
    };
    let downloaded = async { hash_of(client.get(host, "/file").await?.into_body()).await };
    let (downloaded, ()) = tokio::try_join!(downloaded, away)?;
    assert_eq!(downloaded, (length, expected.clone()));
    let down = began.elapsed();
    let began = Instant::now();
    let put = Request::put("/").header(header::CONTENT_LENGTH, length);
    let body = streamed(transfer(pieces).0);
    let response = client.send(put, host, "/file", body).await?;
    assert_eq!(response.status(), 200);
    let uploaded = response.into_body().collect().await?.to_bytes();
    assert_eq!(uploaded, format!("{length} {expected}"));
    println!(
        "{host}: {length} bytes, down in {:.1} s with an outage, up in {:.1} s",
        down.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    for ((name, pid), before) in programs.into_iter().zip(before) {
        let growth = peak_memory(pid).context("its memory")?.saturating_sub(before);
        println!("{name}: {before} bytes before, {growth} more at most");
        assert!(growth < GROWTH, "{name} kept {growth} bytes");
    }
    assert_eq!(origin.seen().len(), 2, "nothing was asked for twice");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_of_an_accelerated_host_stream_exactly() -> Result<()> {
    transfers_through(FAST).await
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_in_a_tunnel_stream_exactly() -> Result<()> {
    transfers_through(PLAIN).await
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_video_are_parts() -> Result<()> {
    const LENGTH: usize = 3_000_000;
    let authority = TestAuthority::new()?;
    let video = Bytes::from(noise(LENGTH, 9));
    let all = video.clone();
    let answer = move |request: Request<Incoming>| {
        let all = all.clone();
        async move {
            let field = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
            let range = field(header::RANGE).and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
            let is_same = field(header::IF_RANGE).is_none_or(|tag| tag == "\"v1\"");
            let builder = Response::builder()
                .header(header::CONTENT_TYPE, "video/mp4")
                .header(header::CACHE_CONTROL, "max-age=600")
                .header(header::ACCEPT_RANGES, "bytes")
                .header(header::ETAG, "\"v1\"");
            let response = match range.filter(|_| is_same) {
                None => builder.body(whole(all)),
                Some((first, last)) => {
                    let first = first.parse().unwrap_or(0);
                    let last = last.parse().unwrap_or(all.len() - 1);
                    builder
                        .status(206)
                        .header(
                            header::CONTENT_RANGE,
                            format!("bytes {first}-{last}/{}", all.len()),
                        )
                        .body(whole(all.slice(first..=last)))
                }
            };
            response.expect("a valid response")
        }
    };
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let names = HOSTS.map(|host| (host, origin.address()));
    let site = Accelerated::start(&names, &authority, FAST).await?;
    for host in HOSTS {
        let mut client = Client::connect(&site, &authority, host).await?;
        // As players do: the beginning, the index at the end, then where the viewer looks, forwards and back.
        for (range, if_range, status, expected) in [
            ("bytes=0-", None, 206, 0..LENGTH),
            ("bytes=2900000-", Some("\"v1\""), 206, 2_900_000..LENGTH),
            ("bytes=1000000-1499999", Some("\"v1\""), 206, 1_000_000..1_500_000),
            ("bytes=500000-500000", None, 206, 500_000..500_001),
            ("bytes=100-199", Some("\"v0\""), 200, 0..LENGTH),
        ] {
            let mut request = Request::get("/")
                .header(header::RANGE, range)
                .header("sec-fetch-dest", "video");
            if let Some(tag) = if_range {
                request = request.header(header::IF_RANGE, tag);
            }
            let response = client.send(request, host, "/film.mp4", nothing()).await?;
            assert_eq!(response.status(), status, "{host} {range}");
            let content_range = response.headers().get(header::CONTENT_RANGE).cloned();
            let is_part = content_range
                .as_ref()
                .map(|range| range.to_str().unwrap_or_default().to_owned());
            let whole = format!("bytes {}-{}/{LENGTH}", expected.start, expected.end - 1);
            assert_eq!(is_part, (status == 206).then_some(whole), "{host} {range}");
            let body = response.into_body().collect().await?.to_bytes();
            assert!(
                body == video.slice(expected),
                "{host} {range}: {} bytes",
                body.len()
            );
        }
        let whole = client.get(host, "/film.mp4").await?;
        assert_eq!(whole.status(), 200);
        assert!(
            whole.into_body().collect().await?.to_bytes() == video,
            "{host}: a part never stands for the whole"
        );
    }
    Ok(())
}
