//! Freshness and validation: changes at the origin become visible as its fields require.
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;

use super::{answer, body, page, request_field, site, visitor::Visitor};
use crate::content::prose;

const PAGE: &str = "http://site.test/";
/// Path, validator field, and its value with `#` in place of the version's number.
const KINDS: &[(&str, &str, &str)] = &[
    ("/strong.js", "ETag", "\"v#\""),
    ("/weak.css", "ETag", "W/\"v#\""),
    ("/dated.gif", "Last-Modified", "Mon, 0# Mar 2010 10:00:00 GMT"),
    ("/bare.js", "X-None", "#"),
];

fn text(path: &str, version: usize) -> Vec<u8> {
    let words = prose(30_000, 60 + version as u64);
    [format!("{path} in version {version}\n").as_bytes(), &words].concat()
}

/// A response that must be validated is current, wherever copies are stored; a conditional request for the
/// browser's own current copy gets a 304 response.
#[tokio::test]
async fn validated_responses_are_current() -> Result<()> {
    for caching in ["no-cache", "max-age=0, must-revalidate", "private, no-cache"] {
        let version = Arc::new(AtomicUsize::new(1));
        let current = Arc::clone(&version);
        let (origin, pair) = site(move |request| {
            let version = current.load(Relaxed);
            let path = request.uri().path();
            let (_, field, value) =
                KINDS
                    .iter()
                    .find(|(own, ..)| *own == path)
                    .copied()
                    .unwrap_or(("/", "ETag", "\"page#\""));
            let value = value.replace('#', &version.to_string());
            let fields = [
                (field, value.as_str()),
                ("Cache-Control", caching),
                ("Content-Type", "text/html"),
            ];
            let held = request_field(request, "if-none-match") + &request_field(request, "if-modified-since");
            if held == value {
                return answer(304, &fields[..2], "");
            }
            match path {
                "/" => answer(200, &fields, page(&paths())),
                path => answer(200, &fields, text(path, version)),
            }
        })
        .await?;
        let visitor = Visitor::new(pair.proxy());
        for now in [1, 1, 2, 2, 3] {
            version.store(now, Relaxed);
            visitor.page(PAGE).await?;
            for (path, field, value) in KINDS {
                let url = format!("http://site.test{path}");
                let new = visitor.object(PAGE, &url, &[]).await?;
                assert!(
                    body(&new) == text(path, now),
                    "`{caching}`, {path}, version {now}: {:.60}",
                    new.text()
                );
                let condition = match *field {
                    "ETag" => "If-None-Match",
                    "Last-Modified" => "If-Modified-Since",
                    _ => continue,
                };
                let value = value.replace('#', &now.to_string());
                assert_eq!(new.field(field), Some(value.as_str()));
                let same = visitor.object(PAGE, &url, &[(condition, &value)]).await?;
                assert_eq!(
                    same.status, 304,
                    "`{caching}`, {path}, version {now}: {:?}",
                    same.fields
                );
                assert!(same.body.is_empty());
                let older = value.replace(&now.to_string(), "0");
                let newer = visitor.object(PAGE, &url, &[(condition, &older)]).await?;
                if *field == "ETag" {
                    assert!(
                        body(&newer) == text(path, now),
                        "`{caching}`, {path}, version {now}"
                    );
                }
            }
        }
        println!("`{caching}`: {} requests at the origin", origin.seen().len());
    }
    Ok(())
}

fn paths() -> Vec<&'static str> {
    KINDS.iter().map(|(path, ..)| *path).collect()
}

/// A reload reaches the origin, however fresh the stored response is.
#[tokio::test]
async fn reloads_reach_the_origin() -> Result<()> {
    let version = Arc::new(AtomicUsize::new(1));
    let current = Arc::clone(&version);
    let (_origin, pair) = site(move |request| {
        let version = current.load(Relaxed);
        let tag = format!("\"v{version}\"");
        let fields = [
            ("ETag", tag.as_str()),
            ("Cache-Control", "public, max-age=3600"),
            ("Content-Type", "text/html"),
        ];
        match (
            request.uri().path(),
            request_field(request, "if-none-match") == tag,
        ) {
            (_, true) => answer(304, &fields[..2], ""),
            ("/", _) => answer(
                200,
                &fields,
                format!("{}<p>version {version}", page(&["fresh.js"])),
            ),
            (path, _) => answer(200, &fields, text(path, version)),
        }
    })
    .await?;
    let visitor = Visitor::new(pair.proxy());
    let url = "http://site.test/fresh.js";
    visitor.visit(PAGE, &[url]).await?;
    for (now, reload) in [
        (2, "no-cache"),
        (3, "max-age=0"),
        (4, "no-cache"),
        (5, "max-age=0"),
    ] {
        version.store(now, Relaxed);
        // Firefox and older Chromium versions send `Pragma` with a forced reload.
        let fields = [("Cache-Control", reload), ("Pragma", "no-cache")];
        let fields = if reload == "no-cache" {
            &fields[..]
        } else {
            &fields[..1]
        };
        let loaded = visitor.fetch(PAGE, "text/html,*/*;q=0.8", fields).await?;
        assert!(
            loaded.text().ends_with(&format!("<p>version {now}")),
            "{reload}: {}",
            loaded.text()
        );
        let object = visitor.object(PAGE, url, fields).await?;
        assert!(
            body(&object) == text("/fresh.js", now),
            "{reload}: {:.60}",
            object.text()
        );
    }
    Ok(())
}

