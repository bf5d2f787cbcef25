//! Path MTU discovery (transport.md section 7.5): the search of RFC 8899 with data in the probes, and
//! detection of black holes.
use std::time::Duration;

use longhaul_types::Timestamp;

use crate::{
    path::{LEAST_LINK_PAYLOAD, Path, PathClass},
    recovery::Report,
    wire::MAX_UDP_PAYLOAD,
};

/// MTUs of paths, largest first: Ethernet, PPPoE, GTP with IPsec, WireGuard, PPTP and L2TP, nested tunnels.
const MTUS: [usize; 6] = [1500, 1492, 1440, 1420, 1380, 1340];
/// Number of probes per size. A third probe would correct a wrong result of two random losses, at the price
/// of a third delay on paths with a smaller MTU.
const ATTEMPTS: u8 = 2;
/// Pause after the first lost probe, doubled after each further one: the data of a lost probe is late, and a
/// page should see that only once.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Number of large packets lost without one arriving in between that indicates a black hole. Fading links
/// lose more in a row, but they lose small packets as well, and the search soon starts again.
const BLACK_HOLE: u32 = 6;
/// Pause after a black hole.
const HOLE_PAUSE: Duration = Duration::from_secs(60);
/// Headers of IPv4 and UDP.
const UDP_IPV4: usize = 28;
/// Largest packet of an ordered link, so that one packet with its framing fits one TCP segment: 1,492 bytes (PPPoE) without
/// the headers of IPv6 and TCP with timestamps (72), those of TLS 1.3 (22) and of a masked WebSocket message (8), and the
/// length (2). A larger packet is sent in two segments, of which one is nearly empty.
const ORDERED_PAYLOAD: usize = 1_388;
/// Additional header bytes of IPv6 (transport.md section 1).
const IPV6_EXTRA: usize = 20;

/// Search state of one path.
#[derive(Clone, Debug)]
pub(super) struct PathMtu {
    /// Length of the IP and UDP headers for this path's address family.
    headers: usize,
    /// UDP payload that every path takes.
    base: usize,
    /// UDP payload that both ends accept.
    limit: usize,
    /// UDP payload that the path is known to take.
    current: usize,
    /// Index in [`MTUS`] of the next size to try.
    next: usize,
    attempts: u8,
    /// UDP payload of the probe in flight.
    probe: Option<usize>,
    /// Time before which no probe is sent.
    not_before: Timestamp,
    pause: Duration,
    /// Packets above `base` lost since the last one that arrived.
    lost: u32,
}

impl PathMtu {
    /// Creates the state of an unknown path. `base` is the UDP payload that every path takes, `limit` the UDP
    /// payload that both ends accept, `headers` the length of the IP and UDP headers; all in bytes.
    pub(super) const fn new(base: usize, limit: usize, headers: usize) -> Self {
        Self {
            headers,
            base,
            limit,
            current: base,
            next: 0,
            attempts: 0,
            probe: None,
            not_before: Timestamp::ZERO,
            pause: FIRST_PAUSE,
            lost: 0,
        }
    }

    /// Creates the state of a link, whose carrier knows that it takes packets of `payload` bytes.
    pub(super) const fn of_link(payload: usize, limit: usize) -> Self {
        Self {
            next: MTUS.len(),
            ..Self::new(payload, limit, 0)
        }
    }

    /// Sets the largest packet of a link.
    pub(super) fn set_link_payload(&mut self, payload: usize) {
        self.base = payload.min(self.limit);
        self.current = self.base;
    }

    /// Largest UDP payload that the path is known to take.
    pub(super) const fn payload(&self) -> usize {
        self.current
    }

    /// Largest UDP payload that both ends accept.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// UDP payload of the next probe, if a probe may be sent now.
    pub(super) fn candidate(&self, now: Timestamp) -> Option<usize> {
        if self.probe.is_some() || now < self.not_before {
            return None;
        }
        self.size(self.next)
    }

    /// UDP payload at index `place` of the table, limited to what both ends accept, if it is larger than the
    /// current one.
    fn size(&self, place: usize) -> Option<usize> {
        let size = MTUS.get(place)?.saturating_sub(self.headers).min(self.limit);
        (size > self.current).then_some(size)
    }

    /// Records a probe with this UDP payload.
    pub(super) const fn on_probe(&mut self, payload: usize) {
        self.probe = Some(payload);
    }

    /// Processes a report whose sizes include `counted` bytes of headers. A stall may have caused the loss of
    /// packets sent before `resumed`, whatever their size.
    pub(super) fn on_report(&mut self, now: Timestamp, resumed: Timestamp, report: &Report, counted: u64) {
        let payload = |size: u64| usize::try_from(size.saturating_sub(counted)).unwrap_or(usize::MAX);
        let arrived = report.largest_acked.map_or(0, payload);
        let lost = |at_least: usize| {
            report
                .lost_sizes
                .iter()
                .filter(move |(_, size)| payload(*size) >= at_least)
        };
        if arrived > self.base {
            self.lost = 0;
        }
        if let Some(probe) = self.probe {
            if arrived >= probe {
                self.found(probe);
            } else if lost(probe).next().is_some() {
                self.failed(now);
            }
        }
        let large =
            lost(self.base + 1).filter(|(sent, size)| *sent >= resumed && payload(*size) <= self.current);
        self.lost = self
            .lost
            .saturating_add(u32::try_from(large.count()).unwrap_or(u32::MAX));
        if self.current > self.base && self.lost >= BLACK_HOLE {
            *self = Self {
                not_before: now + HOLE_PAUSE,
                ..Self::new(self.base, self.limit, self.headers)
            };
        }
    }

