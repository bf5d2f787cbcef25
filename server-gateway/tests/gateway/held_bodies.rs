//! Bodies that the agent holds are answered by their hash.
use http::{Request, header};
use hyper::body::Incoming;
use longhaul_session::{BodyPlace, FailureReason, Fetch, FetchKind, Message, Method};
use longhaul_types::{ContentHash, SecretKey};

use super::{coalesced_fetches::fed_origin, store_bodies::coded};
use crate::{
    agent::{Agent, BROWSER, fetch_of},
    gateway::Gateway,
    origin::{full, serve, text},
    store::{reply, setup},
};

async fn with_held(
    agent: &mut Agent,
    url: &str,
    held: &[u8],
    kind: FetchKind,
) -> (BodyPlace, Option<ContentHash>) {
    asked_with_held(agent, Method::Get, url, held, kind).await
}

async fn asked_with_held(
    agent: &mut Agent,
    method: Method,
    url: &str,
    held: &[u8],
    kind: FetchKind,
) -> (BodyPlace, Option<ContentHash>) {
    let fetch = Fetch {
        held: Some(ContentHash::of(held)),
        kind,
        ..fetch_of(agent.id(), method, url, &[BROWSER])
    };
    agent.send(Message::Fetch(fetch)).await;
    let mut answer = agent.answer().await;
    let head = answer.head();
    if head.body == BodyPlace::Held {
        assert_eq!(
            answer.bytes().await,
            Ok(None),
            "the response contains only the hash"
        );
    }
    (head.body, head.content_hash)
}

/// A session that has measured nothing, and whose profile is slow: the gateway waits for the origin's body as long as the
/// body would take on the link, here up to 5 s.
async fn slow_agent(gateway: &Gateway, device: &SecretKey) -> Agent {
    Agent::connect_over(gateway, device, 0, "gprs-3+1").await
}

#[tokio::test]
async fn a_held_body_is_not_sent() {
    let gateway = Gateway::start().await;
    let device = gateway.admit("a device");
    let page = text(100_000);
    let body = coded("gzip", &page);
    for control in ["no-store", "max-age=600"] {
        let body = body.clone();
        let port = serve(move |_| {
            let body = body.clone();
            async move {
                let fields = [("cache-control", control), ("content-encoding", "gzip")];
                reply(200, &fields, full(body))
            }
        })
        .await;
        let url = format!("http://a.test:{port}/");
        let hash = Some(ContentHash::of(&page));
        for kind in [FetchKind::Page, FetchKind::Object] {
            // Fetched first, then from the cache if the response may be stored.
            for _ in 0..2 {
                let mut agent = slow_agent(&gateway, &device).await;
                let answer = with_held(&mut agent, &url, &page, kind).await;
                assert_eq!(answer, (BodyPlace::Held, hash), "{control}");
            }
            let mut agent = slow_agent(&gateway, &device).await;
            let (place, _) = with_held(&mut agent, &url, b"an older version", kind).await;
            assert_eq!(place, BodyPlace::Follows);
        }
    }
}

/// If the agent does not hold the body after all, it repeats the request, which the origin has then received
/// already.
#[tokio::test]
async fn only_repeatable_requests_are_answered_by_a_hash() {
    let (_gateway, mut agent) = setup().await;
    let port = serve(|_| async { reply(200, &[], full("done")) }).await;
    let url = format!("http://a.test:{port}/");
    for (method, place) in [
        (Method::Get, BodyPlace::Held),
        (Method::Delete, BodyPlace::Follows),
        (Method::Post, BodyPlace::Follows),
        (Method::Other("PROPFIND".to_owned()), BodyPlace::Follows),
    ] {
        let said = format!("{method:?}");
        let answer = asked_with_held(&mut agent, method, &url, b"done", FetchKind::Object).await;
        assert_eq!(answer.0, place, "{said}");
    }
}

#[tokio::test]
async fn a_slow_origin_is_not_awaited_to_compare_hashes() {
    let (_gateway, mut agent) = setup().await;
    let (url, mut feeds) = fed_origin(&[]).await;
    let fetch = Fetch {
        held: Some(ContentHash::of(b"slow")),
        ..fetch_of(agent.id(), Method::Get, &url, &[])
    };
    agent.send(Message::Fetch(fetch)).await;
    let feed = feeds.recv().await.unwrap();
    feed.send("sl".into()).await.unwrap();
    let answer = agent.answer().await;
    assert_eq!(answer.head().body, BodyPlace::Follows);
    feed.send("ow".into()).await.unwrap();
    drop(feed);
    assert_eq!(answer.response(&agent.session).await.body, b"slow");
}

#[tokio::test]
async fn knowing_a_hash_gives_no_access_to_private_bodies() {
    let (gateway, mut ann) = setup().await;
    let mut bob = Agent::connect(&gateway).await;
    let port = serve(|request: Request<Incoming>| async move {
        match request.headers().get(header::COOKIE) {
            Some(_) => reply(
                200,
                &[("cache-control", "private, max-age=600")],
                full("a secret"),
            ),
            None => reply(404, &[], full("nothing")),
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    assert_eq!(ann.get(&url, &[("cookie", "id=ann")]).await.body, b"a secret");
    let answer = with_held(&mut bob, &url, b"a secret", FetchKind::Object).await;
    assert_ne!(answer.0, BodyPlace::Held);
    let resumed = Fetch {
        resume: Some(longhaul_session::Resume {
            offset: 2,
            validator: longhaul_session::Validator::ContentHash(ContentHash::of(b"a secret")),
        }),
        ..fetch_of(bob.id(), Method::Get, &url, &[])
    };
    assert_eq!(bob.failure(resumed).await, FailureReason::Changed);
}
