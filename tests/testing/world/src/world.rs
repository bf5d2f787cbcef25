//! The three namespaces and the links between them.
use std::io;

use longhaul_netem::{AddressChanges, HopConfig};
use longhaul_types::Timestamp;
use tun_rs::SyncDevice;

use crate::{
    clock::Clock,
    device,
    emulated_link::{EmulatedLink, LinkThread},
    iproute::{self, IpError},
    namespace::{Namespace, NamespaceError, NamespaceThread},
    router,
    sysctl::{self, SysctlError},
    topology::{End, HOP, HOSTS_NETWORK, HOSTS_PREFIX, INTERNET, MIN_MTU, ends},
    translation::MAX_CHANGES,
};

/// Configuration of a world.
#[derive(Clone, Debug, PartialEq)]
pub struct WorldConfig {
    /// The link between client and gateway. If the client's address changes, its kernel keeps
    /// [`CLIENT`](crate::CLIENT), and the gateway sees 10.78.0.3, 10.78.0.4 and so on instead, as behind a
    /// NAT.
    pub hop: HopConfig,
    /// The link between gateway and origins; its *down* direction is towards the gateway.
    pub internet: HopConfig,
    /// Seed of both links; each link and direction has its own random streams.
    pub seed: u64,
    /// Congestion control of kernel TCP in all three namespaces; `None` keeps the kernel's default.
    pub congestion: Option<String>,
}

