//! Preparation of a state, loading of the page in it, and measurement.
pub(super) mod any_browser;

use std::{collections::BTreeSet, path::Path, time::Duration};

use longhaul_chromium::{Cache, ChromiumError};
use longhaul_pages::{Page, Replay, Scheme};
use longhaul_report::Row;
use longhaul_types::Timestamp;
use url::Url;

use any_browser::{AnyBrowser, load, start_browser};

use super::{
    bulk_download,
    device_requests::DeviceRequests,
    idle,
    network::{Between, Network, NetworkError},
    next_page, pair, row,
};
use crate::{
    cli::{Beside, ReplayScheme},
    job::{LoadJob, Picture},
    link::{Link, LinkError},
    select::{self, SelectError},
    state::State,
    system::System,
};

/// Time limit of a load as a multiple of the ideal time ...
const PATIENCE: f64 = 12.0;
/// ... but at least this.
const MIN_LIMIT: Duration = Duration::from_secs(120);
const MAX_LIMIT: Duration = Duration::from_secs(3600);
/// Idle time of the hop before the measured load, or two round trips if they are longer.
const QUIET: Duration = Duration::from_millis(300);
/// Maximum waiting time for an idle hop, because some traffic never ends (a poll of the page, keep-alives).
const QUIET_LIMIT: Duration = Duration::from_secs(30);
/// Interval of the hop's samples: sufficient for a curve of the longest load, and not too many for the
/// results file.
pub(super) const SAMPLE: Duration = Duration::from_millis(50);

