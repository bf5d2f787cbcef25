//! Revisits: held pages cost next to nothing, and lost or damaged caches cost a load but never produce a
//! wrong page.
use std::{path::Path, sync::Arc};

use anyhow::Result;
use longhaul_tests::{origin::Origin, relay::Direction};
use serde_json::Value;

use super::{
    accelerates_page_loads, answer, body, both_hosts, databases, origin, page, request_count, request_field,
    visitor::Visitor,
};
use crate::{
    content::{noise, prose},
    pair::{Link, Pair, Setup},
};

const PAGE: &str = "http://site.test/";
const NAMES: [&str; 8] = [
    "a.css", "b.js", "c.gif", "d.gif", "e.js", "f.gif", "g.gif", "h.css",
];

fn object(name: &str) -> Vec<u8> {
    let seed: u64 = name.bytes().map(u64::from).sum();
    match name.rsplit('.').next() {
        Some("gif") => noise(40_000, seed),
        _ => prose(40_000, seed),
    }
}

fn document() -> Vec<u8> {
    [page(&NAMES).into_bytes(), prose(60_000, 23)].concat()
}

/// An origin whose responses have validators; every other one is fresh for an hour, the rest must be
/// validated.
async fn validator_origin() -> Result<Origin> {
    origin(|request| {
        let name = request.uri().path().trim_start_matches('/').to_owned();
        let tag = format!("\"tag-of-{name}\"");
        let caching = if name.contains(['c', 'd', 'e']) {
            "max-age=3600"
        } else {
            "no-cache"
        };
        let fields = [
            ("ETag", tag.as_str()),
            ("Cache-Control", caching),
            (
                "Content-Type",
                if name.is_empty() {
                    "text/html"
                } else {
                    "application/octet-stream"
                },
            ),
        ];
        if request_field(request, "if-none-match") == tag {
            return answer(304, &fields[..2], "");
        }
        answer(
            200,
            &fields,
            if name.is_empty() {
                document()
            } else {
                object(&name)
            },
        )
    })
    .await
}

async fn visit(pair: &Pair, when: &str) -> Result<()> {
    visit_through(pair.proxy(), when).await
}

async fn visit_through(proxy: std::net::SocketAddr, when: &str) -> Result<()> {
    let urls = NAMES.map(|name| format!("{PAGE}{name}"));
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let visit = Visitor::new(proxy).visit(PAGE, &urls).await?;
    assert!(
        body(&visit.page) == document(),
        "{when}: the page, {} bytes",
        visit.page.body.len()
    );
    for (name, url) in NAMES.iter().zip(&urls) {
        assert!(body(visit.object(url)) == object(name), "{when}: {name}");
    }
    Ok(())
}

/// Bytes over the hop and bodies of the origin in a test step.
struct Cost {
    down: u64,
    up: u64,
    bodies: usize,
}

fn transferred(pair: &Pair, origin: &Origin) -> Cost {
    Cost {
        down: pair.relay().passed(Direction::Down),
        up: pair.relay().passed(Direction::Up),
        bodies: origin
            .seen()
            .iter()
            .filter(|seen| !seen.headers.contains_key("if-none-match"))
            .count(),
    }
}

async fn cost(pair: &Pair, origin: &Origin, when: &str) -> Result<Cost> {
    let before = transferred(pair, origin);
    visit(pair, when).await?;
    let after = transferred(pair, origin);
    let cost = Cost {
        down: after.down - before.down,
        up: after.up - before.up,
        bodies: after.bodies - before.bodies,
    };
    println!(
        "{when}: {} B down, {} B up, {} bodies of the origin",
        cost.down, cost.up, cost.bodies
    );
    Ok(cost)
}

/// More bytes than the requests of a revisit and a new session take: no list of what the agent holds.
const MOST_UP: u64 = 1_280;

/// True if the agent accelerates page loads; prints a note otherwise.
async fn accelerated(pair: &Pair) -> Result<bool> {
    let found = accelerates_page_loads(&pair.status().await?);
    if !found {
        println!("SKIPPED: this agent does not accelerate page loads");
    }
    Ok(found)
}

