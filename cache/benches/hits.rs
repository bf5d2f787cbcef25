//! Times of hits and writes through the asynchronous handle, as median and quartiles. `cargo bench -p
//! longhaul-cache`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement: it prints, and stops at what it did not expect"
)]
use std::time::{Duration, Instant};

use bytes::Bytes;
use longhaul_cache::{Cache, CacheConfig, Cost, Owner, Partition, StoredResponse};
use longhaul_http::site::SchemefulSite;
use longhaul_types::{ByteCount, ClientId, ContentHash, UnixTime};

const BODY: usize = 100_000;
const BODIES: u32 = 1_500;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // `cargo test --all-targets` runs this, too, without the flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = CacheConfig {
        dir: dir.path().to_owned(),
        file: "bench.db",
        quota: ByteCount::mib(256),
    };
    let cache = Cache::open(config, 1).unwrap().cache;

    let mut times = Vec::new();
    for number in 0..BODIES {
        let body = body(number, BODY);
        let start = Instant::now();
        let mut writer = cache.writer(Cost::unknown());
        writer.write(body).await;
        writer.commit().await.unwrap();
        times.push(start.elapsed());
    }
    print("write 100 kB, committed", &mut times);
    for number in 0..2_000 {
        let number = number * 7919 % BODIES;
        let chk = ContentHash::of(&body(number, BODY));
        let start = Instant::now();
        let found = cache.whole(chk, ByteCount::mib(1)).await;
        times.push(start.elapsed());
        assert_eq!(found.map(|body| body.len()), Some(BODY));
    }
    print("hit 100 kB", &mut times);
    long_bodies(&cache, &mut times).await;
    responses(&cache, &mut times).await;
    print_memory();
    // Beyond the quota: every write evicts.
    for number in 0..1_500 {
        let body = body(BODIES + number, 2 * BODY);
        let start = Instant::now();
        let mut writer = cache.writer(Cost::unknown());
        writer.write(body).await;
        writer.commit().await.unwrap();
        times.push(start.elapsed());
    }
    print("write 200 kB, evicting", &mut times);
    println!("{:?}", cache.usage().await);
    print_memory();
    cache.close().await;
}

async fn long_bodies(cache: &Cache, times: &mut Vec<Duration>) {
    const LENGTH: usize = 8 << 20;
    let mut chks = Vec::new();
    for number in 0..8 {
        let body = body(1_000_000 + number, LENGTH);
        let start = Instant::now();
        let mut writer = cache.writer(Cost::unknown());
        writer.write(body).await;
        chks.push(writer.commit().await.unwrap());
        times.push(start.elapsed());
    }
    print("write 8 MiB, committed", times);
    for chk in chks {
        let start = Instant::now();
        let mut stored = cache.body(chk).await.unwrap();
        let mut length = 0;
        while let Some(piece) = stored.next().await {
            length += piece.unwrap().len();
        }
        times.push(start.elapsed());
        assert_eq!(length, LENGTH);
    }
    print("read 8 MiB", times);
}

async fn responses(cache: &Cache, times: &mut Vec<Duration>) {
    let site = Partition::of_site(
        Owner::local(ClientId::OWNER),
        SchemefulSite::of("http", "example.org"),
    );
    let url = |number: u32| format!("http://example.org/object/{number}");
    for number in 0..2_000 {
        let response = StoredResponse {
            partition: site.clone(),
            url: url(number),
            vary: [0; 8],
            credentials: None,
            request_fields: Vec::new(),
            status: 200,
            fields: vec![
                ("content-type".into(), b"text/html".to_vec()),
                ("etag".into(), vec![b'x'; 400]),
            ],
            chk: None,
            length: 0,
            requested_at: UnixTime::default(),
            received_at: UnixTime::default(),
            origin_bytes: None,
        };
        let start = Instant::now();
        cache.put(response).await;
        times.push(start.elapsed());
    }
    print("put a response, committed", times);
    for number in 0..2_000 {
        let start = Instant::now();
        assert_eq!(cache.find(&site, &url(number)).await.len(), 1);
        times.push(start.elapsed());
    }
    print("find a response", times);
}

/// A unique body that does not compress.
fn body(number: u32, length: usize) -> Bytes {
    let mut body = vec![0; length];
    blake3::Hasher::new()
        .update(&number.to_le_bytes())
        .finalize_xof()
        .fill(&mut body);
    Bytes::from(body)
}

fn print(what: &str, times: &mut Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{what}: median {:?}, quartiles {:?} to {:?}, 99 % within {:?}, longest {:?} ({} times)",
        at(50),
        at(25),
        at(75),
        at(99),
        at(100),
        times.len()
    );
    times.clear();
}

/// Prints the memory usage of the process, if the system reports it.
fn print_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status
        .lines()
        .filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"))
    {
        println!("{line}");
    }
}
