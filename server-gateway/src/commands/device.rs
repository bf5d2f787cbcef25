//! `device`: manages the admitted devices.
use std::io::Write;

use longhaul_gateway_core::{
    config::Config,
    quota_limits::{month_text, rate_text},
};
use longhaul_types::{BitRate, ByteCount};

use super::{
    CommandError,
    access::DeviceAccess,
    table::{cell, write_table},
};
use crate::{
    cli::DeviceCommand,
    operator::messages::{
        AddRequest, DeviceEntry, DeviceList, QuotaRequest, RemoveRequest, RenameRequest, RestoreRequest,
    },
};

pub(super) async fn execute(
    action: DeviceCommand,
    config: &Config,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let access = DeviceAccess::open(config).await?;
    match action {
        DeviceCommand::List { json: true } => {
            let list = access.list().await?;
            Ok(writeln!(out, "{}", serde_json::to_string(&list)?)?)
        }
        DeviceCommand::List { json: false } => write_list(&access.list().await?, out),
        DeviceCommand::Add { name, key } => {
            let key = key.to_string();
            let added = access.order(AddRequest { name, key }).await?;
            Ok(writeln!(out, "admitted {} ({})", added.name, added.id)?)
        }
        DeviceCommand::Rename { device, name } => {
            let renamed = access
                .order(RenameRequest {
                    device: device.clone(),
                    name,
                })
                .await?;
            Ok(writeln!(
                out,
                "renamed {device} to {} ({})",
                renamed.name, renamed.id
            )?)
        }
        DeviceCommand::Quota { device, rate, month } => {
            let changed = access
                .order(QuotaRequest {
                    device,
                    rate: rate.map(|rate| rate.to_string()),
                    month: month.map(|month| month.to_string()),
                })
                .await?;
            Ok(writeln!(
                out,
                "quota of {} ({}): rate {}, month {}",
                changed.name, changed.id, changed.rate, changed.month
            )?)
        }
        DeviceCommand::Restore { device } => {
            let restored = access.order(RestoreRequest { device }).await?;
            Ok(writeln!(out, "restored {} ({})", restored.name, restored.id)?)
        }
        DeviceCommand::Revoke { device } => {
            let removed = access.order(RemoveRequest { device }).await?;
            Ok(writeln!(out, "removed {} ({})", removed.name, removed.id)?)
        }
    }
}

/// Titles of the columns; the last two only of a running gateway.
const TITLES: [&str; 13] = [
    "NAME",
    "ID",
    "KEY",
    "ADDED",
    "STATE",
    "LAST SEEN",
    "DOWN",
    "UP",
    "MONTH",
    "QUOTA",
    "AGENT",
    "LINK",
    "RTT",
];
/// Number of columns without a running gateway.
const COLUMNS_OF_FILE: usize = 11;
/// Characters of a key that tell two keys apart for a person.
const KEY_FORM: usize = 8;

fn write_list(list: &DeviceList, out: &mut impl Write) -> Result<(), CommandError> {
    let columns = if list.running {
        TITLES.len()
    } else {
        COLUMNS_OF_FILE
    };
    let titles = TITLES.map(str::to_owned).to_vec();
    let mut rows: Vec<_> = std::iter::once(titles)
        .chain(list.devices.iter().map(row))
        .collect();
    for row in &mut rows {
        row.truncate(columns);
    }
    Ok(write_table(&rows, out)?)
}

fn row(device: &DeviceEntry) -> Vec<String> {
    let status = match (&device.revoked, &device.invite_expires) {
        (Some(when), _) => format!("{} {when}", device.status),
        (None, Some(when)) if device.status == "invited" => format!("invited until {when}"),
        (None, Some(when)) => format!("{} {when}", device.status),
        (None, None) => device.state.clone().unwrap_or_else(|| device.status.clone()),
    };
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| ByteCount::new(bytes).to_string());
    let month = device.month_bytes_down.zip(device.month_bytes_up);
    let cells = [
        Some(device.name.clone()),
        Some(device.id.clone()),
        Some(device.key.chars().take(KEY_FORM).collect()),
        Some(device.added.clone()),
        Some(status),
        device.last_seen.clone(),
        bytes(device.bytes_down),
        bytes(device.bytes_up),
        bytes(month.map(|(down, up)| down.saturating_add(up))),
        quota(device),
        device.software.clone(),
        device.link_bps.map(|rate| BitRate::bps(rate).to_string()),
        device.rtt_ms.map(|rtt| format!("{rtt} ms")),
    ];
    cells.map(cell).to_vec()
}

fn quota(device: &DeviceEntry) -> Option<String> {
    let rate = device.quota_rate_bps.map(|rate| rate_text(BitRate::bps(rate)));
    let month = device
        .quota_month_bytes
        .map(|size| month_text(ByteCount::new(size)));
    let used = device
        .quota_reached
        .then(|| format!("used up until {}", device.month_ends));
    let parts: Vec<String> = [rate, month, used].into_iter().flatten().collect();
    Some(parts.join(", ")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> DeviceEntry {
        DeviceEntry {
            name: "a\u{1b}[2J".to_owned(),
            id: "0011223344556677".to_owned(),
            key: String::new(),
            status: "invited".to_owned(),
            state: Some("invited".to_owned()),
            added: "1970-01-01T00:00:00Z".to_owned(),
            quota_rate: "2Mbit/s".to_owned(),
            quota_month: "default".to_owned(),
            quota_rate_bps: Some(2_000_000),
            quota_month_bytes: Some(5_000_000_000),
            quota_reached: true,
            month_ends: "1970-02-01T00:00:00Z".to_owned(),
            link_bps: Some(384_000),
            month_bytes_up: Some(0),
            month_bytes_down: Some(0),
            revoked: None,
            invite_expires: Some("1970-01-02T00:00:00Z".to_owned()),
            one_time: false,
            last_seen: None,
            session_since: None,
            software: Some("longhaul-agent/1".to_owned()),
            bytes_up: Some(0),
            bytes_down: Some(0),
            rtt_ms: Some(640),
        }
    }

    #[test]
    fn sessions_are_listed_only_by_a_running_gateway() {
        let text = |running| {
            let list = DeviceList {
                version: 1,
                running,
                devices: vec![device()],
            };
            let mut text = Vec::new();
            write_list(&list, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let stopped = text(false);
        assert!(
            stopped.contains("invited until 1970-01-02T00:00:00Z"),
            "{stopped}"
        );
        assert!(
            stopped.contains("2Mbit/s, 5GB, used up until 1970-02-01T00:00:00Z"),
            "{stopped}"
        );
        assert!(
            !stopped.contains('\u{1b}') && !stopped.contains("RTT"),
            "{stopped}"
        );
        let running = text(true);
        assert!(
            running.contains("640 ms")
                && running.contains("longhaul-agent/1")
                && running.contains("384.0 kbit/s"),
            "{running}"
        );
    }
}
