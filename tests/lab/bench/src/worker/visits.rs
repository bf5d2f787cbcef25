//! Many visits through one agent, which compares some of them with direct ones.
use std::path::Path;

use longhaul_chromium::Cache;
use longhaul_loader::{ObjectLoad, Outcome};
use longhaul_pages::{Page, Replay};
use serde_json::Value;

use super::{
    browser::{
        self, LoadError,
        any_browser::{load, start_browser},
    },
    network::Network,
    pair,
};
use crate::{
    cli::ReplayScheme,
    job::{LoadJob, PageChoice, Picture, Reply, Visited, VisitsJob},
    select::{self, SelectError},
};

/// Makes the visits of a job in a network of its own.
pub(super) async fn visits(job: &VisitsJob, temporary: &Path) -> Reply {
    match visit_all(job, temporary).await {
        Ok((visits, hold_out)) => Reply::Visited { visits, hold_out },
        Err(error) => Reply::Failed {
            fatal: error.is_fatal(),
            reason: error.to_string(),
        },
    }
}

async fn visit_all(job: &VisitsJob, temporary: &Path) -> Result<(Vec<Visited>, Value), LoadError> {
    let link = job.load.link.resolve()?;
    let chosen = job.pages.iter().map(|choice| page(choice, &job.load));
    let pages: Vec<Page> = chosen.collect::<Result<_, _>>()?;
    let Some(first) = pages.first() else {
        return Ok((Vec::new(), Value::Null));
    };
    let network = Network::build(&job.load, &link, first.clone(), &pages, temporary).await?;
    let longest = pages
        .iter()
        .map(|page| browser::limit(page, &link, &job.load))
        .max();
    let limit = job.load.limit.or(longest).unwrap_or_default();
    let mut browser = start_browser(&job.load, &network, limit, temporary).await?;
    network.world.client().run(pair::session_open).await?;
    let mut visited = Vec::new();
    let mut direct = direct_requests(&network).await;
    for page in job.order.iter().filter_map(|index| pages.get(*index)) {
        network.content.show(page.clone());
        let url = page.url().clone();
        let ended = load(browser, &network, url, limit, Cache::Clear, Picture::None).await;
        browser = ended.browser;
        let direct_now = direct_requests(&network).await;
        visited.push(Visited {
            page: page.name().to_owned(),
            time_s: ended.loaded.as_ref().ok().map(|load| load.time.as_secs_f64()),
            failed: ended
                .loaded
                .as_ref()
                .map_or(1, |load| failed(page, &load.objects)),
            is_direct: direct_now > direct,
        });
        direct = direct_now;
    }
    network.check_emulator()?;
    let status = network.agent_counters().await.unwrap_or_default();
    Ok((visited, status["hold_out"].clone()))
}

fn page(choice: &PageChoice, job: &LoadJob) -> Result<Page, SelectError> {
    let page = select::find(choice)?;
    Ok(match job.scheme {
        ReplayScheme::Recorded => page,
        ReplayScheme::Http => page.replayed(Replay::Http),
    })
}

/// Number of requests that the agent sent directly so far.
async fn direct_requests(network: &Network) -> u64 {
    let status = network.agent_counters().await.unwrap_or_default();
    status["direct_requests"].as_u64().unwrap_or(0)
}

/// Number of objects that the page contains and that did not arrive: those of other hosts fail everywhere.
fn failed(page: &Page, objects: &[ObjectLoad]) -> usize {
    let lost = objects
        .iter()
        .filter(|object| matches!(object.outcome, Outcome::Failed(_)));
    let exists = |url: &url::Url| {
        let answer = page.answer(&http::Method::GET, url);
        answer.is_some_and(|answer| answer.status.is_success())
    };
    lost.filter(|object| exists(&object.url)).count()
}
