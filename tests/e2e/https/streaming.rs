//! Streaming responses over https, accelerated and through tunnels, over a hop with outages: event streams,
//! long polls, gRPC-Web.
use std::io;

use anyhow::{Context as _, Result, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    Accelerated,
    outage::{Client, FAST, HOSTS, empty_body, outage, pair_with_relay},
};
use crate::{
    content::{ok, pieces, whole},
    pair::LIMIT,
};

type Sender = mpsc::Sender<Result<Bytes, io::Error>>;

/// Open responses, by host and path; the test sends their bodies in pieces.
#[derive(Clone)]
struct OpenResponses(watch::Sender<Vec<(String, Sender)>>);

impl OpenResponses {
    fn begin(&self, host: &str, path: &str) -> AnswerBody {
        let (sender, body) = pieces();
        self.0
            .send_modify(|begun| begun.push((format!("{host}{path}"), sender)));
        body
    }

    /// Waits for the request of a path and returns the sender of its response body.
    async fn sender(&self, host: &str, path: &str) -> Result<Sender> {
        let key = format!("{host}{path}");
        let mut begun = self.0.subscribe();
        let is_there = |begun: &Vec<(String, Sender)>| begun.iter().any(|(of, _)| *of == key);
        let begun = timeout(LIMIT, begun.wait_for(is_there))
            .await
            .context("no request")??;
        let found = begun.iter().find(|(of, _)| *of == key);
        Ok(found.context("no such request")?.1.clone())
    }
}

/// Reads a number of bytes of a body that must not end meanwhile.
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
    came.with_context(|| format!("{} of {length} bytes arrived", read.len()))??;
    ensure!(read.len() == length, "{} bytes, not {length}", read.len());
    Ok(read.to_vec())
}

/// Reads the clean end of a body without further data.
async fn read_end(body: &mut Incoming) -> Result<()> {
    // HTTP/2 may signal the end in an empty frame.
    while let Some(frame) = timeout(LIMIT, body.frame())
        .await
        .context("the body does not end")?
    {
        let data = frame?.into_data();
        ensure!(data.as_ref().is_ok_and(Bytes::is_empty), "{data:?}");
    }
    Ok(())
}

/// A message or the trailers of gRPC-Web (github.com/grpc/grpc, doc/PROTOCOL-WEB.md): flags, length,
/// contents.
fn frame(flags: u8, contents: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(flags);
    frame.put_u32(u32::try_from(contents.len()).unwrap_or(u32::MAX));
    frame.extend_from_slice(contents);
    frame.freeze()
}

async fn scripted_site() -> Result<(OpenResponses, TestAuthority, Origin, Accelerated)> {
    let authority = TestAuthority::new()?;
    let script = OpenResponses(watch::Sender::default());
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
    let site = pair_with_relay(&authority, origin.address()).await?;
    Ok((script, authority, origin, site))
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_and_grpc_web_messages_arrive_without_delay() -> Result<()> {
    let (script, authority, origin, site) = scripted_site().await?;
    let mut streams = Vec::new();
    for host in HOSTS {
        let mut client = Client::connect(&site, &authority, host).await?;
        let post = Request::post("/").header(header::CONTENT_TYPE, "application/grpc-web+proto");
        let call = whole(frame(0, b"what?"));
        for (path, request, body) in [
            ("/events", Request::get("/"), empty_body()),
            ("/call", post, call),
        ] {
            let mut own = if host == FAST {
                None
            } else {
                Some(Client::connect(&site, &authority, host).await?)
            };
            let client = own.as_mut().unwrap_or(&mut client);
            let answering = client.send(request, host, path, body);
            // The head of a stream arrives before its first event.
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
    // Drop the senders to end the bodies.
    script.0.send_replace(Vec::new());
    for (host, path, sender, mut body) in streams {
        let trailers = frame(0x80, b"grpc-status: 0\r\n");
        if path == "/call" {
            sender.send(Ok(trailers.clone())).await?;
            assert_eq!(read(&mut body, trailers.len()).await?, trailers, "{host}");
        }
        drop(sender);
        read_end(&mut body)
            .await
            .with_context(|| format!("{host}{path}"))?;
    }
    let asked = origin.seen();
    assert_eq!(asked.len(), 4, "each stream was requested once");
    let relayed = asked
        .iter()
        .filter(|seen| seen.headers.contains_key("via"))
        .count();
    assert_eq!(relayed, 2, "only the accelerated streams are relayed");
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
    let site = pair_with_relay(&authority, origin.address()).await?;
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
            // The origin responds while the link is down.
            answer_now.send_replace(true);
            Ok(())
        })
        .await
    };
    let ((first, second), ()) = tokio::try_join!(polls, away)?;
    for response in [first, second] {
        assert_eq!(response.into_body().collect().await?.to_bytes(), "{\"news\":1}");
    }
    assert_eq!(origin.seen().len(), 2, "each long poll was requested once");
    Ok(())
}
