//! Images that are made to consume memory and time: the gateway's cost is bounded, and other devices are not
//! delayed.
use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use flate2::{Compression, Crc, write::ZlibEncoder};
use futures_util::future::try_join_all;
use http::{Request, Response};
use hyper::body::Incoming;
use jpeg_encoder::{ColorType, Encoder};
use longhaul_tests::{
    client::{Ending, RawResponse, ask, get},
    origin::Origin,
};
use tokio::{
    task::JoinHandle,
    time::{interval, timeout},
};

use crate::{
    content::whole,
    pair::{LIMIT, Pair, Setup},
};

/// Interval of memory samples and of other checks.
const POLL_INTERVAL: Duration = Duration::from_millis(4);
/// Maximum memory of the gateway and its workers together in bytes: the budget of 256 MiB and the programs
/// themselves.
const MAX_MEMORY: u64 = 400_000_000;
/// Maximum memory of the gateway itself in bytes: decoders and pixels are in the workers.
const MAX_GATEWAY_MEMORY: u64 = 120_000_000;
/// Maximum wait of the other device for a small image, sufficient for a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// A black PNG: colour type 2 or 6 with 8 bits, or 6 with 16. `more` are chunks after the header.
fn png((width, height): (u32, u32), depth: u8, colour: u8, more: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8; 4], data: &[u8]| {
        let mut sum = Crc::new();
        sum.update(name);
        sum.update(data);
        file.extend(u32::try_from(data.len()).expect("a small chunk").to_be_bytes());
        file.extend(name);
        file.extend(data);
        file.extend(sum.sum().to_be_bytes());
    };
    let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(b"IHDR", &[&sides[..], &[depth, colour, 0, 0, 0]].concat());
    for (name, data) in more {
        chunk(name, data);
    }
    let channels = if colour == 6 { 4 } else { 3 };
    let row = u64::from(width) * channels * u64::from(depth / 8) + 1;
    chunk(b"IDAT", &zeros(row * u64::from(height)));
    chunk(b"IEND", &[]);
    file
}

/// Compressed zeros.
fn zeros(mut count: u64) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    let block = vec![0; 1 << 16];
    while count > 0 {
        let part = count.min(block.len() as u64);
        packed
            .write_all(&block[..usize::try_from(part).expect("a block")])
            .expect("memory");
        count -= part;
    }
    packed.finish().expect("memory")
}

/// A black JPEG.
fn jpeg(side: u16) -> Vec<u8> {
    let mut file = Vec::new();
    let pixels = vec![0; usize::from(side) * usize::from(side) * 3];
    Encoder::new(&mut file, 50)
        .encode(&pixels, side, side, ColorType::Rgb)
        .expect("a picture");
    file
}

/// An animation of black frames.
fn gif((width, height): (u16, u16), frames: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = gif::Encoder::new(&mut file, width, height, &[0; 6]).expect("a header");
    for _ in 0..frames {
        let pixels = vec![0; usize::from(width) * usize::from(height)];
        let frame = gif::Frame::from_indexed_pixels(width, height, pixels, None);
        encoder.write_frame(&frame).expect("a frame");
    }
    drop(encoder);
    file
}

/// A lossless black WebP.
fn webp(side: u32) -> Vec<u8> {
    let pixels = vec![0; usize::try_from(side * side * 3).expect("memory")];
    let config = webpx::EncoderConfig::new().lossless(true).quality(0.0).method(0);
    config
        .encode_rgb(&pixels, side, side, webpx::Unstoppable)
        .expect("a picture")
}

/// A detailed image, as pages display it.
fn photograph() -> Vec<u8> {
    const SIDE: u16 = 300;
    let grain = crate::content::noise(usize::from(SIDE) * usize::from(SIDE), 5);
    let mut pixels = Vec::new();
    for (place, grain) in grain.iter().enumerate() {
        let (x, y) = (place % usize::from(SIDE), place / usize::from(SIDE));
        let shade = |value: usize| u8::try_from(value % 256).unwrap_or(0);
        pixels.extend([
            shade((x * x / 37 + y * 3) % 200),
            shade(y / 2) ^ (grain & 15),
            shade(x / 2),
        ]);
    }
    let mut file = Vec::new();
    Encoder::new(&mut file, 95)
        .encode(&pixels, SIDE, SIDE, ColorType::Rgb)
        .expect("a picture");
    file
}

