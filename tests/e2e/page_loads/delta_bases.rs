//! Delta bases: the next edition of a page, its renamed files and similar pages cost only their difference;
//! users of a site and devices never share a base.
use anyhow::Result;
use longhaul_tests::{origin::Origin, relay::Direction};
use longhaul_types::BitRate;

use super::{accelerates_page_loads, answer, body, both_hosts, origin, request_field, visitor::Visitor};
use crate::{
    content::prose,
    pair::{Link, Pair, control, status},
};

const SIZE: usize = 120_000;
/// Maximum number of visits until the gateway has received the record of the bodies that the agent holds.
const MAX_VISITS: u32 = 50;

/// A text of a site: texts with the same `seed` are similar, and each `which` is different.
fn text(seed: u64, which: u64) -> Vec<u8> {
    let mut text = prose(SIZE, seed);
    text.splice(50_000..50_100, prose(900, 1000 + which));
    text
}

/// Edition `n` of the page, which refers to its script by a new name.
fn document(n: u64) -> Vec<u8> {
    let mut page = format!("<!doctype html><script src=\"/app.{n:x}f00.js\"></script><p>").into_bytes();
    page.extend_from_slice(&text(1, n));
    page
}

/// `/N` is edition N, `/app.Nf00.js` is its script, and `/mine` is different for each user.
async fn site() -> Result<Origin> {
    origin(|request| {
        let path = request.uri().path();
        let html = [("Content-Type", "text/html"), ("Cache-Control", "no-cache")];
        if let Some(rest) = path.strip_prefix("/app.") {
            let n = u64::from_str_radix(&rest[..rest.len() - 6], 16).unwrap_or(0);
            return answer(200, &[("Content-Type", "text/javascript")], text(2, n));
        }
        if path == "/mine" {
            let user: u64 = request_field(request, "cookie").bytes().map(u64::from).sum();
            let which = request.uri().query().map_or(0, str::len) as u64;
            return answer(200, &html, text(3, user + which));
        }
        answer(200, &html, document(path[1..].parse().unwrap_or(0)))
    })
    .await
}

/// Loads edition `n` and returns the bytes received over the hop.
async fn visit(pair: &Pair, visitor: &Visitor, n: u64) -> Result<u64> {
    let before = pair.relay().passed(Direction::Down);
    let (page, script) = (
        format!("http://site.test/{n}"),
        format!("http://site.test/app.{n:x}f00.js"),
    );
    let visit = visitor.visit(&page, &[&script]).await?;
    assert!(body(&visit.page) == document(n), "edition {n}");
    assert!(
        body(visit.object(&script)) == text(2, n),
        "the script of edition {n}"
    );
    Ok(pair.relay().passed(Direction::Down) - before)
}

/// Loads an edition repeatedly until it costs next to nothing: the gateway then knows that the agent holds
/// all of it.
async fn visit_until_held(pair: &Pair, visitor: &Visitor, n: u64) -> Result<()> {
    for _ in 0..MAX_VISITS {
        if visit(pair, visitor, n).await? < 3_000 {
            return Ok(());
        }
    }
    anyhow::bail!("edition {n} is sent in full on every visit")
}

async fn base_counts(pair: &Pair) -> Result<(u64, u64)> {
    let status = pair.status().await?;
    let count = |key: &str| status[key].as_u64().unwrap_or_default();
    Ok((count("bases_used"), count("bases_missing")))
}

