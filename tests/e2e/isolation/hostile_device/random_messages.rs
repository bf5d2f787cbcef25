//! Random messages in random order, some of them damaged. A run is determined by its seed, except for the
//! gateway's timing.
use anyhow::{Context, Result};
use longhaul_driver::{End, SendStream};
use longhaul_session::{
    AcceleratedHosts, Ask, Body, BodyCoding, BoundConnectionId, Cancel, Delivery, Dictionaries, EntryId,
    Evicted, Fetch, FetchId, FetchKind, Head, HeaderSets, Holding, ImageLevel, ManifestId, Message, Method,
    PageId, Promised, Push, Resume, ShortHash, SiteImages, TunnelOpen, TunnelSecurity, Used, Validator, Want,
    encode_header_set,
};
use longhaul_types::ContentHash;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{
    assert_others_served, gateway_peak_memory,
    harness::{HostileDevice, fetch, hello, wire},
    setup,
};

const SEEDS: u64 = 4;
const MESSAGES: usize = 400;

fn below(rng: &mut ChaCha20Rng, bound: u64) -> u64 {
    rng.next_u64() % bound.max(1)
}

/// Mostly small numbers, sometimes extreme ones.
fn number(rng: &mut ChaCha20Rng) -> u64 {
    match below(rng, 8) {
        0 => rng.next_u64(),
        1 => u64::MAX - below(rng, 3),
        2 => 1 << below(rng, 64),
        _ => below(rng, 12),
    }
}

fn any_fetch_id(rng: &mut ChaCha20Rng) -> FetchId {
    FetchId::new(number(rng))
}

fn any_entry(rng: &mut ChaCha20Rng) -> EntryId {
    EntryId::new(small(rng))
}

fn small(rng: &mut ChaCha20Rng) -> u32 {
    u32::try_from(number(rng) & u64::from(u32::MAX)).unwrap_or(0)
}

fn url(rng: &mut ChaCha20Rng) -> String {
    const URLS: [&str; 9] = [
        "http://site.test/",
        "http://site.test/honest.js",
        "http://site.test/never",
        "http://other.test/page",
        "https://site.test/",
        "http://127.0.0.1/",
        "gopher://x",
        "http://site.test:0/",
        "",
    ];
    URLS[usize::try_from(below(rng, URLS.len() as u64)).unwrap_or(0)].to_owned()
}

fn any_fetch(rng: &mut ChaCha20Rng) -> Fetch {
    let id = number(rng);
    let fields: Vec<_> = (0..below(rng, 4))
        .map(|n| {
            (
                ["cookie", "range", "accept", "x y"][usize::try_from(n).unwrap_or(0)].to_owned(),
                vec![b'a'; 9],
            )
        })
        .collect();
    let mut sets = HeaderSets::new();
    let base = any_fetch_id(rng);
    sets.insert(base, fields.clone());
    let hash = || ContentHash::from_bytes([7; 32]);
    Fetch {
        method: [
            Method::Get,
            Method::Head,
            Method::Post,
            Method::Other("X Y".to_owned()),
        ][usize::try_from(below(rng, 4)).unwrap_or(0)]
        .clone(),
        url_shared: u16::try_from(below(rng, 70_000)).unwrap_or(0) * u16::from(below(rng, 4) == 0),
        headers: encode_header_set(&fields, FetchId::new(id), Some(base), &sets).unwrap_or_default(),
        kind: if below(rng, 2) == 0 {
            FetchKind::Page
        } else {
            FetchKind::Object
        },
        has_body: below(rng, 4) == 0,
        held: (below(rng, 4) == 0).then(hash),
        page: Some(PageId::of(any_fetch_id(rng))),
        manifest: (below(rng, 4) == 0).then_some(ManifestId::from_bytes([3; 8])),
        holding: vec![ShortHash::from_bytes([1; 6]); usize::try_from(below(rng, 100)).unwrap_or(0)],
        delivery: [Delivery::Any, Delivery::Own, Delivery::Plain]
            [usize::try_from(below(rng, 3)).unwrap_or(0)],
        connection: BoundConnectionId::new(number(rng)),
        seen: Some(any_fetch_id(rng)),
        resume: (below(rng, 6) == 0).then(|| Resume {
            offset: number(rng),
            validator: Validator::ContentHash(hash()),
        }),
        ..fetch(id, &url(rng))
    }
}

