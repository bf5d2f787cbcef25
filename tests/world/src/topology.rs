//! The parts of the path: addresses, devices, routes and kernel settings of each namespace.
use std::net::Ipv4Addr;

use longhaul_netem::HopConfig;
use tun_rs::SyncDevice;

use crate::{
    device,
    iproute::{self, IpError},
    sysctl::{self, Presence, SysctlError},
    world::{WorldConfig, WorldError},
};

/// The client's address.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// The gateway's address towards the client.
pub const GATEWAY_ON_HOP: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
/// The gateway's address towards the Internet.
pub const GATEWAY_ON_INTERNET: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 1);
/// The origins' own address.
pub const ORIGINS: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 2);
/// Where the DNS server listens, in `origins`.
pub const DNS_SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 53);
/// The network of the hosts of pages: every address in it is local to `origins`.
pub const HOSTS_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 0);
/// The length of that network's prefix.
pub const HOSTS_PREFIX: u8 = 16;

/// The device of the hop, in `client` and in `gateway`.
pub(crate) const HOP: &str = "hop";
/// The device of the Internet link, in `gateway` and in `origins`.
pub(crate) const INTERNET: &str = "internet";
const HOP_NETWORK: &str = "10.78.0.0/24";
const INTERNET_NETWORK: &str = "10.78.1.0/24";
/// What Ethernet, and with it most of the Internet, carries; a link of the model may carry less.
const MTU: u16 = 1500;
/// The least MTU that an IPv4 link may have and a kernel takes (RFC 791).
pub(crate) const MIN_MTU: u16 = 68;

fn mtu(link: &'static str, config: &HopConfig) -> Result<u16, WorldError> {
    let of_model = [&config.down, &config.up]
        .into_iter()
        .filter_map(|direction| direction.mtu)
        .map(|mtu| mtu.bytes())
        .min();
    match of_model.map(|mtu| (mtu, u16::try_from(mtu))) {
        Some((mtu, _)) if mtu < u64::from(MIN_MTU) => Err(WorldError::Mtu { link, mtu }),
        Some((_, Ok(mtu))) => Ok(mtu.min(MTU)),
        _ => Ok(MTU),
    }
}

/// A namespace's part of the path.
pub(crate) struct End {
    /// Its devices in their order from the client, with their MTU.
    devices: Vec<(&'static str, u16)>,
    /// Commands for `ip`, once the devices are there.
    routes: String,
    forwarding: Forwarding,
    congestion: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Forwarding {
    Off,
    On,
}

/// Client, gateway, origins.
pub(crate) fn ends(config: &WorldConfig) -> Result<[End; 3], WorldError> {
    let hop = (HOP, mtu(HOP, &config.hop)?);
    let internet = (INTERNET, mtu(INTERNET, &config.internet)?);
    // By routes and not by the kernel's default: what a namespace may make its default is the host's affair
    // (`tcp_allowed_congestion_control`), what it chooses for its routes is its own.
    let options = match &config.congestion {
        Some(name) => format!("congctl {name}"),
        None => String::new(),
    };
    let end = |devices: &[_], routes, forwarding| End {
        devices: devices.to_vec(),
        routes,
        forwarding,
        congestion: config.congestion.clone(),
    };
    Ok([
        end(&[hop], client_routes(&options), Forwarding::Off),
        end(&[hop, internet], gateway_routes(&options), Forwarding::On),
        end(&[internet], origins_routes(&options), Forwarding::Off),
    ])
}

impl End {
    /// Makes the devices of the calling thread's namespace and gives it its settings, addresses and routes.
    pub(crate) fn make(&self) -> Result<Vec<SyncDevice>, WorldError> {
        self.set_kernel()?;
        if let Some(wanted) = &self.congestion {
            check_congestion(wanted)?;
        }
        let made = self
            .devices
            .iter()
            .map(|(device, _)| device::create(device).map_err(|source| WorldError::Device { device, source }))
            .collect::<Result<_, _>>()?;
        let links: String = self
            .devices
            .iter()
            .map(|(name, mtu)| device::bring_up(name, *mtu))
            .collect();
        iproute::batch(&format!("link set lo up\n{links}{}", self.routes))?;
        Ok(made)
    }

    fn set_kernel(&self) -> Result<(), SysctlError> {
        use Presence::{Optional, Required};
        // Before there are devices: router solicitations and neighbour discovery would cross the links, and count.
        for scope in ["all", "default"] {
            sysctl::set(&format!("ipv6/conf/{scope}/disable_ipv6"), "1", Optional)?;
            sysctl::set(&format!("ipv4/conf/{scope}/rp_filter"), "0", Required)?;
        }
        let forwarding = if self.forwarding == Forwarding::On {
            "1"
        } else {
            "0"
        };
        sysctl::set("ipv4/ip_forward", forwarding, Required)?;
        // What one connection learns must not speed up the next: runs would depend on what came before.
        sysctl::set("ipv4/tcp_no_metrics_save", "1", Required)?;
        // Pings without raw sockets; a user namespace has no group but 0.
        sysctl::set("ipv4/ping_group_range", "0 0", Optional)
    }
}

/// Finds out whether the kernel takes `wanted` as the congestion control of a route; it loads the module if it can.
fn check_congestion(wanted: &str) -> Result<(), WorldError> {
    let unknown = |available| WorldError::Congestion {
        wanted: wanted.to_owned(),
        available,
    };
    // The kernel's limit for such names, and what may stand in a batch of commands.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let available = || sysctl::get("ipv4/tcp_available_congestion_control").unwrap_or_default();
    if wanted.is_empty() || wanted.len() > 15 || !wanted.bytes().all(is_name) {
        return Err(unknown(available()));
    }
    // An address for documentation (RFC 5737): nothing else uses the route meanwhile.
    let route = "192.0.2.0/24 dev lo";
    iproute::batch(&format!(
        "link set lo up\nroute add {route} congctl {wanted}\nroute del {route}\n"
    ))
    .map_err(|error| match error {
        IpError::Refused { .. } => unknown(available()),
        error @ IpError::Start(_) => error.into(),
    })
}

/// The routes of the client; each ends in `options`.
fn client_routes(options: &str) -> String {
    format!(
        "address add {CLIENT}/24 dev {HOP} noprefixroute\n\
         route add {HOP_NETWORK} dev {HOP} {options}\n\
         route add default via {GATEWAY_ON_HOP} {options}\n"
    )
}

fn gateway_routes(options: &str) -> String {
    format!(
        "address add {GATEWAY_ON_HOP}/24 dev {HOP} noprefixroute\n\
         address add {GATEWAY_ON_INTERNET}/24 dev {INTERNET} noprefixroute\n\
         route add {HOP_NETWORK} dev {HOP} {options}\n\
         route add {INTERNET_NETWORK} dev {INTERNET} {options}\n\
         route add {HOSTS_NETWORK}/{HOSTS_PREFIX} via {ORIGINS} {options}\n"
    )
}

fn origins_routes(options: &str) -> String {
    format!(
        "address add {ORIGINS}/24 dev {INTERNET} noprefixroute\n\
         address add {DNS_SERVER}/32 dev {INTERNET} noprefixroute\n\
         route add {INTERNET_NETWORK} dev {INTERNET} {options}\n\
         route add default via {GATEWAY_ON_INTERNET} {options}\n\
         route add local {HOSTS_NETWORK}/{HOSTS_PREFIX} dev lo\n"
    )
}
