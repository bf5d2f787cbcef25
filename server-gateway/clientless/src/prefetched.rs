//! Bytes that were fetched ahead of a browser, as far as they count for the day of its client.
//!
//! They count at once: the operator pays for them, whether or not the browser ever asks. When the browser has got the
//! object, its bytes have counted like those of each other response, and those of the fetch ahead are given back.
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use parking_lot::Mutex;

use super::{Clientless, client::ClientlessClient};

/// Objects of one browser whose bytes can be given back: those of some pages. With more, one of them stays counted.
const MAX_OBJECTS: usize = 512;

/// Hash of a URL: URLs may be long.
type Key = [u8; 32];

/// The objects that were fetched ahead of one browser, and their counted bytes.
#[derive(Debug, Default)]
pub(super) struct PrefetchedBytes(Mutex<BTreeMap<Key, Counted>>);

/// Bytes of one object that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    bytes: u64,
    /// Start of the fetch ahead. What counted on one day is not given back on another.
    since: SystemTime,
}

/// An object of a browser.
pub(super) struct PrefetchedObject {
    shared: Arc<Clientless>,
    client: ClientlessClient,
    key: Key,
}

impl PrefetchedBytes {
    /// A fetch ahead begins. What an earlier one of the same object counted stays counted.
    fn begin(&self, key: Key, since: SystemTime) {
        let mut objects = self.0.lock();
        if objects.len() >= MAX_OBJECTS && !objects.contains_key(&key) {
            objects.pop_first();
        }
        objects.insert(key, Counted { bytes: 0, since });
    }

    /// Notes bytes before they are counted; returns false if the browser has already got the object.
    fn note(&self, key: Key, bytes: u64) -> bool {
        let mut objects = self.0.lock();
        let counted = objects.get_mut(&key);
        let is_ahead = counted.is_some();
        if let Some(counted) = counted {
            counted.bytes += bytes;
        }
        is_ahead
    }

    /// The browser has got the object.
    fn take(&self, key: Key) -> Option<Counted> {
        self.0.lock().remove(&key)
    }
}

impl PrefetchedObject {
    pub(super) fn new(shared: &Arc<Clientless>, client: &ClientlessClient, url: &str) -> Self {
        Self {
            shared: Arc::clone(shared),
            client: client.clone(),
            key: *blake3::hash(url.as_bytes()).as_bytes(),
        }
    }

    /// Returns true if the client has bytes of the day left.
    pub(super) fn is_permitted(&self) -> bool {
        let days = &self.shared.day_bytes;
        days.add(self.client.limits, 0, SystemTime::now())
    }

    /// The object is fetched from its origin, ahead of the browser.
    pub(super) fn begin(&self) {
        self.client.browser.prefetched.begin(self.key, SystemTime::now());
    }

    /// Counts bytes of the object; returns false once the client has used up those of the day.
    pub(super) fn count(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        !self.client.browser.prefetched.note(self.key, bytes)
            || self
                .shared
                .day_bytes
                .add(self.client.limits, bytes, SystemTime::now())
    }

    /// Gives the bytes back, once the browser has got the object and the bytes of its response have been counted: no more
    /// than these, because another request for the URL may have a shorter response.
    pub(super) fn give_back(&self, most: u64) {
        if let Some(Counted { bytes, since }) = self.client.browser.prefetched.take(self.key) {
            let days = &self.shared.day_bytes;
            days.give_back(self.client.limits, bytes.min(most), (since, SystemTime::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;

    use super::*;
    use crate::{
        access::Admitted,
        tests::{LOCAL, Proxy},
    };
    use longhaul_gateway_core::config::settings;

    #[tokio::test]
    async fn nothing_is_fetched_ahead_of_a_client_that_has_used_up_its_day() {
        let proxy = Proxy::new(|flags| flags.with(&settings::CLIENTLESS_DAY_SIZE, "1MiB"));
        let state = proxy.connection(LOCAL);
        let client = state.client(&Admitted::Unnamed, &mut HeaderMap::new());
        let object = PrefetchedObject::new(&proxy.shared, &client, "http://a.test/");
        assert!(object.is_permitted());
        object.begin();
        assert!(object.count(1024 * 1024));
        assert!(object.is_permitted());
        assert!(!object.count(1));
        assert!(!object.is_permitted());
        // The browser has got it.
        object.give_back(u64::MAX);
        assert!(object.is_permitted());
        assert!(object.count(1024 * 1024), "it is no longer counted");
        assert!(proxy.shared.count_down(client.limits, 1024 * 1024).is_ok());
    }

    #[test]
    fn memory_is_bounded_and_each_object_is_given_back_once() {
        let (objects, now) = (PrefetchedBytes::default(), SystemTime::UNIX_EPOCH);
        let key = |number: u32| *blake3::hash(&number.to_be_bytes()).as_bytes();
        for number in 0..2000 {
            objects.begin(key(number), now);
        }
        assert_eq!(objects.0.lock().len(), MAX_OBJECTS);
        objects.begin(key(0), now);
        assert!(objects.note(key(0), 5) && objects.note(key(0), 6));
        // A second fetch ahead: the bytes of the first stay counted.
        let later = now + Duration::from_secs(1);
        objects.begin(key(0), later);
        assert!(objects.note(key(0), 7));
        let expected = Counted {
            bytes: 7,
            since: later,
        };
        assert_eq!(objects.take(key(0)), Some(expected));
        assert_eq!(objects.take(key(0)), None);
        assert!(!objects.note(key(0), 8), "the browser has got the object");
    }
}
