//! The row of a load: differences of counters, and the ideal.
mod counters;
mod late;

use std::{collections::BTreeSet, time::Duration};

use longhaul_loader::{ObjectClass, ObjectLoad, Outcome, PageLoad};
use longhaul_pages::{IdealSizes, Page, ideal_sizes};
use longhaul_report::Row;
use longhaul_types::Timestamp;
use url::Url;

pub(super) use counters::{End, Start};
use counters::{counters, push_counters};

use super::{
    idle::{IdleObservations, Span},
    load_detail,
    network::Network,
};
use crate::{
    cli::Beside,
    job::{LoadJob, Picture},
    link::Link,
    state::State,
};

/// Maximum number of failure reasons in a row.
const MAX_ERRORS: usize = 8;

/// An ended load, successful or not.
pub(super) struct Measured<'a> {
    pub(super) start: Start,
    pub(super) end: End,
    /// Time of the browser's navigation command.
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
    /// On failure, the reason with the state of the load at that time, if any.
    pub(super) loaded: Result<PageLoad, (String, Option<PageLoad>)>,
    pub(super) page: &'a Page,
    pub(super) link: &'a Link,
    pub(super) network: &'a Network,
    /// Times at which data was in flight between gateway and origins, if they were recorded.
    pub(super) origin: Option<Vec<Span>>,
}

/// Returns the row of a job before its execution, with the properties that identify it.
pub(crate) fn begun(job: &LoadJob) -> Row {
    Row {
        page: job.page.name().to_owned(),
        link: job.link.name().to_owned(),
        system: job.system.name().to_owned(),
        state: job.state.name().to_owned(),
        loader: job.loader.name().to_owned(),
        scheme: job.scheme.name().to_owned(),
        renamed: job.renamed.iter().cloned().collect(),
        image_level: job.image_level.name().to_owned(),
        run: job.run,
        internet_loss: job.internet.loss,
        conditions: conditions(job),
        without: job
            .switches
            .without()
            .iter()
            .map(|technique| technique.to_string())
            .collect(),
        ..Row::default()
    }
}

/// Returns the unusual conditions of a load.
fn conditions(job: &LoadJob) -> String {
    let mut texts = Vec::new();
    match job.beside {
        Beside::Nothing => {}
        Beside::Bulk => texts.push(longhaul_report::BESIDE_BULK.to_owned()),
        Beside::Requests => texts.push(longhaul_report::BESIDE_REQUESTS.to_owned()),
    }
    if !job.origin.think_time.is_zero() {
        texts.push(format!("origins think {} ms", job.origin.think_time.as_millis()));
    }
    if let Some(count) = job.origin.close_after {
        texts.push(format!("origins close after {count} answers"));
    }
    if !job.origin.keep_alive {
        texts.push("origins keep no connection".to_owned());
    }
    if job.origin.keep_alive_timeout != Duration::from_secs(60) {
        texts.push(format!(
            "origins end idle connections after {} ms",
            job.origin.keep_alive_timeout.as_millis()
        ));
    }
    if job.internet.delay != Duration::from_millis(20) {
        texts.push(format!("Internet {} ms one way", job.internet.delay.as_millis()));
    }
    if let Some(outstanding) = job.outstanding {
        texts.push(longhaul_report::outstanding(outstanding));
    }
    if let Some(link) = &job.remembered_from {
        texts.push(format!("remembered from {}", link.name()));
    }
    if job.picture == Picture::Taken {
        texts.push(longhaul_report::HELD_STILL.to_owned());
    }
    if let Some(name) = &job.internet.congestion {
        texts.push(format!("kernel TCP with {name}"));
    }
    texts.join(", ")
}

/// Returns the time of the ideal protocol for `bytes`: one round trip over hop and Internet, then the bytes
/// at the hop's raw rate (PEP-WWAN, section 6.3). It includes no name resolution, because a user of a proxy
/// needs none.
pub(super) fn ideal(link: &Link, job: &LoadJob, bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "sizes of pages are far below 2^53")]
    let (bits, rate) = (bytes as f64 * 8.0, link.rate_down.as_bps().max(1) as f64);
    rtt(link, job).as_secs_f64() + bits / rate
}

fn rtt(link: &Link, job: &LoadJob) -> Duration {
    link.rtt + job.internet.delay * 2
}

