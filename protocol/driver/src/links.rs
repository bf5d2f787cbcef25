//! The links of a driver task.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use longhaul_protocol::path::LinkId;
use longhaul_types::BitRate;
use tokio::{sync::mpsc, task::AbortHandle, time::Instant};

use crate::link::{Carrier, DriverEnd, LEAST_UNSENT, LinkAcceptor, LinkEvent, LinkSource};

/// Maximum number of links of one task: twice the usual limit of sessions, because a session has two links
/// while its agent changes from one to another.
const MAX_LINKS: usize = 2048;
/// Time for whose rate bytes may be unsent. More would wait in front of more urgent packets; much less would
/// leave the link idle while the driver task is not scheduled.
const UNSENT_TIME: Duration = Duration::from_millis(50);
/// Unsent bytes at which answers without a session are dropped.
const MOST_ANSWERS: usize = 16 * 1024;
/// Interval of the search for links without a session. A link that two searches find unused ends: it has had
/// at least this time for its first authentic packet.
const SWEEP: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct OpenLink {
    end: DriverEnd,
    /// The carrier's task (agent).
    task: Option<AbortHandle>,
    /// False while the carrier connects: it then has one packet for its handshake.
    connected: bool,
    /// True if the last search found no session that uses the link.
    unused: bool,
}

impl Drop for OpenLink {
    fn drop(&mut self) {
        // A connected carrier still writes the packets that it has, such as CLOSE, and ends then.
        if let Some(task) = self.task.as_ref().filter(|_| !self.connected) {
            task.abort();
        }
    }
}

/// Links by number.
#[derive(Debug)]
pub(crate) struct Links {
    source: LinkSource,
    pub(crate) events: mpsc::UnboundedReceiver<(LinkId, LinkEvent)>,
    open: BTreeMap<LinkId, OpenLink>,
    sweep: Instant,
}

impl Links {
    pub(crate) fn new() -> Self {
        let (source, events) = LinkSource::new();
        Self {
            source,
            events,
            open: BTreeMap::new(),
            sweep: Instant::now() + SWEEP,
        }
    }

    pub(crate) fn acceptor(&self) -> LinkAcceptor {
        self.source.acceptor()
    }

    /// Adds a link that a peer opened; returns false if there are too many.
    pub(crate) fn accept(&mut self, id: LinkId, end: DriverEnd) -> bool {
        if self.open.len() >= MAX_LINKS {
            return false;
        }
        let link = OpenLink {
            end,
            task: None,
            connected: true,
            unused: false,
        };
        self.open.insert(id, link);
        true
    }

    /// Opens a link of a carrier.
    pub(crate) fn dial(&mut self, carrier: &Arc<dyn Carrier>) -> LinkId {
        let (id, end, carrier_end) = self.source.make(carrier.class());
        let task = tokio::spawn(carrier.run(carrier_end));
        let link = OpenLink {
            end,
            task: Some(task.abort_handle()),
            connected: false,
            unused: false,
        };
        self.open.insert(id, link);
        id
    }

    pub(crate) fn set_connected(&mut self, id: LinkId) {
        if let Some(link) = self.open.get_mut(&id) {
            link.connected = true;
        }
    }

    pub(crate) fn is_connected(&self, id: LinkId) -> bool {
        self.open.get(&id).is_some_and(|link| link.connected)
    }

    /// Passes a packet to the carrier. `rate` is the sending rate of its session; answers without a session
    /// are dropped if too many wait.
    pub(crate) fn send(&self, id: LinkId, packet: &[u8], rate: Option<BitRate>) {
        let Some(link) = self.open.get(&id) else { return };
        if rate.is_none() && link.end.unsent() > MOST_ANSWERS {
            return;
        }
        // A link that has ended reports it by an event.
        let _ended = link.end.send(packet);
    }

    /// Returns true if the carrier accepts another packet now, at this rate of the session.
    pub(crate) fn has_room(&self, id: LinkId, rate: BitRate) -> bool {
        self.open.get(&id).is_some_and(|link| {
            let by_rate = usize::try_from((rate * UNSENT_TIME).bytes()).unwrap_or(usize::MAX);
            link.end.has_room(by_rate.max(LEAST_UNSENT)) && link.connected
        })
    }

    /// Permits the carrier to deliver another packet.
    pub(crate) fn processed(&self, id: LinkId) {
        if let Some(link) = self.open.get(&id) {
            link.end.processed();
        }
    }

    pub(crate) fn close(&mut self, id: LinkId) {
        self.open.remove(&id);
    }

    /// Time of the next search for unused links.
    pub(crate) fn next_sweep(&self) -> Option<Instant> {
        (!self.open.is_empty()).then_some(self.sweep)
    }

    /// Returns the links that were unused at the last search and still are, if a search is due.
    pub(crate) fn sweep(&mut self, now: Instant, is_used: impl Fn(LinkId) -> bool) -> Vec<LinkId> {
        if now < self.sweep {
            return Vec::new();
        }
        self.sweep = now + SWEEP;
        let mut unused = Vec::new();
        for (id, link) in &mut self.open {
            let was_unused = std::mem::replace(&mut link.unused, !is_used(*id));
            if was_unused && link.unused {
                unused.push(*id);
            }
        }
        unused
    }
}
