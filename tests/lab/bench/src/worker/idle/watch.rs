//! Sampling of the Internet's link: the times at which data was in flight between gateway and origins.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use longhaul_hosting::OpenRequests;
use longhaul_netem::LinkStats;
use longhaul_types::Timestamp;
use longhaul_world::EmulatedLink;

/// Interval between samples of the Internet's link: a hundredth of the hop's round trip, within these bounds.
const MIN_SAMPLE_INTERVAL: Duration = Duration::from_millis(2);
const MAX_SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Length of a pure acknowledgement: headers of IPv4 and TCP with timestamps. It carries no missing bytes.
const ACKNOWLEDGEMENT: u64 = 52;

/// Sampling of the Internet's link during a load.
#[derive(Debug)]
pub(in crate::worker) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Span>>>,
}

/// Start and end.
pub(in crate::worker) type Span = (Timestamp, Timestamp);

impl Watch {
    /// Starts the sampling. `rtt` is the hop's.
    pub(in crate::worker) fn start(internet: EmulatedLink, open: OpenRequests, rtt: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let look = (rtt / 100).clamp(MIN_SAMPLE_INTERVAL, MAX_SAMPLE_INTERVAL);
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(move || {
            let mut spans = Vec::new();
            let mut last = internet.now();
            while !stopped.load(Ordering::Acquire) {
                thread::park_timeout(look);
                let seen = internet.snapshot();
                if open.count() > 0 || carries_data(&seen.up) || carries_data(&seen.down) {
                    extend(&mut spans, (last, seen.now));
                }
                last = seen.now;
            }
            spans
        });
        Self {
            stop,
            thread: thread.ok(),
        }
    }

    /// Returns the times at which data was in flight between gateway and origins.
    pub(in crate::worker) fn end(mut self) -> Option<Vec<Span>> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// Returns true if packets other than pure acknowledgements are in flight.
fn carries_data(stats: &LinkStats) -> bool {
    let packets = stats.queued.packets + stats.in_flight.packets;
    let bytes = stats.queued.bytes.bytes() + stats.in_flight.bytes.bytes();
    bytes > packets * ACKNOWLEDGEMENT
}

pub(super) fn extend(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(before) if before.1 >= span.0 => before.1 = span.1,
        _ => spans.push(span),
    }
}