impl Measured<'_> {
    /// Returns the domains that the browser loaded only over https although they were requested over http,
    /// because its built-in list contains them.
    pub(super) fn upgraded(&self) -> BTreeSet<String> {
        let objects = match &self.loaded {
            Ok(load) | Err((_, Some(load))) => &load.objects[..],
            Err((_, None)) => &[],
        };
        let secure = objects.iter().filter(|object| object.url.scheme() == "https");
        let secure: BTreeSet<String> = secure.map(|object| plain(&object.url)).collect();
        let unasked = objects.iter().filter(|object| {
            object.url.scheme() == "http" && object.sent.is_none() && secure.contains(&plain(&object.url))
        });
        let hosts = unasked.filter_map(|object| object.url.host_str());
        hosts.map(|host| longhaul_pages::site(host).to_owned()).collect()
    }

    pub(super) fn row(self, job: &LoadJob) -> (Row, BTreeSet<String>) {
        let (load, error) = match self.loaded {
            Ok(load) => (Some(load), None),
            Err((error, load)) => (load, Some(error)),
        };
        let elapsed = self.ended - self.began;
        let objects = load.as_ref().map_or(&[][..], |load| &load.objects);
        let delivered = always_delivered(objects);
        let sizes = ideal_sizes(self.page, delivered_urls(objects));
        let mut row = begun(job);
        row.time_s = match (&load, &error) {
            (Some(load), None) => load.time,
            _ => elapsed,
        }
        .as_secs_f64();
        // The direct load was of the first edition: new objects of this edition are determined from the page
        // itself.
        let is_new = |url: &Url| {
            let answer = self.page.answer(&http::Method::GET, url);
            job.state == State::NextEdition && answer.is_some_and(|answer| answer.status.is_success())
        };
        tally(&mut row, objects, job.expected.as_ref(), is_new);
        if error.is_none() && job.requests_are_known() {
            tally_unrequested(&mut row, objects, job.expected.iter().flatten());
        }
        if let Some(error) = &error {
            row.failed = row.failed.max(1);
            row.errors.insert(0, error.clone());
        }
        if let Some(load) = &load {
            row.first_byte_s = first_byte(objects).map(|time| time.as_secs_f64());
            row.first_paint_s = load.first_paint.map(|time| time.as_secs_f64());
            row.largest_paint_s = load.largest_paint.map(|time| time.as_secs_f64());
            row.connections = load.connections;
            row.pipelining_factor = load.pipelining_factor;
            row.bytes_image_delivered = image_bytes(objects);
        }
        over_http(&mut row, objects);
        ideals(&mut row, &sizes, self.link, job);
        let end = self.began + Duration::from_secs_f64(row.time_s);
        counters(&mut row, self.network, &self.start.counters, &self.end);
        row.hop_idle_while_missing = idle_while_missing(self.network, self.link, job, self.began, end);
        row.hop_idle_share = Some(idle_between(self.network, self.began, end));
        if let Some(origin) = &self.origin {
            let observations = IdleObservations {
                hop: self.network.world.hop(),
                began: self.began,
                objects,
                hop_delay: self.link.rtt / 2,
                internet_delay: job.internet.delay,
                internet_loses: job.internet.loss > 0.0,
                exchanges: &self.end.exchanges,
                origin,
                now: self.end.now,
            };
            observations.fill(&mut row);
        }
        push_counters(&mut row, self.start.push.as_ref(), self.end.push.as_ref());
        self.end.left.fill(&mut row, &self.start.known, objects);
        if job.detail {
            let samples = &self.end.samples;
            row.detail = Some(load_detail::detail(
                objects,
                samples,
                self.began,
                end,
                self.link.rate_down,
            ));
        }
        (row, delivered)
    }
}

/// Returns the time of the first byte of the page itself, after redirects.
fn first_byte(objects: &[ObjectLoad]) -> Option<Duration> {
    let is_redirect = |object: &ObjectLoad| matches!(object.status, Some(301..=303 | 307 | 308));
    objects.iter().find(|object| !is_redirect(object))?.first_byte
}

fn arrived(object: &ObjectLoad) -> bool {
    object.outcome == Outcome::Delivered
}

fn delivered_urls(objects: &[ObjectLoad]) -> impl Iterator<Item = &Url> {
    objects
        .iter()
        .filter(|object| arrived(object))
        .map(|object| &object.url)
}

