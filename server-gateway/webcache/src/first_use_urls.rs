//! URLs whose next fetch takes a connection that carried no other exchange.
//!
//! A response that came later on an HTTP/1.1 connection may be one that an earlier request of its device caused
//! ([`ConnectionUse`]). It is stored for the device only. If its URL is fetched again, by whatever device, the
//! response must be certain, so that it can be shared; the first device pays nothing for this.
use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher as _, RandomState},
};

use longhaul_origin::ConnectionUse;
use parking_lot::Mutex;

/// Maximum number of URLs; about 2 MB. The oldest ones are forgotten: their next response is stored for its device only.
const MAX_URLS: usize = 65_536;

/// The URLs, by hash. A collision takes a connection more.
#[derive(Debug, Default)]
pub(super) struct FirstUseUrls {
    hasher: RandomState,
    urls: Mutex<Urls>,
}

#[derive(Debug, Default)]
struct Urls {
    known: HashSet<u64>,
    /// Oldest first.
    order: VecDeque<u64>,
}

impl FirstUseUrls {
    /// Remembers a URL.
    pub(super) fn remember(&self, url: &str) {
        let hash = self.hasher.hash_one(url);
        let mut urls = self.urls.lock();
        if !urls.known.insert(hash) {
            return;
        }
        urls.order.push_back(hash);
        if urls.order.len() > MAX_URLS
            && let Some(oldest) = urls.order.pop_front()
        {
            urls.known.remove(&oldest);
        }
    }

    /// The use of its connection that a fetch of a URL requires.
    pub(super) fn required(&self, url: &str) -> ConnectionUse {
        if self.urls.lock().known.contains(&self.hasher.hash_one(url)) {
            ConnectionUse::First
        } else {
            ConnectionUse::Any
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_urls_are_forgotten() {
        let urls = FirstUseUrls::default();
        assert_eq!(urls.required("http://a.test/"), ConnectionUse::Any);
        urls.remember("http://a.test/");
        urls.remember("http://a.test/");
        assert_eq!(urls.required("http://a.test/"), ConnectionUse::First);
        for number in 0..MAX_URLS {
            urls.remember(&number.to_string());
        }
        assert_eq!(urls.required("http://a.test/"), ConnectionUse::Any);
        assert_eq!(urls.required(&(MAX_URLS - 1).to_string()), ConnectionUse::First);
        assert_eq!(urls.urls.lock().known.len(), MAX_URLS);
    }
}
