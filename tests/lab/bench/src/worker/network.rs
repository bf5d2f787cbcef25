//! The world of a load: the hop, the Internet, origins and their names, and the system at the gateway.
mod between;
mod origins;

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use longhaul_hosting::{Content as _, HostAddresses, Hosting, NameServer, TestAuthority};
use longhaul_netem::{Capacity, HopConfig, LinkConfig, Loss, Probability};
use longhaul_pages::Page;
use longhaul_types::{BitRate, ByteCount};
use longhaul_world::{DNS_SERVER, GATEWAY_ON_HOP, World, WorldConfig};
use parking_lot::Mutex;

pub(super) use self::between::Between;
use self::{
    between::between,
    origins::{Site, host},
};
use super::{
    bulk_download,
    device_requests::DeviceRequests,
    http2_pair,
    pair::{self, AgentAuthority},
    service::Service,
    squid, ziproxy,
};
use crate::{
    cli::Beside,
    job::{Internet, LoadJob},
    link::Link,
    system::System,
};

/// The Internet is never the bottleneck: ten times the fastest profile.
const INTERNET_RATE: BitRate = BitRate::bps(1_000_000_000);
/// 30 ms at that rate.
const INTERNET_QUEUE: ByteCount = ByteCount::kb(4_000);
/// Time for which proxies and browsers may cache an address.
const TTL: Duration = Duration::from_secs(300);
/// Address of a proxy at the gateway's place.
const PROXY_AT_GATEWAY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(GATEWAY_ON_HOP, 3128));

/// The running parts of a load's network.
pub(super) struct Network {
    pub(super) world: World,
    pub(super) content: Arc<Site>,
    pub(super) authority: Arc<TestAuthority>,
    pub(super) names: NameServer,
    pub(super) between: Between,
    /// Address of the concurrent download's origin.
    pub(super) bulk_origin: SocketAddr,
    /// Addresses of the pages' hosts.
    addresses: HostAddresses,
    pub(super) hosting: Hosting,
}

