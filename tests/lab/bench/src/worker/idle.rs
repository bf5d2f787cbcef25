//! Causes of the hop's idle time while bytes are missing, determined by external observation, equally for
//! every system.
//!
//! The model of the hop records to the nanosecond when it had nothing to send towards the client. Three
//! sources determine the cause: the browser's times of requests and responses, the origins' times of requests
//! and responses, and the times at which data was in flight on the Internet's link.
mod watch;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use longhaul_hosting::Exchange;
use longhaul_loader::{ObjectLoad, Outcome};
use longhaul_report::Row;
use longhaul_types::Timestamp;
use longhaul_world::EmulatedLink;

pub(super) use watch::{Span, Watch};

use super::row::{nanos, plain};

/// TCP's initial window (RFC 6928) with the Internet's 1,500 bytes per packet.
const INITIAL_WINDOW: u64 = 10 * 1448;
/// Length of the head of a response.
const HEAD: u64 = 400;

/// Data that determine the causes of the hop's idle time.
pub(super) struct IdleObservations<'a> {
    pub(super) hop: &'a EmulatedLink,
    /// Time of the browser's navigation command.
    pub(super) began: Timestamp,
    pub(super) objects: &'a [ObjectLoad],
    /// One-way delay of the hop.
    pub(super) hop_delay: Duration,
    /// One-way delay of the Internet.
    pub(super) internet_delay: Duration,
    /// True if the Internet loses packets: then the time at which a response reached the gateway is unknown.
    pub(super) internet_loses: bool,
    pub(super) exchanges: &'a [Exchange],
    /// Times at which the Internet's link carried data.
    pub(super) origin: &'a [Span],
    /// The same time by two clocks.
    pub(super) now: (Timestamp, Instant),
}

/// Times of one object at the gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AtGateway {
    /// Arrival of its request.
    asked: Timestamp,
    /// Latest arrival of its response from the origin.
    there: Option<Timestamp>,
    /// Departure of its last byte on the hop.
    gone: Timestamp,
}

/// Cause of the hop's idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The gateway, or its transport: requested data was at the gateway.
    Gateway,
    /// The origins.
    Origin,
    /// The browser: it had not requested the missing data.
    Request,
}

/// Idle seconds by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Idle {
    window: f64,
    gateway: f64,
    origin: f64,
    request: f64,
}

impl Idle {
    /// Returns the idle share of the time in which the hop did not wait for the origins; `None` if it always
    /// did.
    fn without_origin(self) -> Option<f64> {
        let rest = self.window - self.origin;
        (rest > 0.0).then(|| ((self.gateway + self.request) / rest).min(1.0))
    }
}

impl IdleObservations<'_> {
    /// Stores the results in the row; nothing if the load had no response, or the hop has discarded its
    /// record.
    pub(super) fn fill(&self, row: &mut Row) {
        let Some(idle) = self.idle() else { return };
        let all = idle.gateway + idle.origin + idle.request;
        row.hop_window_s = Some(idle.window);
        row.hop_idle_after_first_byte = Some((all / idle.window).min(1.0));
        row.hop_idle_gateway_s = Some(idle.gateway);
        row.hop_idle_origin_s = Some(idle.origin);
        row.hop_idle_request_s = Some(idle.request);
        row.hop_idle_without_origin = idle.without_origin();
    }

    fn idle(&self) -> Option<Idle> {
        let (from, to) = self.window()?;
        let objects = self.at_gateway();
        let busy = |from, to| self.hop.busy_down(from, to);
        sum(from, to, &objects, self.origin, busy)
    }

    /// Returns the time from the page's first byte to its last one, as sent on the hop.
    fn window(&self) -> Option<Span> {
        let first = self.objects.iter().filter_map(|object| object.first_byte).min()?;
        let delivered = self
            .objects
            .iter()
            .filter(|object| object.outcome == Outcome::Delivered);
        let last = delivered.filter_map(|object| object.ended).max()?;
        let (from, to) = (self.left(first), self.left(last));
        let to = last_busy(from, to, |from, to| self.hop.busy_down(from, to))?;
        (from < to).then_some((from, to))
    }

    /// Returns the departure on the hop of a byte that the browser received at this time.
    fn left(&self, at: Duration) -> Timestamp {
        back(self.began + at, self.hop_delay)
    }

    fn at_gateway(&self) -> Vec<AtGateway> {
        let exchanges: BTreeMap<&str, &Exchange> = self
            .exchanges
            .iter()
            .map(|exchange| (without_scheme(&exchange.url), exchange))
            .collect();
        let objects = self.objects.iter().filter_map(|object| {
            let sent = self.began + object.sent? + self.hop_delay;
            let mut url = object.url.clone();
            url.set_fragment(None);
            let exchange = exchanges.get(plain(&url).as_str());
            let at_origin =
                exchange.map(|exchange| back(self.link_time(exchange.asked), self.internet_delay));
            let there = exchange.filter(|_| !self.internet_loses).map(|exchange| {
                self.link_time(exchange.answered) + transfer_time(exchange.body_bytes, self.internet_delay)
            });
            Some(AtGateway {
                asked: at_origin.map_or(sent, |at| sent.max(at)),
                there,
                gone: self.left(object.ended?),
            })
        });
        objects.collect()
    }

    fn link_time(&self, at: Instant) -> Timestamp {
        let (now, instant) = self.now;
        back(now, instant.saturating_duration_since(at))
    }
}