/// True if the agent's cache has the page, its objects and its manifest.
fn is_stored(status: &Value) -> bool {
    let of_the_page = 1 + NAMES.len() as u64;
    ["cache_bodies", "cache_responses"]
        .iter()
        .all(|field| status[field].as_u64() >= Some(of_the_page))
        && status["manifests_kept"].as_u64() >= Some(1)
}

/// An unchanged page crosses the hop once, also if either program restarts before the second visit.
#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_held_page_is_not_sent_again() -> Result<()> {
    let origin = validator_origin().await?;
    let mut setup = both_hosts(&origin).over(Link::Relayed);
    // A link that is known is not measured: a measurement takes up to 40 kB.
    setup
        .agent_arguments
        .extend(["--link", "lan-fast"].map(str::to_owned));
    let mut pair = Pair::start(setup).await?;
    let first = cost(&pair, &origin, "first visit").await?;
    let accelerated = accelerated(&pair).await?;
    if accelerated {
        // The browser is answered first, and the cache is filled afterwards.
        pair.status_until(is_stored).await?;
    }
    for when in ["second visit", "agent restarted", "gateway restarted"] {
        match when {
            "agent restarted" => {
                pair.kill_agent().await?;
                pair.start_agent().await?;
            }
            "gateway restarted" => {
                pair.kill_gateway().await?;
                pair.start_gateway().await?;
            }
            _ => {}
        }
        let again = cost(&pair, &origin, when).await?;
        if accelerated {
            assert!(
                again.down < first.down / 10,
                "{when}: {} of {} B down, {}",
                again.down,
                first.down,
                pair.status().await?
            );
            assert!(again.up < MOST_UP, "{when}: {} B up", again.up);
            assert_eq!(
                again.bodies, 0,
                "{when}: the origin sent bodies that the cache holds"
            );
        }
    }
    Ok(())
}

/// A second device gets public responses from the gateway's cache, which the first one filled.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_device_gets_public_objects_from_the_gateways_cache() -> Result<()> {
    let origin = origin(|request| match request.uri().path() {
        "/" => answer(
            200,
            &[
                ("Content-Type", "text/html"),
                ("Cache-Control", "public, max-age=600"),
                // Only the first response of a connection is shared.
                ("Connection", "close"),
            ],
            document(),
        ),
        path => answer(
            200,
            &[("Cache-Control", "public, max-age=600"), ("Connection", "close")],
            object(&path[1..]),
        ),
    })
    .await?;
    let pair = Pair::start(both_hosts(&origin)).await?;
    let second = pair.second_agent("second").await?;
    visit(&pair, "first device").await?;
    visit_through(second.address(), "second device").await?;
    if accelerated(&pair).await? {
        for name in NAMES {
            assert_eq!(
                request_count(&origin, &format!("/{name}")),
                1,
                "{name} was fetched more than once"
            );
        }
    }
    Ok(())
}