/// An origin with a wrong clock: a response that its fields declare stale is not reused.
#[tokio::test]
async fn responses_of_origins_with_wrong_clocks_expire_correctly() -> Result<()> {
    let day = Duration::from_secs(86_400);
    let now = SystemTime::now();
    let skews = [now - 3650 * day, now - day, now + day, now + 3650 * day];
    for (number, clock) in skews.into_iter().enumerate() {
        let version = Arc::new(AtomicUsize::new(1));
        let current = Arc::clone(&version);
        let (_origin, pair) = site(move |request| {
            let version = current.load(Relaxed);
            let date = http_date(clock);
            let before = http_date(clock - Duration::from_secs(1));
            let modified = http_date(clock - Duration::from_secs(2));
            let mut fields = vec![("Date", date.as_str()), ("Last-Modified", modified.as_str())];
            match request.uri().path() {
                "/expired.js" => fields.push(("Expires", &before)),
                "/zero.js" => fields.push(("Expires", "0")),
                "/same.js" => fields.push(("Expires", &date)),
                "/age.js" => fields.extend([("Cache-Control", "max-age=60"), ("Age", "61")]),
                _ => {
                    fields.push(("Content-Type", "text/html"));
                    let page = page(&["expired.js", "zero.js", "same.js", "age.js"]);
                    fields.push(("Cache-Control", "no-cache"));
                    return answer(200, &fields, page);
                }
            }
            answer(200, &fields, text(request.uri().path(), version))
        })
        .await?;
        let visitor = Visitor::new(pair.proxy());
        for now in [1, 2, 3] {
            version.store(now, Relaxed);
            visitor.page(PAGE).await?;
            for path in ["/expired.js", "/zero.js", "/same.js", "/age.js"] {
                let url = format!("http://site.test{path}");
                let found = visitor.object(PAGE, &url, &[]).await?;
                assert!(
                    body(&found) == text(path, now),
                    "clock {number}, {path}, version {now}: {:.60}",
                    found.text()
                );
            }
        }
    }
    Ok(())
}

/// A date in the format of HTTP (RFC 9110 section 5.6.7).
fn http_date(at: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut days = seconds / 86_400;
    let weekday = DAYS[usize::try_from(days % 7).unwrap_or(0)];
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{weekday}, {:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT",
        days + 1,
        MONTHS[month]
    )
}

#[test]
fn dates_are_formatted_as_http_dates() {
    let at = |seconds| http_date(UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(at(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
}

/// Pages in old character encodings: bodies are exact, and the gateway requests only objects that a browser
/// would request.
#[tokio::test]
async fn pages_in_old_character_encodings_stay_unchanged() -> Result<()> {
    type Case = (
        &'static str,
        Option<&'static str>,
        Vec<u8>,
        &'static [&'static str],
    );
    let utf16 = |text: &str| {
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        [0xff, 0xfe].into_iter().chain(units).collect::<Vec<u8>>()
    };
    let cases: [Case; 4] = [
        (
            "/western",
            Some("text/html; charset=windows-1252"),
            b"<title>caf\xe9</title><link rel=stylesheet href=\"a.css?q=caf\xe9\"><img src=\"b.gif\">".to_vec(),
            &["/a.css?q=caf%E9", "/b.gif"],
        ),
        (
            "/japanese",
            None,
            b"<meta charset=shift_jis><title>\x93\xfa\x96\x7b</title><script src=\"c.js?q=\x93\xfa\"></script><img src=d.gif>"
                .to_vec(),
            &["/c.js?q=%93%FA", "/d.gif"],
        ),
        (
            "/wide",
            Some("text/html; charset=utf-16"),
            utf16("<title>caf\u{e9}</title><link rel=stylesheet href=e.css><img src=f.gif>"),
            &["/e.css", "/f.gif"],
        ),
        (
            "/lying",
            Some("text/html; charset=utf-8"),
            b"<title>\xe9\xff\xfe</title><link rel=stylesheet href=g.css><img src=\"h.gif\">\xc3".to_vec(),
            &["/g.css", "/h.gif"],
        ),
    ];
    let stored: Vec<_> = cases
        .iter()
        .map(|case| (case.0, case.1, case.2.clone()))
        .collect();
    let (origin, pair) = site(move |request| {
        let path = request.uri().path();
        match stored.iter().find(|(own, ..)| *own == path) {
            Some((_, kind, html)) => {
                let kind = kind.unwrap_or("text/html");
                answer(200, &[("Content-Type", kind)], html.clone())
            }
            None => answer(200, &[("Cache-Control", "max-age=60")], format!("object {path}")),
        }
    })
    .await?;
    for (path, _, html, objects) in &cases {
        let page = format!("http://site.test{path}");
        let urls: Vec<String> = objects
            .iter()
            .map(|path| format!("http://site.test{path}"))
            .collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        for _ in 0..2 {
            let visit = Visitor::new(pair.proxy()).visit(&page, &urls).await?;
            assert!(body(&visit.page) == *html, "{path}");
            for url in &urls {
                let own = url.trim_start_matches("http://site.test");
                let own = own.split('?').next().unwrap_or_default();
                assert_eq!(body(visit.object(url)), format!("object {own}").as_bytes());
            }
        }
    }
    let known: Vec<&str> = cases
        .iter()
        .flat_map(|case| case.3.iter().copied().chain([case.0]))
        .collect();
    for seen in origin.seen() {
        assert!(
            known.contains(&seen.path.as_str()),
            "{} was requested, but no browser would request it",
            seen.path
        );
    }
    Ok(())
}
