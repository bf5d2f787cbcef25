//! Side channels by size: the number of bytes on the hop must not reveal what a user holds of another site or
//! of the own account there.
use anyhow::Result;
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    client::{ask, get},
    origin::{AnswerBody, Origin},
    relay::Direction,
};
use longhaul_types::BitRate;

use crate::{
    content::{noise, prose, whole},
    pair::{Link, Pair, Setup},
};

/// The victim's page as its user loads it.
const ACCOUNT: &str = "http://victim.test/account";
const COOKIE: (&str, &str) = ("Cookie", "sid=secret");
/// Larger than all other traffic of a request.
const SIZE: usize = 60_000;
/// `SIZE` as a byte count.
const LENGTH: u64 = SIZE as u64;
/// Maximum number of visits until the gateway has received the record of the bodies that the agent holds.
const MAX_VISITS: usize = 50;

/// The account is a text that the query changes slightly, as in a search that repeats its words; the
/// account's image and the attacker's guess have the same bytes.
fn answer(request: &Request<Incoming>) -> Response<AnswerBody> {
    let field = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let host = field("host").unwrap_or_default().to_owned();
    let is_user = field("cookie").is_some();
    let (kind, body) = match (host.as_str(), request.uri().path()) {
        ("victim.test", "/account") if is_user => {
            let query = request.uri().query().unwrap_or_default();
            let text = format!("<!doctype html><img src=/secret.png><p>{query}</p>").into_bytes();
            ("text/html", [text, prose(SIZE, 77)].concat())
        }
        ("victim.test", "/secret.png") if is_user => ("image/png", noise(SIZE, 5)),
        ("evil.test", "/") => (
            "text/html",
            b"<!doctype html><img src=/guess.png><img src=/other.png>".to_vec(),
        ),
        ("evil.test", "/guess.png") => ("image/png", noise(SIZE, 5)),
        ("evil.test", "/other.png") => ("image/png", noise(SIZE, 6)),
        _ => ("text/plain", b"nobody".to_vec()),
    };
    Response::builder()
        .header("Content-Type", kind)
        .header("Cache-Control", "private, no-cache")
        .header("ETag", format!("\"{}\"", body.len()))
        .body(whole(body))
        .expect("a valid response")
}

async fn world() -> Result<(Origin, Pair)> {
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| std::future::ready(answer(&request)),
    )
    .await?;
    let names = ["victim.test", "evil.test"].map(|name| (name, origin.address()));
    let hop = Link::Paced(BitRate::kbps(8_000));
    let pair = Pair::start(Setup::resolving(&names).over(hop).counted()).await?;
    Ok((origin, pair))
}

/// Bytes received over the hop for a request.
async fn cost(pair: &Pair, url: &str, fields: &[(&str, &str)]) -> Result<u64> {
    let before = pair.relay().passed(Direction::Down);
    let response = ask(pair.proxy(), get(url, fields)).await?;
    assert_eq!(response.status, 200, "{url}");
    Ok(pair.relay().passed(Direction::Down) - before)
}

fn navigation<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let fields = [
        ("Accept", "text/html,*/*;q=0.8"),
        ("Upgrade-Insecure-Requests", "1"),
    ];
    fields.iter().chain(more).copied().collect()
}

/// The user loads the account until it costs next to nothing: both ends then know that the agent holds it.
async fn load_account_until_held(pair: &Pair) -> Result<()> {
    let by_itself = [("Referer", "http://victim.test/"), COOKIE];
    for _ in 0..MAX_VISITS {
        let page = cost(pair, ACCOUNT, &navigation(&by_itself)).await?;
        let picture = [("Accept", "image/*"), ("Referer", ACCOUNT), COOKIE];
        let picture = cost(pair, "http://victim.test/secret.png", &picture).await?;
        if page < 6_000 && picture < 6_000 {
            return Ok(());
        }
    }
    anyhow::bail!("the account is sent in full on every visit")
}

/// F9: the attacker's image with the bytes of the user's private image costs as much as its other images.
#[tokio::test(flavor = "multi_thread")]
async fn held_bodies_of_another_site_are_not_revealed_by_size() -> Result<()> {
    let (_origin, pair) = world().await?;
    load_account_until_held(&pair).await?;
    let page = "http://evil.test/";
    cost(&pair, page, &navigation(&[])).await?;
    let picture = [("Accept", "image/*"), ("Referer", page)];
    // Pushed bytes of either image arrive with one of these requests.
    let guess = cost(&pair, "http://evil.test/guess.png", &picture).await?;
    let other = cost(&pair, "http://evil.test/other.png", &picture).await?;
    println!("a correct guess costs {guess} bytes, a wrong one {other}");
    let both = guess + other;
    assert!(
        both >= LENGTH + LENGTH / 2 || guess.abs_diff(other) < 3_000,
        "{guess} against {other}"
    );
    Ok(())
}

/// Single requests do not reveal held bodies by size either; the comparison is repeated several times.
#[tokio::test(flavor = "multi_thread")]
async fn held_bodies_are_not_revealed_by_single_requests() -> Result<()> {
    let (_origin, pair) = world().await?;
    load_account_until_held(&pair).await?;
    let picture = [("Accept", "image/*"), ("Referer", "http://evil.test/")];
    let guess = cost(&pair, "http://evil.test/guess.png", &picture).await?;
    let other = cost(&pair, "http://evil.test/other.png", &picture).await?;
    println!("a correct guess costs {guess} bytes, a wrong one {other}");
    assert!(guess >= LENGTH && other >= LENGTH);
    Ok(())
}

/// F13: a page of another site, which hides the requester, loads the account with its own words in the query.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_no_delta_base_for_requests_without_requester() -> Result<()> {
    let (_origin, pair) = world().await?;
    load_account_until_held(&pair).await?;
    let with_base = cost(
        &pair,
        &format!("{ACCOUNT}?q=own"),
        &navigation(&[("Referer", "http://victim.test/"), COOKIE]),
    )
    .await?;
    for (who, fields) in [
        ("a page without referrer", &[COOKIE][..]),
        ("another site's page", &[("Referer", "http://evil.test/"), COOKIE]),
        (
            "another site's page that hides it, by Fetch Metadata",
            &[
                ("Sec-Fetch-Site", "cross-site"),
                ("Sec-Fetch-Mode", "navigate"),
                ("Sec-Fetch-Dest", "document"),
                COOKIE,
            ],
        ),
    ] {
        let url = format!("{ACCOUNT}?q={}", who.len());
        let stranger = cost(&pair, &url, &navigation(fields)).await?;
        println!("{who}: {stranger} bytes, the site itself {with_base}");
        assert!(stranger > 3 * with_base, "{who}: {stranger} against {with_base}");
    }
    Ok(())
}