fn any_message(rng: &mut ChaCha20Rng) -> Message {
    let fetch = any_fetch_id(rng);
    let page = PageId::of(fetch);
    let hashes = vec![ShortHash::from_bytes([9; 6]); usize::try_from(below(rng, 3000)).unwrap_or(0)];
    match below(rng, 18) {
        0..=4 => Message::Fetch(any_fetch(rng)),
        5 => Message::Cancel(Cancel { fetch }),
        6 => Message::Want(Want {
            page,
            entry: any_entry(rng),
        }),
        7 => {
            let entries = (0..below(rng, 500)).map(|_| any_entry(rng)).collect();
            Message::Ask(Ask { page, entries })
        }
        8 => Message::Used(Used {
            page,
            taken: vec![0xff; 300],
        }),
        9 => Message::Evicted(Evicted { hashes }),
        10 => Message::Holding(Holding { page, hashes }),
        11 => Message::Dictionaries(Dictionaries { set: small(rng) }),
        12 => Message::AcceleratedHosts(AcceleratedHosts::AllBut(vec![String::new(); 20])),
        13 => Message::TunnelOpen(TunnelOpen {
            id: fetch,
            host: "site.test".to_owned(),
            port: 443,
            security: TunnelSecurity::Untouched,
        }),
        14 => Message::Body(Body {
            coding: BodyCoding::Mix,
            length: Some(fetch.number()),
            offset: number(rng),
            base: Some(ShortHash::from_bytes([1; 6])),
        }),
        16 => Message::SiteImages(SiteImages {
            levels: vec![(String::new(), ImageLevel::Text); 20],
        }),
        15 => Message::Push(Push {
            page,
            entry: any_entry(rng),
        }),
        _ => match below(rng, 3) {
            0 => hello(),
            1 => Message::Promised(Promised {
                fetch,
                page,
                entry: EntryId::FIRST,
            }),
            _ => Message::Head(Head {
                fetch,
                status: 200,
                headers: encode_header_set(&[], FetchId::FIRST, None, &HeaderSets::new()).unwrap_or_default(),
                body: longhaul_session::BodyPlace::Held,
                content_hash: None,
            }),
        },
    }
}

/// The bytes of a message; one message in eight is damaged.
fn bytes(rng: &mut ChaCha20Rng) -> Vec<u8> {
    let mut bytes = wire(&any_message(rng));
    if below(rng, 8) == 0 {
        for _ in 0..=below(rng, 4) {
            let at = usize::try_from(below(rng, bytes.len() as u64)).unwrap_or(0);
            match below(rng, 3) {
                0 => bytes[at] = u8::try_from(below(rng, 256)).unwrap_or(0),
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, 0xff),
            }
        }
    }
    bytes
}

async fn send_random_messages(pair: &crate::pair::Pair, seed: u64) -> Result<()> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut device = HostileDevice::connect(pair).await?;
    let mut open: Vec<SendStream> = Vec::new();
    for _ in 0..MESSAGES {
        let bytes = bytes(&mut rng);
        match below(&mut rng, 6) {
            0 | 1 => {
                let _over = device.control.write(bytes.into()).await;
            }
            2 => {
                let at = usize::try_from(below(&mut rng, open.len() as u64)).unwrap_or(0);
                if let Some(stream) = open.get_mut(at) {
                    let written = stream.write(bytes.into());
                    let _blocked = tokio::time::timeout(std::time::Duration::from_millis(50), written).await;
                }
            }
            3 => {
                let at = usize::try_from(below(&mut rng, open.len() as u64)).unwrap_or(0);
                if at < open.len() {
                    drop(open.swap_remove(at));
                }
            }
            how => {
                let end = if how == 4 { End::Finish } else { End::Open };
                open.extend(device.open_stream(bytes, end).await);
            }
        }
        if device.is_closed() {
            open.clear();
            device = HostileDevice::connect(pair).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn random_messages_of_one_device_do_not_affect_others() -> Result<()> {
    let (_origin, pair) = setup().await?;
    let before = gateway_peak_memory(&pair);
    let chosen = std::env::var("LONGHAUL_HOSTILE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = chosen.map_or(0..SEEDS, |seed| seed..seed + 1);
    for seed in seeds {
        let seeded = || format!("repeat with LONGHAUL_HOSTILE_SEED={seed}");
        send_random_messages(&pair, seed).await.with_context(seeded)?;
        assert_others_served(&pair, &format!("seed {seed}"))
            .await
            .with_context(seeded)?;
    }
    let held = gateway_peak_memory(&pair);
    println!("{before} MB before, {held} MB after");
    assert!(held < before + 250, "{held} MB");
    Ok(())
}
