//! The task of a page load: starts fetches and pushes in the order of the plan, and ends the manifest.
use std::{sync::Arc, time::Duration};

use longhaul_session::Withdrawal;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::{Instrument as _, warn};

use super::{PageLoad, subresource};
use crate::bundle::{context::lock, manifest::gather, plan::BodyState, push};

/// Maximum concurrent fetches of a page load; the origin client bounds those to one host.
const MAX_FETCHES: usize = 32;
/// Maximum including fetches of objects that the page waits for.
const MAX_URGENT_FETCHES: usize = 48;
/// Bytes queued for the hop above which only urgent objects are fetched: minutes of transfer on the intended
/// links.
const MAX_WAITING: u64 = 16 * 1024 * 1024;
/// Maximum pushes being sent, among which the transport shares the hop within a class.
const MAX_PUSHING: usize = 64;
/// Maximum pushes including those that wait for acknowledgement. The agent allows 256 streams in total.
const MAX_OPEN: usize = 160;
/// Maximum fetches and pushes, beyond which no lost body is fetched again.
const MAX_TASKS: usize = MAX_URGENT_FETCHES + MAX_OPEN;
/// Maximum wait for responses that may be redirects, before the manifest declares that no further entry
/// follows.
const MAX_REDIRECTING: Duration = Duration::from_secs(2);

/// Runs a page load until this future is dropped.
pub(in crate::bundle) async fn drive(load: Arc<PageLoad>) {
    let mut changed = load.changed.subscribe();
    let mut tasks = JoinSet::new();
    let mut searched: Option<Instant> = None;
    let mut kept = Kept::Nothing;
    let mut flush_at: Option<Instant> = None;
    loop {
        changed.borrow_and_update();
        start_fetches(&load, &mut tasks);
        start_repeats(&load, &mut tasks);
        // Bodies wait until their heads are written.
        if !load.plan().has_records() {
            start_pushes(&load, &mut tasks);
        }
        if !load.plan().is_searching() {
            let since = *searched.get_or_insert_with(Instant::now);
            if !load.plan().has_open() || since.elapsed() >= MAX_REDIRECTING {
                load.plan().close();
            }
        }
        if kept == Kept::Nothing && is_settled(&load) {
            load.finish_manifest().await;
            load.keep_manifest().await;
            kept = Kept::Early;
            start_pushes(&load, &mut tasks);
        }
        if kept == Kept::Early && load.is_sent() {
            load.keep_manifest().await;
            kept = Kept::Whole;
        }
        flush_at = load
            .plan()
            .has_records()
            .then(|| flush_at.unwrap_or_else(|| Instant::now() + gather(load.context.link_rate())));
        let redirecting = searched
            .filter(|_| !load.plan().is_closed())
            .map(|since| since + MAX_REDIRECTING);
        tokio::select! {
            () = woken(&mut changed) => {}
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    warn!("a task of a page load ended in a panic");
                }
            }
            () = at(flush_at) => {
                load.flush().await;
                start_pushes(&load, &mut tasks);
                flush_at = None;
            }
            () = at(redirecting) => {}
        }
    }
}

async fn woken(changed: &mut watch::Receiver<u64>) {
    if changed.changed().await.is_err() {
        std::future::pending().await
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Starts fetches up to the limits.
fn start_fetches(load: &Arc<PageLoad>, tasks: &mut JoinSet<()>) {
    loop {
        let entry = {
            let mut plan = load.plan();
            let fetching = plan.fetching();
            let only_urgent = fetching >= MAX_FETCHES || plan.waiting_bytes() > MAX_WAITING;
            if fetching >= MAX_URGENT_FETCHES {
                break;
            }
            plan.next_fetch(only_urgent)
        };
        let Some(entry) = entry else { break };
        let load = Arc::clone(load);
        tasks.spawn(async move { subresource::fetch(&load, entry).await }.in_current_span());
    }
}

/// Starts fetches of bodies that the cache no longer has.
fn start_repeats(load: &Arc<PageLoad>, tasks: &mut JoinSet<()>) {
    while tasks.len() < MAX_TASKS {
        let Some(entry) = lock(&load.missing).pop_first() else {
            break;
        };
        let load = Arc::clone(load);
        tasks.spawn(async move { subresource::again(&load, entry).await }.in_current_span());
    }
}

/// Starts pushes up to the limits.
fn start_pushes(load: &Arc<PageLoad>, tasks: &mut JoinSet<()>) {
    loop {
        let next = {
            let mut plan = load.plan();
            let pushing = plan.bodies(BodyState::Pushing);
            if pushing >= MAX_PUSHING || pushing + plan.bodies(BodyState::Sent) >= MAX_OPEN {
                break;
            }
            let entry = plan.next_push();
            entry.and_then(|entry| Some((entry, plan.get(entry)?.class())))
        };
        let Some((entry, class)) = next else { break };
        let Some(body) = lock(&load.bodies).remove(&entry) else {
            load.plan().withdraw(entry, Withdrawal::Failed);
            continue;
        };
        let (sender, class) = watch::channel(class);
        lock(&load.classes).insert(entry, sender);
        let load = Arc::clone(load);
        let pushing = async move {
            push::push(&load, entry, body, class).await;
            lock(&load.classes).remove(&entry);
        };
        tasks.spawn(pushing.in_current_span());
    }
}

/// Returns true if no further record can be added to the manifest.
fn is_settled(load: &PageLoad) -> bool {
    let plan = load.plan();
    plan.is_closed() && !plan.has_open() && !plan.has_unmeasured()
}

/// Version of the manifest that is stored for the next load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    /// With the hashes that were known when the manifest ended.
    Early,
    /// With the hashes of all bodies.
    Whole,
}
