//! DNS lookups.
use std::{collections::HashMap, future::Future, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use hickory_resolver::{
    net::{DnsError, NetError},
    proto::{
        op::ResponseCode,
        rr::{Name, RData, Record, RecordType},
    },
};
use longhaul_types::Pii;
use tokio::{sync::OnceCell, time::timeout};
use tracing::{debug, warn};

use crate::{
    config::{DnsServers, OriginConfig},
    error::{DnsFailure, FetchError, Limit},
    library_lookup,
    name_servers::{MAX_QUESTIONS, NameServers},
    owner::ConnectionOwner,
    shares::{FairShares, Shares},
    stats::OriginStats,
    target::is_of_names,
};

/// Time that an IPv4 answer waits for the IPv6 answer (RFC 8305 section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// Time that an IPv6 answer waits for the IPv4 answer. It is longer, because many gateways have no IPv6; it is that of a
/// question whose first packet is lost.
const IPV4_DELAY: Duration = Duration::from_secs(2);
/// Maximum number of addresses taken from one answer. All of them are tried, as browsers do: a site may name many servers
/// of which the first ones are dead.
pub(crate) const MAX_ADDRESSES: usize = 32;
/// Concurrent lookups of all devices: each lookup sends two queries.
const MAX_LOOKUPS: usize = MAX_QUESTIONS / 2;
/// Concurrent lookups of one device: a page refers to a few dozen hosts, and other devices can still look up
/// names while up to three devices wait for silent name servers.
const MAX_LOOKUPS_PER_DEVICE: usize = MAX_LOOKUPS / 4;
/// Waiting lookups of one device: as many as its requests.
const MAX_WAITING: usize = 1024;

pub(crate) type Answer = Result<Vec<IpAddr>, FetchError>;

/// Reasons for an answer without records.
#[derive(Clone, Debug)]
pub enum NoRecords {
    /// There are none.
    Absent {
        /// Whether the name exists.
        code: ResponseCode,
        /// The record that says for how long this may be kept.
        authority: Option<Box<Record>>,
    },
    /// The look-up failed.
    Failed(FetchError),
}

/// Resolver of names, with a cache that respects the TTL.
pub(crate) struct DnsResolver {
    /// `None`: no server is known, or the C library is asked.
    resolver: Option<NameServers>,
    asks_library: bool,
    timeout: Duration,
    stats: Arc<OriginStats>,
    /// Lookups in progress. The connections that a page opens at once to one host share one lookup. Bounded
    /// by the number of connections being opened. Each device has its own lookups, so that no device waits in
    /// another device's queue.
    under_way: Mutex<HashMap<Subject, Arc<OnceCell<Answer>>>>,
    slots: Arc<FairShares<ConnectionOwner>>,
}

/// A name, and the owner of its lookup.
type Subject = (ConnectionOwner, String);

impl DnsResolver {
    pub(crate) fn new(config: &OriginConfig, stats: Arc<OriginStats>) -> Self {
        let asks_library = config.dns == DnsServers::Library;
        let resolver = match NameServers::new(&config.dns, config.limits.dns_cache_entries) {
            Ok(resolver) => resolver,
            Err(error) => {
                warn!(%error, "no DNS server is known: only addresses and [fetch] resolve will work");
                None
            }
        };
        Self {
            resolver,
            asks_library,
            timeout: config.timeouts.dns,
            stats,
            under_way: Mutex::default(),
            slots: FairShares::new(Shares {
                total: MAX_LOOKUPS,
                per_owner: MAX_LOOKUPS_PER_DEVICE,
                reserved: 0,
                waiting: MAX_WAITING,
            }),
        }
    }

    /// Returns the addresses of a name; never empty. IPv6 and IPv4 addresses are in the order of the answers.
    pub(crate) async fn lookup(&self, name: &str, owner: ConnectionOwner) -> Answer {
        let subject = (owner, name.to_owned());
        let answer = Arc::clone(self.under_way().entry(subject.clone()).or_default());
        let question = Question {
            resolver: self,
            subject,
            answer,
        };
        question
            .answer
            .get_or_init(|| self.ask(name, owner))
            .await
            .clone()
    }

    /// Returns the records of a type, in the library's form; never empty.
    pub(crate) async fn records(
        &self,
        name: &Name,
        kind: RecordType,
        owner: ConnectionOwner,
    ) -> Result<Vec<Record>, NoRecords> {
        let failed = |reason| NoRecords::Failed(FetchError::DnsFailed(reason));
        let resolver = self
            .resolver
            .as_ref()
            .ok_or_else(|| failed(DnsFailure::NoServers))?;
        let slot = self.slots.acquire_within(owner.share(), self.timeout, None).await;
        let _slot = slot.map_err(|_| NoRecords::Failed(FetchError::Overloaded(Limit::Lookups)))?;
        self.stats.dns_lookup();
        let mut fqdn = name.clone();
        fqdn.set_fqdn(true);
        let found = timeout(self.timeout, resolver.lookup(fqdn, kind)).await;
        let error = match found {
            Ok(Ok(found)) => return Ok(found.answers().to_vec()),
            Ok(Err(error)) => error,
            Err(_) => return Err(failed(DnsFailure::Timeout)),
        };
        if !error.is_no_records_found() && !error.is_nx_domain() {
            return Err(NoRecords::Failed(failure(&error)));
        }
        let code = if error.is_nx_domain() {
            ResponseCode::NXDomain
        } else {
            ResponseCode::NoError
        };
        let authority = error.into_soa().map(|soa| Box::new(soa.into_record_of_rdata()));
        Err(NoRecords::Absent { code, authority })
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Subject, Arc<OnceCell<Answer>>>> {
        self.under_way.lock()
    }

    async fn ask(&self, name: &str, owner: ConnectionOwner) -> Answer {
        let slot = self
            .slots
            .acquire_within(owner.share(), self.timeout, None)
            .await
            .map_err(|_| FetchError::Overloaded(Limit::Lookups))?;
        self.stats.dns_lookup();
        if self.asks_library {
            let answer = timeout(self.timeout, library_lookup::ask(name.to_owned(), slot)).await;
            return answer.unwrap_or(Err(FetchError::DnsFailed(DnsFailure::Timeout)));
        }
        let resolver = self
            .resolver
            .as_ref()
            .ok_or(FetchError::DnsFailed(DnsFailure::NoServers))?;
        let fqdn = absolute_name(name).ok_or(FetchError::DnsNotFound)?;
        let answer = timeout(self.timeout, both_families(resolver, fqdn)).await;
        let answer = answer.unwrap_or(Err(FetchError::DnsFailed(DnsFailure::Timeout)));
        debug!(name = ?Pii(name), ?answer, "a name was looked up");
        answer
    }
}

/// One caller's share in a lookup in progress. The lookup is removed from the list with its answer or with
/// its last caller.
struct Question<'a> {
    resolver: &'a DnsResolver,
    subject: Subject,
    answer: Arc<OnceCell<Answer>>,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut under_way = self.resolver.under_way();
        let is_listed = under_way
            .get(&self.subject)
            .is_some_and(|listed| Arc::ptr_eq(listed, &self.answer));
        // Two references: the list's and this one. New references come only from the list, which is locked.
        if is_listed && (self.answer.initialized() || Arc::strong_count(&self.answer) <= 2) {
            under_way.remove(&self.subject);
        }
    }
}