/// Errors of building a world.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    /// Namespaces or TUN devices could not be created.
    #[error(transparent)]
    World(#[from] longhaul_world::WorldError),
    /// The route to a proxy that splits connections could not be set.
    #[error(transparent)]
    Divert(#[from] longhaul_world::IpError),
    /// The origins could not be started.
    #[error(transparent)]
    Hosting(#[from] longhaul_hosting::HostingError),
    /// Their certificates could not be created.
    #[error(transparent)]
    Authority(#[from] longhaul_hosting::AuthorityError),
    /// Their name server could not be started.
    #[error(transparent)]
    Names(#[from] longhaul_hosting::NameServerError),
    /// Their addresses could not be assigned.
    #[error(transparent)]
    Addresses(#[from] longhaul_hosting::TooManyHosts),
    /// The splitting proxy could not be started.
    #[error(transparent)]
    Splitting(#[from] longhaul_hosting::SplittingProxyError),
    /// Squid could not be started.
    #[error(transparent)]
    Squid(#[from] squid::SquidError),
    /// Ziproxy could not be started.
    #[error(transparent)]
    Ziproxy(#[from] ziproxy::ZiproxyError),
    /// The pair of HTTP/2 proxies could not be started.
    #[error(transparent)]
    Http2Pair(#[from] http2_pair::Http2PairError),
    /// Agent or gateway could not be started.
    #[error(transparent)]
    Pair(#[from] pair::PairError),
    /// The emulator failed.
    #[error("the emulated links did not work correctly, so there is no measurement: {0}")]
    Emulator(String),
    /// Temporary files could not be written.
    #[error("cannot write temporary files: {0}")]
    Temporary(#[from] io::Error),
}

impl Network {
    /// Builds the world of `job` and starts everything in it. The hosts of `others` exist, too, so that their pages can be
    /// shown later.
    pub(super) async fn build(
        job: &LoadJob,
        link: &Link,
        page: Page,
        others: &[Page],
        temporary: &Path,
    ) -> Result<Self, NetworkError> {
        let world = World::build(WorldConfig {
            hop: link.hop.clone(),
            internet: internet(&job.internet),
            seed: job.seed,
            congestion: job.internet.congestion.clone(),
        })?;
        if job.system == System::LonghaulRemembered {
            world.place_router()?;
        }
        page.prepare();
        let content = Arc::new(Site {
            bulk: if job.beside == Beside::Bulk || job.system == System::LonghaulRemembered {
                bulk_download::body()
            } else {
                Bytes::new()
            },
            page: Mutex::new(page),
            others: others.iter().flat_map(origins::names).collect(),
        });
        let authority = Arc::new(TestAuthority::new()?);
        let hosts = content.hosts();
        let addresses = HostAddresses::assign(hosts.clone())?;
        let bulk_origin = addresses
            .address(bulk_download::HOST)
            .unwrap_or(Ipv4Addr::LOCALHOST);
        let named = addresses.clone();
        let names = world
            .origins()
            .run(move || async move { NameServer::start((DNS_SERVER, 53).into(), &named, TTL).await })
            .await?;
        let hosting = host(&world, &content, &authority, job).await?;
        let between = between(&world, job, link, &authority, &hosts, temporary).await?;
        Ok(Self {
            world,
            content,
            authority,
            names,
            between,
            bulk_origin: (bulk_origin, 80).into(),
            addresses,
            hosting,
        })
    }

    /// Starts endless requests of another device to the host of `page`.
    ///
    /// # Errors
    /// Its agent does not start.
    pub(super) async fn start_device_requests(
        &mut self,
        page: &url::Url,
    ) -> Result<DeviceRequests, NetworkError> {
        let proxy = match &mut self.between {
            Between::Nothing | Between::Splitting(_) | Between::Redirecting(_) => None,
            Between::Proxy(_) | Between::Ziproxy(_) => Some(PROXY_AT_GATEWAY),
            Between::Http2Pair(_) => Some(http2_pair::SQUID),
            Between::Pair(pair) => {
                pair.start_other(self.world.gateway()).await?;
                Some(pair::PROXY)
            }
        };
        let host = page.host_str().unwrap_or_default().to_owned();
        let address = self.addresses.address(&host).unwrap_or(Ipv4Addr::LOCALHOST);
        Ok(DeviceRequests::start(self.world.gateway(), proxy, (address, 80).into(), host).await)
    }

    /// Returns the addresses of the page's hosts, for a browser that need not look them up.
    pub(super) fn known_names(&self) -> BTreeMap<String, Ipv4Addr> {
        let hosts = self.content.hosts().into_iter();
        hosts
            .filter_map(|host| Some((host.clone(), self.addresses.address(&host)?)))
            .collect()
    }

    /// Returns the proxy for the browser.
    pub(super) fn proxy(&self) -> Option<SocketAddr> {
        match &self.between {
            Between::Nothing | Between::Splitting(_) | Between::Redirecting(_) => None,
            Between::Proxy(_) | Between::Ziproxy(_) => Some(PROXY_AT_GATEWAY),
            Between::Http2Pair(_) => Some(http2_pair::PROXY),
            Between::Pair(_) => Some(pair::PROXY),
        }
    }

    /// Checks that the emulator kept the model's times, and that no packet was lost outside of the model.
    ///
    /// # Errors
    /// It did not: the measurement is of this machine.
    pub(super) fn check_emulator(&self) -> Result<(), NetworkError> {
        for link in [self.world.hop(), self.world.internet()] {
            let driver = link.snapshot().driver;
            if let Some(fault) = driver.fault {
                return Err(NetworkError::Emulator(fault));
            }
            if driver.write_failures.packets > 0 {
                let count = driver.write_failures.packets;
                return Err(NetworkError::Emulator(format!(
                    "{count} packets could not be passed to the kernel"
                )));
            }
        }
        if let Between::Splitting(proxy) = &self.between
            && proxy.statistics().senders_refused > 0
        {
            return Err(NetworkError::Emulator(
                "the kernel refused the sender of the TCP proxy (BBR)".to_owned(),
            ));
        }
        if let Between::Splitting(proxy) = &self.between
            && proxy.statistics().connections == 0
        {
            return Err(NetworkError::Emulator(
                "no connection passed through the TCP proxy".to_owned(),
            ));
        }
        match self.world.kernel_drops()? {
            0 => Ok(()),
            count => Err(NetworkError::Emulator(format!(
                "the kernel dropped {count} packets before the link"
            ))),
        }
    }

    /// Returns true if agent and gateway are between browser and origins.
    pub(super) fn is_longhaul(&self) -> bool {
        matches!(self.between, Between::Pair(_))
    }

    /// Returns the agent's current counters, if there is one.
    pub(super) async fn agent_counters(&self) -> Option<serde_json::Value> {
        if !self.is_longhaul() {
            return None;
        }
        self.world.client().run(pair::status).await
    }

    /// Returns the requests in the agent's journal, oldest first; none without an agent.
    pub(super) async fn journal(&self) -> Vec<serde_json::Value> {
        let Between::Pair(pair) = &self.between else {
            return Vec::new();
        };
        let Some(token) = pair.control_token() else {
            return Vec::new();
        };
        let asked = self
            .world
            .client()
            .run(move || async move { pair::journal(&token).await });
        asked.await.unwrap_or_default()
    }

    /// Returns how many requests the visits so far do not teach, by the gateway's reason.
    pub(super) async fn refused_lessons(&self) -> BTreeMap<String, u64> {
        if !self.is_longhaul() {
            return BTreeMap::new();
        }
        self.world.gateway().run(pair::refused_lessons).await
    }

    /// Returns the maximum memory of agent and gateway (or another proxy) since the last
    /// [`Self::forget_memory`], in bytes.
    pub(super) fn memory(&self) -> (Option<u64>, Option<u64>) {
        match &self.between {
            Between::Nothing | Between::Splitting(_) | Between::Ziproxy(_) => (None, None),
            Between::Proxy(proxy) | Between::Redirecting(proxy) => (None, proxy.peak_memory()),
            Between::Http2Pair(pair) => {
                let (first, second) = pair.proxies();
                (first.peak_memory(), second.peak_memory())
            }
            Between::Pair(pair) => (pair.agent.peak_memory(), pair.gateway.peak_memory()),
        }
    }

    /// Returns the agent's own certificate authority for the browser, if there is one.
    ///
    /// # Errors
    /// The agent created none, or it cannot be read.
    pub(super) fn agent_authority(&self) -> Result<Option<AgentAuthority>, NetworkError> {
        match &self.between {
            Between::Pair(pair) => Ok(pair.authority()?),
            Between::Nothing
            | Between::Splitting(_)
            | Between::Proxy(_)
            | Between::Redirecting(_)
            | Between::Ziproxy(_)
            | Between::Http2Pair(_) => Ok(None),
        }
    }

    /// Resets [`Self::memory`].
    pub(super) fn forget_memory(&self) {
        match &self.between {
            Between::Nothing | Between::Splitting(_) | Between::Ziproxy(_) => {}
            Between::Proxy(proxy) | Between::Redirecting(proxy) => proxy.forget_memory(),
            Between::Http2Pair(pair) => <[_; 2]>::from(pair.proxies())
                .into_iter()
                .for_each(Service::forget_memory),
            Between::Pair(pair) => [&pair.agent, &pair.gateway]
                .into_iter()
                .for_each(Service::forget_memory),
        }
    }

    /// Returns the processor time of agent and gateway (or another proxy) so far.
    pub(super) fn cpu(&self) -> (Duration, Duration) {
        match &self.between {
            Between::Nothing | Between::Splitting(_) | Between::Ziproxy(_) => {
                (Duration::ZERO, Duration::ZERO)
            }
            Between::Proxy(proxy) | Between::Redirecting(proxy) => (Duration::ZERO, proxy.cpu()),
            Between::Http2Pair(pair) => {
                let (first, second) = pair.proxies();
                (first.cpu(), second.cpu())
            }
            Between::Pair(pair) => (pair.agent.cpu(), pair.gateway.cpu()),
        }
    }
}

/// Returns the network between gateway and origins.
pub(super) fn internet(internet: &Internet) -> HopConfig {
    let mut one_way = LinkConfig::new(Capacity::Rate(INTERNET_RATE), internet.delay, INTERNET_QUEUE);
    if internet.loss > 0.0 {
        one_way.loss = Loss::Random(Probability::new(internet.loss).unwrap_or(Probability::ZERO));
    }
    HopConfig::new(one_way.clone(), one_way)
}
