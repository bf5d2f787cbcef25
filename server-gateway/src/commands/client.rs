//! `client`: manages the clients without an agent that have a name and a password.
use std::{io::Write, time::SystemTime};

use super::CommandError;
use crate::{
    admission::{
        clients::{Clients, PasswordKey},
        state::StateDir,
    },
    cli::ClientCommand,
    config::{Config, clientless::LEVELS},
};

/// Changes the file of the list, which a running gateway reads within a second.
pub(super) fn execute(
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
        ClientCommand::List => {
            for client in Clients::load(&state)?.iter() {
                // A manually edited file may contain anything, including terminal control sequences.
                let added: String = client.added.chars().filter(|c| !c.is_control()).collect();
                let level = client.level().map(|level| format!("  {}", level.name()));
                writeln!(out, "{}  {added}{}", client.name, level.unwrap_or_default())?;
            }
        }
        ClientCommand::Level { name, level } => {
            let known = LEVELS.into_iter().find(|known| known.name() == level);
            Clients::set_level(&state, name, known)?;
            writeln!(out, "{name} has the level {level}")?;
        }
        ClientCommand::Remove { name } => {
            Clients::remove(&state, name)?;
            writeln!(out, "removed {name}")?;
        }
    }
    Ok(())
}
