//! Messages with invalid references, contradictions, or in states that do not allow them.
use anyhow::{Result, bail, ensure};
use longhaul_driver::{CloseReason, End};
use longhaul_session::{
    AcceleratedHosts, Ask, Body, BodyCoding, CacheStateId, Cancel, Continue, Dictionaries, EntryId, Evicted,
    FailureReason, Fetch, FetchId, HeaderSets, Hello, Holding, ImageLevel, Message, Method, Mixing, NewKey,
    Preferences, Resume, ShortHash, SiteImages, TunnelOpen, TunnelSecurity, Used, Validator, VersionRange,
    Want,
};
use longhaul_types::ContentHash;

use super::{
    assert_others_served,
    harness::{HostileDevice, fetch, fetch_with, hello, page_fetch, page_of, wire},
    setup, wait_for_request,
};

const SITE: &str = "http://site.test/";

fn failure(message: Message) -> Result<FailureReason> {
    match message {
        Message::Failed(failed) => Ok(failed.reason),
        other => bail!("{other:?}"),
    }
}

/// Unknown pages, unknown entries, and hashes of bodies that do not exist.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_references_have_no_effect() -> Result<()> {
    let (_origin, pair) = setup().await?;
    let mut device = HostileDevice::connect(&pair).await?;
    for page in [0, 1, 2, 3, 1 << 40, u64::MAX].map(page_of) {
        for entry in [0, 1, 4095, u32::MAX].map(EntryId::new) {
            device.send_control(&Message::Want(Want { page, entry })).await;
        }
        let entries = (0..40_000_u32)
            .map(|number| EntryId::new(number.wrapping_mul(0x9e37_79b9)))
            .collect();
        device.send_control(&Message::Ask(Ask { page, entries })).await;
        device
            .send_control(&Message::Used(Used {
                page,
                taken: vec![0xff; 200_000],
            }))
            .await;
        device
            .send_control(&Message::Cancel(Cancel { fetch: page.fetch() }))
            .await;
        let hashes = (0..40_000_u32).map(|number| {
            let [a, b, c, d] = number.to_be_bytes();
            ShortHash::from_bytes([a, b, c, d, 1, 2])
        });
        let hashes: Vec<_> = hashes.collect();
        device
            .send_control(&Message::Holding(Holding {
                page,
                hashes: hashes.clone(),
            }))
            .await;
        device.send_control(&Message::Evicted(Evicted { hashes })).await;
    }
    // The control stream is still processed, and a valid page load succeeds.
    let head = device.head(page_fetch(7, SITE)).await?;
    ensure!(head.status == 200, "{head:?}");
    let page = page_of(7);
    for entry in [0, 1, 2, u32::MAX].map(EntryId::new) {
        for _ in 0..100 {
            device.send_control(&Message::Want(Want { page, entry })).await;
        }
    }
    device
        .send_control(&Message::Used(Used {
            page,
            taken: vec![0xff; 100],
        }))
        .await;
    let head = device.head(fetch(8, SITE)).await?;
    ensure!(head.status == 200, "{head:?}");
    assert_others_served(&pair, "references").await
}

/// Fetch numbers: zero, the maximum, and duplicates.
#[tokio::test(flavor = "multi_thread")]
async fn unusual_fetch_numbers_affect_only_the_device() -> Result<()> {
    let (origin, pair) = setup().await?;
    let mut device = HostileDevice::connect(&pair).await?;
    for id in [0, u64::MAX, u64::MAX - 1, 1] {
        let head = device.head(page_fetch(id, SITE)).await?;
        ensure!(head.status == 200, "{id}: {head:?}");
    }
    let _waiting = device
        .open_stream(
            wire(&Message::Fetch(fetch(50, "http://site.test/never"))),
            End::Finish,
        )
        .await;
    wait_for_request(&origin, "/never").await?;
    let mut refused = 0;
    for _ in 0..20 {
        refused += usize::from(failure(device.request(fetch(50, SITE)).await?)? == FailureReason::Malformed);
    }
    ensure!(
        refused == 20,
        "{refused} of 20 fetches of a number in use were refused"
    );
    assert_others_served(&pair, "numbers").await
}

