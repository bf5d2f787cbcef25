//! DNS lookups.
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{Name, Record, RecordType},
    },
};
use longhaul_types::Pii;
use tokio::{
    sync::OnceCell,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::{
    config::{DnsServers, OriginConfig},
    error::{DnsFailure, FetchError, Limit},
    owner::ConnectionOwner,
    shares::{FairShares, Shares},
    stats::OriginStats,
};

/// Time that an IPv4 answer waits for the IPv6 answer (RFC 8305 section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of addresses taken from one answer: more would only prolong a failure.
const MAX_ADDRESSES: usize = 16;
/// Maximum time that an answer is cached, regardless of its TTL: one day, as in common resolvers.
const MAX_TTL: Duration = Duration::from_secs(86_400);
/// Maximum time that a negative answer is cached: the name of a new site should work soon.
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(60);
/// Concurrent queries per name server. A burst of page loads queries hundreds of names; the library's default
/// of 32 would reject the rest.
const MAX_QUESTIONS: usize = 1024;
/// Concurrent lookups of all devices: each lookup sends two queries.
const MAX_LOOKUPS: usize = MAX_QUESTIONS / 2;
/// Concurrent lookups of one device: a page refers to a few dozen hosts, and other devices can still look up
/// names while up to three devices wait for silent name servers.
const MAX_LOOKUPS_PER_DEVICE: usize = MAX_LOOKUPS / 4;
/// Waiting lookups of one device: as many as its requests.
const MAX_WAITING: usize = 1024;

type Answer = Result<Vec<IpAddr>, FetchError>;

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
    resolver: Option<TokioResolver>,
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
        let resolver = match resolver(&config.dns, config.limits.dns_cache_entries) {
            Ok(resolver) => Some(resolver),
            Err(error) => {
                warn!(%error, "no DNS server is known: only addresses and [fetch] resolve will work");
                None
            }
        };
        Self {
            resolver,
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
        let resolver = self
            .resolver
            .as_ref()
            .ok_or(FetchError::DnsFailed(DnsFailure::NoServers))?;
        let _slot = self
            .slots
            .acquire_within(owner.share(), self.timeout, None)
            .await
            .map_err(|_| FetchError::Overloaded(Limit::Lookups))?;
        self.stats.dns_lookup();
        let mut fqdn = Name::from_utf8(name).map_err(|_| FetchError::DnsNotFound)?;
        // Disables the system's search list, which would turn a mistyped name into a name of the operator's
        // own network.
        fqdn.set_fqdn(true);
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

/// Queries IPv6 and IPv4 addresses at once, and waits only briefly for a missing IPv6 answer.
async fn both_families(resolver: &TokioResolver, name: Name) -> Answer {
    let v6 = addresses(resolver, name.clone(), RecordType::AAAA);
    let v4 = addresses(resolver, name, RecordType::A);
    tokio::pin!(v6, v4);
    let (v6, v4) = tokio::select! {
        v6 = &mut v6 => (v6, v4.await),
        v4 = &mut v4 => {
            let v6 = if v4.is_ok() {
                tokio::select! {
                    v6 = &mut v6 => v6,
                    () = sleep(RESOLUTION_DELAY) => Err(FetchError::DnsFailed(DnsFailure::Timeout)),
                }
            } else {
                v6.await
            };
            (v6, v4)
        }
    };
    match (v6, v4) {
        (Ok(mut v6), Ok(v4)) => {
            v6.truncate(MAX_ADDRESSES / 2);
            v6.extend(v4);
            v6.truncate(MAX_ADDRESSES);
            Ok(v6)
        }
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(FetchError::DnsNotFound), Err(FetchError::DnsNotFound)) => Err(FetchError::DnsNotFound),
        // One family does not exist: the failure of the other family is the reason.
        (Err(FetchError::DnsNotFound), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

async fn addresses(resolver: &TokioResolver, name: Name, record: RecordType) -> Answer {
    let lookup = resolver
        .lookup(name, record)
        .await
        .map_err(|error| failure(&error))?;
    let found: Vec<IpAddr> = lookup
        .answers()
        .iter()
        .filter_map(|record| record.data.ip_addr())
        .take(MAX_ADDRESSES)
        .collect();
    if found.is_empty() {
        Err(FetchError::DnsNotFound)
    } else {
        Ok(found)
    }
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

fn resolver(servers: &DnsServers, cache_entries: u64) -> Result<TokioResolver, NetError> {
    let mut builder = match servers {
        DnsServers::System => TokioResolver::builder_tokio()?,
        DnsServers::Explicit(servers) => {
            let servers = servers.iter().map(name_server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    let options = builder.options_mut();
    options.cache_size = cache_entries;
    options.max_active_requests = MAX_QUESTIONS;
    options.positive_max_ttl = Some(MAX_TTL);
    options.negative_max_ttl = Some(MAX_NEGATIVE_TTL);
    builder.build()
}

fn name_server(server: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    NameServerConfig::new(server.ip(), true, connections.to_vec())
}
