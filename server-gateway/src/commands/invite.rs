//! `invite`: admits a new device and prints its invite.
use std::{
    io::Write,
    time::{Duration, SystemTime},
};

use longhaul_types::{Invite, UnixTime};

use super::CommandError;
use crate::{
    admission::{
        devices::Devices,
        state::{StateDir, StateError, random_key},
    },
    config::Config,
};

/// Lifetime of the first token (docs/protocol/transport.md section 3.7): half a year, for an invite that is
/// not used at once. Later the invite still works, but its first session takes one more round trip.
const TOKEN_LIFETIME: Duration = Duration::from_secs(180 * 24 * 3600);

pub(super) fn execute(
    name: &str,
    address: &str,
    config: &Config,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let state = StateDir::open(&config.state_dir)?;
    let keys = state.keys()?;
    let now = SystemTime::now();
    let device = random_key()?;
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(StateError::Random)?;
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let token = keys.epoch.mint(
        &device.public(),
        random,
        UnixTime::new(since_epoch) + TOKEN_LIFETIME,
    );
    let invite = Invite::new(address.to_owned(), keys.secret.public(), device, token).map_err(|_| {
        CommandError::Address(format!(
            "`{address}` is not HOST:PORT; write the name or address and the UDP port by which agents reach this gateway"
        ))
    })?;
    // Last, so that no device is admitted without an invite.
    Devices::update(&state, |devices| devices.add(name, invite.device().public(), now))?;
    writeln!(out, "{}", invite.to_line())?;
    Ok(())
}
