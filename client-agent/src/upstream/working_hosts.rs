//! The hosts to which tunnels were opened recently.
use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use tokio::time::Instant;

/// The hosts to which a tunnel was opened recently.
#[derive(Debug, Default)]
pub struct WorkingHosts(Mutex<BTreeMap<(String, u16), Instant>>);

impl WorkingHosts {
    /// Maximum number of hosts: several browsing sessions' worth, less than 100 KiB.
    const MAX: usize = 1024;
    /// Time for which a host counts as working.
    const RECENT: Duration = Duration::from_secs(600);

    /// Records that a tunnel to the host was opened.
    pub(crate) fn record(&self, host: &str, port: u16) {
        let mut hosts = self.0.lock();
        if hosts.len() >= Self::MAX {
            hosts.retain(|_, since| since.elapsed() < Self::RECENT);
        }
        if hosts.len() >= Self::MAX {
            hosts.clear();
        }
        hosts.insert((host.to_owned(), port), Instant::now());
    }

    /// Removes a host to which a tunnel failed.
    pub(crate) fn forget(&self, host: &str, port: u16) {
        self.0.lock().remove(&(host.to_owned(), port));
    }

    /// True if a tunnel to the host was opened recently.
    pub(crate) fn contains(&self, host: &str, port: u16) -> bool {
        let hosts = self.0.lock();
        hosts
            .get(&(host.to_owned(), port))
            .is_some_and(|since| since.elapsed() < Self::RECENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_hosts_are_bounded_and_can_be_forgotten() {
        let hosts = WorkingHosts::default();
        for port in 1..=2000 {
            hosts.record("a.test", port);
        }
        assert!(hosts.contains("a.test", 2000));
        assert!(!hosts.contains("b.test", 2000));
        assert!(hosts.0.lock().len() <= WorkingHosts::MAX);
        hosts.forget("a.test", 2000);
        assert!(!hosts.contains("a.test", 2000));
    }
}
