//! Images that are made to consume memory and time: the gateway's cost is bounded, and other devices are not
//! delayed.
mod bombs;
mod processes;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures_util::future::try_join_all;
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, RawResponse, ask, get},
    origin::Origin,
};
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{interval, timeout},
};

use self::{
    bombs::{Files, forty_megapixels, other_bombs, photograph, sixteen_megapixels},
    processes::{MemoryWatch, POLL_INTERVAL, is_worker, kill, memory, wait_until, workers},
};
use crate::{
    content::whole,
    pair::{LIMIT, Pair, Setup},
};

/// Maximum memory of the gateway and its workers together in bytes: the budget of 256 MiB and the programs
/// themselves.
const MAX_MEMORY: u64 = 400_000_000;
/// Maximum memory of the gateway itself in bytes: decoders and pixels are in the workers.
const MAX_GATEWAY_MEMORY: u64 = 120_000_000;
/// Maximum wait of the other device for a small image, sufficient for a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(20);

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

/// Workers that are busy while their gateway is ended.
struct BusyWorkers {
    /// The workers that were seen before the gateway was ended.
    seen: BTreeSet<u32>,
    /// Records the workers that start later. On a busy machine it may not have run yet.
    watch: MemoryWatch,
    /// The requests that keep the workers busy.
    requests: JoinHandle<()>,
}

/// Keeps the workers of a gateway busy.
async fn busy_workers(pair: &Pair, bombs: &Files) -> Result<BusyWorkers> {
    let (proxy, gateway) = (pair.proxy(), pair.gateway().pid());
    let watch = MemoryWatch::start(gateway);
    let bombs = bombs.clone();
    let requests = tokio::spawn(async move {
        // The gateway ends during these requests.
        let _unanswered = request_all(proxy, &bombs).await;
    });
    let seen = Mutex::new(BTreeSet::new());
    let is_busy = || {
        let workers = workers(gateway);
        seen.lock().extend(&workers);
        workers.iter().any(|pid| memory(*pid, "VmRSS:") > 20_000_000)
    };
    wait_until("a worker has a picture", is_busy).await?;
    Ok(BusyWorkers {
        seen: seen.into_inner(),
        watch,
        requests,
    })
}

impl BusyWorkers {
    async fn end_with_their_gateway(self) -> Result<()> {
        let mut workers = self.seen;
        workers.extend(self.watch.end().workers.into_keys());
        let is_left = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists() && is_worker(*pid);
        wait_until("workers end with their gateway", || !workers.iter().any(is_left)).await?;
        self.requests.abort();
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_picture_worker_outlives_the_gateway() -> Result<()> {
    let bombs = sixteen_megapixels();
    let origin = gallery(&bombs).await?;
    let mut killed = pair(&origin).await?;
    let workers = busy_workers(&killed, &bombs).await?;
    killed.kill_gateway().await?;
    workers.end_with_their_gateway().await?;
    let mut ended = pair(&origin).await?;
    let workers = busy_workers(&ended, &bombs).await?;
    ended.end_gateway("TERM").await?;
    workers.end_with_their_gateway().await
}
