//! Pages of other sites do not learn which objects this device holds, neither by the time of a response nor
//! by sizes on the hop.
use anyhow::Result;
use longhaul_tests::relay::Direction;
use longhaul_types::BitRate;

use super::{answer, body, both_hosts, origin, request_count, request_field, site, visitor::Visitor};
use crate::{
    content::prose,
    pair::{Link, Pair},
};

const OWN: &str = "http://site.test/";
const OTHER: &str = "http://other.test/";

async fn fresh_response_count(pair: &Pair) -> Result<u64> {
    let status = pair.status().await?;
    Ok(status["exits"]["lookup.fresh"].as_u64().unwrap_or_default())
}

/// A fresh response answers at once only requests from the site on which it was loaded.
#[tokio::test(flavor = "multi_thread")]
async fn objects_cached_for_one_site_do_not_answer_another_site() -> Result<()> {
    let (origin, pair) = site(|request| {
        let fields = [
            ("Cache-Control", "max-age=3600"),
            ("Content-Type", "text/javascript"),
        ];
        answer(200, &fields, format!("/* {} */", request.uri().path()))
    })
    .await?;
    let visitor = Visitor::new(pair.proxy());
    let object = "http://site.test/visited.js";
    visitor.object(OWN, object, &[]).await?;
    while fresh_response_count(&pair).await? == 0 {
        visitor.object(OWN, object, &[]).await?;
    }
    let before = fresh_response_count(&pair).await?;
    let probe = visitor.object(OTHER, object, &[]).await?;
    assert_eq!(body(&probe), b"/* /visited.js */");
    let unknown = visitor.object(OTHER, "http://site.test/never.js", &[]).await?;
    assert_eq!(body(&unknown), b"/* /never.js */");
    assert_eq!(
        fresh_response_count(&pair).await?,
        before,
        "a cached response answered the probe"
    );
    println!(
        "the origin received {} and {} requests",
        request_count(&origin, "/visited.js"),
        request_count(&origin, "/never.js")
    );
    Ok(())
}

/// A page of another site requests URLs with guesses of a secret, and the site repeats the guess in a page as
/// large as the one with the secret. If the page with the secret were used as base, the correct guess would
/// reduce the size.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_another_site_do_not_change_response_sizes() -> Result<()> {
    const SECRET: &str = "c0ffee-5ca1ab1e-facade-deadbeef";
    let origin = origin(|request| {
        let fields = [("Content-Type", "text/html"), ("Cache-Control", "no-cache")];
        let mut page = prose(20_000, 1);
        let is_user = request_field(request, "cookie") == "sid=1";
        match request.uri().query() {
            Some(guess) => page.extend_from_slice(guess.repeat(40).as_bytes()),
            None if is_user => page.extend_from_slice(format!("<p>{SECRET}").as_bytes()),
            None => {}
        }
        answer(200, &fields, page)
    })
    .await?;
    let mut sizes = Vec::new();
    for guess in [
        SECRET,
        "0ffc0e-1ab1e5ca-defaca-beefdead",
        "not-like-it-at-all-in-any-way-x",
    ] {
        let link = Link::Paced(BitRate::kbps(8_000));
        let pair = Pair::start(both_hosts(&origin).over(link)).await?;
        let visitor = Visitor::new(pair.proxy()).with_cookie("site.test", "sid", "1");
        let attack = format!("http://site.test/page?{guess}");
        for _ in 0..5 {
            visitor.object(OTHER, &attack, &[]).await?;
        }
        let before = pair.relay().passed(Direction::Down);
        let page = visitor.page("http://site.test/page").await?;
        assert!(page.text().contains(SECRET));
        sizes.push(pair.relay().passed(Direction::Down) - before);
        assert_eq!(
            pair.status().await?["bases_used"],
            0,
            "a base was used for a guess"
        );
    }
    let (least, most) = (sizes.iter().min(), sizes.iter().max());
    println!("bytes received over the hop: {sizes:?}");
    // The packing of acknowledgements may vary.
    assert!(
        most.zip(least).is_some_and(|(most, least)| most - least < 64),
        "{sizes:?}"
    );
    Ok(())
}