/// Header sets with unknown bases, and header sets that grow.
#[tokio::test(flavor = "multi_thread")]
async fn header_sets_with_unknown_bases_fail_and_memory_is_bounded() -> Result<()> {
    let (_origin, pair) = setup().await?;
    let mut device = HostileDevice::connect(&pair).await?;
    let mut sets = HeaderSets::new();
    let large: Vec<_> = (0..500).map(|n| (format!("x-{n}"), vec![b'v'; 115])).collect();
    sets.insert(FetchId::new(3), large.clone());
    let forged = fetch_with(9, SITE, &large, Some(3), &sets);
    ensure!(failure(device.request(forged).await?)? == FailureReason::UnknownBase);
    let shared = Fetch {
        url_shared: 40_000,
        ..fetch_with(10, "x", &large, Some(3), &sets)
    };
    ensure!(failure(device.request(shared).await?)? == FailureReason::UnknownBase);
    // 60 KiB in the first one, and a few bytes in each of the following.
    let before = super::gateway_peak_memory(&pair);
    let mut sets = HeaderSets::new();
    for id in 100..500 {
        let next = fetch_with(id, SITE, &large, (id > 100).then_some(id - 1), &sets);
        sets.insert(FetchId::new(id), large.clone());
        if id > 100 {
            let cost = wire(&Message::Fetch(next.clone())).len();
            ensure!(cost < 200, "{cost} bytes");
        }
        // An origin may reject such a header section; the gateway keeps it for later fetches.
        device.request(next).await?;
    }
    let held = super::gateway_peak_memory(&pair);
    println!("400 header sets of 60 KiB: {before} MB before, {held} MB then");
    ensure!(held < before + 120, "{held} MB");
    // References to fetches that do not exist yet.
    for seen in [u64::MAX, 1 << 50, 1] {
        let head = device
            .head(Fetch {
                seen: Some(FetchId::new(seen)),
                ..fetch(600 + (seen & 1), SITE)
            })
            .await;
        ensure!(head.is_ok(), "{seen}: {head:?}");
        device.request(fetch(700 + (seen & 1), SITE)).await?;
    }
    assert_others_served(&pair, "header sets").await
}

/// Upload bodies that are not announced, have a wrong length, or contain invalid windows.
#[tokio::test(flavor = "multi_thread")]
async fn inconsistent_uploads_fail() -> Result<()> {
    let (_origin, pair) = setup().await?;
    let mut device = HostileDevice::connect(&pair).await?;
    let body = |coding, length, offset| {
        wire(&Message::Body(Body {
            coding,
            length,
            offset,
            base: None,
        }))
    };
    let noise = crate::content::noise(50_000, 4);
    let mut id = 1;
    for coding in [
        BodyCoding::Identity,
        BodyCoding::Zstd,
        BodyCoding::Brotli,
        BodyCoding::Mix,
    ] {
        for (what, behind) in [
            ("an offset", [body(coding, None, 5), noise.clone()].concat()),
            ("no windows", body(coding, Some(10), 0)),
            ("nonsense", [body(coding, None, 0), noise.clone()].concat()),
            (
                "an absurd length",
                [body(coding, Some(u64::MAX), 0), noise.clone()].concat(),
            ),
            ("no body", wire(&hello())),
            ("nothing", Vec::new()),
        ] {
            id += 1;
            let upload = Fetch {
                method: Method::Post,
                has_body: true,
                ..fetch(id, SITE)
            };
            let bytes = [wire(&Message::Fetch(upload)), behind].concat();
            let stream = device.open_stream(bytes, End::Finish).await;
            ensure!(stream.is_some(), "{what}: no stream");
            match device.response_to(FetchId::new(id)).await? {
                Message::Failed(failed) => println!("{coding:?}, {what}: {:?}", failed.reason),
                // An origin may refuse a length before any byte arrives.
                Message::Head(head) => ensure!(head.status >= 400, "{coding:?}, {what}: {}", head.status),
                other => bail!("{coding:?}, {what}: {other:?}"),
            }
        }
    }
    let resume = |offset| Fetch {
        resume: Some(Resume {
            offset,
            validator: Validator::ContentHash(ContentHash::of(b"other")),
        }),
        ..fetch(500, "http://site.test/honest.js")
    };
    for offset in [u64::MAX, 1 << 62, 30_001] {
        let answer = device.request(resume(offset)).await?;
        println!("resumed at {offset}: {:.80}", format!("{answer:?}"));
    }
    assert_others_served(&pair, "uploads").await
}

