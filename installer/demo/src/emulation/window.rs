//! The congestion window of a byte stream.
use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep_until},
};

use super::lane::{MAX_SEGMENT, Segment};

/// Initial window (RFC 6928).
const INITIAL: usize = 10 * MAX_SEGMENT;
/// Least window.
const LEAST: usize = 2 * MAX_SEGMENT;
/// Receive window: above delay and queue of every profile.
const MOST: usize = 4 * 1024 * 1024;

/// The bytes that a sender may have in flight.
#[derive(Debug)]
pub(super) struct CongestionWindow {
    free: Arc<Semaphore>,
}

/// The acknowledgement of a segment.
#[derive(Debug)]
pub(super) struct Ack {
    arrived: Instant,
    length: usize,
    is_repeated: bool,
    /// Becomes free when the sender has the acknowledgement.
    share: Option<Arc<OwnedSemaphorePermit>>,
}

impl Ack {
    pub(super) fn of(segment: &Segment) -> Self {
        Self {
            arrived: Instant::now(),
            length: segment.data.len(),
            is_repeated: segment.is_repeated,
            share: segment.window.clone(),
        }
    }
}

impl CongestionWindow {
    pub(super) fn new() -> Self {
        Self {
            free: Arc::new(Semaphore::new(INITIAL)),
        }
    }

    /// Waits until `length` bytes fit into the window.
    pub(super) async fn take(&self, length: usize) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(length).ok()?;
        Arc::clone(&self.free).acquire_many_owned(permits).await.ok()
    }
}

/// Adapts the window to the acknowledgements, each of which takes `way_back`; ends with their sender.
///
/// Slow start until the first loss; afterwards a segment for each round trip, and 0.7 of the window after a loss, at most
/// once a window (RFC 5681, with the factor of RFC 9438).
pub(super) async fn acknowledge(
    window: &CongestionWindow,
    mut acks: mpsc::UnboundedReceiver<Ack>,
    way_back: Duration,
) {
    let mut size = INITIAL;
    // Bytes to take out of the window as they become free.
    let mut excess = 0;
    let mut grown = 0;
    let mut has_lost = false;
    // Bytes of the window in which a loss was noticed: later losses of it count as the same.
    let mut recovery = 0_usize;
    while let Some(ack) = acks.recv().await {
        sleep_until(ack.arrived + way_back).await;
        drop(ack.share);
        let is_recovering = recovery > 0;
        recovery = recovery.saturating_sub(ack.length);
        if ack.is_repeated && !is_recovering {
            has_lost = true;
            let smaller = (size / 10 * 7).max(LEAST);
            excess += size.saturating_sub(smaller);
            recovery = size.saturating_sub(ack.length);
            size = smaller;
        } else if !has_lost {
            size += grow(window, ack.length, size);
        } else if !is_recovering {
            grown += ack.length;
            if grown >= size {
                grown = 0;
                size += grow(window, MAX_SEGMENT, size);
            }
        }
        excess -= window.free.forget_permits(excess);
    }
}

/// Enlarges the window; returns by how much.
fn grow(window: &CongestionWindow, by: usize, size: usize) -> usize {
    let by = by.min(MOST.saturating_sub(size));
    window.free.add_permits(by);
    by
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const WAY_BACK: Duration = Duration::from_millis(50);

    /// Takes everything that is free, as segments that arrive at once; returns their number.
    fn flight(window: &CongestionWindow, lost: bool, acks: &mpsc::UnboundedSender<Ack>) -> usize {
        let (receiver, _arrivals) = mpsc::unbounded_channel();
        let mut count = 0;
        while let Ok(share) = Arc::clone(&window.free).try_acquire_many_owned(1448) {
            let segment = Segment {
                number: 0,
                data: Bytes::from(vec![0; MAX_SEGMENT]),
                is_repeated: lost && count == 0,
                window: Some(Arc::new(share)),
                receiver: receiver.clone(),
            };
            acks.send(Ack::of(&segment)).unwrap();
            count += 1;
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_doubles_until_a_loss_and_shrinks_once_for_it() {
        let window = CongestionWindow::new();
        let (acks, receiver) = mpsc::unbounded_channel();
        let rounds = async {
            let mut sizes = Vec::new();
            for round in 0..6 {
                sizes.push(flight(&window, round == 3, &acks));
                tokio::time::sleep(WAY_BACK * 2).await;
            }
            drop(acks);
            sizes
        };
        let ((), sizes) = tokio::join!(acknowledge(&window, receiver, WAY_BACK), rounds);
        assert_eq!(sizes, [10, 20, 40, 80, 56, 57]);
    }
}