/// Errors of measuring a load.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// The page could not be found.
    #[error(transparent)]
    Page(#[from] SelectError),
    /// The page does not support the state.
    #[error("{0}")]
    State(&'static str),
    /// The link could not be found.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The world could not be built.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Agent and gateway failed.
    #[error(transparent)]
    Pair(#[from] pair::PairError),
    /// Chromium failed.
    #[error(transparent)]
    Chromium(#[from] ChromiumError),
    /// TLS of the scripted browser could not be configured.
    #[error("cannot configure trust in the test authority: {0}")]
    Trust(#[from] longhaul_replay::page::TrustError),
    /// The load before the measured one failed.
    #[error("the load before the measured one failed: {0}")]
    Earlier(String),
}

impl LoadError {
    /// Returns true if other loads would fail, too.
    pub(super) fn is_fatal(&self) -> bool {
        matches!(self, Self::Network(NetworkError::World(_)))
            || matches!(self, Self::Chromium(ChromiumError::NotInstalled))
    }
}

/// A measured load.
pub(super) struct MeasuredLoad {
    pub(super) row: Row,
    /// The delivered URLs.
    pub(super) delivered: BTreeSet<String>,
    /// Domains for which the browser changed to https by itself.
    pub(super) upgraded: BTreeSet<String>,
    /// Screenshot as PNG, if requested.
    pub(super) picture: Option<Vec<u8>>,
}

/// Builds the world, prepares the job's state, loads the page and measures the load.
pub(super) async fn measured_load(job: &LoadJob, temporary: &Path) -> Result<MeasuredLoad, LoadError> {
    let link = job.link.resolve()?;
    let learned = match &job.remembered_from {
        Some(choice) => choice.resolve()?,
        None => link.clone(),
    };
    let (before, page) = pages(job)?;
    let mut network = Network::build(
        job,
        &learned,
        before.as_ref().map_or(&page, |before| &before.0).clone(),
        &[],
        temporary,
    )
    .await?;
    let limit = job.limit.unwrap_or_else(|| limit(&page, &link, job));
    let mut browser = start_browser(job, &network, limit, temporary).await?;
    if job.state != State::First && matches!(network.between, Between::Pair(_)) {
        network.world.client().run(pair::session_open).await?;
    }
    if job.system == System::LonghaulRemembered {
        remember_network(&mut network, &learned, &link, job.seed).await?;
        drop(browser);
        browser = start_browser(job, &network, limit, temporary).await?;
        if job.state != State::First {
            network.world.client().run(pair::session_open).await?;
            network.world.client().run(pair::link_is_remembered).await?;
        }
    }
    for _ in 0..job.state.earlier_devices() {
        visit(browser, &network, page.url().clone(), limit).await?;
        // The device leaves at once, without another page before.
        if let Between::Pair(pair) = &mut network.between {
            pair.change_device(network.world.client()).await?;
            network.world.client().run(pair::session_open).await?;
        }
        browser = start_browser(job, &network, limit, temporary).await?;
    }
    if let Some((_, url)) = before {
        browser = visit(browser, &network, url, limit).await?;
        network.content.show(page.clone());
        leave(&network).await;
    }
    if job.state != State::First {
        settle(&network, &link).await;
    }
    let (mut download, mut device_requests) = (None, None);
    match job.beside {
        Beside::Nothing => {}
        Beside::Bulk => {
            let started = bulk_download::start(network.world.client(), network.proxy(), network.bulk_origin);
            download = Some(started.await);
        }
        Beside::Requests => device_requests = Some(network.start_device_requests(page.url()).await?),
    }
    let answered_before = device_requests.as_ref().map(DeviceRequests::answered);
    let start = row::Start::take(&network).await;
    if job.detail {
        network.world.hop().start_sampling(SAMPLE);
    }
    // The browser's own cache of the earlier load is used only in this state.
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
    let answered = device_requests.as_ref().map(DeviceRequests::answered);
    drop((download, device_requests));
    settle(&network, &link).await;
    let mut end = row::End::take(&network);
    leave(&network).await;
    settle(&network, &link).await;
    end.page_left(&network).await;
    let (loaded, picture, usage) = (measured.loaded, measured.picture, measured.usage);
    network.check_emulator()?;
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
    row.cpu_browser_s = usage.map(|usage| usage.cpu.as_secs_f64());
    row.memory_browser_bytes = usage.map(|usage| usage.memory);
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

/// Loads a page before the measured one.
async fn visit(
    browser: AnyBrowser,
    network: &Network,
    url: Url,
    limit: Duration,
) -> Result<AnyBrowser, LoadError> {
    let visit = load(browser, network, url, limit, Cache::Keep, Picture::None).await;
    match visit.loaded {
        Ok(_) => Ok(visit.browser),
        Err((reason, _)) => Err(LoadError::Earlier(reason)),
    }
}

/// Returns the page that the same device loads first (edition and URL), and the page to measure.
fn pages(job: &LoadJob) -> Result<(Option<(Page, Url)>, Page), LoadError> {
    let mut page = select::find(&job.page)?;
    if job.system.rewrites_urls() {
        page = page.under_one_host();
    }
    if job.system.needs_tls() {
        page = page.with_scheme(Scheme::Https);
    } else if job.scheme == ReplayScheme::Http {
        page = page.replayed(Replay::Http).renamed(&job.renamed);
    }
    let url = page.url().clone();
    Ok(match job.state {
        State::First | State::Cold | State::SecondDevice | State::ThirdDevice => (None, page),
        State::Revisit | State::Warm => (Some((page.clone(), url)), page),
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

pub(super) fn limit(page: &Page, link: &Link, job: &LoadJob) -> Duration {
    let bytes = page.facts().bytes;
    let ideal = row::ideal(link, job, bytes);
    Duration::from_secs_f64((ideal * PATIENCE).min(MAX_LIMIT.as_secs_f64())).max(MIN_LIMIT)
}

/// Navigates the agent's browser to another page, as a user does before returning: then the unused pushes are
/// known.
async fn leave(network: &Network) {
    if let Some(proxy) = network.proxy().filter(|_| network.is_longhaul()) {
        let left = network
            .world
            .client()
            .run(move || next_page::navigate(proxy))
            .await;
        if let Err(error) = left {
            tracing::debug!(%error, "the browser did not leave the page");
        }
    }
}

/// Lets the agent use the network for a while over the link `learned`, changes the link to that of the load, and starts
/// the agent again with the same state folder and without its cache.
async fn remember_network(
    network: &mut Network,
    learned: &Link,
    link: &Link,
    seed: u64,
) -> Result<(), LoadError> {
    network.world.client().run(pair::session_open).await?;
    let origin = network.bulk_origin;
    drop(bulk_download::start(network.world.client(), network.proxy(), origin).await);
    settle(network, learned).await;
    let Between::Pair(pair) = &mut network.between else {
        return Ok(());
    };
    pair.end_agent().await?;
    if link != learned {
        let hop = network.world.hop();
        hop.idle(quiet_time(learned), QUIET_LIMIT).await;
        hop.change(link.hop.clone(), seed);
    }
    pair.restart_agent(network.world.client()).await?;
    Ok(())
}

/// Waits until the hop is idle.
async fn settle(network: &Network, link: &Link) {
    network.world.hop().idle(quiet_time(link), QUIET_LIMIT).await;
}

/// Time without packets after which a link is idle.
fn quiet_time(link: &Link) -> Duration {
    QUIET.max(link.rtt * 2)
}
