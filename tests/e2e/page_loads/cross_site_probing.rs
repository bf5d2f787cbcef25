//! Pages of other sites do not learn which objects this device holds, neither by the time of a response nor
//! by sizes on the hop.
use anyhow::Result;
use longhaul_types::BitRate;

use super::{answer, body, both_hosts, origin, request_count, request_field, site, visitor::Visitor};
use crate::{
    content::prose,
    hop_bytes::{HopBytes, METRICS, assert_equal_sizes},
    pair::{Link, Pair},
};

const OWN: &str = "http://site.test/";
const OTHER: &str = "http://other.test/";
/// Requested last, before bytes are compared.
const LAST: &str = "http://site.test/last";

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
        if request.uri().path() == "/last" {
            return answer(200, &[("Cache-Control", "no-store")], "last");
        }
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
    let guesses = [
        SECRET,
        "0ffc0e-1ab1e5ca-defaca-beefdead",
        "not-like-it-at-all-in-any-way-x",
    ];
    assert_equal_sizes(&guesses, async |guess| {
        let mut setup = both_hosts(&origin).over(Link::Paced(BitRate::kbps(8_000)));
        setup.gateway_config.push_str(METRICS);
        let pair = Pair::start(setup).await?;
        let visitor = Visitor::new(pair.proxy()).with_cookie("site.test", "sid", "1");
        let attack = format!("http://site.test/page?{guess}");
        let mut received = 0;
        for _ in 0..5 {
            received += body(&visitor.object(OTHER, &attack, &[]).await?).len();
        }
        received += body(&visitor.object(OTHER, LAST, &[]).await?).len();
        let before = HopBytes::of(&pair, received).await?;
        let page = visitor.page("http://site.test/page").await?;
        assert!(page.text().contains(SECRET));
        received += page.body.len();
        received += body(&visitor.object(OTHER, LAST, &[]).await?).len();
        let size = HopBytes::of(&pair, received).await?.since(&before);
        let used = &pair.status().await?["bases_used"];
        assert_eq!(*used, 0, "a base was used for a guess");
        Ok(size)
    })
    .await
}
