//! The user's rules for sites: image levels and pauses, as the origin and the hop see them.
use anyhow::{Context as _, Result, ensure};
use longhaul_tests::{
    client::{RawResponse, ask, get},
    origin::Origin,
    process::run,
    relay::Direction,
};
use serde_json::Value;

use super::{
    answer, body, both_hosts,
    images::{gallery, with_image_level},
    origin, request_count,
    visitor::Visitor,
};
use crate::{
    content::noise,
    pair::{COMMAND_LIMIT, Link, Pair, Setup},
};

const PAGE: &str = "http://site.test/";
const OTHER_PAGE: &str = "http://other.test/";
const SIZE: usize = 200_000;

/// Runs `longhaul-agent rules` for the pair's agent and returns what it printed.
pub(crate) async fn rules(pair: &Pair, arguments: &[&str]) -> Result<String> {
    let state = pair.folder().join("agent").display().to_string();
    let mut all = vec!["rules"];
    all.extend(arguments);
    all.extend(["--state-dir", &state]);
    let done = run("longhaul-agent", &all, COMMAND_LIMIT).await?;
    ensure!(done.code == Some(0), "{arguments:?}: {}", done.stderr);
    Ok(done.stdout)
}

fn level(response: &RawResponse) -> &str {
    response.all("x-longhaul").into_iter().next().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_level_follows_the_page_and_its_rule() -> Result<()> {
    let (origin, original) = gallery().await?;
    let mut pair = Pair::start(with_image_level(both_hosts(&origin), "low")).await?;
    let another = |n: u8| format!("http://site.test/another.jpg?{n}");
    let visitor = Visitor::new(pair.proxy());
    let small = visitor.object(PAGE, &another(0), &[]).await?;
    assert_eq!(level(&small), "image=low");
    rules(&pair, &["set", "site.test", "--images", "original"]).await?;
    // What was stored at the old level does not answer; the gateway has the original already.
    let large = visitor.object(PAGE, &another(0), &[]).await?;
    assert!(body(&large) == original.as_slice(), "{}", level(&large));
    assert_eq!(request_count(&origin, "/another.jpg?0"), 1);
    // The same image on a page of another site keeps that page's level, and an image of another site on a page of this
    // one gets the original.
    let foreign = visitor.object(OTHER_PAGE, &another(0), &[]).await?;
    assert_eq!(level(&foreign), "image=low", "the rule of another site");
    let embedded = visitor
        .object(PAGE, "http://other.test/embedded.jpg", &[])
        .await?;
    assert!(body(&embedded) == original.as_slice(), "{}", level(&embedded));
    // A host's own rule comes before that of its site, and at level text nothing is fetched.
    rules(&pair, &["set", "www.site.test", "--images", "text"]).await?;
    let hidden = visitor.object("http://www.site.test/", &another(1), &[]).await?;
    assert_eq!((hidden.status, level(&hidden)), (204, "image=text"));
    // Kept over a restart, with a new session.
    pair.end_agent("INT").await?;
    pair.start_agent().await?;
    let visitor = Visitor::new(pair.proxy());
    let large = visitor.object(PAGE, &another(2), &[]).await?;
    assert!(body(&large) == original.as_slice(), "{}", level(&large));
    let listed: Value = serde_json::from_str(&rules(&pair, &["list", "--json"]).await?)?;
    assert_eq!(listed["rules"][0]["name"], "site.test", "{listed}");
    assert_eq!(listed["rules"][0]["images"], "original", "{listed}");
    rules(&pair, &["remove", "site.test"]).await?;
    let mut again = visitor.object(PAGE, &another(3), &[]).await?;
    for n in 4..20 {
        // The agent sends the levels on its control stream, and a request can overtake them.
        if level(&again).is_empty() {
            again = visitor.object(PAGE, &another(n), &[]).await?;
        }
    }
    assert_eq!(level(&again), "image=low");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pushed_images_have_the_level_of_their_page() -> Result<()> {
    let (origin, original) = gallery().await?;
    let pair = Pair::start(with_image_level(both_hosts(&origin), "low")).await?;
    rules(&pair, &["set", "site.test", "--images", "original"]).await?;
    // By its User-Agent, this browser is known to accept WebP, so that the gateway would push smaller images.
    let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36";
    let visitor = Visitor::new(pair.proxy()).with_user_agent(chrome);
    let picture = "http://site.test/a.jpg";
    let visit = visitor.visit(PAGE, &[picture]).await?;
    assert!(
        body(visit.object(picture)) == original.as_slice(),
        "{}",
        level(visit.object(picture))
    );
    let elsewhere = "http://other.test/a.jpg";
    let visit = visitor.visit(OTHER_PAGE, &[elsewhere]).await?;
    assert_eq!(level(visit.object(elsewhere)), "image=low");
    Ok(())
}

/// An origin with one large file, and a pair whose gateway and whose agent reach it as `localhost`.
async fn with_direct_way(fallback: &str) -> Result<(Origin, Pair, String)> {
    let origin = origin(|_| {
        let fields = [
            ("Content-Type", "application/octet-stream"),
            ("Cache-Control", "no-store"),
        ];
        answer(200, &fields, noise(SIZE, 9))
    })
    .await?;
    let mut setup = Setup::resolving(&[("localhost", origin.address())]);
    let direct = ["--fallback-after", fallback, "--direct-allow", "127.0.0.0/8, ::1"];
    setup.agent_arguments = direct.map(str::to_owned).to_vec();
    let pair = Pair::start(setup.counted().over(Link::Relayed)).await?;
    let url = format!("http://localhost:{}/file", origin.address().port());
    Ok((origin, pair, url))
}

/// Loads the file and returns the bytes that the hop carried towards the agent.
async fn loaded(pair: &Pair, url: &str) -> Result<u64> {
    let before = pair.relay().passed(Direction::Down);
    // A browser's request: programs reach `localhost` directly.
    let response = ask(pair.proxy(), get(url, &[("User-Agent", "Mozilla/5.0")])).await?;
    ensure!(
        response.status == 200 && response.body.len() == SIZE,
        "{}",
        response.status
    );
    Ok(pair.relay().passed(Direction::Down) - before)
}

/// `Via` and `Cache-Control` of the origin's newest request.
fn newest(origin: &Origin) -> Result<(usize, String)> {
    let seen = origin.seen();
    let headers = &seen.last().context("a request")?.headers;
    let via = headers.get_all("via").iter().filter_map(|via| via.to_str().ok());
    let hops = via.flat_map(|via| via.split(',')).count();
    let cache = headers.get("cache-control").and_then(|field| field.to_str().ok());
    Ok((hops, cache.unwrap_or_default().to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_site_loads_without_the_gateway() -> Result<()> {
    let (origin, pair, url) = with_direct_way("120s").await?;
    assert!(loaded(&pair, &url).await? > SIZE as u64, "through the gateway");
    let through = newest(&origin)?;
    let words = rules(&pair, &["pause", "localhost"]).await?;
    assert!(words.contains("loads directly"), "{words}");
    assert!(loaded(&pair, &url).await? < SIZE as u64 / 4, "directly");
    let direct = newest(&origin)?;
    assert_eq!(
        (direct.0, direct.1.as_str()),
        (through.0 - 1, ""),
        "only the agent is in Via"
    );
    assert_eq!(pair.status().await?["direct_requests"], 1);
    let words = rules(&pair, &["resume", "localhost"]).await?;
    assert!(words.contains("used again"), "{words}");
    assert!(loaded(&pair, &url).await? > SIZE as u64);
    rules(&pair, &["pause"]).await?;
    assert!(
        loaded(&pair, &url).await? < SIZE as u64 / 4,
        "everything is paused"
    );
    let listed = rules(&pair, &["list"]).await?;
    assert!(listed.starts_with("everything is paused for another"), "{listed}");
    rules(&pair, &["remove", "--all"]).await?;
    assert!(loaded(&pair, &url).await? > SIZE as u64);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_without_a_direct_way_loads_unchanged_through_the_gateway() -> Result<()> {
    let (origin, pair, url) = with_direct_way("never").await?;
    let words = rules(&pair, &["pause", "localhost"]).await?;
    assert!(words.contains("through the gateway"), "{words}");
    assert!(loaded(&pair, &url).await? > SIZE as u64);
    assert_eq!(newest(&origin)?.1, "no-transform");
    assert_eq!(pair.status().await?["direct_requests"], 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_need_the_token_and_forgetting_keeps_them() -> Result<()> {
    let (_origin, mut pair, _) = with_direct_way("never").await?;
    rules(&pair, &["set", "secret.test", "--https", "tunnel"]).await?;
    let control = pair.control()?;
    let post = |fields: &str| {
        format!(
            "POST /rules/remove?all=yes HTTP/1.1\r\nHost: {control}\r\nContent-Length: 0\r\nConnection: close\r\n{fields}\r\n"
        )
    };
    let token = std::fs::read_to_string(pair.folder().join("agent/control-token"))?;
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    for (request, status) in [
        (post(&format!("Origin: http://{control}\r\n")), 403),
        (post(&format!("Origin: http://evil.test\r\n{bearer}")), 403),
        (post(&bearer), 403),
        (
            format!("GET /rules.json HTTP/1.1\r\nHost: {control}\r\nConnection: close\r\n\r\n"),
            403,
        ),
        (
            format!(
                "GET /rules/remove?all=yes HTTP/1.1\r\nHost: {control}\r\n{bearer}Connection: close\r\n\r\n"
            ),
            404,
        ),
    ] {
        let response = ask(control, request.clone()).await?;
        assert_eq!(response.status, status, "{request}");
        assert!(!response.text().contains("secret.test"), "{request}");
    }
    let state = pair.folder().join("agent").display().to_string();
    let done = run(
        "longhaul-agent",
        &["forget", "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    assert!(done.stdout.contains("rules for sites stay"), "{}", done.stdout);
    assert!(
        rules(&pair, &["list"])
            .await?
            .contains("secret.test  https tunnel")
    );
    assert!(
        !pair.agent().log().text().contains("secret.test"),
        "names are in no log"
    );
    // Without an agent the commands use the file; a damaged one is not overwritten, and stops the start.
    pair.end_agent("INT").await?;
    rules(&pair, &["set", "more.test", "--images", "high", "--originals"]).await?;
    let listed = rules(&pair, &["list"]).await?;
    assert!(
        listed.contains("more.test  pictures high, original pictures for another"),
        "{listed}"
    );
    std::fs::write(
        pair.folder().join("agent/rules"),
        "longhaul rules 1\nhttps secret.test maybe\n",
    )?;
    let error = rules(&pair, &["list"]).await.expect_err("damaged").to_string();
    assert!(
        error.contains("line 2 is malformed") && !error.contains("secret.test"),
        "{error}"
    );
    assert!(
        pair.start_agent().await.is_err(),
        "the agent does not start without its rules"
    );
    Ok(())
}
