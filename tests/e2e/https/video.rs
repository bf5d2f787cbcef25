//! Videos over https, accelerated and through tunnels: range requests, and seeking in a browser's `<video>`.
use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin, Seen},
};
use tokio::{sync::watch, time::timeout};

use super::{
    Accelerated, LOAD_LIMIT,
    outage::{Client, FAST, HOSTS, PLAIN, empty_body, outage, pair_with_relay},
    webm::{SECOND_SHOWN, film},
};
use crate::{
    content::{noise, ok, whole},
    pair::LIMIT,
};

const SECONDS: u8 = 120;
const PAGE: &str = "<!doctype html><title>Film</title><link rel=icon href=data:,><p>A film";

/// The range of a request: its first byte and, if present, its last byte.
fn requested_range(headers: &http::HeaderMap) -> Option<(usize, Option<usize>)> {
    let range = headers.get(header::RANGE)?.to_str().ok()?;
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()))
}

/// The response to a request for a file or a range of it, as video servers send it.
fn range_response(file: &Bytes, kind: &str, headers: &http::HeaderMap) -> Response<AnswerBody> {
    let is_same = headers.get(header::IF_RANGE).is_none_or(|tag| tag == "\"v1\"");
    let builder = Response::builder()
        .header(header::CONTENT_TYPE, kind)
        .header(header::CACHE_CONTROL, "max-age=600")
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, "\"v1\"");
    let response = match requested_range(headers).filter(|_| is_same) {
        None => builder.body(whole(file.clone())),
        Some((first, last)) => {
            let last = last.unwrap_or(file.len() - 1);
            builder
                .status(206)
                .header(
                    header::CONTENT_RANGE,
                    format!("bytes {first}-{last}/{}", file.len()),
                )
                .body(whole(file.slice(first..=last)))
        }
    };
    response.expect("a valid response")
}

#[tokio::test(flavor = "multi_thread")]
async fn range_requests_for_a_video_are_answered_correctly() -> Result<()> {
    const LENGTH: usize = 3_000_000;
    let authority = TestAuthority::new()?;
    let video = Bytes::from(noise(LENGTH, 9));
    let all = video.clone();
    let answer = move |request: Request<Incoming>| {
        let all = all.clone();
        async move { range_response(&all, "video/mp4", request.headers()) }
    };
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let names = HOSTS.map(|host| (host, origin.address()));
    let site = Accelerated::start(&names, &authority, FAST).await?;
    for host in HOSTS {
        let mut client = Client::connect(&site, &authority, host).await?;
        // The ranges of a player: the beginning, the index at the end, then forward and backward seeks.
        for (range, if_range, status, expected) in [
            ("bytes=0-", None, 206, 0..LENGTH),
            ("bytes=2900000-", Some("\"v1\""), 206, 2_900_000..LENGTH),
            ("bytes=1000000-1499999", Some("\"v1\""), 206, 1_000_000..1_500_000),
            ("bytes=500000-500000", None, 206, 500_000..500_001),
            ("bytes=100-199", Some("\"v0\""), 200, 0..LENGTH),
        ] {
            let mut request = Request::get("/")
                .header(header::RANGE, range)
                .header("sec-fetch-dest", "video");
            if let Some(tag) = if_range {
                request = request.header(header::IF_RANGE, tag);
            }
            let response = client.send(request, host, "/film.mp4", empty_body()).await?;
            assert_eq!(response.status(), status, "{host} {range}");
            let content_range = response.headers().get(header::CONTENT_RANGE).cloned();
            let is_part = content_range
                .as_ref()
                .map(|range| range.to_str().unwrap_or_default().to_owned());
            let whole = format!("bytes {}-{}/{LENGTH}", expected.start, expected.end - 1);
            assert_eq!(is_part, (status == 206).then_some(whole), "{host} {range}");
            let body = response.into_body().collect().await?.to_bytes();
            assert!(
                body == video.slice(expected),
                "{host} {range}: {} bytes",
                body.len()
            );
        }
        let whole = client.get(host, "/film.mp4").await?;
        assert_eq!(whole.status(), 200);
        assert!(
            whole.into_body().collect().await?.to_bytes() == video,
            "{host}: a range was stored as the complete file"
        );
    }
    Ok(())
}