/// A copy of a file with other bytes at an offset.
fn patched(mut file: Vec<u8>, place: usize, bytes: &[u8]) -> Vec<u8> {
    file[place..place + bytes.len()].copy_from_slice(bytes);
    file
}

type Files = BTreeMap<String, Bytes>;

/// Ten different images of 40 megapixels in at most 166 kB each.
fn forty_megapixels() -> Files {
    let named = |number: u8| (format!("/forty{number}.png"), vec![number]);
    let file = |(name, text): (String, Vec<u8>)| {
        let comment = [&b"Comment\0"[..], &text].concat();
        let file = png((8_000, 5_000), 8, 2, &[(b"tEXt", comment)]);
        (name, Bytes::from(file))
    };
    (0..10).map(named).map(file).collect()
}

/// Further images: of the largest decoded size, far larger by their headers, and malformed.
fn other_bombs() -> Files {
    let mut files = sixteen_megapixels();
    let large_jpeg = jpeg(4_000);
    let frame = large_jpeg.windows(2).position(|pair| pair == b"\xff\xc0");
    let frame = frame.expect("a frame's header");
    let profile = [&b"icc\0\0"[..], &zeros(400 << 20)].concat();
    let cut = png((4_000, 4_000), 8, 2, &[]);
    let others = [
        (
            "/absurd.jpg".to_owned(),
            patched(large_jpeg.clone(), frame + 5, &[0xff; 4]),
        ),
        ("/large.jpg".to_owned(), large_jpeg),
        ("/absurd.gif".to_owned(), patched(gif((8, 8), 2), 6, &[0xff; 4])),
        ("/frames.gif".to_owned(), gif((1_400, 1_400), 12)),
        ("/many.gif".to_owned(), gif((190, 190), 600)),
        ("/too-many.gif".to_owned(), gif((16, 16), 5_000)),
        ("/large.webp".to_owned(), webp(3_000)),
        (
            "/profile.png".to_owned(),
            png((64, 64), 8, 2, &[(b"iCCP", profile)]),
        ),
        ("/alpha.png".to_owned(), png((4_000, 4_000), 8, 6, &[])),
        ("/deep.png".to_owned(), png((4_000, 4_000), 16, 6, &[])),
        ("/cut.png".to_owned(), cut[..cut.len() / 2].to_vec()),
        ("/absurd.png".to_owned(), patched(cut, 16, &[0x7f; 8])),
    ];
    files.extend(others.map(|(name, file)| (name, Bytes::from(file))));
    files
}

/// Images of the largest decoded size.
fn sixteen_megapixels() -> Files {
    let file = |number: u32| {
        let file = png((3_990 + number, 4_000), 8, 2, &[]);
        (format!("/sixteen{number}.png"), Bytes::from(file))
    };
    (0..10).map(file).collect()
}

/// An origin of these files.
async fn gallery(files: &Files) -> Result<Origin> {
    let files = Arc::new(files.clone());
    let answer = move |request: Request<Incoming>| {
        let path = request.uri().path();
        let kind = match path.rsplit('.').next() {
            Some("jpg") => "image/jpeg",
            Some("gif") => "image/gif",
            Some("webp") => "image/webp",
            _ => "image/png",
        };
        let (status, file) = match files.get(path) {
            Some(file) => (200, file.clone()),
            None => (404, Bytes::new()),
        };
        let response = Response::builder()
            .status(status)
            .header("Content-Type", kind)
            .header("Cache-Control", "max-age=60")
            .body(whole(file));
        std::future::ready(response.expect("a valid response"))
    };
    Origin::start(None, |_| {}, answer).await
}

/// A pair that transcodes every image it can, however fast the link is.
async fn pair(origin: &Origin) -> Result<Pair> {
    let mut setup = Setup::resolving(&[("site.test", origin.address())]);
    setup.gateway_config.push_str("[coding]\neffort = 'fixed'\n");
    setup
        .agent_arguments
        .extend(["--image-level".to_owned(), "low".to_owned()]);
    Pair::start(setup).await
}

/// A request with the fields of an image element.
async fn request_as_image(proxy: std::net::SocketAddr, path: &str) -> Result<RawResponse> {
    let fields = [
        ("Accept", "image/avif,image/webp,image/*,*/*;q=0.8"),
        ("Referer", "http://site.test/"),
    ];
    let response = ask(proxy, get(&format!("http://site.test{path}"), &fields)).await?;
    ensure!(
        (response.status, response.ending) == (200, Ending::Whole),
        "{path}: {} {:?}",
        response.status,
        response.ending
    );
    Ok(response)
}