/// Hello messages: none, two, of other versions; and streams that begin with an invalid message.
#[tokio::test(flavor = "multi_thread")]
async fn hello_messages_are_validated() -> Result<()> {
    let (_origin, pair) = setup().await?;
    for (what, first) in [
        (
            "no hello",
            wire(&Message::Cancel(Cancel {
                fetch: FetchId::new(1),
            })),
        ),
        ("nonsense", vec![0xff; 300]),
        ("too long", vec![0x01, 0xbf, 0xff, 0xff, 0xff, 0, 0, 0]),
    ] {
        let device = HostileDevice::connect_with(&pair, first).await?;
        let reason = device.close_reason().await?;
        ensure!(
            matches!(reason, CloseReason::PeerClosed { error: 2, .. }),
            "{what}: {reason:?}"
        );
    }
    // Invalid bytes after a Hello.
    let mut device = HostileDevice::connect(&pair).await?;
    let _over = device.control.write(vec![0x03, 0x05, 1, 2, 3, 4, 5].into()).await;
    let reason = device.close_reason().await?;
    ensure!(
        matches!(reason, CloseReason::PeerClosed { error: 2, .. }),
        "{reason:?}"
    );
    // No common version: the gateway sends an error and closes the session.
    let other = Message::Hello(Hello {
        versions: VersionRange { oldest: 9, newest: 3 },
        software: "\u{0}".repeat(200_000),
        link: None,
        cache_state: CacheStateId::new(u64::MAX),
        preferences: Preferences::default(),
    });
    let device = HostileDevice::connect_with(&pair, wire(&other)).await?;
    device.close_reason().await?;
    // A repeated Hello is ignored, as is a new key for a device whose invite was not for one time; unknown
    // message kinds are skipped.
    let mut device = HostileDevice::connect(&pair).await?;
    let new_key = || Message::NewKey(NewKey { key: [7; 32] });
    for _ in 0..1000 {
        device.send_control(&hello()).await;
        device.send_control(&new_key()).await;
        let _over = device.control.write(vec![0x3f, 0x04, 1, 2, 3, 4].into()).await;
    }
    let head = device.head(fetch(1, SITE)).await?;
    ensure!(head.status == 200, "{head:?}");
    for message in [
        hello(),
        Message::Cancel(Cancel {
            fetch: FetchId::new(0),
        }),
        Message::Continue(Continue {
            fetch: FetchId::new(1),
        }),
        Message::Dictionaries(Dictionaries { set: 9 }),
        new_key(),
    ] {
        ensure!(device.open_stream(wire(&message), End::Finish).await.is_some());
    }
    ensure!(!device.is_closed(), "an invalid stream ended the session");
    assert_others_served(&pair, "introductions").await
}

/// Preferences without viewport, ten thousands of host names, and unknown dictionaries.
#[tokio::test(flavor = "multi_thread")]
async fn absurd_settings_affect_only_the_device() -> Result<()> {
    let (_origin, pair) = setup().await?;
    let mut device = HostileDevice::connect(&pair).await?;
    let mut id = 0;
    for size in [0, 1, u16::MAX] {
        for images in ImageLevel::ALL {
            device
                .send_control(&Message::Preferences(Preferences {
                    viewport_width: size,
                    viewport_height: size,
                    pixel_ratio_percent: size,
                    images,
                    mixing: Mixing::Accepted,
                }))
                .await;
            id += 1;
            let head = device.head(page_fetch(id, &format!("{SITE}{size}"))).await?;
            ensure!(head.status == 200, "{size}: {head:?}");
        }
    }
    for set in [0, 1, u32::MAX] {
        device
            .send_control(&Message::Dictionaries(Dictionaries { set }))
            .await;
        id += 1;
        ensure!(device.head(fetch(id, SITE)).await?.status == 200);
    }
    // 250,000 bytes, close to the largest message.
    let names: Vec<_> = (0..40_000).map(|number| format!("{number:x}")).collect();
    for hosts in [
        AcceleratedHosts::Only(names.clone()),
        AcceleratedHosts::AllBut(names),
        AcceleratedHosts::Only(vec![String::new()]),
    ] {
        for _ in 0..20 {
            device
                .send_control(&Message::AcceleratedHosts(hosts.clone()))
                .await;
        }
        id += 1;
        ensure!(device.head(page_fetch(id, SITE)).await?.status == 200);
    }
    for count in [1, 30_000] {
        let levels = (0..count).map(|number| (format!("{number:x}"), ImageLevel::Low));
        let images = SiteImages {
            levels: levels.collect(),
        };
        device.send_control(&Message::SiteImages(images)).await;
        id += 1;
        ensure!(device.head(page_fetch(id, SITE)).await?.status == 200);
    }
    for (host, port) in [("", 0), ("\u{0}", 443), ("127.0.0.1", 443), ("[::1", 65_535)] {
        let open = TunnelOpen {
            id: FetchId::new(5_000 + u64::from(port)),
            host: host.to_owned(),
            port,
            security: TunnelSecurity::Tls,
        };
        ensure!(
            device
                .open_stream(wire(&Message::TunnelOpen(open)), End::Open)
                .await
                .is_some()
        );
    }
    assert_others_served(&pair, "settings").await
}