/// Both ends detect that the other end's cache is lost or damaged.
#[tokio::test(flavor = "multi_thread")]
async fn pages_load_correctly_with_lost_or_damaged_caches() -> Result<()> {
    type Damage = (&'static str, fn(&[u8]) -> Option<Vec<u8>>);
    const DAMAGES: [Damage; 6] = [
        ("lost", |_| None),
        ("cut in half", |bytes| Some(bytes[..bytes.len() / 2].to_vec())),
        ("cut at a page", |bytes| {
            Some(bytes[..(bytes.len() / 4096 / 2).max(1) * 4096].to_vec())
        }),
        ("flipped", |bytes| {
            let mut bytes = bytes.to_vec();
            for at in (100..bytes.len()).step_by(977) {
                bytes[at] ^= 0x55;
            }
            Some(bytes)
        }),
        ("flipped behind its head", |bytes| {
            // The database opens, but its contents are damaged.
            let mut bytes = bytes.to_vec();
            for at in (8192..bytes.len()).step_by(1511) {
                bytes[at] ^= 0x01;
            }
            Some(bytes)
        }),
        ("overwritten", |bytes| Some(noise(bytes.len(), 99))),
    ];
    let origin = validator_origin().await?;
    let mut pair = Pair::start(both_hosts(&origin)).await?;
    visit(&pair, "at first").await?;
    let mut found = 0;
    for (what, damage) in DAMAGES {
        for ends in [&["agent"][..], &["gateway"], &["agent", "gateway"]] {
            let when = format!("{what}, {ends:?}");
            if ends == ["agent"] {
                // Kill the programs, because in-order termination would empty the write-ahead log: the log is
                // damaged, too.
                pair.kill_agent().await?;
                pair.kill_gateway().await?;
            } else {
                pair.end().await?;
            }
            for end in ends {
                found += damage_databases(&pair.folder().join(end), damage)?;
            }
            pair.start_gateway().await?;
            pair.start_agent().await?;
            visit(&pair, &when).await?;
            visit(&pair, &format!("{when}, once more")).await?;
        }
    }
    if found == 0 {
        println!("SKIPPED: neither end has a database to damage");
    }
    Ok(())
}

/// Damages each database below a folder and its write-ahead log.
fn damage_databases(folder: &Path, damage: fn(&[u8]) -> Option<Vec<u8>>) -> Result<usize> {
    let databases = databases(folder);
    for database in &databases {
        for ending in ["", "-wal"] {
            let mut path = database.as_os_str().to_owned();
            path.push(ending);
            let Ok(bytes) = std::fs::read(&path) else { continue };
            match damage(&bytes) {
                Some(damaged) => std::fs::write(&path, damaged)?,
                None => std::fs::remove_file(&path)?,
            }
        }
        // Without the index of the log, a database is in the state after a crash.
        let mut index = database.as_os_str().to_owned();
        index.push("-shm");
        let _none = std::fs::remove_file(index);
    }
    Ok(databases.len())
}

/// A full disk does not prevent page loads.
#[tokio::test(flavor = "multi_thread")]
async fn pages_load_correctly_on_a_full_disk() -> Result<()> {
    const DISK: u64 = 2 << 20;
    if std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own))? != 0 {
        println!("SKIPPED: only root can mount a small file system");
        return Ok(());
    }
    let large = Arc::new(noise(1_500_000, 31));
    let stored = Arc::clone(&large);
    let origin = origin(move |request| match request.uri().path() {
        "/" => answer(
            200,
            &[("Content-Type", "text/html"), ("Cache-Control", "max-age=600")],
            [page(&NAMES).into_bytes(), prose(500_000, 3)].concat(),
        ),
        path => answer(
            200,
            &[("Cache-Control", "public, max-age=600")],
            [path.as_bytes(), &stored].concat(),
        ),
    })
    .await?;
    let setup = Setup {
        disk: Some(DISK),
        ..both_hosts(&origin)
    };
    let mut pair = match Pair::start(setup).await {
        Err(error) if format!("{error:#}").contains("mount") => {
            println!("SKIPPED: {error:#}");
            return Ok(());
        }
        other => other?,
    };
    let urls = NAMES.map(|name| format!("{PAGE}{name}"));
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for round in 0..4 {
        if round == 2 {
            pair.kill_agent().await?;
            pair.kill_gateway().await?;
            pair.start_gateway().await?;
            pair.start_agent().await?;
        }
        let visit = Visitor::new(pair.proxy()).visit(PAGE, &urls).await?;
        assert!(
            body(&visit.page) == [page(&NAMES).into_bytes(), prose(500_000, 3)].concat(),
            "round {round}"
        );
        for (name, url) in NAMES.iter().zip(&urls) {
            assert!(
                body(visit.object(url)) == [format!("/{name}").as_bytes(), &large].concat(),
                "round {round}: {name}"
            );
        }
    }
    Ok(())
}
