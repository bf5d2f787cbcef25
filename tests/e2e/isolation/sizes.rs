//! What the number of bytes on the hop tells a page of what its user holds of another site, or of its own account there.
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

/// The victim's page, as its user sees it.
const ACCOUNT: &str = "http://victim.test/account";
const COOKIE: (&str, &str) = ("Cookie", "sid=secret");
/// Longer than what travels beside it.
const SIZE: usize = 60_000;
/// The same as a count of bytes.
const LENGTH: u64 = SIZE as u64;
/// Visits until the gateway has heard of what the first one left at the agent.
const ATTEMPTS: usize = 50;

/// The victim's account is a text that a query changes a little, as a search does that repeats what was searched for; the
/// picture of the account and evil's guess are the same bytes.
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
    let pair = Pair::start(Setup::resolving(&names).over(Link::Paced(BitRate::kbps(8_000)))).await?;
    Ok((origin, pair))
}

/// What comes down for a request.
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

/// The user looks at the account until it costs next to nothing: then both ends know what is held.
async fn look_at_the_account(pair: &Pair) -> Result<()> {
    let by_itself = [("Referer", "http://victim.test/"), COOKIE];
    for _ in 0..ATTEMPTS {
        let page = cost(pair, ACCOUNT, &navigation(&by_itself)).await?;
        let picture = [("Accept", "image/*"), ("Referer", ACCOUNT), COOKIE];
        let picture = cost(pair, "http://victim.test/secret.png", &picture).await?;
        if page < 6_000 && picture < 6_000 {
            return Ok(());
        }
    }
    anyhow::bail!("the account is sent again and again")
}

/// F9: evil's own picture with the bytes of the user's private one costs what another of its pictures costs.
#[tokio::test(flavor = "multi_thread")]
async fn held_bodies_of_another_site_are_not_told_by_size() -> Result<()> {
    let (_origin, pair) = world().await?;
    look_at_the_account(&pair).await?;
    let page = "http://evil.test/";
    cost(&pair, page, &navigation(&[])).await?;
    let picture = [("Accept", "image/*"), ("Referer", page)];
    // Whatever of them came by push came with one of these.
    let guess = cost(&pair, "http://evil.test/guess.png", &picture).await?;
    let other = cost(&pair, "http://evil.test/other.png", &picture).await?;
    println!("a guess that is right costs {guess} bytes, one that is wrong {other}");
    let both = guess + other;
    assert!(
        both >= LENGTH + LENGTH / 2 || guess.abs_diff(other) < 3_000,
        "{guess} against {other}"
    );
    Ok(())
}

/// The same without a page load: by requests alone, several times.
#[tokio::test(flavor = "multi_thread")]
async fn held_bodies_are_not_told_by_requests_either() -> Result<()> {
    let (_origin, pair) = world().await?;
    look_at_the_account(&pair).await?;
    let picture = [("Accept", "image/*"), ("Referer", "http://evil.test/")];
    let guess = cost(&pair, "http://evil.test/guess.png", &picture).await?;
    let other = cost(&pair, "http://evil.test/other.png", &picture).await?;
    println!("a guess that is right costs {guess} bytes, one that is wrong {other}");
    assert!(guess >= LENGTH && other >= LENGTH);
    Ok(())
}

/// F13: a page of another site, which hides that it asks, has the user's account repeat its words.
#[tokio::test(flavor = "multi_thread")]
async fn base_of_an_account_does_not_serve_who_hides_where_he_comes_from() -> Result<()> {
    let (_origin, pair) = world().await?;
    look_at_the_account(&pair).await?;
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
