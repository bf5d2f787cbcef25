//! The event stream of the dashboard. One task takes a sample of the hop each second and renders it once; all open
//! dashboards get the same bytes. Nothing is rendered while none is open.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval},
};

use super::Control;
use crate::{
    dashboard::{self, Counted, LiveFigures, Parts, Sample, Samples, WaitingStatus},
    gateway::GatewayState,
    proxy_body::ProxyBody,
    wall_clock,
};

/// Interval of samples and events.
const INTERVAL: Duration = Duration::from_secs(1);
/// Events that wait for a slow reader; then the next ones are left out.
const EVENTS_AHEAD: usize = 2;
/// Samples after which the ages in the list of pages are renewed.
const AGES: u32 = 60;

/// What open dashboards get.
#[derive(Debug, Default)]
pub struct Live {
    samples: Mutex<Samples>,
    figures: watch::Sender<Bytes>,
    pages: watch::Sender<Bytes>,
    parts: watch::Sender<Bytes>,
}

/// Takes a sample each second, and renders it for the open dashboards, until the agent ends.
pub async fn sample(control: Arc<Control>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut requests = control.handles.journal.watch();
    let (mut aged, mut had_waiting_pages) = (0, false);
    loop {
        ticks.tick().await;
        control.take_sample();
        if control.live.figures.receiver_count() == 0 {
            continue;
        }
        control.render_figures().await;
        aged += 1;
        if requests.has_changed().unwrap_or(false) || aged >= AGES {
            requests.mark_unchanged();
            aged = 0;
            control.render_pages();
            control.render_parts();
        } else if control.has_waiting_pages() || had_waiting_pages {
            // Their waiting times grow.
            control.render_parts();
        }
        had_waiting_pages = control.has_waiting_pages();
    }
}

impl Control {
    fn take_sample(&self) {
        let gateway = &self.handles.upstream.gateway;
        let (view, traffic) = (gateway.view(), gateway.traffic());
        let stats = view.session.map(|session| session.stats());
        let stats = stats.as_ref();
        let counts = Counted {
            down: traffic.down,
            up: traffic.up,
            received: stats.map_or(0, |stats| stats.packets_received),
            lost: stats.map_or(0, |stats| stats.packets_missing.saturating_sub(stats.spurious)),
        };
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let sample = Sample {
            rtt_ms: stats.and_then(|stats| stats.measured_srtt).map(ms),
            queue_ms: stats.map_or(0, |stats| ms(stats.queue_delay)),
            is_open: view.state == GatewayState::Open,
            ..Sample::default()
        };
        self.live.samples.lock().add(counts, sample);
    }

    /// Returns the figures that change while a dashboard is open.
    pub(super) fn live_figures(&self) -> LiveFigures {
        LiveFigures::of(&self.status(), &self.live.samples.lock())
    }

    async fn render_figures(&self) {
        self.handles.storage.store.refresh_usage().await;
        if let Ok(json) = serde_json::to_string(&self.live_figures()) {
            self.live
                .figures
                .send_replace(Bytes::from(format!("data: {json}\n\n")));
        }
    }

    fn render_pages(&self) {
        let loads = dashboard::newest(&self.handles.journal.requests());
        let rows = dashboard::rows(&loads, now_ms());
        let rows: Vec<String> = rows.into_iter().map(maud::Markup::into_string).collect();
        if let Ok(json) = serde_json::to_string(&rows) {
            renew(
                &self.live.pages,
                Bytes::from(format!("event: pages\ndata: {json}\n\n")),
            );
        }
    }

    fn has_waiting_pages(&self) -> bool {
        !self.handles.upstream.waiting_pages.list().is_empty()
    }

    fn render_parts(&self) {
        let waiting = self.handles.upstream.waiting_pages.list();
        let waiting: Vec<WaitingStatus> = waiting.into_iter().map(WaitingStatus::from).collect();
        let requests = self.handles.journal.requests();
        let (failed, kept) = (dashboard::failures(&requests), self.history.summary());
        let parts = Parts::of(&waiting, &failed, &kept.days, now_ms());
        if let Ok(json) = serde_json::to_string(&parts) {
            renew(
                &self.live.parts,
                Bytes::from(format!("event: parts\ndata: {json}\n\n")),
            );
        }
    }

    /// Answers with the event stream.
    pub(super) async fn live_stream(&self) -> Response<ProxyBody> {
        if self.live.figures.receiver_count() == 0 {
            // What was rendered for the last dashboard is old.
            self.render_figures().await;
            self.render_pages();
            self.render_parts();
        }
        let (sender, events) = mpsc::channel(EVENTS_AHEAD);
        let Live {
            figures,
            pages,
            parts,
            ..
        } = &self.live;
        let (mut figures, mut pages, mut parts) = (figures.subscribe(), pages.subscribe(), parts.subscribe());
        figures.mark_changed();
        pages.mark_changed();
        parts.mark_changed();
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    Ok(()) = figures.changed() => figures.borrow_and_update().clone(),
                    Ok(()) = pages.changed() => pages.borrow_and_update().clone(),
                    Ok(()) = parts.changed() => parts.borrow_and_update().clone(),
                    () = sender.closed() => return,
                    else => return,
                };
                if sender.send(Ok(event)).await.is_err() {
                    return;
                }
            }
        });
        let mut response = Response::new(ProxyBody::windows(events, None));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        );
        response
    }
}

/// Sends an event to the open dashboards, unless it is the one that they have.
fn renew(event: &watch::Sender<Bytes>, new: Bytes) {
    event.send_if_modified(|before| {
        let is_new = *before != new;
        *before = new;
        is_new
    });
}

/// Time in ms since 1970.
pub(super) fn now_ms() -> u64 {
    u64::try_from(wall_clock::now().since_epoch().as_millis()).unwrap_or(u64::MAX)
}