fn is_transcoded(response: &RawResponse) -> bool {
    response.body.starts_with(b"RIFF") && response.field("x-longhaul").is_some()
}

/// Requests all files at once; returns the number of transcoded ones and checks that the others are exact.
async fn request_all(proxy: std::net::SocketAddr, files: &Files) -> Result<usize> {
    let asked = files.iter().map(|(path, file)| async move {
        let response = request_as_image(proxy, path)
            .await
            .with_context(|| path.clone())?;
        let smaller = is_transcoded(&response);
        ensure!(
            smaller || response.body == file[..],
            "{path}: neither smaller nor the original"
        );
        Ok(usize::from(smaller))
    });
    Ok(try_join_all(asked).await?.into_iter().sum())
}

/// The picture workers of a gateway.
fn workers(gateway: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| parent(*pid) == Some(gateway)).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the preceding field may contain any characters, including parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    fields.nth(1)?.parse().ok()
}

/// True if the process is a picture worker and not a zombie.
fn is_worker(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.windows(14).any(|part| part == b"picture-worker")
}

fn memory(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

/// Peak memory of a gateway and its workers, and the workers seen.
#[derive(Debug, Default)]
struct Peaks {
    /// Peak of all processes together.
    together: u64,
    gateway: u64,
    /// Peak of each worker alone.
    workers: BTreeMap<u32, u64>,
}

struct MemoryWatch(Arc<Mutex<Peaks>>, JoinHandle<()>);

impl MemoryWatch {
    fn start(gateway: u32) -> Self {
        let peaks = Arc::new(Mutex::new(Peaks::default()));
        let seen = Arc::clone(&peaks);
        let task = tokio::spawn(async move {
            let mut looks = interval(POLL_INTERVAL);
            loop {
                looks.tick().await;
                let workers = workers(gateway);
                let mut peaks = seen.lock();
                let mut together = memory(gateway, "VmRSS:");
                for pid in workers {
                    together += memory(pid, "VmRSS:");
                    let own = peaks.workers.entry(pid).or_default();
                    *own = memory(pid, "VmHWM:").max(*own);
                }
                peaks.together = peaks.together.max(together);
                peaks.gateway = memory(gateway, "VmHWM:").max(peaks.gateway);
            }
        });
        Self(peaks, task)
    }

    fn end(self) -> Peaks {
        self.1.abort();
        std::mem::take(&mut self.0.lock())
    }
}

async fn wait_until(what: &str, reached: impl Fn() -> bool) -> Result<()> {
    let mut looks = interval(POLL_INTERVAL);
    let wait = async {
        while !reached() {
            looks.tick().await;
        }
    };
    timeout(LIMIT, wait).await.with_context(|| what.to_owned())
}

fn kill(pid: u32) -> Result<()> {
    // The process may have ended by itself.
    let _ended = Command::new("kill").args(["-9", &pid.to_string()]).output()?;
    Ok(())
}

/// One device requests decompression bombs while another one requests a small image.
async fn attack(name: &str, bombs: Files, least_smaller: usize) -> Result<()> {
    let small = photograph();
    let mut files = bombs.clone();
    files.insert("/small.jpg".to_owned(), small.clone().into());
    let origin = gallery(&files).await?;
    let pair = pair(&origin).await?;
    let other = pair.second_agent_with("other", &["--image-level", "low"]).await?;
    let watch = MemoryWatch::start(pair.gateway().pid());
    let (proxy, count) = (pair.proxy(), bombs.len());
    let began = Instant::now();
    let attack = tokio::spawn(async move {
        request_all(proxy, &bombs)
            .await
            .map(|made| (made, Instant::now()))
    });
    wait_until("all bombs are requested", || origin.seen().len() >= count).await?;
    let asked = Instant::now();
    let response = request_as_image(other.address(), "/small.jpg").await?;
    let (answered, waited) = (Instant::now(), asked.elapsed());
    let (smaller, bombs_answered) = timeout(3 * LIMIT, attack).await???;
    let peaks = watch.end();
    let largest_worker = peaks.workers.values().max().copied().unwrap_or(0);
    println!(
        "{name}: {count} bombs of one device answered after {:.2} s, {smaller} made smaller; another device's small picture \
         after {:.3} s ({}); at most {} MB together, gateway {} MB, largest worker {} MB, {} workers",
        (bombs_answered - began).as_secs_f64(),
        waited.as_secs_f64(),
        if is_transcoded(&response) {
            "smaller"
        } else {
            "as it is"
        },
        peaks.together / 1_000_000,
        peaks.gateway / 1_000_000,
        largest_worker / 1_000_000,
        peaks.workers.len(),
    );
    assert!(
        is_transcoded(&response),
        "the other device's image was not transcoded"
    );
    assert!(response.body.len() < small.len() / 2);
    assert!(waited < MAX_WAIT, "{waited:?}");
    assert!(
        smaller == 0 || answered < bombs_answered,
        "the small image waited for all bombs"
    );
    assert!(smaller >= least_smaller, "{smaller} of {count}");
    assert!(peaks.together <= MAX_MEMORY, "{} bytes together", peaks.together);
    assert!(peaks.gateway <= MAX_GATEWAY_MEMORY, "{} bytes", peaks.gateway);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_forty_megapixels_do_not_delay_other_devices() -> Result<()> {
    attack("forty megapixels", forty_megapixels(), 0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn image_bombs_use_bounded_memory_and_do_not_delay_other_devices() -> Result<()> {
    // The images of sixteen megapixels that are processed in time, and the animation.
    attack("all kinds", other_bombs(), 3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_requests_are_answered_when_picture_workers_are_killed() -> Result<()> {
    let bombs = sixteen_megapixels();
    let mut files = bombs.clone();
    files.insert("/small.jpg".to_owned(), photograph().into());
    let origin = gallery(&files).await?;
    let pair = pair(&origin).await?;
    let (proxy, gateway) = (pair.proxy(), pair.gateway().pid());
    let killer = tokio::spawn(async move {
        let mut looks = interval(POLL_INTERVAL);
        let mut killed = 0_usize;
        while killed < 6 {
            looks.tick().await;
            for pid in workers(gateway).into_iter().filter(|pid| is_worker(*pid)) {
                kill(pid)?;
                killed += 1;
            }
        }
        anyhow::Ok(killed)
    });
    let smaller = timeout(3 * LIMIT, request_all(proxy, &bombs)).await??;
    killer.abort();
    let killed = killer.await;
    println!(
        "{} pictures, {smaller} made smaller, killed: {killed:?}",
        bombs.len()
    );
    assert!(smaller < bombs.len(), "no worker was killed");
    assert_eq!(pair.gateway().pid(), gateway);
    // The gateway transcodes again after the kills, as repeated requests show.
    let mut looks = interval(Duration::from_millis(200));
    let again = async {
        loop {
            looks.tick().await;
            if is_transcoded(&request_as_image(proxy, "/small.jpg").await?) {
                return anyhow::Ok(());
            }
        }
    };
    timeout(LIMIT, again)
        .await
        .context("images are no longer transcoded")?
}

/// Keeps the workers of a gateway busy while the gateway is ended; the watch records all workers.
async fn busy_workers(pair: &Pair, bombs: &Files) -> Result<(MemoryWatch, JoinHandle<()>)> {
    let (proxy, gateway) = (pair.proxy(), pair.gateway().pid());
    let watch = MemoryWatch::start(gateway);
    let bombs = bombs.clone();
    let asking = tokio::spawn(async move {
        // The gateway ends during these requests.
        let _unanswered = request_all(proxy, &bombs).await;
    });
    let busy = || {
        let workers = workers(gateway);
        workers.iter().any(|pid| memory(*pid, "VmRSS:") > 20_000_000)
    };
    wait_until("a worker has a picture", busy).await?;
    Ok((watch, asking))
}

async fn wait_until_no_worker_is_left(watch: MemoryWatch) -> Result<()> {
    let workers: Vec<u32> = watch.end().workers.into_keys().collect();
    ensure!(!workers.is_empty(), "no worker was seen");
    let is_left = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists() && is_worker(*pid);
    wait_until("workers end with their gateway", || !workers.iter().any(is_left)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_picture_worker_outlives_the_gateway() -> Result<()> {
    let bombs = sixteen_megapixels();
    let origin = gallery(&bombs).await?;
    let mut killed = pair(&origin).await?;
    let (watch, asking) = busy_workers(&killed, &bombs).await?;
    killed.kill_gateway().await?;
    wait_until_no_worker_is_left(watch).await?;
    asking.abort();
    let mut ended = pair(&origin).await?;
    let (watch, asking) = busy_workers(&ended, &bombs).await?;
    ended.end_gateway("TERM").await?;
    wait_until_no_worker_is_left(watch).await?;
    asking.abort();
    Ok(())
}
