//! `device`: manages the admitted devices.
use std::io::Write;

use longhaul_types::ByteCount;

use super::{CommandError, access::DeviceAccess};
use crate::{
    cli::DeviceCommand,
    config::Config,
    operator::messages::{AddRequest, DeviceEntry, DeviceList, RemoveRequest, RenameRequest},
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
        DeviceCommand::Revoke { device } => {
            let removed = access.order(RemoveRequest { device }).await?;
            Ok(writeln!(out, "revoked {} ({})", removed.name, removed.id)?)
        }
    }
}

/// Titles of the columns; the last ones only of a running gateway.
const TITLES: [&str; 10] = [
    "NAME",
    "ID",
    "ADDED",
    "STATUS",
    "LAST SEEN",
    "SESSION SINCE",
    "RTT",
    "DOWN",
    "UP",
    "AGENT",
];
/// Number of columns without a running gateway.
const COLUMNS_OF_FILE: usize = 4;

fn write_list(list: &DeviceList, out: &mut impl Write) -> Result<(), CommandError> {
    let columns = if list.running {
        TITLES.len()
    } else {
        COLUMNS_OF_FILE
    };
    let titles = TITLES.map(str::to_owned);
    let rows: Vec<_> = std::iter::once(titles)
        .chain(list.devices.iter().map(row))
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn row(device: &DeviceEntry) -> [String; TITLES.len()] {
    let status = match (&device.revoked, &device.invite_expires) {
        (Some(when), _) => format!("{} {when}", device.status),
        (None, Some(when)) if device.status == "invited" => format!("invited until {when}"),
        (None, Some(when)) => format!("{} {when}", device.status),
        (None, None) => device.status.clone(),
    };
    let bytes = |bytes: Option<u64>| known(bytes.map(|bytes| ByteCount::new(bytes).to_string()));
    let cells = [
        device.name.clone(),
        device.id.clone(),
        device.added.clone(),
        status,
        known(device.last_seen.clone()),
        known(device.session_since.clone()),
        known(device.rtt_ms.map(|rtt| format!("{rtt} ms"))),
        bytes(device.bytes_down),
        bytes(device.bytes_up),
        known(device.software.clone()),
    ];
    // A manually edited file may contain anything, including terminal control sequences.
    cells.map(|cell| cell.chars().filter(|c| !c.is_control()).collect())
}

fn known(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
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
            added: "1970-01-01T00:00:00Z".to_owned(),
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
            stopped.contains("invited until 1970-01-02T00:00:00Z\n"),
            "{stopped}"
        );
        assert!(
            !stopped.contains('\u{1b}') && !stopped.contains("RTT"),
            "{stopped}"
        );
        let running = text(true);
        assert!(
            running.contains("640 ms") && running.contains("longhaul-agent/1"),
            "{running}"
        );
    }
}
