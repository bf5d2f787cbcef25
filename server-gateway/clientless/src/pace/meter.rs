//! What arrives at a client by one connection, and how long it takes.
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_tcp_info::TcpInfo;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpStream;

use super::Urgency;

/// Points of a connection whose arrival is awaited at the same time.
const MAX_MARKS: usize = 64;

/// A connection as its pace sees it.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Mutex<TcpStream>,
    /// Bytes that were written, since the connection began.
    written: AtomicU64,
    pub(crate) urgency: Arc<Urgency>,
}

impl Link {
    /// Nothing was written.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream: Mutex::new(stream),
            written: AtomicU64::new(0),
            urgency: Arc::default(),
        }
    }

    /// The connection itself.
    pub(crate) fn tcp(&self) -> MutexGuard<'_, TcpStream> {
        self.stream.lock()
    }

    /// Counts bytes that were written.
    pub(crate) fn count(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
        self.urgency.written(bytes);
    }

    /// Bytes that were written, since the connection began.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }
}

/// Measures one connection, from what the kernel knows of it.
#[derive(Debug)]
pub(super) struct Meter {
    /// What the kernel counted, and what was written, when the measurement began.
    counted: u64,
    began_at: u64,
    acked: u64,
    /// Numbers of bytes, when they had been sent, and the size of the last packet of them.
    marks: VecDeque<Mark>,
    /// When bytes were last acknowledged, or nothing was outstanding.
    progress: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    sent: u64,
    at: Duration,
    packet: u64,
}

/// What was measured since the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Bytes that arrived.
    pub(super) bytes: u64,
    /// When the last of them was acknowledged.
    pub(super) at: Duration,
    /// The round trip of the last one whose sending was noted, and the size of its packet.
    pub(super) round_trip: Option<(Duration, u64)>,
}

impl Meter {
    /// Measures from now on. Times are since any moment, the same for all calls.
    pub(super) const fn new(now: Duration, written: u64, info: &TcpInfo) -> Self {
        Self {
            counted: info.acknowledged_bytes,
            began_at: written,
            acked: written,
            marks: VecDeque::new(),
            progress: now,
        }
    }

    /// Bytes that are written and not acknowledged.
    pub(super) const fn outstanding(&self, written: u64) -> u64 {
        written.saturating_sub(self.acked)
    }

    /// When bytes were last acknowledged, or nothing was outstanding.
    pub(super) const fn progress(&self) -> Duration {
        self.progress
    }

    /// Notes that nothing is outstanding.
    pub(super) const fn idle(&mut self, now: Duration) {
        self.progress = now;
    }

    /// Takes what the kernel knows now.
    pub(super) fn update(&mut self, now: Duration, written: u64, info: &TcpInfo) -> Arrived {
        let before = self.marks.back().map_or(self.acked, |mark| mark.sent);
        let sent = written.saturating_sub(info.unsent_bytes);
        if sent > before && self.marks.len() < MAX_MARKS {
            let full = info.segment_bytes.max(1);
            let packet = match (sent - before) % full {
                0 => full,
                rest => rest,
            };
            let at = now.saturating_sub(info.since_sent);
            self.marks.push_back(Mark { sent, at, packet });
        }
        // The end of the stream counts as a byte.
        let acked =
            (self.began_at + info.acknowledged_bytes.saturating_sub(self.counted)).clamp(self.acked, written);
        let mut arrived = Arrived {
            bytes: acked - self.acked,
            at: now.saturating_sub(info.since_acknowledged),
            round_trip: None,
        };
        self.acked = acked;
        if arrived.bytes > 0 {
            self.progress = now;
        }
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.sent <= acked) {
            let time = arrived.at.saturating_sub(mark.at);
            arrived.round_trip = Some((time, mark.packet)).filter(|(time, _)| !time.is_zero());
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn info(acked: u64, unsent: u64, since_sent: u64, since_acked: u64) -> TcpInfo {
        TcpInfo {
            acknowledged_bytes: acked,
            unsent_bytes: unsent,
            segment_bytes: 1000,
            since_sent: ms(since_sent),
            since_acknowledged: ms(since_acked),
            ..TcpInfo::default()
        }
    }

    #[test]
    fn a_round_trip_is_from_the_sending_to_the_acknowledgement_whenever_it_is_looked_at() {
        // One byte was counted before.
        let mut meter = Meter::new(ms(0), 0, &info(1, 0, 0, 0));
        assert_eq!(meter.update(ms(30), 2500, &info(1, 0, 20, 0)).bytes, 0);
        let first = meter.update(ms(400), 2500, &info(2001, 0, 390, 50));
        assert_eq!((first.bytes, first.at, first.round_trip), (2000, ms(350), None));
        let second = meter.update(ms(500), 2500, &info(2501, 0, 490, 90));
        // Sent at 10 ms, acknowledged at 410 ms; its last packet has 500 bytes.
        assert_eq!((second.bytes, second.round_trip), (500, Some((ms(400), 500))));
        assert_eq!(meter.outstanding(2500), 0);
        // The end of the stream.
        assert_eq!(meter.update(ms(600), 2500, &info(2502, 0, 490, 90)).bytes, 0);
    }

    #[test]
    fn what_is_not_sent_has_no_round_trip_yet() {
        let mut meter = Meter::new(ms(0), 0, &info(0, 0, 0, 0));
        meter.update(ms(10), 3000, &info(0, 2000, 10, 0));
        let arrived = meter.update(ms(300), 3000, &info(1000, 0, 100, 0));
        assert_eq!(arrived.round_trip, Some((ms(300), 1000)));
        assert_eq!(meter.outstanding(3000), 2000);
        // The rest was sent at 200 ms.
        let arrived = meter.update(ms(600), 3000, &info(3000, 0, 400, 0));
        assert_eq!(arrived.round_trip, Some((ms(400), 1000)));
    }

    #[test]
    fn only_what_was_sent_since_the_last_mark_is_in_its_packets() {
        let mut meter = Meter::new(ms(0), 0, &info(0, 0, 0, 0));
        meter.update(ms(10), 2300, &info(0, 0, 5, 0));
        // 1400 further bytes: a full packet, and one of 400 bytes.
        meter.update(ms(20), 3700, &info(0, 0, 5, 0));
        let arrived = meter.update(ms(300), 3700, &info(3700, 0, 285, 0));
        assert_eq!(arrived.round_trip, Some((ms(285), 400)));
    }

    #[test]
    fn progress_is_made_when_something_arrives() {
        let mut meter = Meter::new(ms(0), 0, &info(0, 0, 0, 0));
        meter.update(ms(100), 1000, &info(0, 0, 10, 0));
        assert_eq!(meter.progress(), ms(0));
        meter.update(ms(200), 1000, &info(500, 0, 110, 0));
        assert_eq!(meter.progress(), ms(200));
        meter.update(ms(300), 1000, &info(500, 0, 210, 0));
        assert_eq!(meter.progress(), ms(200));
        meter.idle(ms(400));
        assert_eq!(meter.progress(), ms(400));
    }
}
