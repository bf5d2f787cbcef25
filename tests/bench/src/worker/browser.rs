//! Preparing a state, loading the page in it, and measuring that.
use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

use longhaul_chromium::{
    Browser, BrowserOptions, Cache, ChromiumError, Http2, LoadError as ChromiumLoadError, LoadOptions,
    Motion, Names,
};
use longhaul_hosting::Content as _;
use longhaul_loader::{
    PageLoad,
    model::{self, BrowserCache, ModelOptions, Route, Rules},
};
use longhaul_pages::{Page, Replay, Scheme};
use longhaul_report::Row;
use longhaul_types::Timestamp;
use longhaul_world::DNS_SERVER;
use url::Url;

use super::{
    beside,
    flood::Flood,
    idle, leaving,
    network::{Between, Network, NetworkError},
    pair, row,
};
use crate::{
    cli::{Beside, ReplayScheme},
    job::{LoadJob, Picture},
    link::{Link, LinkError},
    loader::Loader,
    select::{self, SelectError},
    state::State,
    system::System,
};

/// Loads are given up after this many times the ideal time…
const PATIENCE: f64 = 12.0;
/// …and this, within that.
const LEAST_LIMIT: Duration = Duration::from_secs(120);
const MOST_LIMIT: Duration = Duration::from_secs(3600);
/// Before the measured load the hop must have been quiet for this long, or two round trips if they are longer.
const QUIET: Duration = Duration::from_millis(300);
/// Something that never ends (a poll of the page, keep-alives) does not hold the measurement up for longer.
const QUIET_LIMIT: Duration = Duration::from_secs(30);
/// Samples of the hop's course: enough for a curve of the longest load, few enough for the results file.
pub(super) const SAMPLE: Duration = Duration::from_millis(50);

