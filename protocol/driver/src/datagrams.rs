//! Datagrams between the users of a session and the driver task.
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use longhaul_protocol::streams::Datagram;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Maximum number of datagrams that wait for the driver task, and that wait for the user: as many as arrive in some
/// milliseconds at 1 Gbit/s. The connection has the queue for datagrams that wait for the link.
const WAITING: usize = 512;

/// Queues of one session. A full queue loses its oldest datagrams.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    outgoing: Mutex<VecDeque<Datagram>>,
    /// True if the driver task has been told of outgoing datagrams.
    is_announced: AtomicBool,
    incoming: Mutex<VecDeque<Bytes>>,
    is_closed: AtomicBool,
    changed: Notify,
}

impl Datagrams {
    /// Queues a datagram; returns true if the driver task must be told.
    pub(crate) fn send(&self, datagram: Datagram) -> bool {
        push(&mut self.outgoing.lock(), datagram);
        !self.is_announced.swap(true, Ordering::AcqRel)
    }

    /// Returns the queued datagrams (driver task).
    pub(crate) fn take_outgoing(&self) -> VecDeque<Datagram> {
        // Before the queue is emptied: a datagram that is queued afterwards is announced again.
        self.is_announced.store(false, Ordering::Release);
        std::mem::take(&mut *self.outgoing.lock())
    }

    /// Queues received datagrams for the user (driver task).
    pub(crate) fn arrived(&self, datagrams: impl Iterator<Item = Bytes>) {
        let mut incoming = self.incoming.lock();
        for datagram in datagrams {
            push(&mut incoming, datagram);
        }
        drop(incoming);
        self.changed.notify_one();
    }

    /// Ends the wait of the user (driver task).
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Returns the next received datagram; `None` after the last one of a closed session.
    pub(crate) async fn recv(&self) -> Option<Bytes> {
        loop {
            let is_closed = self.is_closed.load(Ordering::Acquire);
            if let Some(datagram) = self.incoming.lock().pop_front() {
                return Some(datagram);
            }
            if is_closed {
                // For a call that follows.
                self.changed.notify_one();
                return None;
            }
            self.changed.notified().await;
        }
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= WAITING {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use longhaul_protocol::streams::Priority;

    use super::*;

    fn datagram(number: usize) -> Datagram {
        Datagram {
            flow: 1,
            class: Priority::NORMAL,
            bytes: number.to_be_bytes().to_vec().into(),
        }
    }

    #[test]
    fn full_queues_lose_their_oldest_datagrams_and_are_announced_once() {
        let datagrams = Datagrams::default();
        assert!(datagrams.send(datagram(0)));
        for number in 1..=WAITING {
            assert!(!datagrams.send(datagram(number)));
        }
        let sent = datagrams.take_outgoing();
        assert_eq!((sent.len(), &sent[0]), (WAITING, &datagram(1)));
        assert!(datagrams.send(datagram(0)), "announced again");
    }

    #[tokio::test]
    async fn what_arrived_before_the_end_is_received() {
        let datagrams = Datagrams::default();
        datagrams.arrived([Bytes::from_static(b"a"), Bytes::from_static(b"b")].into_iter());
        datagrams.close();
        assert_eq!(datagrams.recv().await.unwrap(), "a");
        assert_eq!(datagrams.recv().await.unwrap(), "b");
        assert_eq!(datagrams.recv().await, None);
        assert_eq!(datagrams.recv().await, None);
    }
}
