//! The name servers, and what they are asked when one of them is lame.
use std::{net::SocketAddr, time::Duration};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts},
    lookup::Lookup,
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{Name, RecordType},
    },
    system_conf::read_system_conf,
};

use crate::config::DnsServers;

/// Maximum time that an answer is cached, regardless of its TTL: one day, as in common resolvers.
const MAX_TTL: Duration = Duration::from_secs(86_400);
/// Maximum time that a negative answer is cached: the name of a new site should work soon.
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(60);
/// Concurrent queries per name server. A burst of page loads queries hundreds of names; the library's default
/// of 32 would reject the rest.
pub(crate) const MAX_QUESTIONS: usize = 1024;
/// Servers that are asked one by one: as many as C libraries ask.
const MAX_SERVERS: usize = 3;

/// Name servers, with a cache that respects the TTL.
pub(crate) struct NameServers {
    /// All servers, the fastest ones first.
    all: TokioResolver,
    /// Each server, asked without EDNS, as C libraries ask.
    each: Vec<TokioResolver>,
}

impl NameServers {
    /// The servers of a setting; `None` for the C library, which has its own.
    pub(crate) fn new(servers: &DnsServers, cache_entries: u64) -> Result<Option<Self>, NetError> {
        let (config, mut options) = match servers {
            DnsServers::Library => return Ok(None),
            DnsServers::System => read_system_conf()?,
            DnsServers::Explicit(servers) => {
                let servers = servers.iter().map(name_server).collect();
                (
                    ResolverConfig::from_name_servers(servers),
                    ResolverOpts::default(),
                )
            }
        };
        options.cache_size = cache_entries;
        options.max_active_requests = MAX_QUESTIONS;
        options.positive_max_ttl = Some(MAX_TTL);
        options.negative_max_ttl = Some(MAX_NEGATIVE_TTL);
        let mut singly = options.clone();
        singly.edns0 = false;
        let each = config.name_servers().iter().take(MAX_SERVERS).map(|server| {
            let only = ResolverConfig::from_name_servers(vec![server.clone()]);
            resolver(only, singly.clone())
        });
        let each = each.collect::<Result<_, _>>()?;
        let all = resolver(config, options)?;
        Ok(Some(Self { all, each }))
    }

    /// Asks for records of a name. A server that cannot answer a question, or none with EDNS, is no reason to give up, as for
    /// C libraries and browsers: the library takes its error for an answer.
    pub(crate) async fn lookup(&self, name: Name, kind: RecordType) -> Result<Lookup, NetError> {
        let mut answer = self.all.lookup(name.clone(), kind).await;
        for server in &self.each {
            if !answer.as_ref().is_err_and(is_lame) {
                break;
            }
            answer = server.lookup(name.clone(), kind).await;
        }
        answer
    }
}

/// True if another server, or a simpler question, may get an answer.
const fn is_lame(error: &NetError) -> bool {
    use ResponseCode::{FormErr, NotImp, Refused, ServFail};
    matches!(
        error,
        NetError::Dns(DnsError::ResponseCode(FormErr | NotImp | Refused | ServFail))
    )
}

fn resolver(config: ResolverConfig, options: ResolverOpts) -> Result<TokioResolver, NetError> {
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
}

fn name_server(server: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    NameServerConfig::new(server.ip(), true, connections.to_vec())
}
