//! Response splitting: an origin sends two responses to one request, the second one late.
use std::{collections::BTreeSet, net::SocketAddr};

use anyhow::Result;
use longhaul_tests::{
    client::{RawResponse, ask, get},
    raw_origin::{Kept, RawOrigin},
};
use parking_lot::Mutex;

use crate::pair::{Pair, Setup};

const SITE: &str = "http://site.test";
/// Fields of a browser's request for a script of a page.
const BROWSER: &[(&str, &str)] = &[
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) test"),
    ("Accept", "*/*"),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
    ("Referer", "http://site.test/"),
];

/// A response that devices share.
fn answer(text: &str) -> Vec<u8> {
    let length = text.len();
    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n{text}")
        .into_bytes()
}

/// An origin that answers `/split` with two responses. It sends the second one after the next request of the connection, before
/// the response to that request.
fn splitting_origin() -> impl Fn(Kept<'_>) -> Vec<u8> + Send + Sync + 'static {
    let split = Mutex::new(BTreeSet::new());
    move |request| {
        let mut answers = Vec::new();
        if split.lock().remove(&request.connection) {
            answers.extend(answer("poison"));
        }
        if request.path().starts_with("/split") {
            split.lock().insert(request.connection);
        }
        answers.extend(answer(request.path()));
        answers
    }
}

async fn load(proxy: SocketAddr, path: &str) -> Result<RawResponse> {
    ask(proxy, get(&format!("{SITE}{path}"), BROWSER)).await
}

/// The second response to one request reaches the device that sent the request, and no other device: neither on the same
/// connection nor from the cache.
#[tokio::test]
async fn an_unasked_response_reaches_no_other_device() -> Result<()> {
    let origin = RawOrigin::start_kept(splitting_origin()).await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let second = pair.second_agent("second").await?;
    let mut poisoned = 0;
    for round in 0..12 {
        load(pair.proxy(), &format!("/split/{round}")).await?;
        let script = format!("/{round}.js");
        assert_eq!(
            load(second.address(), &script).await?.text(),
            script,
            "round {round}"
        );
        let own = load(pair.proxy(), &format!("/{round}/own.js")).await?;
        poisoned += u32::from(own.text() == "poison");
        let cached = load(second.address(), &format!("/{round}/own.js")).await?;
        assert_eq!(cached.text(), format!("/{round}/own.js"));
    }
    assert_eq!(poisoned, 12, "the attack itself does not work");
    Ok(())
}