/// Plays the film from three positions in a page; the picture must show the current second soon after the
/// seek and a second later.
fn play_script() -> String {
    format!(
        "new Promise((done, fail) => {{
    const shown = {SECOND_SHOWN};
    const video = document.createElement('video');
    const next = name => new Promise(go => video.addEventListener(name, go, {{ once: true }}));
    const isAt = to => {{
        const is = shown(video);
        if (is != Math.floor(to)) throw new Error(`second ${{is}} at ${{to}}`);
    }};
    const frame = () => new Promise(go => requestAnimationFrame(go));
    const watch = async from => {{
        // The picture may be displayed after the event.
        for (let tries = 0; tries < 300 && shown(video) != Math.floor(video.currentTime); tries++) await frame();
        isAt(video.currentTime);
        for (;;) {{
            await next('timeupdate');
            const at = video.currentTime, part = at % 1;
            // Not close to the change from one second's picture to the next.
            if (at > from + 1 && part > 0.3 && part < 0.7) return isAt(at);
        }}
    }};
    const all = async () => {{
        await next('loadeddata');
        await video.play();
        for (const to of [60.5, 110.5, 20.5]) {{
            const seeked = next('seeked');
            video.currentTime = to;
            await seeked;
            await watch(to);
        }}
        done(`${{video.duration}} s, ${{video.videoWidth}} pixels`);
    }};
    video.onerror = () => fail(new Error(video.error.message));
    video.muted = true; video.preload = 'auto'; video.src = '/film.webm';
    document.body.append(video);
    all().catch(fail);
}})"
    )
}

/// First bytes of the requested ranges.
fn range_starts(seen: &[Seen]) -> Vec<usize> {
    let films = seen.iter().filter(|seen| seen.path == "/film.webm");
    films
        .filter_map(|seen| Some(requested_range(&seen.headers)?.0))
        .collect()
}

/// A browser seeks in a film; the response for the second position arrives during an outage.
async fn seek_in_a_film_of(host: &str) -> Result<()> {
    let authority = TestAuthority::new()?;
    let film = Bytes::from(film(SECONDS)?);
    let length = film.len();
    let (asked, away) = (watch::Sender::new(false), watch::Sender::new(false));
    let (told, gone) = (asked.clone(), away.clone());
    let answer = move |request: Request<Incoming>| {
        let (film, told) = (film.clone(), told.clone());
        let mut gone = gone.subscribe();
        async move {
            if request.uri().path() != "/film.webm" {
                return ok("text/html", PAGE);
            }
            // Offsets of the second position, without the index behind it.
            let place = length / 6 * 5..length / 20 * 19;
            if requested_range(request.headers()).is_some_and(|(first, _)| place.contains(&first)) {
                told.send_replace(true);
                let _gone = gone.wait_for(|gone| *gone).await;
            }
            range_response(&film, "video/webm", request.headers())
        }
    };
    let origin = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let site = pair_with_relay(&authority, origin.address()).await?;
    let mut browser = site.browser(&[authority.pin()]).await?;
    let (url, script) = (format!("https://{host}/"), play_script());
    let plays = async { Ok(browser.evaluate(&url, &script, 2 * LOAD_LIMIT).await?) };
    let outage = async {
        let mut asked = asked.subscribe();
        timeout(LIMIT, asked.wait_for(|asked| *asked))
            .await
            .context("the second position was not requested")??;
        outage(&site, async {
            away.send_replace(true);
            Ok(())
        })
        .await
    };
    let (result, ()) = tokio::try_join!(plays, outage)?;
    assert_eq!(result, format!("{SECONDS} s, 320 pixels"));
    let seen = origin.seen();
    let from = range_starts(&seen);
    println!("{host}: a film of {length} bytes, requested from the offsets {from:?}");
    for place in [60, 110] {
        let second = length / usize::from(SECONDS) * place;
        let near = second - length / 20..second + length / 20;
        assert!(
            from.iter().any(|first| near.contains(first)),
            "position {place} s: {from:?}"
        );
    }
    let is_relayed = |seen: &Seen| seen.headers.contains_key("via");
    assert!(seen.iter().all(|seen| is_relayed(seen) == (host == FAST)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_of_an_accelerated_host_seeks_across_an_outage() -> Result<()> {
    seek_in_a_film_of(FAST).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_in_a_tunnel_seeks_across_an_outage() -> Result<()> {
    seek_in_a_film_of(PLAIN).await
}
