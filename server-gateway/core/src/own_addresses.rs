//! The addresses of this machine, which fetches and tunnels may not reach.
use std::{io, net::IpAddr};

use crate::config::Config;
use longhaul_origin::AddressReader;
use tracing::warn;

/// Addresses of this machine at the start.
pub fn first(config: &Config) -> Vec<IpAddr> {
    read(&listen_addresses(config)).unwrap_or_else(|error| {
        warn!(%error, "this machine's addresses are not known, so fetches of its own public address are not refused");
        listen_addresses(config)
    })
}

/// Reads the same later: addresses come and go.
pub fn reader(config: &Config) -> AddressReader {
    let listen = listen_addresses(config);
    AddressReader::new(move || read(&listen).ok())
}

/// Addresses of this machine, and these. Other services on this machine may trust requests from its own addresses.
fn read(listen: &[IpAddr]) -> io::Result<Vec<IpAddr>> {
    let interfaces = if_addrs::get_if_addrs()?;
    let mut addresses: Vec<IpAddr> = interfaces.iter().map(if_addrs::Interface::ip).collect();
    addresses.extend(listen);
    Ok(addresses)
}

/// The addresses that the settings name.
fn listen_addresses(config: &Config) -> Vec<IpAddr> {
    let addresses = config.listen.iter().map(|address| address.ip());
    addresses.filter(|address| !address.is_unspecified()).collect()
}
