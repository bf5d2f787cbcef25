//! Flow of a response: pauses of the origin, a slow hop, cancellation.
use std::convert::Infallible;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use longhaul_codec::{BodyDecoder, BodyLimits};
use longhaul_session::{Cancel, Message, Method};
use tokio::sync::mpsc;

use super::{reply, setup};
use crate::{
    agent::{BodyEnd, coding, fetch_of, window_key, wire},
    origin::{OriginBody, serve},
};

/// A body that a test feeds; the sender is closed when the origin's side is dropped.
pub(super) fn fed() -> (mpsc::Sender<Bytes>, OriginBody) {
    let (sender, receiver) = mpsc::channel(1);
    let frames = futures_util::stream::unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
    });
    (sender, StreamBody::new(frames).boxed_unsync())
}

#[tokio::test]
async fn received_bytes_are_sent_when_the_origin_pauses() {
    let (_gateway, mut agent) = setup().await;
    let (feeds_in, mut feeds) = mpsc::channel(1);
    let port = serve(move |_| {
        let feeds = feeds_in.clone();
        async move {
            let (feed, body) = fed();
            feeds.send(feed).await.unwrap();
            reply(200, &[("content-type", "text/event-stream")], body)
        }
    })
    .await;
    let fetch = fetch_of(agent.id(), Method::Get, &format!("http://a.test:{port}/"), &[]);
    agent.send(Message::Fetch(fetch)).await;
    let feed = feeds.recv().await.unwrap();
    let mut answer = agent.answer().await;
    assert_eq!(answer.head().status, 200, "the head does not wait for the body");
    feed.send("data: 1\n\n".into()).await.unwrap();
    let Message::Body(body) = answer.next_message().await.unwrap() else {
        panic!()
    };
    let mut decoder = BodyDecoder::new(
        window_key(&agent.session),
        coding(body.coding),
        BodyLimits::default(),
    );
    for event in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
        if event != "data: 1\n\n" {
            feed.send(event.into()).await.unwrap();
        }
        let mut found = Vec::new();
        while found.len() < event.len() {
            let bytes = answer.bytes().await.unwrap().unwrap();
            let mut wire = &bytes[..];
            while let longhaul_codec::BodyEvent::Window(window) = decoder.next(&mut wire).unwrap() {
                found.extend_from_slice(&window);
            }
        }
        assert_eq!(found, event.as_bytes());
    }
    drop(feed);
    assert_eq!(
        answer.windows(&mut decoder, &mut Vec::new()).await,
        BodyEnd::Complete
    );
}

#[tokio::test]
async fn a_cancelled_fetch_stops_the_origin() {
    let (_gateway, mut agent) = setup().await;
    let (feeds_in, mut feeds) = mpsc::channel(1);
    let port = serve(move |_| {
        let feeds = feeds_in.clone();
        async move {
            let (feed, body) = fed();
            feeds.send(feed).await.unwrap();
            reply(200, &[], body)
        }
    })
    .await;
    let id = agent.id();
    agent
        .send(Message::Fetch(fetch_of(
            id,
            Method::Get,
            &format!("http://a.test:{port}/"),
            &[],
        )))
        .await;
    let feed = feeds.recv().await.unwrap();
    feed.send("some".into()).await.unwrap();
    let mut answer = agent.answer().await;
    let Message::Body(_) = answer.next_message().await.unwrap() else {
        panic!()
    };
    agent
        .control
        .write(wire(Message::Cancel(Cancel { fetch: id })).into())
        .await
        .unwrap();
    feed.closed().await;
    while let Ok(bytes) = answer.bytes().await {
        assert!(bytes.is_some(), "a cancelled response must not end cleanly");
    }
}

#[tokio::test]
async fn a_slow_hop_slows_the_origin() {
    let (_gateway, mut agent) = setup().await;
    let (feeds_in, mut feeds) = mpsc::channel(1);
    let port = serve(move |_| {
        let feeds = feeds_in.clone();
        async move {
            let (feed, body) = fed();
            feeds.send(feed).await.unwrap();
            reply(200, &[("content-type", "image/jpeg")], body)
        }
    })
    .await;
    let fetch = fetch_of(agent.id(), Method::Get, &format!("http://a.test:{port}/"), &[]);
    agent.send(Message::Fetch(fetch)).await;
    let feed = feeds.recv().await.unwrap();
    let _unread = agent.answer().await;
    // Random bytes, which no coding compresses.
    let mut noise = blake3::Hasher::new().finalize_xof();
    let mut taken = 0_usize;
    loop {
        let mut piece = vec![0; 64 * 1024];
        noise.fill(&mut piece);
        // Back-pressure: the gateway reads nothing more; a second is very long on loopback.
        if tokio::time::timeout(std::time::Duration::from_secs(1), feed.send(piece.into()))
            .await
            .is_err()
        {
            break;
        }
        taken += 64 * 1024;
        assert!(taken < 256 * 1024 * 1024, "the gateway buffers without limit");
    }
    assert!(taken < 64 * 1024 * 1024, "{taken}");
}
