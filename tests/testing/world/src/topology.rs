//! Addresses, devices, routes and kernel settings of each namespace.
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
/// Address of the gateway on the link to the client.
pub const GATEWAY_ON_HOP: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
/// Address of the gateway on the link to the Internet.
pub const GATEWAY_ON_INTERNET: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 1);
/// The origins' own address.
pub const ORIGINS: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 2);
/// Address of the DNS server, in `origins`.
pub const DNS_SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 53);
/// Network of the pages' hosts: every address in it is local to `origins`.
pub const HOSTS_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 0);
/// Prefix length of that network.
pub const HOSTS_PREFIX: u8 = 16;

/// The device of the hop, in `client` and in `gateway`.
pub(crate) const HOP: &str = "hop";
/// The device of the Internet link, in `gateway` and in `origins`.
pub(crate) const INTERNET: &str = "internet";
const HOP_NETWORK: &str = "10.78.0.0/24";
const INTERNET_NETWORK: &str = "10.78.1.0/24";
/// MTU of Ethernet, and thereby of most of the Internet; a link of the model may have a smaller one.
const MTU: u16 = 1500;
/// Minimum MTU of an IPv4 link that a kernel accepts (RFC 791).
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

/// The part of the path in one namespace.
pub(crate) struct End {
    /// Its devices in order from the client, with their MTU.
    devices: Vec<(&'static str, u16)>,
    /// Commands for `ip`, to be run after the devices have been created.
    routes: String,
    forwarding: Forwarding,
    congestion: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Forwarding {
    Off,
    On,
}

/// Returns the parts of client, gateway and origins.
pub(crate) fn ends(config: &WorldConfig) -> Result<[End; 3], WorldError> {
    let hop = (HOP, mtu(HOP, &config.hop)?);
    let internet = (INTERNET, mtu(INTERNET, &config.internet)?);
    // Set by routes and not by the kernel's default: the defaults that a namespace may select depend on the
    // host (`tcp_allowed_congestion_control`), the values for its routes do not.
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
    /// Creates the devices of the calling thread's namespace and sets its kernel settings, addresses and
    /// routes.
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
        // Before devices exist: router solicitations and neighbour discovery would cross the links and be
        // counted.
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
        // Metrics of one connection must not affect the next: otherwise the order of runs would matter.
        sysctl::set("ipv4/tcp_no_metrics_save", "1", Required)?;
        // Allows pings without raw sockets; a user namespace has only group 0.
        sysctl::set("ipv4/ping_group_range", "0 0", Optional)
    }
}

/// Tests that the kernel accepts `wanted` as the congestion control of a route; it loads the module if
/// possible.
fn check_congestion(wanted: &str) -> Result<(), WorldError> {
    let unknown = |available| WorldError::Congestion {
        wanted: wanted.to_owned(),
        available,
    };
    // The kernel's limit for such names, and the characters that are safe in a batch of commands.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let available = || sysctl::get("ipv4/tcp_available_congestion_control").unwrap_or_default();
    if wanted.is_empty() || wanted.len() > 15 || !wanted.bytes().all(is_name) {
        return Err(unknown(available()));
    }
    // An address for documentation (RFC 5737): no other traffic uses the route.
    let route = "192.0.2.0/24 dev lo";
    iproute::batch(&format!(
        "link set lo up\nroute add {route} congctl {wanted}\nroute del {route}\n"
    ))
    .map_err(|error| match error {
        IpError::Refused { .. } => unknown(available()),
        error @ IpError::Start(_) => error.into(),
    })
}

/// Returns the routes of the client; each ends in `options`.
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
