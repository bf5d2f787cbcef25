//! Discovery of the NAT64 prefixes of a network (RFC 7050), by its name servers.
use std::{net::IpAddr, sync::Arc, time::Duration};

use hickory_resolver::proto::rr::{Name, RecordType};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    dns::{DnsResolver, NoRecords},
    nat64::{Nat64Prefix, prefixes},
    owner::ConnectionOwner,
};

const NAME: &str = "ipv4only.arpa.";
/// Least and greatest time for which an answer is kept, whatever its TTL, and the time after a failure.
const LEAST_AGE: Duration = Duration::from_secs(60);
const MAX_AGE: Duration = Duration::from_secs(3600);

/// The prefixes of the network in which the gateway's name servers are.
#[derive(Debug)]
pub(crate) struct Nat64Prefixes(Mutex<Known>);

#[derive(Debug)]
struct Known {
    prefixes: Arc<[Nat64Prefix]>,
    until: Instant,
}

impl Nat64Prefixes {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Known {
            prefixes: Arc::default(),
            until: Instant::now(),
        }))
    }

    /// The prefixes, which are looked up first if what is known is old. After a failure, the last known ones stay.
    pub(crate) async fn current(&self, dns: &DnsResolver, owner: ConnectionOwner) -> Arc<[Nat64Prefix]> {
        // While one task asks, the others wait for the answer.
        let mut known = self.0.lock().await;
        if Instant::now() >= known.until {
            let (found, age) = look_up(dns, owner).await;
            if let Some(found) = found {
                known.prefixes = found.into();
            }
            known.until = Instant::now() + age.clamp(LEAST_AGE, MAX_AGE);
        }
        Arc::clone(&known.prefixes)
    }
}

/// Asks for the prefixes; returns `None` after a failure, and the time for which this may be kept.
async fn look_up(dns: &DnsResolver, owner: ConnectionOwner) -> (Option<Vec<Nat64Prefix>>, Duration) {
    let Ok(name) = Name::from_ascii(NAME) else {
        return (None, MAX_AGE);
    };
    match dns.records(&name, RecordType::AAAA, owner).await {
        Ok(records) => {
            let ttl = records.iter().map(|record| record.ttl).min().unwrap_or_default();
            let addresses = records.iter().filter_map(|record| match record.data.ip_addr() {
                Some(IpAddr::V6(address)) => Some(address),
                Some(IpAddr::V4(_)) | None => None,
            });
            (Some(prefixes(addresses)), Duration::from_secs(ttl.into()))
        }
        // There is no NAT64.
        Err(NoRecords::Absent { .. }) => (Some(Vec::new()), MAX_AGE),
        Err(NoRecords::Failed(_)) => (None, LEAST_AGE),
    }
}