/// Returns the maximum time of a response from origin to gateway: over a new connection, with slow start.
fn transfer_time(body: u64, delay: Duration) -> Duration {
    let (mut flights, mut sent, mut window) = (0_u32, 0, INITIAL_WINDOW);
    while sent < body.saturating_add(HEAD) && flights < u32::BITS {
        sent += window;
        window = window.saturating_mul(2);
        flights += 1;
    }
    delay * (2 * flights).saturating_sub(1)
}

fn back(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos().saturating_sub(nanos(by)))
}

fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// Returns the end of the last time before `to` at which the hop was busy; `from` if it was not.
fn last_busy(
    from: Timestamp,
    to: Timestamp,
    busy: impl Fn(Timestamp, Timestamp) -> Option<Duration>,
) -> Option<Timestamp> {
    let (mut low, mut high) = (from.as_nanos(), to.as_nanos().max(from.as_nanos()));
    while low < high {
        let middle = low + (high - low) / 2;
        if busy(Timestamp::from_nanos(middle), to)?.is_zero() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(Timestamp::from_nanos(low))
}

/// Divides the window at every event of a source, and determines the cause of each part.
fn sum(
    from: Timestamp,
    to: Timestamp,
    objects: &[AtGateway],
    origin: &[Span],
    busy: impl Fn(Timestamp, Timestamp) -> Option<Duration>,
) -> Option<Idle> {
    let of_objects = objects
        .iter()
        .flat_map(|object| [Some(object.asked), object.there, Some(object.gone)]);
    let of_origin = origin.iter().flat_map(|span| [Some(span.0), Some(span.1)]);
    let mut cuts: Vec<Timestamp> = of_objects
        .chain(of_origin)
        .flatten()
        .filter(|cut| (from..to).contains(cut))
        .collect();
    cuts.extend([from, to]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut idle = Idle {
        window: (to - from).as_secs_f64(),
        ..Idle::default()
    };
    for piece in cuts.windows(2) {
        let &[start, end] = piece else { continue };
        let unused = (end - start).saturating_sub(busy(start, end)?).as_secs_f64();
        match cause(start, objects, origin) {
            Cause::Gateway => idle.gateway += unused,
            Cause::Origin => idle.origin += unused,
            Cause::Request => idle.request += unused,
        }
    }
    Some(idle)
}

fn cause(at: Timestamp, objects: &[AtGateway], origin: &[Span]) -> Cause {
    let mut missing = objects
        .iter()
        .filter(|object| object.asked <= at && at < object.gone);
    let any_missing = missing.clone().next().is_some();
    if missing.any(|object| object.there.is_some_and(|there| there <= at)) {
        return Cause::Gateway;
    }
    let next = origin.partition_point(|(_, end)| *end <= at);
    if origin.get(next).is_some_and(|(start, _)| *start <= at) {
        return Cause::Origin;
    }
    if any_missing {
        Cause::Gateway
    } else {
        Cause::Request
    }
}

#[cfg(test)]
mod tests {
    use super::{watch::extend, *};

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    fn spans(spans: &[(u64, u64)]) -> Vec<Span> {
        spans.iter().map(|(from, to)| (at(*from), at(*to))).collect()
    }

    /// Returns a function that reports the hop as busy in these times only.
    fn busy(times: &[(u64, u64)]) -> impl Fn(Timestamp, Timestamp) -> Option<Duration> {
        let times = spans(times);
        move |from, to| {
            let within = times
                .iter()
                .map(|(start, end)| (*end).min(to) - (*start).max(from));
            Some(within.sum())
        }
    }

    fn object(asked: u64, there: Option<u64>, gone: u64) -> AtGateway {
        AtGateway {
            asked: at(asked),
            there: there.map(at),
            gone: at(gone),
        }
    }

    #[test]
    fn idle_time_is_divided_by_cause() {
        // The document is sent until 100. The browser's request for the picture arrives at 150; the gateway
        // fetches it until 190, and it has certainly arrived at 200. It is sent from 230 to 300.
        let objects = [object(0, Some(40), 100), object(150, Some(200), 300)];
        let idle = sum(
            at(0),
            at(300),
            &objects,
            &spans(&[(0, 40), (150, 190)]),
            busy(&[(0, 100), (230, 300)]),
        )
        .unwrap();
        let milliseconds = |seconds: f64| (seconds * 1000.0).round();
        assert_eq!(milliseconds(idle.window), 300.0);
        assert_eq!(milliseconds(idle.request), 50.0, "from 100 to 150");
        assert_eq!(milliseconds(idle.origin), 40.0, "from 150 to 190");
        assert_eq!(milliseconds(idle.gateway), 40.0, "from 190 to 230");
        let corrected = idle.without_origin().unwrap();
        assert!((corrected - 90.0 / 260.0).abs() < 1e-9, "{corrected}");
        let waiting = Idle {
            window: 0.3,
            origin: 0.3,
            ..Idle::default()
        };
        assert_eq!(waiting.without_origin(), None);
    }

    #[test]
    fn data_at_the_gateway_takes_precedence_over_open_fetches() {
        let objects = [object(0, Some(10), 100), object(0, Some(90), 100)];
        assert_eq!(cause(at(50), &objects, &spans(&[(0, 90)])), Cause::Gateway);
        assert_eq!(cause(at(5), &objects, &spans(&[(0, 90)])), Cause::Origin);
        assert_eq!(cause(at(120), &objects, &spans(&[(0, 90)])), Cause::Request);
    }

    #[test]
    fn the_window_ends_with_the_last_byte() {
        let times = [(10, 20), (30, 40)];
        assert_eq!(last_busy(at(0), at(90), busy(&times)), Some(at(40)));
        assert_eq!(last_busy(at(0), at(35), busy(&times)), Some(at(35)));
        assert_eq!(last_busy(at(50), at(90), busy(&times)), Some(at(50)));
        assert_eq!(last_busy(at(0), at(90), |_, _| None), None);
    }

    #[test]
    fn responses_take_the_round_trips_of_slow_start() {
        let delay = Duration::from_millis(20);
        assert_eq!(transfer_time(0, delay), delay);
        assert_eq!(transfer_time(14_080, delay), delay);
        assert_eq!(transfer_time(14_081, delay), delay * 3);
        assert_eq!(transfer_time(100_000, delay), delay * 5);
        assert!(transfer_time(u64::MAX, delay) > delay);
    }

    #[test]
    fn adjacent_samples_are_merged() {
        let mut found = Vec::new();
        for (from, to) in spans(&[(0, 2), (2, 4), (8, 10)]) {
            extend(&mut found, (from, to));
        }
        assert_eq!(found, spans(&[(0, 4), (8, 10)]));
    }
}
