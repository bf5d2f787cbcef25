//! Links: connections of other carriers that bring packets to one peer (docs/protocol/transport.md section 8).
//!
//! The driver task does not know the carrier's protocol. A carrier takes a [`LinkEnd`], connects it to the
//! peer, writes the packets of its [`LinkOutput`] and delivers the received ones to its [`LinkInput`].
//! The link ends when the [`LinkInput`] is dropped, or when the driver drops its side.
use std::{
    fmt,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use longhaul_protocol::path::{LinkId, PathClass};
use tokio::sync::{Semaphore, mpsc};

/// Maximum number of received packets of one link that wait for the driver task. The carrier then reads no
/// further, so that the link's own flow control stops the peer.
const RECEIVED: usize = 128;

/// Unsent bytes that a link may always have: two packets, so that the carrier never waits for the driver.
pub(crate) const LEAST_UNSENT: usize = 2 * 1500;

/// The carrier of a link: opens a link to the gateway and runs it (agent).
pub trait Carrier: fmt::Debug + Send + Sync {
    /// Class of the carrier's links.
    fn class(&self) -> PathClass;

    /// Connects to the gateway and carries packets until the link ends. The first packet may wait in
    /// [`LinkEnd::output`] already, so that it travels with the carrier's handshake. The future is dropped
    /// when the session needs the link no longer.
    fn run(&self, end: LinkEnd) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Event of a link for the driver task.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A peer opened a link (gateway).
    Accepted { peer: SocketAddr, driver_end: DriverEnd },
    /// The carrier is connected to `peer` (agent).
    Connected(SocketAddr),
    /// The link takes packets up to this size.
    Payload(usize),
    /// A packet arrived.
    Packet(Vec<u8>),
    /// Bytes were sent after the driver had found the link full.
    Drained,
    /// The link has ended.
    Ended,
}

/// Values that both ends of a link share.
#[derive(Debug)]
struct Shared {
    id: LinkId,
    events: mpsc::UnboundedSender<(LinkId, LinkEvent)>,
    /// Space for received packets; it bounds the channel of events.
    received: Semaphore,
    /// Bytes that the carrier has not written yet.
    unsent: AtomicUsize,
    /// Number of unsent bytes at which the driver sends no further packet.
    limit: AtomicUsize,
    /// Number of unsent bytes that the carrier can send soon.
    useful: AtomicUsize,
    /// True if the driver waits for an event when bytes are written.
    awaits_drain: AtomicBool,
}

/// The driver task's end of a link.
#[derive(Debug)]
pub(crate) struct DriverEnd {
    packets: mpsc::UnboundedSender<Vec<u8>>,
    shared: Arc<Shared>,
}

impl DriverEnd {
    /// Passes a packet to the carrier. Returns false if the link has ended.
    pub(crate) fn send(&self, packet: &[u8]) -> bool {
        self.shared.unsent.fetch_add(packet.len(), Ordering::AcqRel);
        self.packets.send(packet.to_vec()).is_ok()
    }

    /// Returns true if the link accepts a packet while at most `limit` bytes may be unsent. If it does not, an
    /// event follows when it does.
    pub(crate) fn has_room(&self, limit: usize) -> bool {
        let useful = self.shared.useful.load(Ordering::Relaxed);
        let limit = limit.min(useful.max(LEAST_UNSENT));
        self.shared.limit.store(limit, Ordering::Relaxed);
        if self.shared.unsent.load(Ordering::Acquire) < limit {
            return true;
        }
        // The carrier may have written the bytes before the flag was set. Both ends write one value and read the other:
        // without one order of all four, both could read the older values, and no event would follow.
        self.shared.awaits_drain.store(true, Ordering::SeqCst);
        self.shared.unsent.load(Ordering::SeqCst) < limit
    }

    /// Bytes that the carrier has not written yet.
    pub(crate) fn unsent(&self) -> usize {
        self.shared.unsent.load(Ordering::Acquire)
    }

    /// Permits the carrier to deliver another packet after one was processed.
    pub(crate) fn processed(&self) {
        self.shared.received.add_permits(1);
    }
}

/// A carrier's end of a link.
#[derive(Debug)]
pub struct LinkEnd {
    /// Packets to send.
    pub output: LinkOutput,
    /// Received packets.
    pub input: LinkInput,
}

/// Packets that a carrier sends to the peer.
#[derive(Debug)]
pub struct LinkOutput {
    packets: mpsc::UnboundedReceiver<Vec<u8>>,
    shared: Arc<Shared>,
}

impl LinkOutput {
    /// Returns the next packet; `None` when the driver needs the link no longer. Cancel safe.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.packets.recv().await
    }

    /// Returns the next packet if one waits.
    pub fn next_now(&mut self) -> Option<Vec<u8>> {
        self.packets.try_recv().ok()
    }

    /// Records that packets with together this many bytes were passed to the operating system.
    pub fn written(&self, bytes: usize) {
        let unsent = self.shared.unsent.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        if unsent < self.shared.limit.load(Ordering::Relaxed)
            && self.shared.awaits_drain.swap(false, Ordering::SeqCst)
        {
            // The driver has ended: the next packet never comes.
            let _ended = self.shared.events.send((self.shared.id, LinkEvent::Drained));
        }
    }

    /// Tells the driver how many unsent bytes the carrier can send soon. What it passes beyond them would wait in front of
    /// more urgent packets, and its delay would look like a queue of the link (congestion.md section 5). Until it is told, the
    /// rate of the session alone decides.
    pub fn set_useful(&self, bytes: usize) {
        self.shared.useful.store(bytes, Ordering::Relaxed);
    }

    /// Number of unsent bytes that suffice at the present rate; more only wait, while more urgent packets may
    /// come.
    pub fn sufficient(&self) -> usize {
        self.shared.limit.load(Ordering::Relaxed)
    }
}