/// A load that could not be measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// The page.
    #[error(transparent)]
    Page(#[from] SelectError),
    /// The page lacks what the state needs.
    #[error("{0}")]
    State(&'static str),
    /// The link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The world.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The pair.
    #[error(transparent)]
    Pair(#[from] pair::PairError),
    /// Chromium.
    #[error(transparent)]
    Chromium(#[from] ChromiumError),
    /// TLS of the scripted browser.
    #[error("cannot trust the test authority: {0}")]
    Trust(#[from] longhaul_replay::page::TrustError),
    /// The load before the measured one.
    #[error("the page does not load in the first place: {0}")]
    Earlier(String),
}

impl LoadError {
    /// Whether other loads would fail likewise.
    pub(super) fn is_fatal(&self) -> bool {
        matches!(self, Self::Network(NetworkError::World(_)))
            || matches!(self, Self::Chromium(ChromiumError::NotInstalled))
    }
}

/// A browser that loads pages in the client's namespace.
enum AnyBrowser {
    Model {
        options: Box<ModelOptions>,
        cache: BrowserCache,
    },
    Chromium(Box<Browser>),
}

/// A load that has been measured.
pub(super) struct MeasuredLoad {
    pub(super) row: Row,
    /// The URLs that arrived.
    pub(super) delivered: BTreeSet<String>,
    /// Domains that the browser took to https by itself.
    pub(super) upgraded: BTreeSet<String>,
    /// A PNG, if it was to be taken.
    pub(super) picture: Option<Vec<u8>>,
}

/// Builds the world, brings it into the job's state, loads the page and measures.
pub(super) async fn measured_load(job: &LoadJob, temporary: &Path) -> Result<MeasuredLoad, LoadError> {
    let link = job.link.resolve()?;
    let (before, page) = pages(job)?;
    let mut network = Network::build(
        job,
        &link,
        before.as_ref().map_or(&page, |before| &before.0).clone(),
        temporary,
    )
    .await?;
    let limit = job.limit.unwrap_or_else(|| limit(&page, &link, job));
    let mut browser = start_browser(job, &network, limit, temporary).await?;
    if job.state != State::First && matches!(network.between, Between::Pair(_)) {
        network.world.client().run(pair::session_open).await?;
    }
    if let Some((_, url)) = before {
        let earlier = load(browser, &network, url, limit, Cache::Keep, Picture::None).await;
        browser = earlier.browser;
        earlier.loaded.map_err(|(reason, _)| LoadError::Earlier(reason))?;
        network.content.show(page.clone());
        leave(&network).await;
    }
    if job.state == State::SecondDevice
        && let Between::Pair(pair) = &mut network.between
    {
        pair.change_device(network.world.client()).await?;
        network.world.client().run(pair::session_open).await?;
    }
    if job.state == State::SecondDevice {
        drop(browser);
        browser = start_browser(job, &network, limit, temporary).await?;
    }
    if job.state != State::First {
        settle(&network, &link).await;
    }
    let (mut download, mut flood) = (None, None);
    match job.beside {
        Beside::Nothing => {}
        Beside::Bulk => {
            let started = beside::start(network.world.client(), network.proxy(), network.bulk_origin);
            download = Some(started.await);
        }
        Beside::Requests => flood = Some(network.flood(page.url()).await?),
    }
    let answered_before = flood.as_ref().map(Flood::answered);
    let start = row::Start::take(&network).await;
    if job.detail {
        network.world.hop().start_sampling(SAMPLE);
    }
    // What the load before has left in the browser's own cache counts only where the state says so.
    let cache = if job.state == State::Warm {
        Cache::Keep
    } else {
        Cache::Clear
    };
    let hop = network.world.hop();
    let internet = network.world.internet().clone();
    let watch = idle::Watch::start(internet, network.hosting.open_requests(), link.rtt);
    let measured = load(browser, &network, page.url().clone(), limit, cache, job.picture).await;
    let ended = hop.now();
    let began = Timestamp::from_nanos(
        ended
            .as_nanos()
            .saturating_sub(row::nanos(measured.began.elapsed())),
    );
    let origin = watch.end();
    let answered = flood.as_ref().map(Flood::answered);
    drop((download, flood));
    settle(&network, &link).await;
    let mut end = row::End::take(&network);
    leave(&network).await;
    settle(&network, &link).await;
    end.push = network.agent_counters().await;
    let (loaded, picture) = (measured.loaded, measured.picture);
    network.sound()?;
    let measured = row::Measured {
        began,
        start,
        end,
        ended,
        loaded,
        page: &page,
        link: &link,
        network: &network,
        origin,
    };
    let upgraded = measured.upgraded();
    let (mut row, delivered) = measured.row(job);
    row.beside_requests = answered
        .zip(answered_before)
        .map(|(after, before)| after - before);
    Ok(MeasuredLoad {
        row,
        delivered,
        upgraded,
        picture,
    })
}

/// What is loaded before (edition and URL), and the page that is measured.
fn pages(job: &LoadJob) -> Result<(Option<(Page, Url)>, Page), LoadError> {
    let mut page = select::find(&job.page)?;
    if job.system.needs_tls() {
        page = page.with_scheme(Scheme::Https);
    } else if job.scheme == ReplayScheme::Http {
        page = page.replayed(Replay::Http).renamed(&job.renamed);
    }
    let url = page.url().clone();
    Ok(match job.state {
        State::First | State::Cold => (None, page),
        State::Revisit | State::Warm | State::SecondDevice => (Some((page.clone(), url)), page),
        State::NextEdition => {
            let next = page
                .next_edition()
                .ok_or(LoadError::State("the page has no later edition"))?;
            (Some((page, url)), next)
        }
        State::Sibling => {
            let sibling = page
                .sibling()
                .ok_or(LoadError::State("the page has no sibling"))?;
            (Some((page.clone(), sibling)), page)
        }
    })
}

fn limit(page: &Page, link: &Link, job: &LoadJob) -> Duration {
    let bytes = page.facts().bytes;
    let ideal = row::ideal(link, job, bytes);
    Duration::from_secs_f64((ideal * PATIENCE).min(MOST_LIMIT.as_secs_f64())).max(LEAST_LIMIT)
}

/// Has the agent's browser go on to another page, as its user does before coming back: what was pushed for nothing is
/// known from then on.
async fn leave(network: &Network) {
    if let Some(proxy) = network.proxy().filter(|_| network.is_longhaul()) {
        let left = network.world.client().run(move || leaving::leave(proxy)).await;
        if let Err(error) = left {
            tracing::debug!(%error, "the page is not left");
        }
    }
}

/// Waits until the hop is quiet.
async fn settle(network: &Network, link: &Link) {
    let quiet = QUIET.max(link.rtt * 2);
    network.world.hop().idle(quiet, QUIET_LIMIT).await;
}

async fn start_browser(
    job: &LoadJob,
    network: &Network,
    limit: Duration,
    temporary: &Path,
) -> Result<AnyBrowser, LoadError> {
    let ours = network.agent_authority()?;
    match job.loader {
        Loader::Model => {
            let mut trusted = vec![network.authority.certificate().clone()];
            trusted.extend(ours.map(|authority| authority.certificate));
            let trust = longhaul_replay::page::client_trust(&trusted)?;
            let route = match network.proxy() {
                Some(proxy) => Route::Proxy(proxy),
                None => Route::Direct {
                    resolver: (DNS_SERVER, 53).into(),
                },
            };
            let mut options = ModelOptions::new(route, trust);
            options.rules = rules(job.system);
            options.limits.time = limit;
            Ok(AnyBrowser::Model {
                options: Box::new(options),
                cache: BrowserCache::default(),
            })
        }
        Loader::Chromium => {
            let hosts = network.content.hosts();
            let mut trust_spki = vec![network.authority.pin().to_owned()];
            trust_spki.extend(ours.map(|authority| authority.pin));
            let options = BrowserOptions {
                proxy: network.proxy(),
                names: Names::system(hosts.clone()),
                page_hosts: hosts,
                trust_spki,
                http2: if job.system.allows_http2() {
                    Http2::On
                } else {
                    Http2::Off
                },
                motion: match job.picture {
                    Picture::None => Motion::AsUsual,
                    Picture::Taken => Motion::Still,
                },
                folder: Some(temporary.to_owned()),
                ..BrowserOptions::default()
            };
            let browser = network
                .world
                .client()
                .run(move || async move { Browser::start(&options).await })
                .await?;
            Ok(AnyBrowser::Chromium(Box::new(browser)))
        }
    }
}

fn rules(system: System) -> Rules {
    match system {
        System::DirectHttp10 => Rules::Http10,
        System::DirectPipelined => Rules::pipelined(),
        System::Direct | System::TcpProxy => Rules::persistent(2),
        System::Direct6
        | System::DirectH2
        | System::Squid
        | System::SquidCache
        | System::Longhaul
        | System::LonghaulNopush
        | System::LonghaulFixed
        | System::LonghaulHttps => Rules::persistent(6),
    }
}

/// What became of a load; a failure says why, and what had been loaded until then.
type Loaded = Result<PageLoad, (String, Option<PageLoad>)>;

/// A load that has ended, and when it began.
struct Ended {
    browser: AnyBrowser,
    began: Instant,
    loaded: Loaded,
    /// A PNG, if it was to be taken.
    picture: Option<Vec<u8>>,
}

/// Loads `url` in the client's namespace.
async fn load(
    mut browser: AnyBrowser,
    network: &Network,
    url: Url,
    limit: Duration,
    cache: Cache,
    picture: Picture,
) -> Ended {
    let absent_hosts = network.content.blocked_hosts();
    let loading = network.world.client().run(move || async move {
        let (mut began, mut taken) = (Instant::now(), None);
        let loaded = match &mut browser {
            AnyBrowser::Model { options, cache: held } => {
                if cache == Cache::Clear {
                    *held = BrowserCache::default();
                }
                model::load(&url, options, Some(held))
                    .await
                    .map_err(|error| (error.to_string(), None))
            }
            AnyBrowser::Chromium(browser) => {
                let options = LoadOptions {
                    cache,
                    screenshot: picture == Picture::Taken,
                    absent_hosts,
                    ..LoadOptions::within(limit)
                };
                let loaded = browser.load(url.as_str(), &options).await;
                if let Ok(loaded) = &loaded {
                    began = loaded.navigated;
                }
                let loaded = loaded.map(|loaded| {
                    taken = loaded.screenshot;
                    loaded.load
                });
                loaded.map_err(given_up)
            }
        };
        Ended {
            browser,
            began,
            loaded,
            picture: taken,
        }
    });
    loading.await
}

fn given_up(error: ChromiumLoadError) -> (String, Option<PageLoad>) {
    let reason = error.to_string();
    match error {
        ChromiumLoadError::Document { load, .. } | ChromiumLoadError::TimedOut { load, .. } => {
            (reason, Some(*load))
        }
        ChromiumLoadError::Url(_) | ChromiumLoadError::DevTools(_) => (reason, None),
    }
}
