//! A router between the client and the hop.
use crate::{
    iproute,
    sysctl::{self, Presence},
    topology::CLIENT,
    world::WorldError,
};

/// The client's device in the router's network, and the router's device.
const LAN: (&str, &str) = ("lan", "router");
/// The router's address, which only the client's routes contain.
const ADDRESS: &str = "10.78.0.254";
const HARDWARE_ADDRESS: &str = "02:00:00:4c:48:01";
/// Table with the routes of the client's own packets.
const OWN_PACKETS: u32 = 100;

/// Creates the router in the calling thread's namespace, which is the client's.
pub(crate) fn place() -> Result<(), WorldError> {
    let (lan, router) = LAN;
    // The client's packets leave through `lan`, arrive at `router`, and take the ordinary routes to the hop.
    iproute::batch(&format!(
        "link add {router} address {HARDWARE_ADDRESS} type veth peer name {lan}\n\
         link set {router} up\n\
         link set {lan} up\n\
         neigh add {ADDRESS} lladdr {HARDWARE_ADDRESS} dev {lan} nud permanent\n\
         route add default via {ADDRESS} dev {lan} onlink src {CLIENT} table {OWN_PACKETS}\n\
         rule add pref 10 iif {router} lookup main\n\
         rule add pref 20 iif lo lookup {OWN_PACKETS}\n"
    ))?;
    sysctl::set("ipv4/ip_forward", "1", Presence::Required)?;
    // Packets with the client's own address arrive at the router's device.
    sysctl::set(
        &format!("ipv4/conf/{router}/accept_local"),
        "1",
        Presence::Required,
    )?;
    sysctl::set(&format!("ipv4/conf/{router}/rp_filter"), "0", Presence::Required)?;
    // The router would tell the client to use the hop directly.
    sysctl::set(
        &format!("ipv4/conf/{router}/send_redirects"),
        "0",
        Presence::Required,
    )?;
    Ok(())
}