/// A style sheet of a site that was not visited before.
const STYLES: &str = ".tides { display: -webkit-box; display: -ms-flexbox; display: flex; position: relative }\n\
    .tides > li { list-style: none; margin: 0; padding: 0; text-align: center; cursor: pointer }\n\
    .harbour::after { content: \"\"; position: absolute; top: 0; left: 0; width: 100%; height: 100% }\n\
    @media screen and (max-width: 768px) { .harbour { display: none; box-sizing: border-box } }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_first_visit_is_encoded_with_a_shipped_dictionary() -> Result<()> {
    let origin = origin(|request| {
        if request.uri().path().ends_with(".css") {
            return answer(200, &[("Content-Type", "text/css")], STYLES);
        }
        let page = "<!doctype html><link rel=stylesheet href=\"/site.css\"><p>";
        answer(200, &[("Content-Type", "text/html")], page)
    })
    .await?;
    let slow = Link::Paced(BitRate::kbps(384));
    let pair = Pair::start(both_hosts(&origin).over(slow).counted()).await?;
    let visitor = Visitor::new(pair.proxy());
    let sheet = "http://site.test/site.css";
    let visit = visitor.visit("http://site.test/", &[sheet]).await?;
    assert!(body(visit.object(sheet)) == STYLES.as_bytes());
    let status = pair.status().await?;
    assert_eq!(status["dictionaries_used"], 1);
    assert_eq!(base_counts(&pair).await?, (0, 0));
    Ok(())
}

fn hop() -> Link {
    Link::Paced(BitRate::kbps(8_000))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_edition_of_a_page_costs_its_difference() -> Result<()> {
    let origin = site().await?;
    let mut pair = Pair::start(both_hosts(&origin).over(hop()).counted()).await?;
    let visitor = Visitor::new(pair.proxy());
    let first = visit(&pair, &visitor, 1).await?;
    if !accelerates_page_loads(&pair.status().await?) {
        println!("SKIPPED: this agent does not accelerate page loads");
        return Ok(());
    }
    visit_until_held(&pair, &visitor, 1).await?;
    let second = visit(&pair, &visitor, 2).await?;
    assert_eq!(base_counts(&pair).await?, (2, 0));
    assert!(second < first / 8, "{second} of {first} B");
    visit_until_held(&pair, &visitor, 2).await?;
    // The gateway's record of the agent's bodies outlives a restart of the gateway.
    pair.kill_gateway().await?;
    pair.start_gateway().await?;
    let third = visit(&pair, &visitor, 3).await?;
    assert!(third < first / 8, "{third} of {first} B behind a restart");
    println!("editions: {first} B, then {second} B and {third} B");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_devices_do_not_share_delta_bases() -> Result<()> {
    let origin = site().await?;
    let pair = Pair::start(both_hosts(&origin).over(hop()).counted()).await?;
    if !accelerates_page_loads(&pair.status().await?) {
        println!("SKIPPED: this agent does not accelerate page loads");
        return Ok(());
    }
    let mine = "http://site.test/mine";
    let user = |name: &str| Visitor::new(pair.proxy()).with_cookie("site.test", "sid", name);
    // Without `Referer` on plain http, the requester is unknown, and the request could come from any site.
    let page = async |name: &str, url: &str| {
        let by_itself = [
            ("Referer", "http://site.test/"),
            ("Upgrade-Insecure-Requests", "1"),
        ];
        user(name).fetch(url, "text/html,*/*;q=0.8", &by_itself).await
    };
    let page_of = |name: &str| text(3, format!("sid={name}").bytes().map(u64::from).sum());
    for name in ["ann", "bob", "ann", "carl", "bob"] {
        assert!(body(&page(name, mine).await?) == page_of(name), "{name}");
        visit_until_held(&pair, &Visitor::new(pair.proxy()), 1).await?;
    }
    assert_eq!(
        base_counts(&pair).await?.0,
        0,
        "another user's page was used as a base"
    );
    // Another page of the same user may be the base.
    let again = page("ann", "http://site.test/mine?again").await?;
    assert_eq!(body(&again).len(), page_of("ann").len());
    assert_eq!(base_counts(&pair).await?, (1, 0));
    let second = pair.second_agent("second").await?;
    let page = Visitor::new(second.address()).page("http://site.test/2").await?;
    assert!(body(&page) == document(2));
    let status = status(control(&pair.folder().join("second"))?).await?;
    assert_eq!(status["bases_used"], 0, "another device's page was its base");
    Ok(())
}
