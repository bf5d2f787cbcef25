//! Parsers and formatters of the settings that have a form of their own.
use std::{
    collections::BTreeMap,
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use longhaul_origin::{Cidr, DenyList, DnsServers, KeyHash, ResolveMap};
use longhaul_settings::{Environment, Form, Value, Wrong, quoted};
use longhaul_types::Invite;

use super::{ListenAddresses, PortSet, settings::ResolveTable};

/// TCP port of plain HTTP.
const HTTP_PORT: u16 = 80;

/// An address and port.
pub(super) fn address(value: &Value) -> Result<SocketAddr, Wrong> {
    let text = value.text()?;
    text.parse()
        .map_err(|_| Wrong::new(format!("`{text}` is not ADDR:PORT")))
}

pub(super) fn listen(value: &Value, _: &Form) -> Result<ListenAddresses, Wrong> {
    ListenAddresses::parse(value)
}

pub(super) fn resolve_table(value: &Value, _: &Form) -> Result<ResolveTable, Wrong> {
    let entries = value.pairs()?;
    let map = ResolveMap::parse(&entries).map_err(Wrong::explained)?;
    Ok(ResolveTable { map, entries })
}

/// Formats a table as TOML.
pub(super) fn show_table(entries: &BTreeMap<String, String>) -> String {
    if entries.is_empty() {
        return "{}".to_owned();
    }
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, address)| format!("{} = {}", quoted(name), quoted(address)))
        .collect();
    format!("{{ {} }}", entries.join(", "))
}

pub(super) fn deny_keys(value: &Value, _: &Form) -> Result<DenyList, Wrong> {
    let hashes = value.texts()?.into_iter().map(|text| text.parse::<KeyHash>());
    hashes.collect::<Result<_, _>>().map_err(Wrong::new)
}

pub(super) fn dns(value: &Value, _: &Form) -> Result<DnsServers, Wrong> {
    let servers = value.texts()?;
    let servers = if servers == ["system"] {
        Vec::new()
    } else {
        servers
    };
    DnsServers::parse(servers).map_err(Wrong::new)
}

pub(super) fn ranges(value: &Value, _: &Form) -> Result<Vec<Cidr>, Wrong> {
    let ranges = value
        .texts()?
        .into_iter()
        .map(|text| text.parse::<Cidr>().map_err(Wrong::new));
    ranges.collect()
}

pub(super) fn ports(value: &Value, _: &Form) -> Result<PortSet, Wrong> {
    PortSet::parse(value.texts_and_numbers()?).map_err(Wrong::explained)
}

pub(super) fn metrics_listen(value: &Value, _: &Form) -> Result<Option<SocketAddr>, Wrong> {
    loopback_or_off(value, "metrics have no access control")
}

pub(super) fn admin_listen(value: &Value, _: &Form) -> Result<Option<SocketAddr>, Wrong> {
    loopback_or_off(value, "the admin port is not encrypted")
}

fn loopback_or_off(value: &Value, why: &str) -> Result<Option<SocketAddr>, Wrong> {
    let text = value.text()?;
    if text == "off" {
        return Ok(None);
    }
    let address: SocketAddr = text
        .parse()
        .map_err(|_| Wrong::new(format!("`{text}` is neither ADDR:PORT nor \"off\"")))?;
    if address.ip().is_loopback() {
        Ok(Some(address))
    } else {
        Err(Wrong::new(format!("`{text}` is not a loopback address; {why}"))
            .instead("use 127.0.0.1 or [::1]"))
    }
}

pub(super) fn carrier_address(value: &Value, _: &Form) -> Result<Option<SocketAddr>, Wrong> {
    on_off_or_address(value, longhaul_types::CARRIER_PORT)
}

pub(super) fn portal_address(value: &Value, _: &Form) -> Result<Option<SocketAddr>, Wrong> {
    on_off_or_address(value, HTTP_PORT)
}

/// An address and port; `on` is this port of all addresses.
fn on_off_or_address(value: &Value, port: u16) -> Result<Option<SocketAddr>, Wrong> {
    match value.text()? {
        "off" => Ok(None),
        "on" => Ok(Some((Ipv6Addr::UNSPECIFIED, port).into())),
        text => {
            let problem = format!("`{text}` is neither ADDR:PORT nor \"on\" nor \"off\"");
            text.parse().map(Some).map_err(|_| Wrong::new(problem))
        }
    }
}

pub(super) fn admin_socket(value: &Value, _: &Form) -> Result<Option<PathBuf>, Wrong> {
    match value.text()? {
        "off" => Ok(None),
        path => Ok(Some(PathBuf::from(path))),
    }
}

/// The socket in the directory that systemd made for this service (`RuntimeDirectory=`), else in `otherwise`.
pub(super) fn default_admin_socket(environment: &Environment, otherwise: PathBuf) -> PathBuf {
    // Several directories are separated by colons (systemd.exec(5)).
    let first = environment
        .get_filled("RUNTIME_DIRECTORY")
        .and_then(|directories| directories.split(':').next());
    first.map_or(otherwise, PathBuf::from).join("admin.sock")
}

pub(super) fn public_address(value: &Value, _: &Form) -> Result<Option<String>, Wrong> {
    let text = value.text()?;
    if text == "none" {
        return Ok(None);
    }
    if Invite::is_address(text) {
        return Ok(Some(text.to_owned()));
    }
    Err(Wrong::new(format!("`{text}` is not HOST:PORT")))
}

pub(super) fn default_state_dir(environment: &Environment) -> PathBuf {
    if let Some(state) = environment.get_filled("XDG_STATE_HOME") {
        return PathBuf::from(state).join("longhaul-gateway");
    }
    match environment.get_filled("HOME") {
        Some(home) if home != "/root" && home != "/" => {
            PathBuf::from(home).join(".local/state/longhaul-gateway")
        }
        Some(_) | None => PathBuf::from("/var/lib/longhaul-gateway"),
    }
}
