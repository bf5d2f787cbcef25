//! `device`: manages the admitted devices.
use std::{io::Write, time::SystemTime};

use longhaul_types::DeviceId;

use super::CommandError;
use crate::{
    admission::{devices::Devices, state::StateDir},
    cli::DeviceCommand,
    config::Config,
};

pub(super) fn execute(
    action: DeviceCommand,
    config: &Config,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let state = StateDir::open(&config.state_dir)?;
    match action {
        DeviceCommand::List => list(&Devices::load(&state)?, out),
        DeviceCommand::Add { name, key } => {
            Devices::update(&state, |devices| devices.add(&name, key, SystemTime::now()))?;
            Ok(writeln!(out, "admitted {name} ({})", DeviceId::of(&key))?)
        }
        DeviceCommand::Revoke { device } => {
            let revoked = Devices::update(&state, |devices| devices.revoke(&device, SystemTime::now()))?;
            Ok(writeln!(
                out,
                "revoked {} ({})",
                revoked.name,
                DeviceId::of(&revoked.key)
            )?)
        }
    }
}

fn list(devices: &Devices, out: &mut impl Write) -> Result<(), CommandError> {
    let width = devices
        .iter()
        .map(|device| device.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(4);
    writeln!(out, "{:width$}  {:16}  {:29}  STATUS", "NAME", "ID", "ADDED")?;
    for device in devices.iter() {
        let status = match &device.revoked {
            None => "admitted".to_owned(),
            Some(when) => format!("revoked {when}"),
        };
        // A manually edited file may contain anything, including terminal control sequences.
        let name: String = device.name.chars().filter(|c| !c.is_control()).collect();
        writeln!(
            out,
            "{name:width$}  {}  {:29}  {status}",
            DeviceId::of(&device.key),
            device.added
        )?;
    }
    Ok(())
}
