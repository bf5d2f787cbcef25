//! Response fields: the browser receives each field of the origin for the URL it belongs to, independent of
//! the source of the body.
use anyhow::Result;

use super::{answer, body, page, request_field, site, visitor::Visitor};
use crate::content::prose;

const PAGE: &str = "http://site.test/";
/// Fields that a proxy forwards unchanged.
const FIELDS: &[(&str, &str)] = &[
    ("Content-Type", "text/x-odd; charset=\"utf-8\"; a=b"),
    ("Content-Language", "de, en"),
    ("Content-Disposition", "inline; filename=\"a b.txt\""),
    ("Content-Location", "/elsewhere"),
    ("Content-Security-Policy", "default-src 'self'; report-uri /r"),
    ("Content-Security-Policy", "img-src *"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Cross-Origin-Resource-Policy", "cross-origin"),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Expose-Headers", "x-one, x-two"),
    ("Timing-Allow-Origin", "*"),
    ("Strict-Transport-Security", "max-age=9"),
    ("Referrer-Policy", "same-origin"),
    ("Permissions-Policy", "camera=()"),
    ("Server-Timing", "db;dur=53"),
    ("SourceMap", "/x.map"),
    ("Last-Modified", "Tue, 04 Mar 2003 10:00:00 GMT"),
    ("Accept-Ranges", "none"),
    ("X-Repeated", "one"),
    ("X-Repeated", "two"),
    ("X-Latin", "caf\u{e9}"),
    ("X-Empty", ""),
];

#[tokio::test]
async fn response_fields_equal_the_origins_fields() -> Result<()> {
    const CACHING: &[(&str, &str)] = &[
        ("fresh.js", "public, max-age=600, immutable"),
        ("private.css", "private, max-age=600"),
        ("checked.gif", "no-cache"),
        ("never.js", "no-store, must-understand"),
        ("as-is.css", "no-transform, max-age=600"),
    ];
    let (_origin, pair) = site(|request| {
        let name = request.uri().path().trim_start_matches('/').to_owned();
        let Some((_, caching)) = CACHING.iter().find(|(own, _)| *own == name) else {
            let names: Vec<&str> = CACHING.iter().map(|(name, _)| *name).collect();
            return answer(200, &[("Content-Type", "text/html")], page(&names));
        };
        let tag = format!("\"{name}\"");
        let mut fields = FIELDS.to_vec();
        fields.extend([
            ("Cache-Control", *caching),
            ("ETag", &tag),
            ("Vary", "Accept-Encoding, X-None"),
        ]);
        if request_field(request, "if-none-match") == tag {
            // A 304 response carries changed fields.
            return answer(304, &[("Cache-Control", *caching), ("ETag", &tag)], "");
        }
        answer(200, &fields, prose(3000, 70))
    })
    .await?;
    let urls: Vec<String> = CACHING.iter().map(|(name, _)| format!("{PAGE}{name}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let visitor = Visitor::new(pair.proxy());
    for round in 0..3 {
        let visit = visitor.visit(PAGE, &urls).await?;
        for ((name, caching), url) in CACHING.iter().zip(&urls) {
            let found = visit.object(url);
            assert!(body(found) == prose(3000, 70), "round {round}: {name}");
            for (field, _) in FIELDS {
                let expected: Vec<&str> = FIELDS
                    .iter()
                    .filter(|(own, _)| own == field)
                    .map(|(_, value)| *value)
                    .collect();
                let values = found.all(field).join(", ");
                let expected = expected.join(", ");
                let latin = expected.contains('\u{e9}') && values.starts_with("caf");
                assert!(
                    latin || values == expected,
                    "round {round}: {name}: {field}: {values}"
                );
            }
            assert_eq!(
                found.field("cache-control"),
                Some(*caching),
                "round {round}: {name}"
            );
            let tag = format!("\"{name}\"");
            assert_eq!(found.all("etag"), [tag.as_str()], "round {round}: {name}");
            assert_eq!(found.all("date").len(), 1, "round {round}: {name}");
            let via = found.all("via").join(", ");
            assert!(via.contains("longhaul"), "round {round}: {name}: via `{via}`");
        }
    }
    Ok(())
}

/// URLs with equal bodies keep their own status and fields.
#[tokio::test]
async fn equal_bodies_keep_their_own_fields() -> Result<()> {
    let names: Vec<String> = (0..20).map(|number| format!("same-{number}.gif")).collect();
    let listed = names.clone();
    let (_origin, pair) = site(move |request| {
        let path = request.uri().path();
        let number: Option<u16> = path
            .strip_prefix("/same-")
            .and_then(|rest| rest.strip_suffix(".gif")?.parse().ok());
        let Some(number) = number else {
            let names: Vec<&str> = listed.iter().map(String::as_str).collect();
            return answer(200, &[("Content-Type", "text/html")], page(&names));
        };
        let own = number.to_string();
        let caching = ["max-age=600", "no-cache", "no-store", ""][usize::from(number % 4)];
        let status = if number == 13 { 404 } else { 200 };
        answer(
            status,
            &[("X-Own", own.as_str()), ("Cache-Control", caching)],
            prose(8000, 71),
        )
    })
    .await?;
    let urls: Vec<String> = names.iter().map(|name| format!("{PAGE}{name}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for round in 0..2 {
        let visit = Visitor::new(pair.proxy()).visit(PAGE, &urls).await?;
        for (number, url) in urls.iter().enumerate() {
            let found = visit.object(url);
            assert_eq!(
                found.status,
                if number == 13 { 404 } else { 200 },
                "round {round}: {url}"
            );
            assert_eq!(found.all("x-own"), [number.to_string()], "round {round}: {url}");
            assert!(found.body == prose(8000, 71), "round {round}: {url}");
        }
    }
    Ok(())
}

/// A browser that sends no `Referer` receives the same responses.
#[tokio::test]
async fn requests_without_referers_are_answered() -> Result<()> {
    let (_origin, pair) = site(|request| match request.uri().path() {
        "/" => answer(
            200,
            &[("Content-Type", "text/html"), ("Referrer-Policy", "no-referrer")],
            page(&["a.js", "b.css", "http://other.test/c.gif"]),
        ),
        path => answer(
            200,
            &[("Cache-Control", "max-age=60")],
            format!("{path} <{}>", request_field(request, "referer")),
        ),
    })
    .await?;
    for round in 0..2 {
        let visitor = Visitor::new(pair.proxy());
        visitor.page(PAGE).await?;
        for url in [
            "http://site.test/a.js",
            "http://site.test/b.css",
            "http://other.test/c.gif",
        ] {
            let found = visitor.fetch(url, "*/*", &[]).await?;
            let path = url.split(".test").nth(1).unwrap_or_default();
            // The gateway must not add a `Referer` either.
            assert_eq!(body(&found), format!("{path} <>").as_bytes(), "round {round}");
        }
    }
    Ok(())
}
