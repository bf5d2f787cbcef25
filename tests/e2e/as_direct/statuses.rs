//! Statuses outside of the usual range, and bodies that break off before their first byte.
use super::*;

#[tokio::test]
async fn every_final_status_arrives_with_its_body() -> Result<()> {
    let site = BothWays::start(|request| {
        let status = request.path().trim_start_matches('/').split('?').next().unwrap_or_default();
        let is_bodyless = ["204", "304"].contains(&status);
        let body = if is_bodyless { "" } else { "the reason" };
        let length = if is_bodyless { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        format!("HTTP/1.1 {status} Odd\r\nContent-Type: text/html\r\nX-Own: 1\r\nCache-Control: max-age=60\r\n{length}\r\n{body}")
            .into_bytes()
    })
    .await?;
    for status in [
        "200", "299", "399", "418", "499", "520", "599", "600", "666", "799", "999",
    ] {
        let direct = site.compare("GET", &format!("/{status}"), &[]).await?;
        assert_eq!(direct.status.to_string(), status);
        site.compare("POST", &format!("/{status}"), &[("Content-Length", "0")])
            .await?;
        let page = [
            ("User-Agent", "Mozilla/5.0"),
            ("Accept-Encoding", "gzip, deflate"),
            ("Upgrade-Insecure-Requests", "1"),
        ];
        site.compare("GET", &format!("/{status}?page"), &page).await?;
    }
    Ok(())
}

/// An origin that sends a head with these fields and nothing of the body.
async fn broken(fields: &'static str) -> Result<(RawOrigin, Pair)> {
    let origin = RawOrigin::start(move |_| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Own: 1\r\n{fields}\r\n").into_bytes()
    })
    .await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    Ok((origin, pair))
}

#[tokio::test]
async fn a_body_without_its_first_byte_is_the_origins_fault() -> Result<()> {
    for fields in ["Content-Length: 5000\r\n", "Transfer-Encoding: chunked\r\n"] {
        let (_origin, pair) = broken(fields).await?;
        let program = ask(pair.proxy(), request("GET", "http://site.test/x", &[])).await?;
        assert_eq!(
            (program.status, program.ending),
            (200, Ending::Truncated),
            "{program:?}"
        );
        assert_eq!((program.field("x-own"), program.body.len()), (Some("1"), 0));
        let navigation = [("Upgrade-Insecure-Requests", "1"), ("User-Agent", "Mozilla/5.0")];
        let page = ask(pair.proxy(), request("GET", "http://site.test/page", &navigation)).await?;
        let text = page.text();
        assert_eq!(page.status, 502, "{text}");
        assert!(text.contains("website") && text.contains("first byte"), "{text}");
        assert!(
            !text.contains("answer is not valid") && !text.contains("gateway&#39;s"),
            "{text}"
        );
    }
    Ok(())
}