/// The name of a question. It is absolute, which disables the system's search list: that would turn a mistyped name into
/// a name of the operator's own network. Only browsers' names are asked for; DNS itself and the rules of IDNA know others.
fn absolute_name(name: &str) -> Option<Name> {
    let is_asked = name.bytes().all(|byte| byte == b'.' || is_of_names(byte));
    let labels = name.split('.').map(str::as_bytes);
    Name::from_labels(labels).ok().filter(|_| is_asked)
}

/// Queries IPv6 and IPv4 addresses at once. The first answer with addresses waits only briefly for the other one.
async fn both_families(resolver: &NameServers, name: Name) -> Answer {
    let v6 = addresses(resolver, name.clone(), RecordType::AAAA);
    let v4 = addresses(resolver, name, RecordType::A);
    tokio::pin!(v6, v4);
    let (v6, v4) = tokio::select! {
        v6 = &mut v6 => {
            let v4 = other_family(v4, v6.is_ok(), IPV4_DELAY).await;
            (v6, v4)
        }
        v4 = &mut v4 => (other_family(v6, v4.is_ok(), RESOLUTION_DELAY).await, v4),
    };
    match (v6, v4) {
        (Ok(mut v6), Ok(mut v4)) => {
            v6.truncate(MAX_ADDRESSES - v4.len().min(MAX_ADDRESSES / 2));
            v4.truncate(MAX_ADDRESSES - v6.len());
            v6.extend(v4);
            Ok(v6)
        }
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(FetchError::DnsNotFound), Err(FetchError::DnsNotFound)) => Err(FetchError::DnsNotFound),
        // One family does not exist: the failure of the other family is the reason.
        (Err(FetchError::DnsNotFound), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

/// Waits for the second answer: briefly, if the first one has addresses.
async fn other_family(answer: impl Future<Output = Answer>, has_addresses: bool, delay: Duration) -> Answer {
    if !has_addresses {
        return answer.await;
    }
    let answer = timeout(delay, answer).await;
    answer.unwrap_or(Err(FetchError::DnsFailed(DnsFailure::Timeout)))
}

async fn addresses(resolver: &NameServers, name: Name, record: RecordType) -> Answer {
    let lookup = resolver
        .lookup(name.clone(), record)
        .await
        .map_err(|error| failure(&error))?;
    let aliases = aliases(name, lookup.answers());
    let found: Vec<IpAddr> = lookup
        .answers()
        .iter()
        .filter(|record| aliases.contains(&record.name))
        .filter_map(|record| record.data.ip_addr())
        .take(MAX_ADDRESSES)
        .collect();
    if found.is_empty() {
        Err(FetchError::DnsNotFound)
    } else {
        Ok(found)
    }
}

/// A name and what it is an alias of: records of other names in an answer are not about it.
fn aliases(name: Name, records: &[Record]) -> Vec<Name> {
    let mut aliases = vec![name];
    let mut next = 0;
    while let Some(alias) = aliases.get(next) {
        let targets = records.iter().filter(|record| record.name == *alias);
        let targets: Vec<Name> = targets
            .filter_map(|record| {
                let RData::CNAME(target) = &record.data else {
                    return None;
                };
                Some(target.0.clone())
            })
            .filter(|target| !aliases.contains(target))
            .collect();
        aliases.extend(targets);
        next += 1;
    }
    aliases
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the library's and grows; all that is not named here means the same to us"
)]
fn failure(error: &NetError) -> FetchError {
    if error.is_no_records_found() || error.is_nx_domain() {
        return FetchError::DnsNotFound;
    }
    FetchError::DnsFailed(match error {
        NetError::Timeout => DnsFailure::Timeout,
        NetError::Dns(DnsError::ResponseCode(_)) | NetError::Proto(_) => DnsFailure::Server,
        _ => DnsFailure::Local,
    })
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future as _,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    const OWNER: ConnectionOwner = ConnectionOwner::Local;

    #[test]
    fn failures_of_servers_and_of_the_network_are_distinguished() {
        for (error, expected) in [
            (NetError::Timeout, DnsFailure::Timeout),
            (
                NetError::Dns(DnsError::ResponseCode(ResponseCode::ServFail)),
                DnsFailure::Server,
            ),
            (NetError::from("no socket"), DnsFailure::Local),
        ] {
            assert_eq!(failure(&error), FetchError::DnsFailed(expected), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_lookup_is_listed_until_its_last_caller_gives_up() {
        let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let config = OriginConfig {
            dns: DnsServers::Explicit(vec![silent.local_addr().unwrap()]),
            ..OriginConfig::default()
        };
        let resolver = DnsResolver::new(&config, Arc::default());
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(resolver.lookup("site.test", OWNER));
        let mut second = pin!(resolver.lookup("site.test", OWNER));
        assert!(first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending());
        assert_eq!(resolver.under_way().len(), 1, "both wait for one answer");
        drop(first);
        assert_eq!(resolver.under_way().len(), 1);
        second.set(resolver.lookup("other.test", OWNER));
        assert_eq!(resolver.under_way().len(), 0);
    }
}