/// Errors of building a world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A namespace could not be created.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A TUN device could not be created.
    #[error("cannot make the TUN device `{device}`: {source}")]
    Device {
        /// Name of the device.
        device: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A kernel setting could not be set.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// Addresses or routes could not be set.
    #[error(transparent)]
    Ip(#[from] IpError),
    /// The kernel does not offer this congestion control.
    #[error(
        "the kernel has no congestion control `{wanted}` (it has: {available}): load its module on the host \
         (`modprobe tcp_{wanted}`)"
    )]
    Congestion {
        /// The requested congestion control.
        wanted: String,
        /// The congestion controls that the kernel lists as available.
        available: String,
    },
    /// The Internet link has address changes, but it has no client.
    #[error(
        "only the hop has a client whose address changes; leave the Internet link's `address_changes` empty"
    )]
    AddressChangeOnInternet,
    /// The number of changes exceeds the addresses of the hop's network.
    #[error("the client's address changes {0} times; a world has addresses for {MAX_CHANGES} changes")]
    TooManyAddressChanges(u32),
    /// The MTU of a model is below the minimum of IPv4.
    #[error("the link `{link}` has an MTU of {mtu} bytes; IPv4 needs {MIN_MTU} at least")]
    Mtu {
        /// Name of the link.
        link: &'static str,
        /// Its MTU.
        mtu: u64,
    },
    /// The thread of a link could not be started.
    #[error("cannot start the thread of the link `{link}`: {source}")]
    Driver {
        /// Name of the link.
        link: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Three network namespaces joined by two emulated links.
///
/// Dropping it ends its threads, and thereby everything that runs in the namespaces.
#[derive(Debug)]
pub struct World {
    client: Namespace,
    gateway: Namespace,
    origins: Namespace,
    hop: EmulatedLink,
    internet: EmulatedLink,
    congestion: String,
    // Links before namespaces, because fields are dropped in this order: a driver must end before the kernels
    // at its ends do.
    _links: [LinkThread; 2],
    _namespaces: [NamespaceThread; 3],
}

impl World {
    /// Builds a world. It takes some tens of milliseconds.
    ///
    /// Needs CAP_SYS_ADMIN and CAP_NET_ADMIN in the process, as of root or in a [`sandbox`](crate::sandbox),
    /// and `/dev/net/tun`.
    ///
    /// # Errors
    /// The privileges or the device are missing, iproute2 is missing, the kernel does not offer the
    /// congestion control, or the configuration is outside of a world's limits. The message contains the
    /// remedy.
    pub fn build(config: WorldConfig) -> Result<Self, WorldError> {
        check_address_changes(&config)?;
        let [client_end, gateway_end, origins_end] = ends(&config)?;
        let (client, client_thread) = Namespace::create("client")?;
        let (gateway, gateway_thread) = Namespace::create("gateway")?;
        let (origins, origins_thread) = Namespace::create("origins")?;
        let near = set_up(&client, client_end)?;
        let middle = set_up(&gateway, gateway_end)?;
        let far = set_up(&origins, origins_end)?;
        // In order along the path: hop, hop, internet, internet.
        let mut devices = near.into_iter().chain(middle).chain(far);
        let clock = Clock::starting_now();
        let mut join = |link, config, seed| {
            let (Some(near), Some(far)) = (devices.next(), devices.next()) else {
                let source = io::Error::other("a device is missing");
                return Err(WorldError::Driver { link, source });
            };
            EmulatedLink::start(link, clock, config, seed, near, far)
                .map_err(|source| WorldError::Driver { link, source })
        };
        let (hop, hop_thread) = join(HOP, config.hop, config.seed)?;
        // Any different seed is suitable: the links must not have equal draws.
        let (internet, internet_thread) = join(INTERNET, config.internet, !config.seed)?;
        let kernels_default = || sysctl::get("ipv4/tcp_congestion_control").unwrap_or_default();
        let congestion = match config.congestion {
            Some(name) => name,
            None => client.run_blocking(kernels_default),
        };
        Ok(Self {
            client,
            gateway,
            origins,
            hop,
            internet,
            congestion,
            _links: [hop_thread, internet_thread],
            _namespaces: [client_thread, gateway_thread, origins_thread],
        })
    }

    /// Namespace of the browser and the agent.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// Namespace of the gateway. It forwards between the links.
    pub fn gateway(&self) -> &Namespace {
        &self.gateway
    }

    /// Namespace of the origins and the DNS server. All of [`HOSTS_NETWORK`](crate::HOSTS_NETWORK) is local
    /// here: one listener on `0.0.0.0` serves every host, and the local address of a connection identifies
    /// the host.
    pub fn origins(&self) -> &Namespace {
        &self.origins
    }

    /// The link between client and gateway.
    pub fn hop(&self) -> &EmulatedLink {
        &self.hop
    }

    /// The link between gateway and origins.
    pub fn internet(&self) -> &EmulatedLink {
        &self.internet
    }

    /// The congestion control that kernel TCP uses on both links unless a socket selects another, for example
    /// `cubic`. Empty if the kernel does not report it.
    pub fn congestion_control(&self) -> &str {
        &self.congestion
    }

    /// Returns the number of packets that the kernels dropped on their way into the links, where the models
    /// could not count them. Zero in a valid run.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub fn kernel_drops(&self) -> io::Result<u64> {
        [&self.client, &self.gateway, &self.origins]
            .into_iter()
            .map(|namespace| namespace.run_blocking(device::kernel_drops))
            .sum()
    }

    /// Puts a router with a hardware address between the client and the hop, like that of a home network: by it an agent
    /// recognises the network. The router is a second device of the client's namespace, which forwards.
    ///
    /// # Errors
    /// iproute2 or the kernel rejects the commands.
    pub fn place_router(&self) -> Result<(), WorldError> {
        self.client.run_blocking(router::place)
    }

    /// Drops the UDP packets of the hop that arrive at the client and at the gateway, from now on.
    ///
    /// # Errors
    /// iproute2 rejects the commands.
    pub fn block_udp(&self) -> Result<(), IpError> {
        // The table of local addresses usually comes before all rules.
        let commands = format!(
            "rule add pref 30 lookup local\n\
             rule add pref 5 iif {HOP} ipproto udp blackhole\n\
             rule del pref 0\n"
        );
        for namespace in [&self.client, &self.gateway] {
            let commands = commands.clone();
            namespace.run_blocking(move || iproute::batch(&commands))?;
        }
        Ok(())
    }

    /// Redirects TCP connections from the client to the pages' hosts to the gateway, for a splitting proxy: a
    /// listener on `0.0.0.0` in `gateway` accepts them, and the local address of a connection identifies the
    /// host. The gateway's own connections to the hosts, and all traffic except TCP, go to the origins as
    /// before.
    ///
    /// # Errors
    /// iproute2 rejects the commands.
    pub fn divert_tcp_to_gateway(&self) -> Result<(), IpError> {
        // Rules in their order: TCP from the hop is local by table 100; all other packets take the ordinary
        // route. The hosts are also in the table `local`, after those rules, because the kernel answers only
        // from addresses that it finds there (`__ip_dev_find`).
        const DIVERSION: u32 = 100;
        let hosts = format!("{HOSTS_NETWORK}/{HOSTS_PREFIX}");
        let commands = format!(
            "route add local {hosts} dev lo table {DIVERSION}\n\
             rule add pref 10 iif {HOP} ipproto tcp to {hosts} lookup {DIVERSION}\n\
             rule add pref 20 to {hosts} lookup main\n\
             rule add pref 30 lookup local\n\
             rule del pref 0\n\
             route add local {hosts} dev lo table local\n"
        );
        self.gateway.run_blocking(move || iproute::batch(&commands))
    }
}

fn set_up(namespace: &Namespace, end: End) -> Result<Vec<SyncDevice>, WorldError> {
    namespace.run_blocking(move || end.make())
}

fn check_address_changes(config: &WorldConfig) -> Result<(), WorldError> {
    if config.internet.address_changes != AddressChanges::default() {
        return Err(WorldError::AddressChangeOnInternet);
    }
    let last = config.hop.address_changes.address(Timestamp::MAX);
    match last.0 {
        ..=MAX_CHANGES => Ok(()),
        changes => Err(WorldError::TooManyAddressChanges(changes)),
    }
}
