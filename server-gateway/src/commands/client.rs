//! `client`: manages the clients without an agent that have a name and a password.
use std::{collections::BTreeMap, io::Write, time::SystemTime};

use longhaul_gateway_core::{
    admin::device_usage::{self, DeviceUsage, Month},
    admission::{
        clients::{Clients, NamedClient, PasswordKey},
        state::StateDir,
    },
    config::{Config, clientless::LEVELS},
    quota_limits::{DeviceQuota, QuotaDefaults, month_text},
    rfc3339::{normalised, rfc3339},
};
use longhaul_types::{ByteCount, PublicKey};
use serde::Serialize;

use super::{
    CommandError,
    table::{cell, write_table},
};
use crate::{
    cli::ClientCommand,
    operator::{client::RunningGateway, orders::KeepRequest},
};

/// Version of the object; a new version may remove fields or change their meaning.
const VERSION: u32 = 1;
const TITLES: [&str; 8] = [
    "NAME",
    "ADDED",
    "LEVEL",
    "LAST SEEN",
    "DOWN",
    "UP",
    "MONTH",
    "QUOTA",
];

/// Changes the file of the list, which a running gateway reads within a second.
pub(super) async fn execute(
    action: &ClientCommand,
    config: &Config,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let state = StateDir::open(&config.state_dir)?;
    match action {
        ClientCommand::Add { name } => {
            let key = PasswordKey::derived_from(&state.keys()?.secret);
            let password = Clients::add(&state, &key, name, SystemTime::now())?;
            writeln!(out, "{password}")?;
        }
        ClientCommand::List { json } => {
            keep_usage(config).await;
            let (clients, usage) = (Clients::load(&state)?, device_usage::peek(&state));
            let list = client_list(&clients, &usage, config.quota, SystemTime::now());
            if *json {
                writeln!(out, "{}", serde_json::to_string(&list)?)?;
            } else {
                write_list(&list, out)?;
            }
        }
        ClientCommand::Level { name, level } => {
            let known = LEVELS.into_iter().find(|known| known.name() == level);
            Clients::set_level(&state, name, known)?;
            writeln!(out, "{name} has the level {level}")?;
        }
        ClientCommand::Quota { name, month } => {
            Clients::set_month(&state, name, *month)?;
            writeln!(out, "quota of {name}: month {month}")?;
        }
        ClientCommand::Remove { name } => {
            Clients::remove(&state, name)?;
            writeln!(out, "removed {name}")?;
        }
    }
    Ok(())
}

/// Lets a running gateway write its counts. Without it the list has those of the last minute.
async fn keep_usage(config: &Config) {
    let running = RunningGateway::find(&config.state_dir, config.admin_socket.as_deref()).await;
    if let Ok(Some(gateway)) = running {
        let _kept = gateway.tell(&KeepRequest {}).await;
    }
}

/// The clients without an agent.
#[derive(Debug, Serialize)]
struct ClientList {
    version: u32,
    clients: Vec<ClientEntry>,
}

/// A client. The fields have the names and meanings of those of a device.
#[derive(Debug, Serialize)]
struct ClientEntry {
    name: String,
    added: String,
    level: Option<&'static str>,
    quota_month: String,
    quota_month_bytes: Option<u64>,
    quota_reached: bool,
    month_ends: String,
    last_seen: Option<String>,
    bytes_up: u64,
    bytes_down: u64,
    month_bytes_up: u64,
    month_bytes_down: u64,
}

fn client_list(
    clients: &Clients,
    usage: &BTreeMap<PublicKey, DeviceUsage>,
    defaults: QuotaDefaults,
    now: SystemTime,
) -> ClientList {
    let unknown = DeviceUsage::default();
    let entry = |client: &NamedClient| {
        let usage = client.owner().and_then(|owner| usage.get(&owner));
        let usage = usage.unwrap_or(&unknown);
        let quota = DeviceQuota {
            month: client.month(),
            ..DeviceQuota::default()
        };
        let (month, in_month) = (quota.within(defaults).month, usage.in_month(now));
        ClientEntry {
            name: client.name.clone(),
            added: normalised(&client.added),
            level: client.level().map(|level| level.name()),
            quota_month: client.month().to_string(),
            quota_month_bytes: month.map(ByteCount::bytes),
            quota_reached: month.is_some_and(|month| in_month.both() >= month.bytes()),
            month_ends: rfc3339(Month::of(now).end()),
            last_seen: usage.heard.map(rfc3339),
            bytes_up: usage.total.received,
            bytes_down: usage.total.sent,
            month_bytes_up: in_month.received,
            month_bytes_down: in_month.sent,
        }
    };
    ClientList {
        version: VERSION,
        clients: clients.iter().map(entry).collect(),
    }
}

fn write_list(list: &ClientList, out: &mut impl Write) -> Result<(), CommandError> {
    let titles = TITLES.map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(titles)
        .chain(list.clients.iter().map(row))
        .collect();
    Ok(write_table(&rows, out)?)
}

fn row(client: &ClientEntry) -> Vec<String> {
    let bytes = |bytes: u64| Some(ByteCount::new(bytes).to_string());
    let month = client.quota_month_bytes.map(ByteCount::new).map(month_text);
    let used = client
        .quota_reached
        .then(|| format!("used up until {}", client.month_ends));
    let quota: Vec<String> = [month, used].into_iter().flatten().collect();
    let cells = [
        Some(client.name.clone()),
        Some(client.added.clone()),
        client.level.map(str::to_owned),
        client.last_seen.clone(),
        bytes(client.bytes_down),
        bytes(client.bytes_up),
        bytes(client.month_bytes_down.saturating_add(client.month_bytes_up)),
        Some(quota.join(", ")).filter(|text| !text.is_empty()),
    ];
    cells.map(cell).to_vec()
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;
    use longhaul_gateway_core::{admin::metrics::LinkBytes, quota_limits::Limit};

    #[test]
    fn the_list_shows_what_a_client_has_used_of_its_month() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        let key = PasswordKey::derived_from(&SecretKey::from_bytes([7; 32]));
        let now = SystemTime::UNIX_EPOCH;
        for name in ["ann", "bob"] {
            Clients::add(&state, &key, name, now).unwrap();
        }
        Clients::set_month(&state, "ann", Limit::Of(ByteCount::kb(1000))).unwrap();
        let clients = Clients::load(&state).unwrap();
        let ann = clients.iter().next().and_then(NamedClient::owner).unwrap();
        let mut used = DeviceUsage::default();
        let bytes = LinkBytes {
            sent: 900_000,
            received: 100_000,
        };
        used.count(bytes, now);
        let list = client_list(&clients, &[(ann, used)].into(), QuotaDefaults::default(), now);
        let mut text = Vec::new();
        write_list(&list, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("NAME"), "{text}");
        assert!(
            lines[1].ends_with("1MB, used up until 1970-02-01T00:00:00Z"),
            "{text}"
        );
        assert!(lines[2].starts_with("bob") && lines[2].ends_with('-'), "{text}");
        let json = serde_json::to_value(&list).unwrap();
        assert_eq!(json["clients"][0]["month_bytes_up"], 100_000);
        assert_eq!(json["clients"][1]["quota_reached"], false);
    }
}
