//! False claims of a device: it must not learn data of others or influence their page loads.
use std::time::Duration;

use anyhow::{Result, ensure};
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_session::{BodyPlace, Fetch, Head, Holding, Message, ShortHash, Used};
use longhaul_tests::{
    client::{ask, get},
    origin::{AnswerBody, Origin},
};
use longhaul_types::ContentHash;
use tokio::time::interval;

use super::harness::{HostileDevice, fetch, page_fetch, page_of};
use crate::{
    content::{prose, whole},
    pair::{Pair, Setup},
};

const SECRET: &str = "the account of anna: 12,345.67, and much more that only she may read";

fn answer(fields: &[(&str, &str)], body: impl Into<bytes::Bytes>) -> Response<AnswerBody> {
    let mut response = Response::builder();
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(whole(body)).expect("a response")
}

async fn setup(
    reply: impl Fn(&Request<Incoming>) -> Response<AnswerBody> + Clone + Send + Sync + 'static,
) -> Result<(Origin, Pair)> {
    let origin = Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| std::future::ready(reply(&request)),
    )
    .await?;
    let names = [("site.test", origin.address()), ("evil.test", origin.address())];
    let pair = Pair::start(Setup::resolving(&names)).await?;
    Ok((origin, pair))
}

/// A device that claims to hold a body does not learn whether another device holds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_hash_does_not_reveal_bodies_of_other_devices() -> Result<()> {
    let (origin, pair) = setup(|request| {
        let is_anna = request
            .headers()
            .get("cookie")
            .is_some_and(|cookie| cookie == "user=anna");
        match request.uri().path() {
            "/account" if is_anna => answer(
                &[("Cache-Control", "private, max-age=600"), ("ETag", "\"a\"")],
                SECRET,
            ),
            "/account" => answer(
                &[("Cache-Control", "private, max-age=600"), ("ETag", "\"n\"")],
                "nobody is logged in",
            ),
            // A resource of the attacker whose body is the guess.
            _ => answer(&[("Cache-Control", "max-age=600")], SECRET),
        }
    })
    .await?;
    let account = get("http://site.test/account", &[("Cookie", "user=anna")]);
    for _ in 0..2 {
        assert_eq!(ask(pair.proxy(), &account).await?.text(), SECRET);
    }
    let mut device = HostileDevice::connect(&pair).await?;
    let guess = ContentHash::of(SECRET.as_bytes());
    let asked_before = origin.seen().len();
    let claims = Fetch {
        held: Some(guess),
        ..fetch(1, "http://site.test/account")
    };
    let head: Head = device.head(claims).await?;
    println!("response for the claimed body: {:?}", head.body);
    assert_eq!(
        head.body,
        BodyPlace::Follows,
        "the account was answered with the claimed body"
    );
    assert_eq!(head.content_hash.filter(|hash| *hash == guess), None);
    assert_eq!(
        origin.seen().len(),
        asked_before + 1,
        "the origin received no request"
    );
    // A resource of its own with the guessed bytes is sent in full, whoever else holds them.
    let head: Head = device.head(fetch(2, "http://evil.test/guess")).await?;
    assert_eq!(head.body, BodyPlace::Follows);
    // Only the device's own claim has an effect: it can deceive only itself.
    device
        .send_control(&Message::Holding(Holding {
            page: page_of(1),
            hashes: vec![ShortHash::of(&guess)],
        }))
        .await;
    let head: Head = device.head(fetch(3, "http://site.test/account")).await?;
    assert_ne!(head.content_hash, Some(guess), "{head:?}");
    Ok(())
}

/// A device's reports on the objects of a public page must not make other devices request the attacker's
/// host.
#[tokio::test(flavor = "multi_thread")]
async fn reports_of_one_device_do_not_add_its_host_to_pages_of_others() -> Result<()> {
    const PAGE: &str = "http://site.test/news";
    let (origin, pair) = setup(|request| {
        let fields = [("Cache-Control", "max-age=600"), ("Content-Type", "text/html")];
        match request.uri().path() {
            "/news" => answer(
                &fields,
                "<!doctype html><title>News</title><script src=/news.js></script>",
            ),
            _ => answer(
                &[
                    ("Cache-Control", "max-age=600"),
                    ("Content-Type", "text/javascript"),
                ],
                prose(3000, 5),
            ),
        }
    })
    .await?;
    let mut device = HostileDevice::connect(&pair).await?;
    for round in 0..3_u64 {
        let page = 10 * round + 1;
        let head = device.head(page_fetch(page, PAGE)).await?;
        ensure!(head.status == 200, "{head:?}");
        for (number, url) in ["http://evil.test/beacon.js", "http://site.test/extra.js"]
            .into_iter()
            .enumerate()
        {
            let taught = Fetch {
                page: Some(page_of(page)),
                ..fetch(page + 1 + number as u64, url)
            };
            device.request(taught).await?;
        }
        device
            .send_control(&Message::Used(Used {
                page: page_of(page),
                taken: vec![0xff],
            }))
            .await;
        // A later message on the same stream: when it is processed, the earlier ones are.
        device
            .send_control(&Message::Used(Used {
                page: page_of(9_999),
                taken: Vec::new(),
            }))
            .await;
    }
    let at_evil = |origin: &Origin| {
        origin
            .seen()
            .iter()
            .filter(|seen| seen.host == "evil.test")
            .count()
    };
    let from_own_device = at_evil(&origin);
    let mut ticks = interval(Duration::from_millis(200));
    for _ in 0..6 {
        ticks.tick().await;
        let page = ask(
            pair.proxy(),
            get(PAGE, &[("Accept", "text/html"), ("Cache-Control", "no-cache")]),
        )
        .await?;
        assert_eq!(page.status, 200);
        let fields = [("Accept", "*/*"), ("Referer", PAGE)];
        assert_eq!(
            ask(pair.proxy(), get("http://site.test/news.js", &fields))
                .await?
                .status,
            200
        );
    }
    let now = at_evil(&origin);
    println!("{from_own_device} requests at the attacker's host by the attacker's device, {now} at the end");
    assert_eq!(
        now, from_own_device,
        "the page load of another device requested the attacker's host"
    );
    Ok(())
}