    const fn found(&mut self, payload: usize) {
        self.current = payload;
        self.probe = None;
        self.attempts = 0;
        // The remaining sizes of the table are smaller: the search is complete.
        self.next = MTUS.len();
    }

    fn failed(&mut self, now: Timestamp) {
        self.probe = None;
        self.attempts += 1;
        if self.attempts >= ATTEMPTS {
            self.attempts = 0;
            let tried = self.size(self.next);
            // Sizes that the limit makes equal have been tried as well.
            while self.next < MTUS.len() && self.size(self.next) == tried {
                self.next += 1;
            }
        }
        self.not_before = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

/// State of a path to `remote`; both ends accept UDP payloads up to `limit`. For a link there is nothing to search: an ordered
/// one takes every size, and the carrier of another one reports it.
pub(super) fn path_mtu(limit: usize, remote: Path) -> PathMtu {
    let family = match remote {
        Path::Udp(path) if path.remote.is_ipv4() => 0,
        Path::Udp(_) => IPV6_EXTRA,
        Path::Link(link) => {
            let known = match link.class() {
                PathClass::Ordered => limit.min(ORDERED_PAYLOAD),
                PathClass::Datagram => limit.min(LEAST_LINK_PAYLOAD),
            };
            return PathMtu::of_link(known, limit);
        }
    };
    let base = limit.min(MAX_UDP_PAYLOAD - family);
    PathMtu::new(base, limit, UDP_IPV4 + family)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: u64 = 28;

    fn path(limit: usize) -> PathMtu {
        PathMtu::new(1252, limit, 28)
    }

    fn report(acked: Option<u64>, lost: &[u64]) -> Report {
        Report {
            largest_acked: acked,
            lost_sizes: lost.iter().map(|size| (Timestamp::ZERO, *size)).collect(),
            ..Report::default()
        }
    }

    /// Probes as often as permitted on a path of this MTU; returns the number of lost probes.
    fn search(path: &mut PathMtu, mtu: usize) -> usize {
        let (mut now, mut lost) = (Timestamp::ZERO, 0);
        for _ in 0..100 {
            if let Some(size) = path.candidate(now) {
                path.on_probe(size);
                let on_link = size as u64 + HEADERS;
                let told = if on_link <= mtu as u64 {
                    report(Some(on_link), &[])
                } else {
                    lost += 1;
                    report(Some(1280), &[on_link])
                };
                path.on_report(now, Timestamp::ZERO, &told, HEADERS);
            }
            now += Duration::from_secs(100);
        }
        lost
    }

    #[test]
    fn the_search_ends_at_the_largest_size_that_arrives() {
        for (mtu, payload, most_lost) in [
            (1500, 1472, 0),
            (1492, 1464, 2),
            (1400, 1352, 8),
            (1340, 1312, 10),
            (1300, 1252, 12),
        ] {
            let mut path = path(1472);
            let lost = search(&mut path, mtu);
            assert_eq!((path.payload(), lost), (payload, most_lost), "MTU {mtu}");
            assert_eq!(
                path.candidate(Timestamp::ZERO + Duration::from_secs(1 << 20)),
                None
            );
        }
    }

    #[test]
    fn no_probe_exceeds_the_limits_of_the_ends() {
        let mut path = path(1400);
        assert_eq!(path.candidate(Timestamp::ZERO), Some(1400));
        assert_eq!(search(&mut path, 1428), 0);
        assert_eq!(path.payload(), 1400);
        let mut narrow = self::path(1400);
        assert_eq!(
            search(&mut narrow, 1420),
            2,
            "1428 once, although two places of the table stand for it"
        );
        assert_eq!(narrow.payload(), 1392);
        assert_eq!(self::path(1252).candidate(Timestamp::ZERO), None);
        assert_eq!(self::path(300).candidate(Timestamp::ZERO), None);
    }

    #[test]
    fn a_link_is_not_searched_and_follows_its_carrier() {
        let mut link = PathMtu::of_link(1150, 1400);
        let later = Timestamp::ZERO + Duration::from_secs(1 << 20);
        for (told, payload) in [(1194, 1194), (1414, 1400), (1150, 1150)] {
            link.set_link_payload(told);
            assert_eq!(link.payload(), payload);
            link.on_report(later, Timestamp::ZERO, &report(None, &[1500; 9]), HEADERS);
            assert_eq!((link.payload(), link.candidate(later)), (payload, None));
        }
        assert_eq!(link.limit(), 1400);
    }

    #[test]
    fn a_black_hole_reduces_the_size_and_random_loss_does_not() {
        let mut path = path(1472);
        search(&mut path, 1500);
        for _ in 0..20 {
            path.on_report(
                Timestamp::ZERO,
                Timestamp::ZERO,
                &report(None, &[1500; 5]),
                HEADERS,
            );
            path.on_report(
                Timestamp::ZERO,
                Timestamp::ZERO,
                &report(Some(1500), &[]),
                HEADERS,
            );
        }
        assert_eq!(path.payload(), 1472);
        let now = Timestamp::ZERO + Duration::from_secs(7);
        path.on_report(now, Timestamp::ZERO, &report(Some(90), &[1500; 4]), HEADERS);
        assert_eq!(path.payload(), 1472);
        path.on_report(now, now, &report(Some(1280), &[1500; 9]), HEADERS);
        assert_eq!(path.payload(), 1472, "lost in a stall");
        path.on_report(
            now,
            Timestamp::ZERO,
            &report(Some(1280), &[1500, 1500, 1280]),
            HEADERS,
        );
        assert_eq!(path.payload(), 1252);
        assert_eq!(path.candidate(now), None);
        assert_eq!(path.candidate(now + HOLE_PAUSE), Some(1472));
    }
}
