//! Large bodies over https, accelerated and through tunnels, over a hop with outages.
use std::time::Instant;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
    relay::Direction,
};
use ring::digest::{Context, SHA256};

use super::outage::{Body, Client, FAST, HOSTS, PLAIN, outage, pair_with_relay};
use crate::{
    content::{noise, ok},
    page_loads::peak_memory,
    pair::LIMIT,
};

const PIECE: usize = 64 * 1024;

/// Size of each transfer in pieces: `LONGHAUL_TRANSFER_MB`, or 100 MB.
fn pieces_of_a_transfer() -> u64 {
    let megabytes = std::env::var("LONGHAUL_TRANSFER_MB")
        .ok()
        .and_then(|text| text.parse().ok());
    megabytes.unwrap_or(100_u64) * 1_000_000 / PIECE as u64
}

/// Incompressible noise, and its hash.
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

/// A download with an outage, and an upload.
async fn transfers_through(host: &str) -> Result<()> {
    /// Larger growth would mean that bodies are buffered in memory.
    const MAX_GROWTH: u64 = 48 << 20;
    let authority = TestAuthority::new()?;
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, transfers).await?;
    let site = pair_with_relay(&authority, origin.address()).await?;
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
        let growth = peak_memory(pid)
            .context("no memory usage")?
            .saturating_sub(before);
        println!("{name}: {before} bytes before, peak {growth} bytes more");
        assert!(growth < MAX_GROWTH, "memory of {name} grew by {growth} bytes");
    }
    assert_eq!(origin.seen().len(), 2, "each transfer reached the origin once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_of_an_accelerated_host_are_streamed_exactly() -> Result<()> {
    transfers_through(FAST).await
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_in_a_tunnel_are_streamed_exactly() -> Result<()> {
    transfers_through(PLAIN).await
}