/// Returns the URLs whose requests were all delivered. Scripts may request a URL twice and cancel the first
/// request.
fn always_delivered(objects: &[ObjectLoad]) -> BTreeSet<String> {
    let others = objects.iter().filter(|object| !arrived(object));
    let others: BTreeSet<_> = others.map(|object| plain(&object.url)).collect();
    let arrived = delivered_urls(objects).map(plain);
    arrived.filter(|url| !others.contains(url)).collect()
}

/// Returns a URL without its scheme: a page may be loaded over https by one system and over http by another.
pub(super) fn plain(url: &Url) -> String {
    url.as_str()
        .split_once("://")
        .map_or(url.as_str(), |(_, rest)| rest)
        .to_owned()
}

/// Counts delivered objects, missing ones, and objects that this system lost although a direct load received
/// them.
fn tally(
    row: &mut Row,
    objects: &[ObjectLoad],
    expected: Option<&BTreeSet<String>>,
    is_new: impl Fn(&Url) -> bool,
) {
    for object in objects {
        let known =
            expected.is_none_or(|expected| expected.contains(&plain(&object.url)) || is_new(&object.url));
        let reason = match &object.outcome {
            Outcome::Delivered => {
                row.objects += 1;
                continue;
            }
            Outcome::Unfinished => continue,
            Outcome::Missing if known && expected.is_some() => object
                .status
                .map_or_else(|| "no such name".to_owned(), |status| format!("status {status}")),
            Outcome::Failed(reason) if known => reason.clone(),
            Outcome::Missing | Outcome::Failed(_) => {
                row.missing += 1;
                continue;
            }
        };
        fail(row, object.url.as_str(), &reason);
    }
}

/// Counts objects that were not even requested: what refers to them was lost or damaged on the way.
fn tally_unrequested<'a>(row: &mut Row, objects: &[ObjectLoad], expected: impl Iterator<Item = &'a String>) {
    let requested: BTreeSet<String> = objects.iter().map(|object| plain(&object.url)).collect();
    for url in expected.filter(|url| !requested.contains(*url)) {
        fail(row, url, "not requested");
    }
}

/// Counts an object that this system lost.
fn fail(row: &mut Row, url: &str, reason: &str) {
    row.failed += 1;
    if row.errors.len() < MAX_ERRORS {
        row.errors
            .push(format!("{}: {reason}", load_detail::shortened(url)));
    }
}

fn image_bytes(objects: &[ObjectLoad]) -> u64 {
    let images = objects
        .iter()
        .filter(|object| arrived(object) && object.class == ObjectClass::Image);
    images.map(|object| object.body_bytes).sum()
}

/// Counts the objects over plain http, which a proxy can read, and all objects.
fn over_http(row: &mut Row, objects: &[ObjectLoad]) {
    for object in objects.iter().filter(|object| arrived(object)) {
        row.body_bytes += object.body_bytes;
        if object.url.scheme() == "http" {
            row.http_objects += 1;
            row.http_bytes += object.body_bytes;
        }
    }
}

fn ideals(row: &mut Row, sizes: &IdealSizes, link: &Link, job: &LoadJob) {
    row.ideal_raw_s = ideal(link, job, sizes.raw);
    row.ideal_gzip_s = ideal(link, job, sizes.gzip());
    row.ideal_lossy_s = ideal(link, job, sizes.lossy(row.bytes_image_delivered));
    row.bytes_gzip_text = sizes.text_gzip;
    row.link_down_bps = link.rate_down.as_bps();
    row.link_rtt_s = link.rtt.as_secs_f64();
}

/// Returns the share of idle time in the period in which an ideal sender would have kept the hop busy: it
/// begins when the request has arrived and the origin has answered, and its last byte is sent one propagation
/// delay before it arrives.
fn idle_while_missing(
    network: &Network,
    link: &Link,
    job: &LoadJob,
    began: Timestamp,
    end: Timestamp,
) -> f64 {
    let back = |at: Timestamp| Timestamp::from_nanos(at.as_nanos().saturating_sub(nanos(link.rtt / 2)));
    idle_between(network, back(began + rtt(link, job)), back(end))
}

fn idle_between(network: &Network, from: Timestamp, to: Timestamp) -> f64 {
    let span = to.saturating_since(from);
    if span.is_zero() {
        return 0.0;
    }
    let busy = network.world.hop().busy_down(from, to).unwrap_or_default();
    1.0 - (busy.as_secs_f64() / span.as_secs_f64()).min(1.0)
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
