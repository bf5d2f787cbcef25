//! Images at the image level of the device's user; all other bodies are the origin's.
use std::sync::Arc;

use anyhow::Result;
use jpeg_encoder::{ColorType, Encoder};
use longhaul_tests::{
    client::{RawResponse, ask},
    origin::Origin,
};
use longhaul_types::BitRate;

use super::{answer, body, both_hosts, origin, request_count, request_field, visitor::Visitor};
use crate::{
    content::noise,
    pair::{Link, Pair, Setup},
};

const PAGE: &str = "http://site.test/";
const PICTURE: &str = "http://site.test/a.jpg";
const DISPLAYED: &str = "image/avif,image/webp,image/*,*/*;q=0.8";

/// A detailed image, efficiently encoded.
fn picture() -> Vec<u8> {
    const SIDE: u16 = 320;
    let grain = noise(usize::from(SIDE) * usize::from(SIDE), 5);
    let mut pixels = Vec::new();
    for (place, grain) in grain.iter().enumerate() {
        let (x, y) = (place % usize::from(SIDE), place / usize::from(SIDE));
        let shade = |value: usize| u8::try_from(value % 256).unwrap_or(0);
        let wave = shade((x * x / 37 + y * 3) % 200);
        pixels.extend([wave, shade(y / 2) ^ (grain & 15), shade(x / 2)]);
    }
    let mut file = Vec::new();
    Encoder::new(&mut file, 95)
        .encode(&pixels, SIDE, SIDE, ColorType::Rgb)
        .expect("a picture");
    file
}

/// `/` displays `/a.jpg`; `/kept.jpg` has `no-transform`; `/broken.jpg` is not an image.
pub(super) async fn gallery() -> Result<(Origin, Arc<Vec<u8>>)> {
    let file = Arc::new(picture());
    let held = Arc::clone(&file);
    let origin = origin(move |request| {
        let jpeg = ("Content-Type", "image/jpeg");
        let fresh = ("Cache-Control", "max-age=60");
        let tag = ("ETag", "\"original\"");
        match request.uri().path() {
            "/" => answer(
                200,
                &[("Content-Type", "text/html")],
                "<!doctype html><p><img src=a.jpg><img src=kept.jpg><img src=broken.jpg>",
            ),
            "/kept.jpg" => {
                let fields = [jpeg, ("Cache-Control", "max-age=60, no-transform")];
                answer(200, &fields, held.as_ref().clone())
            }
            "/broken.jpg" => answer(200, &[jpeg, fresh], held[..held.len() / 3].to_vec()),
            _ if request_field(request, "if-none-match") == tag.1 => answer(304, &[tag], ""),
            _ => answer(200, &[jpeg, fresh, tag], held.as_ref().clone()),
        }
    })
    .await?;
    Ok((origin, file))
}

pub(super) fn with_image_level(setup: Setup, level: &str) -> Setup {
    let mut arguments = setup.agent_arguments.clone();
    arguments.extend(["--image-level".to_owned(), level.to_owned()]);
    Setup {
        agent_arguments: arguments,
        link: Link::Paced(BitRate::kbps(1_000)),
        ..setup
    }
}

fn field<'a>(response: &'a RawResponse, name: &str) -> &'a str {
    response.all(name).into_iter().next().unwrap_or_default()
}