/// The driver needs the link no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session needs the link no longer")]
pub struct LinkUnused;

/// Packets that a carrier received from the peer. The link ends when it is dropped.
#[derive(Debug)]
pub struct LinkInput {
    shared: Arc<Shared>,
}

impl LinkInput {
    /// Reports that the carrier is connected to `peer` (agent); from now on it sends packets at once.
    pub fn connected(&self, peer: SocketAddr) {
        let _ended = self
            .shared
            .events
            .send((self.shared.id, LinkEvent::Connected(peer)));
    }

    /// Reports the largest packet that the link takes at present, for links of the class [`PathClass::Datagram`].
    pub fn set_payload(&self, payload: usize) {
        let _ended = self
            .shared
            .events
            .send((self.shared.id, LinkEvent::Payload(payload)));
    }

    /// Delivers a packet; waits while the driver is busy with earlier ones.
    ///
    /// # Errors
    /// The driver has ended.
    pub async fn deliver(&self, packet: Vec<u8>) -> Result<(), LinkUnused> {
        let permit = self.shared.received.acquire().await.map_err(|_| LinkUnused)?;
        permit.forget();
        self.shared
            .events
            .send((self.shared.id, LinkEvent::Packet(packet)))
            .map_err(|_| LinkUnused)
    }
}

impl Drop for LinkInput {
    fn drop(&mut self) {
        let _ended = self.shared.events.send((self.shared.id, LinkEvent::Ended));
    }
}

/// Opens links of a gateway's driver task; clones open links of the same task.
#[derive(Clone, Debug)]
pub struct LinkAcceptor {
    links: LinkSource,
}

impl LinkAcceptor {
    /// Opens a link of this class for a peer that connected from `peer` and has completed the carrier's handshake.
    ///
    /// # Errors
    /// The listener has ended.
    pub fn open(&self, peer: SocketAddr, class: PathClass) -> Result<LinkEnd, LinkUnused> {
        let (id, driver_end, end) = self.links.make(class);
        let event = LinkEvent::Accepted { peer, driver_end };
        self.links.events.send((id, event)).map_err(|_| LinkUnused)?;
        Ok(end)
    }
}

/// Makes the links of one driver task.
#[derive(Clone, Debug)]
pub(crate) struct LinkSource {
    events: mpsc::UnboundedSender<(LinkId, LinkEvent)>,
    next: Arc<AtomicU64>,
}

impl LinkSource {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<(LinkId, LinkEvent)>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let next = Arc::default();
        (Self { events, next }, receiver)
    }

    pub(crate) fn acceptor(&self) -> LinkAcceptor {
        LinkAcceptor { links: self.clone() }
    }

    /// Makes the two ends of a link.
    pub(crate) fn make(&self, class: PathClass) -> (LinkId, DriverEnd, LinkEnd) {
        let id = LinkId::new(self.next.fetch_add(1, Ordering::Relaxed), class);
        let (packets, outgoing) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            id,
            events: self.events.clone(),
            received: Semaphore::new(RECEIVED),
            unsent: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            useful: AtomicUsize::new(usize::MAX),
            awaits_drain: AtomicBool::new(false),
        });
        let driver_end = DriverEnd {
            packets,
            shared: Arc::clone(&shared),
        };
        let end = LinkEnd {
            output: LinkOutput {
                packets: outgoing,
                shared: Arc::clone(&shared),
            },
            input: LinkInput { shared },
        };
        (id, driver_end, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_link_reports_when_it_has_drained() {
        let (source, mut events) = LinkSource::new();
        let (id, driver, mut end) = source.make(PathClass::Ordered);
        assert!(driver.has_room(10));
        assert!(driver.send(&[1; 12]));
        assert!(!driver.has_room(10));
        assert_eq!(end.output.next().await, Some(vec![1; 12]));
        end.output.written(12);
        assert!(matches!(events.recv().await, Some((of, LinkEvent::Drained)) if of == id));
        assert!(driver.has_room(10));
        drop(end);
        assert!(matches!(events.recv().await, Some((of, LinkEvent::Ended)) if of == id));
        assert!(!driver.send(&[1]));
    }

    #[tokio::test]
    async fn a_carrier_that_can_send_little_gets_little() {
        let (source, mut events) = LinkSource::new();
        let (_, driver, mut end) = source.make(PathClass::Ordered);
        end.output.set_useful(20_000);
        assert!(driver.send(&[1; 15_000]));
        assert!(driver.has_room(100_000));
        assert_eq!(end.output.sufficient(), 20_000);
        end.output.set_useful(10_000);
        assert!(!driver.has_room(100_000));
        assert!(end.output.next().await.is_some());
        // More than it was: the driver learns it with the event.
        end.output.set_useful(50_000);
        end.output.written(15_000);
        assert!(matches!(events.recv().await, Some((_, LinkEvent::Drained))));
        assert!(driver.has_room(100_000));
        assert_eq!(end.output.sufficient(), 50_000);
        // Two packets may always wait.
        end.output.set_useful(0);
        assert!(driver.has_room(100_000));
        assert_eq!(end.output.sufficient(), LEAST_UNSENT);
    }

    #[tokio::test]
    async fn a_carrier_waits_for_a_busy_driver() {
        let (source, mut events) = LinkSource::new();
        let (_, driver, end) = source.make(PathClass::Ordered);
        for _ in 0..RECEIVED {
            end.input.deliver(vec![0]).await.unwrap();
        }
        let waiting = end.input.deliver(vec![1]);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("the channel has no bound"),
            _ = events.recv() => driver.processed(),
        }
        waiting.await.unwrap();
    }
}
