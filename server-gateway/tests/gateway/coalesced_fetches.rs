//! Equal concurrent requests share one fetch of the origin.
use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use longhaul_session::{Cancel, FetchId, Message, Method};
use tokio::sync::mpsc;

use super::store_bodies::FRESH;
use crate::{
    agent::{Agent, fetch_of, wire},
    origin::{OriginBody, serve},
    store::{reply, setup},
};

/// A body that a test feeds.
pub(super) fn fed() -> (mpsc::Sender<Bytes>, OriginBody) {
    let (sender, receiver) = mpsc::channel(1);
    let frames = futures_util::stream::unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(Frame::data(bytes)), receiver))
    });
    (sender, StreamBody::new(frames).boxed_unsync())
}

/// An origin whose bodies a test feeds, with one sender per request.
pub(super) async fn fed_origin(
    fields: &'static [(&'static str, &'static str)],
) -> (String, mpsc::Receiver<mpsc::Sender<Bytes>>) {
    let (feeds_in, feeds) = mpsc::channel(8);
    let port = serve(move |_| {
        let feeds = feeds_in.clone();
        async move {
            let (feed, body) = fed();
            feeds.send(feed).await.unwrap();
            reply(200, fields, body)
        }
    })
    .await;
    (format!("http://a.test:{port}/"), feeds)
}

async fn ask(agent: &mut Agent, url: &str, fields: &[(&str, &str)]) -> FetchId {
    let fetch = fetch_of(agent.id(), Method::Get, url, fields);
    let id = fetch.id;
    agent.send(Message::Fetch(fetch)).await;
    id
}

#[tokio::test]
async fn equal_concurrent_requests_share_a_fetch() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let (url, mut feeds) = fed_origin(&[FRESH]).await;
    ask(&mut ann, &url, &[]).await;
    let feed = feeds.recv().await.unwrap();
    feed.send("first, ".into()).await.unwrap();
    // The response has begun: both requests join its fetch.
    let first = ann.answer().await;
    ask(&mut bob, &url, &[]).await;
    ask(&mut bob, &url, &[]).await;
    let (second, third) = (bob.answer().await, bob.answer().await);
    feed.send("second".into()).await.unwrap();
    drop(feed);
    assert_eq!(first.response(&ann.session).await.body, b"first, second");
    assert_eq!(second.response(&bob.session).await.body, b"first, second");
    assert_eq!(third.response(&bob.session).await.body, b"first, second");
    assert!(
        feeds.try_recv().is_err(),
        "the origin received more than one request"
    );
}

#[tokio::test]
async fn private_responses_are_not_shared_while_they_arrive() {
    let (gateway, ann) = setup().await;
    let bob = Agent::connect(&gateway).await;
    let (url, mut feeds) = fed_origin(&[("cache-control", "private, max-age=600")]).await;
    // One after the other: the requests of two sessions reach the origin in any order.
    let mut asked = Vec::new();
    for mut agent in [ann, bob] {
        ask(&mut agent, &url, &[]).await;
        asked.push((feeds.recv().await.unwrap(), agent));
    }
    for (feed, agent) in asked {
        let answer = agent.answer().await;
        feed.send("mine".into()).await.unwrap();
        drop(feed);
        assert_eq!(answer.response(&agent.session).await.body, b"mine");
    }
}

#[tokio::test]
async fn a_cancelled_request_does_not_stop_its_shared_fetch() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let (url, mut feeds) = fed_origin(&[FRESH]).await;
    let id = ask(&mut ann, &url, &[]).await;
    let feed = feeds.recv().await.unwrap();
    let _first = ann.answer().await;
    ask(&mut bob, &url, &[]).await;
    let second = bob.answer().await;
    let cancel = wire(Message::Cancel(Cancel { fetch: id }));
    ann.control.write(cancel.into()).await.unwrap();
    for piece in ["all ", "of ", "it"] {
        feed.send(piece.into()).await.unwrap();
    }
    drop(feed);
    assert_eq!(second.response(&bob.session).await.body, b"all of it");
}

#[tokio::test]
async fn a_small_body_is_completed_without_a_reader() {
    let (_gateway, mut agent) = setup().await;
    let (url, mut feeds) = fed_origin(&[FRESH, ("content-length", "9")]).await;
    let id = ask(&mut agent, &url, &[]).await;
    let feed = feeds.recv().await.unwrap();
    feed.send("all ".into()).await.unwrap();
    let mut answer = agent.answer().await;
    let cancel = wire(Message::Cancel(Cancel { fetch: id }));
    agent.control.write(cancel.into()).await.unwrap();
    while answer.bytes().await.is_ok_and(|bytes| bytes.is_some()) {}
    feed.send("of it".into()).await.unwrap();
    drop(feed);
    // Joins the fetch in progress, or finds the stored body.
    assert_eq!(agent.get(&url, &[]).await.body, b"all of it");
    assert!(feeds.try_recv().is_err());
}

#[tokio::test]
async fn a_large_body_without_a_reader_is_aborted() {
    let (_gateway, mut agent) = setup().await;
    let (url, mut feeds) = fed_origin(&[FRESH, ("content-length", "9000000")]).await;
    let id = ask(&mut agent, &url, &[]).await;
    let feed = feeds.recv().await.unwrap();
    feed.send(vec![0; 10_000].into()).await.unwrap();
    let _answer = agent.answer().await;
    let cancel = wire(Message::Cancel(Cancel { fetch: id }));
    agent.control.write(cancel.into()).await.unwrap();
    feed.closed().await;
}

/// A response that was requested before a write may lack what was written.
#[tokio::test]
async fn a_request_behind_a_write_does_not_join_an_earlier_fetch() {
    let (_gateway, mut agent) = setup().await;
    let (url, mut feeds) = fed_origin(&[("cache-control", "no-cache")]).await;
    ask(&mut agent, &url, &[]).await;
    let before = feeds.recv().await.unwrap();
    before.send("before".into()).await.unwrap();
    let first = agent.answer().await;

    let write = fetch_of(agent.id(), Method::Delete, &format!("{url}orders/1"), &[]);
    agent.send(Message::Fetch(write)).await;
    drop(feeds.recv().await.unwrap());
    let written = agent.answer().await;
    assert_eq!(written.response(&agent.session).await.status, 200);

    ask(&mut agent, &url, &[]).await;
    let after = feeds.recv().await.unwrap();
    after.send("after".into()).await.unwrap();
    drop((before, after));
    let second = agent.answer().await;
    assert_eq!(first.response(&agent.session).await.body, b"before");
    assert_eq!(second.response(&agent.session).await.body, b"after");
}