fn assert_smaller(response: &RawResponse, original: &[u8]) {
    let small = body(response);
    assert_eq!((&small[..4], &small[8..12]), (&b"RIFF"[..], &b"WEBP"[..]));
    assert!(
        small.len() < original.len() / 2,
        "{} of {} B",
        small.len(),
        original.len()
    );
    assert_eq!(field(response, "content-type"), "image/webp");
    assert_eq!(field(response, "x-longhaul"), "image=low");
    assert_ne!(field(response, "etag"), "\"original\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_displayed_images_are_transcoded() -> Result<()> {
    let (origin, original) = gallery().await?;
    let pair = Pair::start(with_image_level(both_hosts(&origin), "low")).await?;
    // By its User-Agent, this browser is known to accept WebP.
    let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36";
    let visitor = Visitor::new(pair.proxy()).with_user_agent(chrome);
    let names = ["a.jpg", "kept.jpg", "broken.jpg"].map(|name| format!("{PAGE}{name}"));
    let urls: Vec<&str> = names.iter().map(String::as_str).collect();
    let visit = visitor.visit(PAGE, &urls).await?;
    let small = visit.object(PICTURE);
    assert_smaller(small, &original);
    assert!(body(visit.object(urls[1])) == original.as_slice(), "no-transform");
    assert!(
        body(visit.object(urls[2])) == &original[..original.len() / 3],
        "no picture"
    );
    // Requests of scripts, range requests and navigations get the original.
    let exact = visitor.fetch(PICTURE, "*/*", &[("Referer", PAGE)]).await?;
    assert!(body(&exact) == original.as_slice(), "for scripts");
    assert_eq!(field(&exact, "etag"), "\"original\"");
    let range = [("Referer", PAGE), ("Range", "bytes=0-99")];
    let part = visitor.fetch(PICTURE, DISPLAYED, &range).await?;
    assert!(
        !part.body.starts_with(b"RIFF"),
        "the range is of the transcoded image"
    );
    let opened = visitor
        .fetch(PICTURE, "text/html,image/webp,*/*;q=0.8", &[])
        .await?;
    assert!(body(&opened) == original.as_slice(), "opened alone");
    // Conditional request of a browser that has the image.
    let tag = field(small, "etag").to_owned();
    let again = [
        ("Referer", PAGE),
        ("If-None-Match", tag.as_str()),
        ("Cache-Control", "max-age=0"),
    ];
    let again = visitor.fetch(PICTURE, DISPLAYED, &again).await?;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let wanted = visitor
        .object(PAGE, PICTURE, &[("Cache-Control", "no-cache")])
        .await?;
    assert!(body(&wanted) == original.as_slice(), "reloaded without caches");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_with_different_image_levels_share_one_origin_fetch() -> Result<()> {
    let (origin, original) = gallery().await?;
    let pair = Pair::start(with_image_level(both_hosts(&origin), "low")).await?;
    let first = Visitor::new(pair.proxy()).object(PAGE, PICTURE, &[]).await?;
    assert_smaller(&first, &original);
    let second = pair
        .second_agent_with("second", &["--image-level", "original"])
        .await?;
    let other = Visitor::new(second.address()).object(PAGE, PICTURE, &[]).await?;
    assert!(body(&other) == original.as_slice());
    assert_eq!(
        request_count(&origin, "/a.jpg"),
        1,
        "the gateway fetched the image once"
    );
    Ok(())
}

/// Sets the image level at the dashboard.
async fn set_image_level(pair: &Pair, level: &str) -> Result<()> {
    let control = pair.control()?;
    let token = std::fs::read_to_string(pair.folder().join("agent/control-token"))?;
    let pressed = format!(
        "POST /pictures?level={level} HTTP/1.1\r\nHost: {control}\r\nOrigin: http://{control}\r\nContent-Length: 0\r\n\
         Authorization: Bearer {}\r\nConnection: close\r\n\r\n",
        token.trim()
    );
    let response = ask(control, pressed).await?;
    assert_eq!((response.status, field(&response, "location")), (303, "/"));
    assert_eq!(pair.status().await?["image_level"], level);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn image_level_text_omits_images_until_they_are_requested() -> Result<()> {
    let (origin, original) = gallery().await?;
    let pair = Pair::start(with_image_level(both_hosts(&origin), "text")).await?;
    let visitor = Visitor::new(pair.proxy());
    let visit = visitor.visit(PAGE, &[PICTURE]).await?;
    assert_eq!(visit.page.status, 200);
    let hidden = visit.object(PICTURE);
    assert_eq!((hidden.status, hidden.body.len()), (204, 0));
    assert_eq!(field(hidden, "x-longhaul"), "image=text");
    assert_eq!(
        request_count(&origin, "/a.jpg"),
        0,
        "level `text`: the gateway does not fetch the image in advance"
    );
    let status = pair.status().await?;
    assert_eq!(status["exits"]["lookup.image-replaced"], 1);
    // A reload that bypasses caches gets the original images.
    let reload = [("Cache-Control", "no-cache"), ("Pragma", "no-cache")];
    let page = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8";
    assert_eq!(visitor.fetch(PAGE, page, &reload).await?.status, 200);
    let asked = visitor.object(PAGE, PICTURE, &reload).await?;
    assert!(body(&asked) == original.as_slice(), "after the reload");
    // Change the level during the session.
    set_image_level(&pair, "low").await?;
    let another = |n: u8| format!("http://site.test/another.jpg?{n}");
    let mut smaller = visitor.object(PAGE, &another(0), &[]).await?;
    for n in 1..20 {
        // The agent sends the level on its control stream, and a request can overtake it.
        if field(&smaller, "x-longhaul").is_empty() {
            smaller = visitor.object(PAGE, &another(n), &[]).await?;
        }
    }
    assert_smaller(&smaller, &original);
    set_image_level(&pair, "original").await?;
    Ok(())
}
