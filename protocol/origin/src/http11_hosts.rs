//! Memory of the hosts that must be asked over HTTP/1.1 although they offer HTTP/2, as browsers have it.
use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::target::Target;

/// Maximum number of hosts; the oldest is forgotten first. It costs a round trip to learn of one again.
const MAX_HOSTS: usize = 500;
/// Time after which HTTP/2 is tried again. Browsers remember until they end.
const AGE: Duration = Duration::from_secs(24 * 3600);

/// The hosts that answered a request over HTTP/2 with `HTTP_1_1_REQUIRED`, or whose HTTP/2 cannot be understood.
#[derive(Debug, Default)]
pub(crate) struct Http11Hosts(Mutex<HashMap<Target, Instant>>);

impl Http11Hosts {
    pub(crate) fn remember(&self, target: &Target) {
        let mut hosts = self.0.lock();
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(target) {
            let oldest = hosts.iter().min_by_key(|(_, since)| **since);
            if let Some(oldest) = oldest.map(|(host, _)| host.clone()) {
                hosts.remove(&oldest);
            }
        }
        hosts.insert(target.clone(), Instant::now());
    }

    pub(crate) fn forget(&self, target: &Target) {
        self.0.lock().remove(target);
    }

    pub(crate) fn contains(&self, target: &Target) -> bool {
        let hosts = self.0.lock();
        hosts.get(target).is_some_and(|since| since.elapsed() < AGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: usize) -> Target {
        Target::of(&format!("https://h{name}.test/").parse().unwrap()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_are_forgotten_by_age_and_by_number() {
        let hosts = Http11Hosts::default();
        for name in 0..=MAX_HOSTS {
            hosts.remember(&target(name));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(!hosts.contains(&target(0)), "the oldest");
        assert!(hosts.contains(&target(1)) && hosts.contains(&target(MAX_HOSTS)));
        hosts.forget(&target(1));
        assert!(!hosts.contains(&target(1)));
        tokio::time::advance(AGE).await;
        assert!(!hosts.contains(&target(MAX_HOSTS)));
    }
}
