//! Log of answered requests, which tests compare with the times at which the bodies were transferred
//! elsewhere.
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use parking_lot::Mutex;

/// Maximum number of stored exchanges: the largest pages make some hundreds, and a page that polls must not
/// fill the memory.
const MAX_EXCHANGES: usize = 20_000;

/// A request and its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Requested URL in absolute form.
    pub url: String,
    /// Time at which the request's header section was received.
    pub asked: Instant,
    /// Time at which the response was passed to the connection.
    pub answered: Instant,
    /// Bytes of the response body, as coded.
    pub body_bytes: u64,
}

/// Log of the exchanges of a server.
#[derive(Debug, Default)]
pub(crate) struct ExchangeLog {
    open: AtomicU64,
    ended: Mutex<Vec<Exchange>>,
}

impl ExchangeLog {
    /// Starts an exchange; it is open until the value is dropped.
    pub(crate) fn begin(&self) -> OpenExchange<'_> {
        self.open.fetch_add(1, Relaxed);
        OpenExchange {
            log: self,
            asked: Instant::now(),
        }
    }

    pub(crate) fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut *self.ended.lock())
    }
}

/// A request without a complete response.
pub(crate) struct OpenExchange<'a> {
    log: &'a ExchangeLog,
    asked: Instant,
}

impl OpenExchange<'_> {
    pub(crate) fn answered(&self, url: String, body_bytes: u64) {
        let mut ended = self.log.ended.lock();
        if ended.len() < MAX_EXCHANGES {
            ended.push(Exchange {
                url,
                asked: self.asked,
                answered: Instant::now(),
                body_bytes,
            });
        }
    }
}

impl Drop for OpenExchange<'_> {
    fn drop(&mut self) {
        self.log.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_requests_are_counted_and_answered_ones_are_recorded_once() {
        let log = ExchangeLog::default();
        let (one, other) = (log.begin(), log.begin());
        assert_eq!(log.open(), 2);
        one.answered("http://site.test/".to_owned(), 7);
        drop(one);
        assert_eq!(log.open(), 1);
        drop(other);
        assert_eq!(
            log.open(),
            0,
            "no request stays open after the client has disconnected"
        );
        let taken = log.take();
        assert_eq!(taken.len(), 1);
        assert!(taken[0].asked <= taken[0].answered);
        assert_eq!(
            (taken[0].url.as_str(), taken[0].body_bytes),
            ("http://site.test/", 7)
        );
        assert_eq!(log.take(), []);
    }
}
