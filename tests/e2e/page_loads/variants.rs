//! Variants: the request fields that `Vary` names select the response.
use anyhow::Result;

use super::{answer, body, page, request_field, site, visitor::Visitor};

/// Several visitors with different values of a request field load a page and an object that vary with it,
/// twice and on two devices.
async fn varies_with(
    field: &'static str,
    visitors: impl Fn(std::net::SocketAddr) -> Vec<Visitor>,
) -> Result<()> {
    let (_origin, pair) = site(move |request| {
        let value = request_field(request, field);
        let fields = [
            ("Vary", field),
            ("Cache-Control", "public, max-age=600"),
            ("Content-Type", "text/html"),
        ];
        let text = match request.uri().path() {
            "/" => format!("{}for <{value}>", page(&["text.js", "text.css", "text.gif"])),
            path => format!("{path} for <{value}>"),
        };
        answer(200, &fields, text)
    })
    .await?;
    let second = pair.second_agent("second").await?;
    let objects = ["text.js", "text.css", "text.gif"].map(|name| format!("http://site.test/{name}"));
    let urls: Vec<&str> = objects.iter().map(String::as_str).collect();
    for round in 0..2 {
        for proxy in [pair.proxy(), second.address()] {
            for (number, visitor) in visitors(proxy).into_iter().enumerate() {
                let visit = visitor.visit("http://site.test/", &urls).await?;
                let mut expected = None;
                for response in urls.iter().map(|url| visit.object(url)).chain([&visit.page]) {
                    let text = String::from_utf8_lossy(body(response)).into_owned();
                    let variant = text
                        .split_once("for <")
                        .expect("the value in the text")
                        .1
                        .to_owned();
                    let same = expected.get_or_insert_with(|| variant.clone()) == &variant;
                    assert!(
                        same,
                        "round {round}, visitor {number}: {text} beside {expected:?}"
                    );
                    assert_eq!(
                        response.field("vary").map(str::to_ascii_lowercase),
                        Some(field.to_ascii_lowercase())
                    );
                }
                let expected = expected.expect("at least the page");
                assert_eq!(
                    expected.trim_end_matches('>'),
                    expected_value(&visitor, field, number),
                    "round {round}, visitor {number}"
                );
            }
        }
    }
    Ok(())
}

fn expected_value(visitor: &Visitor, field: &str, number: usize) -> String {
    match field {
        "Cookie" => visitor.cookie("site.test"),
        "Accept-Language" => ["de", "fr, en;q=0.2"][number].to_owned(),
        _ => ["Browser/1", "Browser/2 (mobile)"][number].to_owned(),
    }
}

#[tokio::test]
async fn variants_by_language_are_kept_apart() -> Result<()> {
    varies_with("Accept-Language", |proxy| {
        vec![
            Visitor::new(proxy).with_language("de"),
            Visitor::new(proxy).with_language("fr, en;q=0.2"),
        ]
    })
    .await
}

#[tokio::test]
async fn variants_by_user_agent_are_kept_apart() -> Result<()> {
    varies_with("User-Agent", |proxy| {
        vec![
            Visitor::new(proxy).with_user_agent("Browser/1"),
            Visitor::new(proxy).with_user_agent("Browser/2 (mobile)"),
        ]
    })
    .await
}

#[tokio::test]
async fn variants_by_cookie_are_kept_apart() -> Result<()> {
    varies_with("Cookie", |proxy| {
        ["one", "two"]
            .map(|value| Visitor::new(proxy).with_cookie("site.test", "who", value))
            .into()
    })
    .await
}

/// A response that allows one origin by CORS does not answer requests of another origin.
#[tokio::test]
async fn variants_by_cors_origin_are_kept_apart() -> Result<()> {
    let (_origin, pair) = site(|request| {
        let origin = request_field(request, "origin");
        let fields = [
            ("Vary", "Origin"),
            (
                "Access-Control-Allow-Origin",
                if origin.is_empty() { "null" } else { &origin },
            ),
            ("Cache-Control", "public, max-age=600"),
            ("Cross-Origin-Resource-Policy", "cross-origin"),
            ("Timing-Allow-Origin", "*"),
        ];
        match request.uri().path() {
            "/data.json" => answer(200, &fields, format!("for {origin}")),
            _ => answer(
                200,
                &[("Content-Type", "text/html")],
                page(&["http://other.test/data.json"]),
            ),
        }
    })
    .await?;
    let visitor = Visitor::new(pair.proxy());
    for _ in 0..2 {
        for from in ["http://site.test", "http://shop.test", ""] {
            visitor.page("http://site.test/").await?;
            let fields: &[_] = if from.is_empty() { &[] } else { &[("Origin", from)] };
            let data = visitor
                .object("http://site.test/", "http://other.test/data.json", fields)
                .await?;
            assert_eq!(body(&data), format!("for {from}").as_bytes());
            let allowed = if from.is_empty() { "null" } else { from };
            assert_eq!(data.all("access-control-allow-origin"), [allowed]);
            assert_eq!(data.field("cross-origin-resource-policy"), Some("cross-origin"));
            assert_eq!(data.field("timing-allow-origin"), Some("*"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn responses_with_vary_star_are_fetched_each_time() -> Result<()> {
    let (origin, pair) = site(|request| {
        let fields = [("Vary", "*"), ("Cache-Control", "max-age=600")];
        match request.uri().path() {
            "/" => answer(200, &[("Content-Type", "text/html")], page(&["any.js"])),
            _ => answer(200, &fields, request_field(request, "x-number")),
        }
    })
    .await?;
    let visitor = Visitor::new(pair.proxy());
    for number in ["1", "2", "3"] {
        visitor.page("http://site.test/").await?;
        let any = visitor
            .object(
                "http://site.test/",
                "http://site.test/any.js",
                &[("X-Number", number)],
            )
            .await?;
        assert_eq!(body(&any), number.as_bytes());
    }
    assert!(super::request_count(&origin, "/any.js") >= 3);
    Ok(())
}
